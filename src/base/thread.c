/* Thread pool. */
#include "base/thread.h"
