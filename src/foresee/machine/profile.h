/* The measured abilities of a machine: times of ops, curves of collectives and copies, single values. A
 * profile is a versioned JSON file keyed by the fingerprint of the machine on which it was measured; a
 * profile of another machine is refused. probe writes it; plan reads it and adds ops that it had to time. */
#ifndef LS_MACHINE_PROFILE_H
#define LS_MACHINE_PROFILE_H

#include "machine/machine.h"

/* A measured time: the median, and the interval with 90 % of single measurements. */
typedef struct {
  double ns, low_ns, high_ns;
} ls_time_t;

typedef struct {
  double bytes; /* message size as nccl-tests counts it, or size of a copy */
  ls_time_t time;
} ls_curve_point_t;

typedef struct ls_profile ls_profile_t;

/* An empty profile of this machine. */
ls_status_t ls_profile_create(ls_ctx_t *ctx, const ls_machine_t *machine, ls_profile_t **profile);
/* LS_ERR_NOT_FOUND; LS_ERR_MISMATCH if it is another machine's (names the difference); LS_ERR_CORRUPT.
 * `machine` NULL: any machine is accepted (simulation, replay). Otherwise the node's memory comes from
 * `machine`, because a container's limit may have changed since. */
ls_status_t ls_profile_load(ls_ctx_t *ctx, const char *path, const ls_machine_t *machine,
                            ls_profile_t **profile);
ls_status_t ls_profile_save(ls_ctx_t *ctx, const ls_profile_t *profile, const char *path);
/* Adds to the profile at `path` every entry of `profile` that is new or different since `before`. Entries
 * that others have written there meanwhile stay. Updates take turns (a lock on the file, waited for at most 2
 * s). If there is no profile of this machine, all of `profile` is saved. */
ls_status_t ls_profile_update(ls_ctx_t *ctx, const ls_profile_t *before, const ls_profile_t *profile,
                              const char *path);
/* A copy; owned by the caller. */
ls_status_t ls_profile_copy(ls_ctx_t *ctx, const ls_profile_t *profile, ls_profile_t **copy);
void ls_profile_destroy(ls_profile_t *profile);
/* The machine on which it was measured (or which it describes); borrowed. */
const ls_machine_t *ls_profile_machine(const ls_profile_t *profile);
/* The whole profile as in the file (new reference; NULL when memory is short), and back. A description
 * written by hand has no "fingerprint" and no "checksum"; it is accepted only if `machine` is NULL. */
json_t *ls_profile_json(const ls_profile_t *profile);
ls_status_t ls_profile_from_json(ls_ctx_t *ctx, const char *name, const json_t *json,
                                 const ls_machine_t *machine, ls_profile_t **profile);
/* Copies every time and curve of `from`, replacing those of the same key. */
ls_status_t ls_profile_merge(ls_profile_t *into, const ls_profile_t *from);
/* Copies the entries that `into` lacks and whose key begins with one of the prefixes (ended by NULL). */
ls_status_t ls_profile_fill(ls_profile_t *into, const ls_profile_t *from, const char *const *prefixes);
/* The path of this user's profile of this machine: $LOCKSTEP_PROFILE, else
 * $XDG_CACHE_HOME/lockstep/FINGERPRINT.json, else ~/.cache/..., where ~ is $HOME, else the home directory in
 * the user database, else (with a warning) the current folder. Owned by the caller. */
char *ls_profile_default_path(ls_ctx_t *ctx, const ls_machine_t *machine);

/* Times by key. A key is a text with everything on which the time depends, e.g. "op cpu t2 linear f32 (16,
 * 799) f32 (256, 799) f32 (256)". put replaces. */
/* Times are finite, low <= ns <= high, 0 <= low; else LS_ERR_ARGUMENT. */
bool ls_profile_get(const ls_profile_t *profile, const char *key, ls_time_t *time);
ls_status_t ls_profile_put(ls_profile_t *profile, const char *key, const ls_time_t *time);

/* The entries, sorted by key. Borrowed; key NULL after the last one. */
int ls_profile_time_count(const ls_profile_t *profile);
const char *ls_profile_time_at(const ls_profile_t *profile, int index, ls_time_t *time);
int ls_profile_curve_count(const ls_profile_t *profile);
const char *ls_profile_curve_at(const ls_profile_t *profile, int index, const ls_curve_point_t **points,
                                int *count);

/* Curves by key, points ascending in bytes, e.g. "all-reduce mpi 2". The points are borrowed. */
int ls_profile_curve(const ls_profile_t *profile, const char *key, const ls_curve_point_t **points);
ls_status_t ls_profile_put_curve(ls_profile_t *profile, const char *key, const ls_curve_point_t *points,
                                 int count);
/* Reads the time for `bytes` off the curve: linear in bytes between points; after the last point with the last
 * slope; before the first point constant. False if there is no such curve. */
bool ls_profile_interpolate(const ls_profile_t *profile, const char *key, double bytes, ls_time_t *time);

/* Reads the time at `at` off at least one point: linear between two points; before the first point its time; after
 * the last point with the slope of the last two, never less than 0. `rising`: a falling slope counts as 0. */
ls_time_t ls_curve_time(const ls_curve_point_t *points, int count, double at, bool rising);

/* Values that are no times. The key says their unit (bytes, a factor, a share). A value is stored in the place of
 * the ns. */
double ls_profile_value(const ls_profile_t *profile, const char *key, double otherwise);
ls_status_t ls_profile_put_value(ls_profile_t *profile, const char *key, double value);

/* profile_key.c: keys that several parts use. Others, such as those of a plan's whole steps ("step .."), are known to
 * one part alone. */
typedef enum {
  LS_KEY_OP, /* "op cuda tf32 t1 linear": an op's time, followed by its attributes and shapes (ls_task_key) */
  LS_KEY_DEVICE, /* "launch cpu t2": what a device of so many threads (GPUs: 1) takes. Times: "launch" (putting one
                      * tiny op on a stream), "hand-over" (from the compute lane to another and back). Curves: "memory"
                      * (an accumulating pass; bytes read and written), "copy-in", "copy-out" (host to device and back) */
  LS_KEY_COLLECTIVE, /* "all-reduce mpi 2": a curve; backend: the transport's key (comm/transport.h) */
  LS_KEY_CONTENTION, /* "contention cpu 2x1 memory": the contention factor >= 1 of passes over memory, or "compute", when
                      * so many ranks of so many threads make them at once */
  LS_KEY_LIBRARIES, /* "libraries cuda w2": bytes that libraries take in a rank's process besides our allocations, a
                      * value; name: of several ranks the transport's variant, else "" */
  LS_KEY_CAPACITY /* "capacity cuda": bytes of a device's memory as its runtime counts them */
} ls_key_what_t;

typedef struct {
  ls_key_what_t what;
  const char *backend, *name; /* of an op with its precision, as ls_backend_key says it; the op */
  int ranks, threads;
  int64_t dim
      [4]; /* read: of an op without attributes the first two inputs, where they are f32 matrices; else 0 */
} ls_profile_key_t;

enum { LS_PROFILE_KEY_BYTES = 512 };
/* Written into buf, returned. */
const char *ls_profile_key(char buf[LS_PROFILE_KEY_BYTES], ls_profile_key_t key);
/* Takes a key apart; its words are in buf. False: it is none of this kind. */
bool ls_profile_key_read(const char *text, ls_key_what_t what, char buf[LS_PROFILE_KEY_BYTES],
                         ls_profile_key_t *key);

/* The share of the processors that other programs took while probe measured; 0: none, or not known. */
#define LS_PROFILE_BUSY_KEY "probe busy"
double ls_profile_busy(const ls_profile_t *profile);

#endif
