/* A mapped file that becomes shorter, or whose storage fails, is an error of the call that needs its samples. */
#include "common.h"
#include "data/read.h"

#include <signal.h>
#include <unistd.h>

enum { ROWS = 3000, COLS = 4, BATCH = 64, CONTEXT = 8 };

static _Atomic int faults;

static void on_bus(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  faults++;
  if (info->si_code != BUS_ADRERR || !ls_data_fault(info->si_addr)) _exit(99);
}

/* Within a test: around each, cmocka has handlers of its own. */
static void catch_faults(void) {
  struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  faults = 0;
  assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

static const char *features, *targets, *text;

/* Every value is 1, and every class. */
static void make(void) {
  catch_faults();
  static unsigned char file[128 + ROWS * COLS];
  const char *const shape[] = {"(3000, 4)", "(3000,)"};
  memset(file, 1, sizeof file);
  for (int i = 0; i < 2; i++) {
    memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
    int used =
        snprintf((char *)file + 10, 118, "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }", shape[i]);
    memset(file + 10 + used, ' ', (size_t)(117 - used));
    file[127] = '\n';
    const char *path = file_make(i == 0 ? "x.npy" : "y.npy", file, 128 + ROWS * (i == 0 ? COLS : 1));
    *(i == 0 ? &features : &targets) = path;
  }
  memset(file, 1, 128);
  text = file_make("text.txt", file, sizeof file);
}

static const ls_data_want_t rows_want = {
    .inputs = COLS, .outputs = 3, .classes = true, .x = {LS_F32, 1, {COLS}}};
static const ls_data_want_t text_want = {.inputs = CONTEXT,
                                         .outputs = 256,
                                         .classes = true,
                                         .x = {LS_F32, 1, {CONTEXT}},
                                         .ids = 256,
                                         .positions = CONTEXT,
                                         .whole = true};

static ls_dataset_t *open_data(bool of_text) {
  const ls_data_config_t config =
      of_text ? (ls_data_config_t){.kind = LS_DATA_TEXT,
                                   .path = text,
                                   .tokens = LS_TOKENS_BYTES,
                                   .context = CONTEXT}
              : (ls_data_config_t){
                    .kind = LS_DATA_NPY, .features = features, .targets = targets, .mapped = LS_MAPPED_TRUE};
  ls_dataset_t *d = NULL;
  if (ls_dataset_open(said.ctx, &config, NULL, of_text ? &text_want : &rows_want, 3, NULL, &d) != LS_OK)
    fail_msg("%s", said.messages);
  return d;
}

/* A batch by some threads; 0: without a filler. */
static ls_status_t fill(const ls_dataset_t *d, int threads) {
  static int32_t x[BATCH * CONTEXT], target[BATCH * CONTEXT];
  static float weight[BATCH];
  ls_step_params_t step;
  const ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                                 .seed = 5,
                                 .shuffle = true,
                                 .global_batch = BATCH,
                                 .rows = BATCH,
                                 .micro_batches = 1,
                                 .total_samples = 1000000,
                                 .total_steps = 1000};
  const ls_batch_t to = {x, target, weight, &step, NULL};
  if (threads == 0) return ls_batch_fill(d, &spec, 0, &to);
  ls_filler_t *filler;
  assert_int_equal(ls_filler_create(said.ctx, d, threads, &filler), LS_OK);
  ls_status_t status = ls_filler_fill(filler, &spec, 0, &to);
  ls_filler_destroy(filler);
  return status;
}

static int times_said(const char *part) {
  int times = 0;
  for (const char *at = said.messages; (at = strstr(at, part)); at++)
    times++;
  return times;
}

/* Found by a run that SIGBUS ended without a word. */
static void a_file_that_became_shorter_is_an_error(void **state) {
  for (int of_text = 0; of_text < 2; of_text++)
    for (int threads = 0; threads < 4; threads += 3) {
      said_clear();
      make();
      ls_dataset_t *d = open_data(of_text);
      assert_int_equal(fill(d, threads), LS_OK);
      assert_int_equal(truncate(of_text ? text : features, 5), 0);
      ls_dataset_t *whole = open_data(!of_text);
      assert_int_equal(fill(d, threads), LS_ERR_IO);
      assert_true(faults > 0);
      assert_said(of_text ? "/text.txt: became shorter while it was read, from 12128 to 5 bytes; "
                          : "/x.npy: became shorter while it was read, from 12128 to 5 bytes; ");
      assert_int_equal(times_said("became shorter"), 1);
      assert_int_equal(fill(d, threads), LS_ERR_IO); /* for good */
      said_clear();
      assert_int_equal(fill(whole, threads), LS_OK);
      assert_string_equal(said.messages, "");
      ls_dataset_close(whole);
      ls_dataset_close(d);
      files_remove();
    }
}

/* By the time of the report it is as long as before: somebody wrote it again. */
static void a_file_that_was_written_again_is_an_error(void **state) {
  make();
  ls_dataset_t *d = open_data(false);
  char hex[LS_DATASET_HASH_BYTES];
  assert_int_equal(truncate(features, 0), 0);
  ls_dataset_hash(d, 0, d->rows, hex);
  assert_int_equal(truncate(features, 128 + ROWS * COLS), 0);
  assert_refused(
      fill(d, 0), LS_ERR_IO,
      "/x.npy: a part of it could not be read any more: it became shorter for a while, or its storage");
  ls_dataset_close(d);
}

static void other_faults_stay_the_programs(void **state) {
  make();
  ls_view_t view;
  assert_int_equal(ls_view_open(said.ctx, text, true, &view), LS_OK);
  const char *at = view.bytes;
  assert_false(ls_data_fault(at - 1));
  assert_false(ls_data_fault(at + view.size));
  assert_false(ls_data_fault(&said));
  assert_false(ls_data_fault(NULL));
  assert_int_equal(ls_watch_check(view.mapped), LS_OK);
  assert_int_equal(at[0], 1);
  assert_true(ls_data_fault(at + view.size - 1));
  assert_int_equal(at[0], 0);
  assert_int_equal(ls_watch_check(view.mapped), LS_ERR_IO);
  ls_view_close(&view);
  assert_false(ls_data_fault(at));
  assert_int_equal(ls_watch_check(view.mapped), LS_OK); /* nobody reads it any more */
}

static void another_dataset_of_the_same_context_goes_on(void **state) {
  make();
  ls_dataset_t *cut = open_data(true), *whole = open_data(false);
  assert_int_equal(truncate(text, 5), 0);
  assert_int_equal(fill(cut, 0), LS_ERR_IO);
  assert_int_equal(fill(whole, 0), LS_OK);
  ls_dataset_close(whole);
  ls_dataset_close(cut);
}

typedef struct {
  char messages[4096];
  const char *cut; /* by the first warning */
} cutter_t;

static void cut_by_a_warning(void *user, ls_log_level_t level, const char *message) {
  cutter_t *c = user;
  if (level == LS_LOG_WARN && c->cut) assert_int_equal(truncate(c->cut, 0), 0);
  if (level == LS_LOG_WARN) c->cut = NULL;
  if (level == LS_LOG_ERROR) strcat(strcat(c->messages, message), "\n");
}

/* The first of two token files has a header of which the reader warns, when both are mapped. The second one is cut then: its
 * zeros are fine tokens, and an odd number of bytes is what its reader complains of. */
static void a_file_that_is_cut_while_it_is_opened_is_an_error(void **state) {
  enum { BYTES = 12000 };
  static char tokens[BYTES];
  const int32_t header[] = {20240520, 9};
  for (int odd = 0; odd < 2; odd++) {
    catch_faults();
    cutter_t cutter = {.cut = NULL};
    memset(tokens, 1, sizeof tokens);
    cutter.cut = file_make("t2.bin", tokens, BYTES - (size_t)odd);
    memcpy(tokens, header, sizeof header);
    char pattern[256];
    snprintf(pattern, sizeof pattern, "%s", file_make("t1.bin", tokens, BYTES));
    strcpy(strstr(pattern, "t1.bin"), "t*.bin");
    ls_data_want_t want = text_want;
    want.outputs = want.ids = 65536;
    const ls_data_config_t config = {
        .kind = LS_DATA_TEXT, .path = pattern, .tokens = LS_TOKENS_U16, .context = CONTEXT};
    ls_ctx_t *ctx = ls_ctx_create(cut_by_a_warning, &cutter);
    ls_dataset_t *d = NULL;
    assert_int_equal(ls_dataset_open(ctx, &config, NULL, &want, 3, NULL, &d), LS_ERR_IO);
    assert_true(faults > 0);
    assert_non_null(strstr(cutter.messages, "/t2.bin: became shorter while it was read, from "));
    assert_null(strstr(cutter.messages, "no whole number"));
    assert_non_null(strstr(ls_ctx_error(ctx), "became shorter"));
    ls_ctx_destroy(ctx);
    files_remove();
  }
}

TESTS(said_open, said_close, another_dataset_of_the_same_context_goes_on,
      a_file_that_is_cut_while_it_is_opened_is_an_error, a_file_that_became_shorter_is_an_error,
      a_file_that_was_written_again_is_an_error, other_faults_stay_the_programs)
