/* numpy's archives of arrays: a zip file with a .npy file per array, as numpy.savez and savez_compressed
 * write them. */
#ifndef LS_DATA_NPZ_H
#define LS_DATA_NPZ_H

#include "base/base.h"

/* The number of bytes of `path` that name the file: in FILE.npz:NAME those before the last colon after .npz,
 * else all. Pure. */
size_t ls_npz_file_length(const char *path);

/* Whether `path` names a member, or the bytes begin like a zip file. Pure. */
bool ls_npz_is(const char *path, const void *bytes, size_t size);

/* Extracts one member of an archive. `path` is FILE.npz:NAME, with or without .npy in NAME, or FILE alone if
 * it has one member.
 *   bytes, size  the whole archive, one block (ls_alloc), owned by the caller. A stored member is moved to
 *                its begin; for a deflated one a new block takes its place and the archive is freed. Written on
 *                success only.
 *   limit_bytes  the largest size of a member.
 * A deflated member of more than 64 MiB may be at most 100 times its packed size, as a gzip file. Sizes are
 * compared with limits and the file's length before memory is allocated. LS_ERR_DATA, with path and offset:
 * not a zip file, torn, methods other than stored and deflated, encrypted, in several parts, a checksum that
 * differs, no such member or several to choose from (both list the members). LS_ERR_MEMORY. Source:
 * APPNOTE.TXT 6.3.10 (.ZIP File Format Specification, PKWARE), with zip64. */
ls_status_t ls_npz_member(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes, size_t *size);

#endif
