#include "schedule/price.h"
