/* Files. */
#include "base/file.h"
