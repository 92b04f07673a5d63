/* Saving a checkpoint atomically and retention. */
#include "ckpt/ckpt.h"
