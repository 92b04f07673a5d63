/* Whether what a run has left out is there again: a host, or the device of a place. Inside supervise. */
#ifndef LS_SUPERVISE_RETURNS_H
#define LS_SUPERVISE_RETURNS_H

#include "supervise/fault.h"

typedef struct ls_returns ls_returns_t;
ls_status_t ls_returns_open(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_returns_t **returns);
void ls_returns_close(ls_returns_t *returns); /* NULL is allowed */
/* When a life begins, and none of the processes of the one before is left. */
void ls_returns_begin(ls_returns_t *returns, int64_t now_ns);
/* Asks every supervise.ranks.return_s, each host or device by a process of its own; does not wait. True: with those that
 * answer, the run would have more ranks. */
bool ls_returns_look(ls_returns_t *returns, const ls_places_t *places, int64_t now_ns);
/* "host a answers again", and takes all of these in. */
const char *ls_returns_words(const ls_returns_t *returns);
void ls_returns_take(const ls_returns_t *returns, ls_places_t *places);

#endif
