/* A watched run as text and as a document: what lockstep monitor shows of a viewer. */
#ifndef LS_MONITOR_SCREEN_H
#define LS_MONITOR_SCREEN_H

#include "monitor/page.h"
#include "monitor/read.h"

typedef struct {
  ls_viewer_t view;
  ls_page_t *page; /* the ranks' phases; NULL: unknown */
  bool utf8;       /* the curve may be drawn with blocks */
} ls_screen_t;

/* Opens viewer and page of a folder. A page that cannot be read is a warning; a run in one process has none. */
ls_status_t ls_screen_open(ls_ctx_t *ctx, const char *dir, ls_screen_t *screen);
void ls_screen_close(ls_screen_t *screen);

/* Texts of whole lines, released with free; NULL: memory is short, or there is nothing to say. */
char *ls_screen_text(const ls_screen_t *screen); /* everything */
char *ls_screen_state(const ls_viewer_t *view,
                      bool numbers);       /* one line: the run's state, the newest numbers of rank 0 */
char *ls_screen_event(const json_t *line); /* one line; NULL for records and timelines */
json_t *ls_screen_json(const ls_screen_t *screen); /* new reference */

#endif
