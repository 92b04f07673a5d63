/* Option rows. */
#include "base/option.h"
