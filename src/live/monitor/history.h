/* A run as the page of `lockstep monitor --web` shows it: the numbers of every record that are drawn as curves, the
 * newest record of each rank, the newest events. One thread adds lines; any number of others ask. Every line has a
 * number, so that a reader that was away gets what it has missed. */
#ifndef LS_MONITOR_HISTORY_H
#define LS_MONITOR_HISTORY_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct ls_history ls_history_t;

ls_status_t ls_history_create(ls_ctx_t *ctx, ls_history_t **history);
void ls_history_destroy(ls_history_t *history); /* NULL: nothing. Nobody asks any more */
/* Takes a line of a rank's event log. A run that starts from the beginning (a line "start" that resumes nothing) replaces the
 * earlier one. */
void ls_history_take(ls_history_t *history, int rank, const json_t *line);
/* Sets the present state, such as that of the run, and wakes the readers. Takes the reference. */
void ls_history_now(ls_history_t *history, json_t *now);
/* Those who wait, and who ask from now on, get no more news. */
void ls_history_end(ls_history_t *history);

/* The news since the message with this id, as JSON, and their id. Waits for news at most limit_ms, then returns "". An id of
 * another history, or one that is too old, gives all news without curves, marked "fresh". NULL: the history has ended, or
 * memory is short. Released with free. */
enum { LS_HISTORY_ID_BYTES = 64 };
char *ls_history_news(ls_history_t *history, char id[LS_HISTORY_ID_BYTES], int limit_ms);

/* The curves of a rank between two times (seconds since 1970), of at most about `points` points. Where there are more,
 * each stretch of time gives the lowest and the highest value of every column, in their order, so that no peak is
 * lost. Released with free. */
char *ls_history_curves(ls_history_t *history, int rank, double from, double to, int points);

#endif
