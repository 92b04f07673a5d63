/* Between chaos.c and run.c: one run. */
#ifndef LS_CHAOS_PARTS_H
#define LS_CHAOS_PARTS_H

#include "chaos/chaos.h"

enum { CHAOS_HASH_BYTES = 64, CHAOS_TEXT_BYTES = 256 };

typedef struct {
  ls_ctx_t *ctx;
  const ls_config_t *config;
  const char *dir;
  bool keep;
  int (*stop)(void);
  char hash[CHAOS_HASH_BYTES]; /* the undisturbed run's parameters */
  int64_t steps;               /* of that run; 0 = not known yet */
} chaos_t;

typedef struct {
  int64_t seed, step;
  int rank;
  bool struck, same,
      cause; /* the fault came; the undisturbed run's bits; the supervisor named it and its rank */
  double noticed_s, again_s; /* after the fault; NAN = does not apply */
  int exit_code;
  char text[CHAOS_TEXT_BYTES]; /* of the supervisor */
} outcome_t;

/* Runs the configuration undisturbed: sets hash and steps. */
ls_status_t chaos_reference(chaos_t *c);
/* Runs it with the fault, at the rank and step that the seed chooses. */
ls_status_t chaos_one(const chaos_t *c, const ls_inject_kind_t *kind, int64_t seed, outcome_t *outcome);

#endif
