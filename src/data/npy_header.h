/* The text in front of a .npy array: a Python dictionary with exactly three keys. */
#ifndef LS_DATA_NPY_HEADER_H
#define LS_DATA_NPY_HEADER_H

#include "data/elements.h"

/* Parses text[0..len), which begins at `offset` of file `array->name`, and fills the rest of `array`. Refuses
 * everything but a plain array of numbers, with the remedy. LS_ERR_DATA. */
ls_status_t ls_npy_header_parse(ls_ctx_t *ctx, const char *text, size_t len, size_t offset,
                                ls_array_t *array);

#endif
