/* The manifest of a checkpoint: writing it, reading it back strictly. */
#include "ckpt/ckpt.h"
