/* Names files that are taken for something else, by their first bytes. */
#ifndef LS_BASE_MAGIC_H
#define LS_BASE_MAGIC_H

#include "base/base.h"

/* "an Excel workbook (.xlsx)"; NULL: not known. Of a zip archive the name of its first member tells more, if `size` reaches it. Pure. */
const char *ls_magic_text(const void *bytes, size_t size);

#endif
