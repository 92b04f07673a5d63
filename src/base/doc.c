/* Configuration documents. */
#include "base/doc.h"
