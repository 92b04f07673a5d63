/* The safetensors container: writer and strict reader. */
#include "ckpt/ckpt.h"
