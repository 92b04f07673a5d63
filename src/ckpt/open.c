/* Finding, checking and opening checkpoints. */
#include "ckpt/ckpt.h"
