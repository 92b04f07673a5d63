/* Model config. */
#include "model/model.h"
