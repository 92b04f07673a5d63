/* Findings. */
#include "probe/probe.h"
