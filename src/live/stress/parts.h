/* Inside the stress module: its parts. */
#ifndef LS_STRESS_PARTS_H
#define LS_STRESS_PARTS_H

#include "probe/samples.h"
#include "stress/stress.h"

#include <stdatomic.h>

enum { LS_STRESS_DEADLINE_S = 120 };

/* ---- chain.c: products ---- */

/* Each product takes the one before as its input: what comes out wrong anywhere stays wrong to the end, where the device
 * compares the result with the first chain's. So many chains may be under way, that one computes while the host looks at
 * another. */
enum { LS_CHAIN_SETS = 2 };
typedef struct ls_chain ls_chain_t;
/* `math`: an ls_math_t. *chain stays NULL if the backend has no such products. */
ls_status_t ls_chain_open(ls_ctx_t *ctx, const ls_stress_options_t *options, int math, ls_chain_t **chain);
void ls_chain_close(ls_chain_t *chain); /* NULL: nothing */
/* Measures its burst. *length: products in a chain that takes `chain_ns`. Equal devices need equal lengths to be
 * compared. */
ls_status_t ls_chain_calibrate(ls_chain_t *chain, double chain_ns, int64_t *length);
void ls_chain_set_length(ls_chain_t *chain, int64_t length); /* starts over */
/* Puts a chain on the device, after *last (NULL: nothing), which becomes its end. `plant`: with a wrong number in its middle. */
ls_status_t ls_chain_issue(ls_chain_t *chain, bool plant, ls_event_t **last);
/* Waits for the oldest one under way, and takes its figures. */
ls_status_t ls_chain_collect(ls_chain_t *chain);
/* Hashes the first chain's result, which is the same on equal devices. Takes a while, in which nothing computes. */
ls_status_t ls_chain_hash(ls_chain_t *chain);
int64_t ls_chain_under_way(const ls_chain_t *chain);
ls_device_t *ls_chain_device(ls_chain_t *chain);
double ls_chain_ns(const ls_chain_t *chain);      /* of a whole chain, the newest */
double ls_chain_busy_ns(const ls_chain_t *chain); /* the device's time, of all of them */
/* Fills all of *product but what sensors tell. */
void ls_chain_report(const ls_chain_t *chain, const ls_stress_options_t *options, int ranks,
                     ls_stress_product_t *product);

/* ---- fill.c: memory ---- */

typedef struct ls_stress_fill ls_stress_fill_t;
/* Takes memory until `share` of the device's is in use; of a host's each of `ranks` ranks takes its part. Fills report's
 * figures of memory. stop (may be NULL): not 0 ends it, and every sweep, early. */
ls_status_t ls_fill_open(ls_ctx_t *ctx, ls_device_t *device, double share, int ranks, int (*stop)(void),
                         ls_stress_fill_t **fill);
void ls_fill_close(ls_stress_fill_t *fill); /* NULL: nothing */
/* Checks pieces and writes the next pattern there, for so long. */
ls_status_t ls_fill_sweep(ls_stress_fill_t *fill, int64_t budget_ns, bool *plant);
double ls_fill_busy_ns(const ls_stress_fill_t *fill); /* the device's time */
void ls_fill_report(ls_stress_fill_t *fill, ls_stress_memory_t *memory);

/* ---- disk.c: a file ---- */

typedef struct ls_stress_file ls_stress_file_t;
/* Takes its room on the disk. The file has no name from here on: whatever ends this process removes it.
 * LS_ERR_NO_SPACE, LS_ERR_IO. */
ls_status_t ls_stress_file_open(ls_ctx_t *ctx, const char *dir, int64_t size_bytes, ls_stress_file_t **file);
void ls_stress_file_close(ls_stress_file_t *file); /* NULL: nothing */
/* Writes all of it, waits for the disk, reads it back and compares, until *stop. False: it stopped early, or failed, which is a
 * finding of the report. */
bool ls_stress_file_pass(ls_stress_file_t *file, const atomic_bool *stop, bool *plant);
void ls_stress_file_report(const ls_stress_file_t *file, ls_stress_disk_t *disk);

/* ---- host.c: the host's memory and the file, a thread each, while the device works ---- */

typedef struct ls_stress_host ls_stress_host_t;
/* *host NULL: nothing of it is asked for. */
ls_status_t ls_host_open(ls_ctx_t *ctx, ls_comm_t *control, const ls_stress_options_t *options,
                         ls_stress_host_t **host);
void ls_host_close(ls_stress_host_t *host); /* NULL: nothing */
ls_status_t ls_host_start(ls_stress_host_t *host);
/* Ends the threads; how they fared. */
ls_status_t ls_host_stop(ls_stress_host_t *host);
void ls_host_report(const ls_stress_host_t *host, ls_stress_device_t *device);

/* ---- link.c: transfers ---- */

typedef struct ls_links ls_links_t;
ls_status_t ls_links_open(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device,
                          const ls_stress_options_t *options, ls_links_t **links);
void ls_links_close(ls_links_t *links); /* NULL: nothing */
/* Every pair in turn, then all at once. Collective. */
ls_status_t ls_links_round(ls_links_t *links);
/* Collective. *list: as many as ls_links_count, the same on all ranks. */
int ls_links_count(int ranks);
ls_status_t ls_links_report(ls_links_t *links, ls_stress_link_t *list);

/* ---- network.c: the trainer ---- */

typedef struct ls_network ls_network_t;
/* options->network: a preset, whose batch fits every device, or a configuration. Collective, as the next. */
ls_status_t ls_network_open(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device,
                            const ls_stress_options_t *options, ls_network_t **network);
void ls_network_close(ls_network_t *network); /* NULL: nothing */
ls_status_t ls_network_run(ls_network_t *network, double seconds);
void ls_network_report(const ls_network_t *network, ls_stress_network_t *report);

/* ---- verdict.c ---- */
void ls_stress_judge(ls_stress_report_t *report, ls_stress_device_t *device, ls_stress_link_t *link);

#endif
