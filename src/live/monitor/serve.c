/* The loop that serves the page of a run. */
#include "monitor/serve.h"

#include "monitor/page.h"
#include "monitor/read.h"
#include "monitor/web.h"

#include <poll.h>
#include <string.h>

enum { LOOK_MS = 200 };
#define TOKEN_NAME "web.token"

static void take(void *history, int rank, const json_t *line) {
  ls_history_take(history, rank, line);
}

static json_t *now_json(const ls_viewer_t *view) {
  char state[LS_VIEWER_STATE_BYTES];
  ls_page_t *page = NULL;
  json_t *phases = json_object();
  if (ls_page_read(NULL, view->dir, &page) == LS_OK)
    for (int i = 0; i < ls_page_ranks(page); i++) {
      ls_page_look_t look;
      char rank[16];
      ls_page_look(page, i, &look);
      snprintf(rank, sizeof rank, "%d", i);
      json_object_set_new(phases, rank, json_string(ls_page_phase_name(look.phase)));
    }
  ls_page_close(page);
  ls_viewer_state(view, state);
  return json_pack("{s:o?, s:s, s:o?}", "dir", ls_json_text(view->dir), "state", state, "phases", phases);
}

/* Until it is told to stop. A folder that is gone may be made again by a new run. */
static ls_status_t look(ls_ctx_t *ctx, ls_viewer_t *view, ls_history_t *history,
                        const ls_web_serve_t *serve) {
  ls_status_t status = LS_OK;
  int64_t lines;
  while (status == LS_OK && !serve->stop()) {
    ls_history_now(history, now_json(view));
    poll(NULL, 0, LOOK_MS);
    status = ls_viewer_update(view, &lines);
    if (status != LS_ERR_NOT_FOUND) continue;
    ls_ctx_clear(ctx);
    status = LS_OK;
  }
  return status;
}

static ls_status_t with_history(ls_ctx_t *ctx, ls_viewer_t *view, ls_history_t *history,
                                const ls_web_serve_t *serve) {
  char token[LS_WEB_TOKEN_BYTES];
  ls_web_t *web;
  int64_t lines;
  char *path = ls_path_join(ctx, view->dir, TOKEN_NAME);
  ls_status_t status = path ? ls_web_token(ctx, path, token) : LS_ERR_MEMORY;
  ls_free(path);
  if (status == LS_OK) status = ls_web_start(ctx, serve->address, serve->port, token, history, &web);
  if (status != LS_OK) return status;
  status = ls_viewer_update(view, &lines); /* after the port is taken: reading a long log takes a while */
  if (status == LS_OK) status = serve->serving(ctx, ls_web_url(web));
  if (status == LS_OK && strncmp(serve->address, "127.", 4) != 0)
    ls_log(ctx, LS_LOG_WARN, "--address %s: whoever sees this address on the network can read the run",
           serve->address);
  if (status == LS_OK) status = look(ctx, view, history, serve);
  ls_web_stop(web);
  return status;
}

ls_status_t ls_web_serve(ls_ctx_t *ctx, const char *dir, const ls_web_serve_t *serve) {
  ls_viewer_t view;
  ls_history_t *history;
  ls_status_t status = ls_viewer_open(ctx, dir, &view);
  if (status != LS_OK) return status;
  if (!ls_web_here)
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED,
                     "--web: this build has no libmicrohttpd; install libmicrohttpd-dev and build again");
  if (status == LS_OK) status = ls_history_create(ctx, &history);
  if (status == LS_OK) {
    view.seen = take;
    view.user = history;
    status = with_history(ctx, &view, history, serve);
    ls_history_destroy(history);
  }
  ls_viewer_close(&view);
  return status;
}
