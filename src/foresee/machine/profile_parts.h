/* Inside the profile: its memory, shared by the tables (profile.c) and the file (profile_file.c). */
#ifndef LS_MACHINE_PROFILE_PARTS_H
#define LS_MACHINE_PROFILE_PARTS_H

#include "machine/profile.h"

enum { LS_PROFILE_POINTS_MAX = 1 << 12 };

/* A curve, or a time: one point, of 0 bytes. */
typedef struct {
  char *key;
  ls_curve_point_t *points;
  int count;
} ls_profile_entry_t;

typedef enum { LS_PROFILE_TIMES, LS_PROFILE_CURVES, LS_PROFILE_TABLE_COUNT } ls_profile_which_t;

typedef struct {
  ls_profile_entry_t *entry; /* sorted by key */
  int count, capacity;
} ls_profile_table_t;

struct ls_profile {
  ls_ctx_t *ctx;
  ls_machine_t machine;
  ls_profile_table_t table[LS_PROFILE_TABLE_COUNT];
};

/* The entry of this key; NULL: there is none. */
const ls_profile_entry_t *ls_profile_find(const ls_profile_t *profile, ls_profile_which_t which,
                                          const char *key);
/* Copies an entry, replacing the one of the same key. LS_ERR_ARGUMENT: it is not a time or curve. */
ls_status_t ls_profile_put_entry(ls_profile_t *profile, ls_profile_which_t which, const char *key,
                                 const ls_curve_point_t *points, int count);

#endif
