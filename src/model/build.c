/* Model build. */
#include "model/model.h"
