/* Model layers. */
#include "model/model.h"
