#include "stat/stat.h"
