/* Model presets. */
#include "model/model.h"
