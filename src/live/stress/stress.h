/* Burns a machine in: every rank drives its device at full load for a time and checks each result. Faults are a product that
 * differs from the same product before, a word of memory that lost its value, and a transfer that arrives altered. Rates are
 * compared with the measurements of probe. Everything runs through the tables of backends and transports, as training does. */
#ifndef LS_STRESS_STRESS_H
#define LS_STRESS_STRESS_H

#include "comm/comm.h"
#include "machine/gpu_live.h"
#include "machine/profile.h"

/* Bits of `parts`. Other parts have options of their own. */
enum {
  LS_STRESS_COMPUTE = 1 << 0,
  LS_STRESS_MEMORY = 1 << 1,
  LS_STRESS_LINKS = 1 << 2, /* needs several ranks */
  LS_STRESS_PARTS = 3
};
extern const char *const ls_stress_part_names[LS_STRESS_PARTS + 1]; /* by bit; NULL-terminated */

/* A fault planted on purpose, so that anyone can see that it is found. */
typedef enum {
  LS_PLANT_NONE,
  LS_PLANT_PRODUCT,  /* rank a: one number in the middle of one chain of products */
  LS_PLANT_MEMORY,   /* rank a: one bit of one word */
  LS_PLANT_HOST,     /* the same in the host's memory, where devices have their own */
  LS_PLANT_DISK,     /* one bit of one word of the file that rank a writes */
  LS_PLANT_TRANSFER, /* one bit of one transfer from rank a to b */
  LS_PLANT_LINK,     /* transfers from rank a to b take several times as long */
  LS_PLANT_KINDS
} ls_plant_kind_t;
extern const char *const ls_plant_names[LS_PLANT_KINDS + 1];
typedef struct {
  int kind, a, b;
} ls_plant_t;

/* Targets of every device. */
typedef struct {
  double rate;        /* of what probe measured */
  double utilization; /* share of the time in which it computes */
  double memory_off;  /* how far the share of memory in use may be from the one asked for */
  double link;        /* bandwidth of a transfer, of what probe measured or the other pairs reach */
} ls_stress_targets_t;
extern const ls_stress_targets_t ls_stress_targets;

enum { LS_STRESS_PRECISIONS = LS_MATH_COUNT, LS_STRESS_WHY_BYTES = 384, LS_STRESS_HOST_BYTES = 64 };
typedef struct {
  char name[16]; /* "fp32" */
  int64_t rows, width;
  int64_t count, wrong;     /* products; chains of them that came out otherwise */
  double flops;             /* of one product */
  double ns, burst_ns;      /* of one product: the median, and in a short burst; NAN = not known */
  bool from_profile;        /* burst_ns is what probe measured; else it was measured at the start */
  double clock_ratio;       /* mean clock while it ran, of the highest; NAN = not known */
  int64_t throttle_reasons; /* while it ran; -1 = none known */
  uint64_t hash;            /* of a chain's result */
  int64_t length;           /* of a chain */
} ls_stress_product_t;

typedef struct {
  int64_t bytes, before_bytes, want_bytes,
      used_bytes;               /* in all; in use before, asked for, then; 0 = not filled */
  int64_t checked_bytes, wrong; /* words */
} ls_stress_memory_t;

enum { LS_STRESS_DIR_BYTES = 192, LS_STRESS_FAULT_BYTES = 96 };
typedef struct {
  char dir[LS_STRESS_DIR_BYTES];               /* "" = nothing is written */
  int64_t bytes;                               /* of the file */
  int64_t written_bytes, checked_bytes, wrong; /* words */
  double write_bytes_per_s, read_bytes_per_s;  /* mean, with waiting for the disk; NAN = not known */
  bool direct;                                 /* past the page cache */
  char fault[LS_STRESS_FAULT_BYTES];           /* of the system, with its words; "" = none */
} ls_stress_disk_t;

typedef struct {
  char name[LS_STRESS_DIR_BYTES]; /* "" = none was trained */
  int64_t params, batch, steps;
  double steps_per_s, loss_first, loss; /* loss: the mean of the newest steps */
  bool finite, same;                    /* all losses; over ranks, losses and parameters */
  double nvml_ratio;                    /* utilization meanwhile; NAN = not known */
} ls_stress_network_t;

typedef struct {
  int rank;
  char host[LS_STRESS_HOST_BYTES], name[64], backend[16];
  int threads; /* processors that it is; 0 = it is none */
  ls_stress_product_t product[LS_STRESS_PRECISIONS];
  int product_count;
  /* Shares of the time without transfers: the device worked, by its own clock or /proc/stat; the same by NVML; other
   * programs had the processors. NAN = unknown. */
  double busy_ratio, nvml_ratio, others_ratio;
  ls_stress_memory_t memory, host_memory; /* the device's; the host's, where the device has its own */
  ls_stress_disk_t disk;
  ls_stress_network_t network;
  double temperature_c, power_w, clock_mhz; /* highest, highest, lowest; NAN = not known */
  int64_t throttle_reasons;                 /* nvmlClocksEventReasons; -1 = none known */
  int64_t device_errors;                    /* that the driver reported: XID, uncorrected ECC */
  int verdict;                              /* ls_stress_verdict_t */
  char why[LS_STRESS_WHY_BYTES];            /* "" if it is sound */
} ls_stress_device_t;
enum { LS_STRESS_POWER = 0x4, LS_STRESS_HEAT = 0x20, LS_STRESS_BRAKE = 0x80 };

typedef struct {
  int from, to; /* ranks; -1, -1: an all-reduce of all of them */
  double bytes;
  double ns, want_ns;   /* the quickest; what the profile or the other pairs say, NAN = nothing does */
  bool from_profile;    /* want_ns is the profile's */
  int64_t count, wrong; /* transfers; wrong ones */
  int verdict;
} ls_stress_link_t;

typedef enum {
  LS_SOUND,
  LS_DISTURBED, /* below a target, while other programs took the processors: no verdict */
  LS_BELOW,     /* sound, but below a target */
  LS_WRONG,
  LS_VERDICTS
} ls_stress_verdict_t;
extern const char *const ls_stress_verdict_names[LS_VERDICTS + 1];

typedef struct {
  const ls_stress_device_t *device; /* one per rank */
  int device_count;
  const ls_stress_link_t *link;
  int link_count;
  double seconds;
  bool interrupted; /* targets that were missed do not count */
  int verdict;      /* the worst */
} ls_stress_report_t;

/* On every rank, when all is open and filled, before the time begins: every device. */
typedef void ls_stress_begin_fn(void *user, ls_comm_t *control, const ls_stress_device_t *device, int count);
/* After each round, on rank 0: this rank's device so far. */
typedef void ls_stress_round_fn(void *user, double seconds, const ls_stress_device_t *own, int64_t faults);

typedef struct {
  unsigned parts; /* bits */
  double seconds;
  double memory_share; /* of the device's memory that is in use at the end, whoever uses it */
  double host_share;   /* of the host's, where devices have their own; 0 = none */
  const char *disk;    /* folder in which the first rank of each host writes a file; NULL = none */
  int64_t disk_bytes;  /* 0 = chosen */
  const char *network; /* preset or configuration that is trained on all ranks; NULL = none */
  const ls_backend_t *backend;
  int index, threads;
  const char *transport; /* "auto" or a row's name */
  ls_plant_t plant;
  const ls_profile_t *profile; /* NULL: nothing is known */
  int (*stop)(void);           /* not 0: end now. NULL: never */
  ls_stress_begin_fn *begin;   /* NULL: nobody looks; as the next */
  ls_stress_round_fn *round;
  void *user;
} ls_stress_options_t;

/* Flags of lockstep stress as they were given; NULL: not. */
typedef struct {
  double seconds, memory_percent, host_percent; /* host: 0 = the host's memory is left alone */
  const char *parts;                            /* "compute,memory,links", "none" */
  const char *disk;                             /* "DIR", "DIR:4G" */
  const char *plant;                            /* "product:0", "link:0-1" */
  const char *network, *backend;
} ls_stress_request_t;
/* Reads them into what options hold of them; texts live in the arena or the request. LS_ERR_ARGUMENT names the flag. */
ls_status_t ls_stress_options_read(ls_ctx_t *ctx, ls_arena_t *arena, const ls_stress_request_t *request,
                                   ls_stress_options_t *options);
/* LS_ERR_ARGUMENT for a planted fault that no part or no rank would make: nobody would find it. The second looks at this
 * rank: only the first rank of a host writes a file. */
ls_status_t ls_stress_check_plant(ls_ctx_t *ctx, const ls_stress_request_t *request,
                                  const ls_stress_options_t *options, int ranks);
ls_status_t ls_stress_check_disk(ls_ctx_t *ctx, const ls_stress_request_t *request,
                                 const ls_stress_options_t *options, const ls_comm_t *control);
/* The profile of this machine, NULL without one; `tell`: then with a warning. The caller destroys it. */
ls_profile_t *ls_stress_profile(ls_ctx_t *ctx, bool tell);

/* Collective over `control` (a host communicator). *report belongs to the caller (ls_stress_release) and is the same on
 * all ranks. A wrong result is no failure here but a verdict. */
ls_status_t ls_stress_run(ls_ctx_t *ctx, ls_comm_t *control, const ls_stress_options_t *options,
                          ls_stress_report_t **report);
void ls_stress_release(ls_stress_report_t *report);
/* LS_OK, LS_ERR_BELOW or LS_ERR_DEVICE. */
ls_status_t ls_stress_status(const ls_stress_report_t *report);
json_t *ls_stress_json(const ls_stress_report_t *report);
/* Its rate, of that of the burst; under a power cap, of the burst at the clock that was left. */
double ls_stress_share(const ls_stress_product_t *product);
/* "power cap, heat (hardware)": words for the bits; "" = none. */
const char *ls_stress_reasons(int64_t reasons, char text[128]);

#endif
