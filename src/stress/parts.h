/* Inside the stress module: its parts. */
#ifndef LS_STRESS_PARTS_H
#define LS_STRESS_PARTS_H

#include "probe/samples.h"
#include "stress/stress.h"

enum { LS_STRESS_DEADLINE_S = 120 };

/* ---- chain.c: products ---- */

/* Each product takes the one before as its input: what comes out wrong anywhere stays wrong to the end, where the result
 * is compared. Two sets of buffers, so that one is compared while the other computes. */
enum { LS_CHAIN_SETS = 2 };
typedef struct ls_chain ls_chain_t;
/* `precision`: one of LS_STRESS_PRECISIONS. *chain stays NULL if the backend lacks it. */
ls_status_t ls_chain_open(ls_ctx_t *ctx, const ls_stress_options_t *options, int precision,
                          ls_chain_t **chain);
void ls_chain_close(ls_chain_t *chain); /* NULL: nothing */
/* Products in a chain: what takes `chain_ns`. Equal devices need equal lengths to be compared. */
ls_status_t ls_chain_calibrate(ls_chain_t *chain, double chain_ns, int64_t *length);
void ls_chain_set_length(ls_chain_t *chain, int64_t length);
/* Puts a chain on the device; `plant`: with a wrong number in its middle. */
ls_status_t ls_chain_issue(ls_chain_t *chain, int set, bool plant);
/* Waits for it and compares its result with the first one's. */
ls_status_t ls_chain_collect(ls_chain_t *chain, int set);
ls_device_t *ls_chain_device(ls_chain_t *chain);
double ls_chain_ns(const ls_chain_t *chain); /* of a whole chain */
void ls_chain_report(const ls_chain_t *chain, const ls_stress_options_t *options, int ranks,
                     ls_stress_product_t *product);

/* ---- fill.c: memory ---- */

typedef struct ls_stress_fill ls_stress_fill_t;
/* Takes memory until `share` of the device's is in use; of a host's each of `ranks` ranks takes its part. Fills report's
 * figures of memory. */
ls_status_t ls_fill_open(ls_ctx_t *ctx, ls_device_t *device, double share, int ranks,
                         ls_stress_fill_t **fill);
void ls_fill_close(ls_stress_fill_t *fill); /* NULL: nothing */
/* Checks pieces and writes the next pattern there, for so long. */
ls_status_t ls_fill_sweep(ls_stress_fill_t *fill, int64_t budget_ns, bool *plant);
void ls_fill_report(ls_stress_fill_t *fill, ls_stress_device_t *device);

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

/* ---- verdict.c ---- */
void ls_stress_judge(ls_stress_report_t *report, ls_stress_device_t *device, ls_stress_link_t *link);

#endif
