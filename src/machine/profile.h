/* What a machine can do, as measured: times of ops, curves of collectives and copies, single values. A
 * profile is a versioned JSON file keyed by the fingerprint of the machine it was measured on; one of another
 * machine is refused. probe writes it, plan reads it and adds ops that it had to time. */
#ifndef LS_MACHINE_PROFILE_H
#define LS_MACHINE_PROFILE_H

#include "machine/machine.h"

/* A measured time: median and the interval that holds 90 % of single measurements. */
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
/* LS_ERR_NOT_FOUND; LS_ERR_MISMATCH when it is another machine's (names what differs); LS_ERR_CORRUPT.
 * `machine` NULL: any machine is accepted (simulation, replay). Else the node's memory is what `machine`
 * says: a container's limit may have changed since. */
ls_status_t ls_profile_load(ls_ctx_t *ctx, const char *path, const ls_machine_t *machine,
                            ls_profile_t **profile);
ls_status_t ls_profile_save(ls_ctx_t *ctx, const ls_profile_t *profile, const char *path);
/* Adds to the profile at `path` what `profile` has that it did not have, or had otherwise, when it was
 * `before`; what others have written there meanwhile stays. Updates take turns (a lock on the file, waited
 * for at most 2 s). Where there is no profile of this machine, all of `profile` is saved. */
ls_status_t ls_profile_update(ls_ctx_t *ctx, const ls_profile_t *before, const ls_profile_t *profile,
                              const char *path);
/* A second one with the same contents; owned by the caller. */
ls_status_t ls_profile_copy(ls_ctx_t *ctx, const ls_profile_t *profile, ls_profile_t **copy);
void ls_profile_destroy(ls_profile_t *profile);
/* The machine it was measured on (or describes); borrowed. */
const ls_machine_t *ls_profile_machine(const ls_profile_t *profile);
/* All of it as the file holds it (new reference; NULL when memory is short), and back. A description written
 * by hand has no "fingerprint" and no "checksum"; such a one is accepted only where `machine` is NULL. */
json_t *ls_profile_json(const ls_profile_t *profile);
ls_status_t ls_profile_from_json(ls_ctx_t *ctx, const char *name, const json_t *json,
                                 const ls_machine_t *machine, ls_profile_t **profile);
/* Takes over every time and curve of `from`, replacing those of the same key. */
ls_status_t ls_profile_merge(ls_profile_t *into, const ls_profile_t *from);
/* Takes over what `into` does not have and whose key begins with one of the prefixes (ended by NULL). */
ls_status_t ls_profile_fill(ls_profile_t *into, const ls_profile_t *from, const char *const *prefixes);
/* Where this user's profile of this machine is kept: $LOCKSTEP_PROFILE, else
 * $XDG_CACHE_HOME/lockstep/FINGERPRINT.json, else ~/.cache/...: ~ is $HOME, else what the user database says,
 * else (with a warning) the current folder. Owned by the caller. */
char *ls_profile_default_path(ls_ctx_t *ctx, const ls_machine_t *machine);

/* Times by key. Keys are texts that say everything the time depends on, e.g.
 * "op cpu t2 linear f32 (16, 799) f32 (256, 799) f32 (256)". put replaces. */
/* Times are finite, low <= ns <= high, 0 <= low; else LS_ERR_ARGUMENT. */
bool ls_profile_get(const ls_profile_t *profile, const char *key, ls_time_t *time);
ls_status_t ls_profile_put(ls_profile_t *profile, const char *key, const ls_time_t *time);

/* What is in it, in the order of the keys. Borrowed; key NULL beyond the end. */
int ls_profile_time_count(const ls_profile_t *profile);
const char *ls_profile_time_at(const ls_profile_t *profile, int index, ls_time_t *time);
int ls_profile_curve_count(const ls_profile_t *profile);
const char *ls_profile_curve_at(const ls_profile_t *profile, int index, const ls_curve_point_t **points,
                                int *count);

/* Curves by key, points ascending in bytes, e.g. "all-reduce mpi 2". The points are borrowed. */
int ls_profile_curve(const ls_profile_t *profile, const char *key, const ls_curve_point_t **points);
ls_status_t ls_profile_put_curve(ls_profile_t *profile, const char *key, const ls_curve_point_t *points,
                                 int count);
/* Time for `bytes` by the curve: between points linear in bytes, beyond the last by its slope, below the
 * first the first. False when there is no such curve. */
bool ls_profile_interpolate(const ls_profile_t *profile, const char *key, double bytes, ls_time_t *time);

/* Keys used by several parts. Written into buf, returned. */
enum { LS_PROFILE_KEY_BYTES = 512 };
/* kind: "all-reduce" ...; the transport's key (comm/transport.h); world size. */
const char *ls_profile_collective_key(char buf[LS_PROFILE_KEY_BYTES], const char *kind, const char *transport,
                                      int world_size);
/* What a device of `threads` threads (GPUs: 1) takes, "launch cpu t2" and the like. Times: "launch" (putting
 * one tiny op on a stream), "hand-over" (from the compute lane to another and back). Curves: "memory" (an
 * accumulating pass; bytes read and written), "copy-in" and "copy-out" (host to device and back; bytes). */
const char *ls_profile_device_key(char buf[LS_PROFILE_KEY_BYTES], const char *what, const char *backend,
                                  int threads);
/* What libraries take in a rank's process beside our own allocations (ns holds bytes): "libraries cuda w2";
 * of several ranks with the transport's variant behind it. */
const char *ls_profile_libraries_key(char buf[LS_PROFILE_KEY_BYTES], const char *backend, int ranks,
                                     const char *variant);
/* The share of the processors that other programs took while probe measured (ns of "probe busy"); 0: none, or not
 * known. */
#define LS_PROFILE_BUSY_KEY "probe busy"
double ls_profile_busy(const ls_profile_t *profile);
/* Memory of a device as its runtime counts it (ns holds bytes): "capacity cuda". */
const char *ls_profile_capacity_key(char buf[LS_PROFILE_KEY_BYTES], const char *backend);
/* Slow-down (ns holds a factor >= 1) of single-rank compute when `ranks` ranks of `threads` threads compute
 * at once: "crowd cpu 2x1 memory", "crowd cpu 2x1 compute". */
const char *ls_profile_crowd_key(char buf[LS_PROFILE_KEY_BYTES], const char *backend, int ranks, int threads,
                                 const char *kind);

#endif
