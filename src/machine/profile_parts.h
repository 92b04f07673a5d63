/* Inside the profile: its memory, shared by the table (profile.c) and the file (profile_file.c). */
#ifndef LS_MACHINE_PROFILE_PARTS_H
#define LS_MACHINE_PROFILE_PARTS_H

#include "machine/profile.h"

enum { LS_PROFILE_TIMES_MAX = 1 << 20, LS_PROFILE_CURVES_MAX = 1 << 16, LS_PROFILE_POINTS_MAX = 1 << 12 };

typedef struct {
  char *key;
  ls_time_t time;
} ls_profile_time_t;

typedef struct {
  char *key;
  ls_curve_point_t *points;
  int count;
} ls_profile_curve_t;

struct ls_profile {
  ls_ctx_t *ctx;
  ls_machine_t machine;
  ls_profile_time_t *times; /* sorted by key */
  int time_count, time_capacity;
  ls_profile_curve_t *curves; /* sorted by key */
  int curve_count, curve_capacity;
};

#endif
