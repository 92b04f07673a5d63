/* A small coverage-guided fuzzer with libFuzzer's entry point and arguments, for gcc, which has none:
 *   program [-max_total_time=S] [-runs=N] [-seed=N] [-timeout=S] [-max_len=N] [-artifact_prefix=P] [folder|file]..
 * Files of folders are seeds; a file alone is run once and nothing else happens. The code
 * under test is compiled with -fsanitize-coverage=trace-pc; a sample that reaches a new place joins the
 * corpus. What crashes, or takes longer than the timeout, is written to <prefix>crash-input. */
#include "driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAP_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void));
__attribute__((visibility("default"))) const char *__ubsan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void);

/* The compiler's hooks and the death callback take no argument, so this program has globals. */
static uint8_t reached[MAP_BYTES], reached_ever[MAP_BYTES];
static sample_t running; /* the sample that is being tried */
static char crash_path[4096];

/* The two runtimes are separate libraries and only the address sanitizer's has the callback: the other one
 * aborts, which on_signal sees. Impossible sizes give NULL, as they do without sanitizers. */
const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

/* Called by the compiler at every edge. Addresses count from a place in the program: they move
 * between runs. */
void __sanitizer_cov_trace_pc(void) {
  uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&LLVMFuzzerTestOneInput;
  reached[(at ^ (at >> 16)) % MAP_BYTES] = 1;
}

/* Only calls that may be made when everything is broken. */
static void save_running(void) {
  if (!running.bytes) return;
  static const char note[] = "\nthe input was written to ", end[] = "\n";
  int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) return;
  bool saved = write(fd, running.bytes, running.size) == (ssize_t)running.size;
  close(fd);
  if (!saved || write(2, note, sizeof note - 1) < 0 || write(2, crash_path, strlen(crash_path)) < 0) return;
  if (write(2, end, 1) < 0) return;
}

static void on_signal(int number) {
  static const char slow[] = "\na single input takes longer than the timeout\n";
  if (number == SIGALRM && write(2, slow, sizeof slow - 1) < 0) _exit(2);
  save_running();
  _exit(2);
}

static void try_sample(const sample_t *sample, unsigned timeout_s) {
  uint8_t *exact = malloc(sample->size ? sample->size : 1); /* of just this size: reading past it is seen */
  if (!exact) abort();
  if (sample->size) memcpy(exact, sample->bytes, sample->size);
  running = (sample_t){exact, sample->size};
  alarm(timeout_s);
  LLVMFuzzerTestOneInput(exact, sample->size);
  alarm(0);
  running = (sample_t){0};
  free(exact);
}

/* Adds what was reached to what ever was; true when there is something new. */
static bool merge_coverage(void) {
  bool news = false;
  for (size_t i = 0; i < MAP_BYTES; i += 8) {
    uint64_t now, ever;
    memcpy(&now, reached + i, 8);
    memcpy(&ever, reached_ever + i, 8);
    news = news || (now & ~ever);
    ever |= now;
    memcpy(reached_ever + i, &ever, 8);
  }
  memset(reached, 0, MAP_BYTES);
  return news;
}

static bool load_file(corpus_t *corpus, const char *path, size_t limit) {
  struct stat info;
  FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
  if (!file) return false;
  uint8_t *bytes = malloc(limit + 1);
  if (!bytes) abort();
  size_t size = fread(bytes, 1, limit, file);
  corpus_add(corpus, bytes, size);
  free(bytes);
  fclose(file);
  return true;
}

static void load_folder(corpus_t *corpus, const char *path, size_t limit) {
  struct dirent **entry;
  int count = scandir(path, &entry, NULL, alphasort); /* sorted: the run is a function of its arguments */
  for (int i = 0; i < count; i++) {
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
    load_file(corpus, file, limit);
    free(entry[i]);
  }
  if (count >= 0) free(entry);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct {
  double time_s;
  unsigned long runs; /* 0 = until the time is over */
  unsigned timeout_s;
  size_t max_len;
  uint64_t seed;
} plan_t;

static void fuzz(const plan_t *plan, corpus_t *corpus) {
  dictionary_t dictionary = {0};
  random_t random = {plan->seed};
  double begin_s = now_s(), end_s = begin_s + plan->time_s;
  unsigned long executions = 0;
  if (corpus->count == 0) corpus_add(corpus, (const uint8_t *)"0", 1);
  for (size_t i = 0; i < corpus->count; i++, executions++) {
    try_sample(&corpus->sample[i], plan->timeout_s);
    dictionary_learn(&dictionary, corpus->sample[i].bytes, corpus->sample[i].size);
  }
  merge_coverage();
  size_t seeds = corpus->count;
  sample_t sample = {malloc(plan->max_len), 0};
  if (!sample.bytes) abort();
  for (; plan->runs ? executions < plan->runs : now_s() < end_s; executions++) {
    /* Half of the time one of the newest: what was just found is most likely to lead further. */
    size_t newest = corpus->count < 16 ? corpus->count : 16;
    size_t pick = random_below(&random, 2) ? random_below(&random, corpus->count)
                                           : corpus->count - 1 - random_below(&random, newest);
    sample.size = corpus->sample[pick].size;
    if (sample.size) memcpy(sample.bytes, corpus->sample[pick].bytes, sample.size);
    mutate(&random, corpus, &dictionary, &sample, plan->max_len);
    try_sample(&sample, plan->timeout_s);
    if (merge_coverage()) corpus_add(corpus, sample.bytes, sample.size);
  }
  size_t edges = 0;
  for (size_t i = 0; i < MAP_BYTES; i++)
    edges += reached_ever[i];
  printf("%lu executions in %.1f s, %zu seeds, %zu new samples, %zu places of the code reached\n", executions,
         now_s() - begin_s, seeds, corpus->count - seeds, edges);
  free(sample.bytes);
  corpus_release(&dictionary.token);
}

/* "-name=value" of the known names; others are libFuzzer's and are accepted in silence. */
static const char *flag(const char *argument, const char *name) {
  size_t len = strlen(name);
  return strncmp(argument, name, len) == 0 && argument[len] == '=' ? argument + len + 1 : NULL;
}

static void read_flag(plan_t *plan, const char *argument) {
  const char *value;
  if ((value = flag(argument, "-max_total_time"))) plan->time_s = strtod(value, NULL);
  if ((value = flag(argument, "-runs"))) plan->runs = strtoul(value, NULL, 10);
  if ((value = flag(argument, "-seed"))) plan->seed = strtoull(value, NULL, 10);
  if ((value = flag(argument, "-timeout"))) plan->timeout_s = (unsigned)strtoul(value, NULL, 10);
  if ((value = flag(argument, "-max_len"))) plan->max_len = strtoul(value, NULL, 10);
  if ((value = flag(argument, "-artifact_prefix")))
    snprintf(crash_path, sizeof crash_path, "%scrash-input", value);
}

int main(int argc, char **argv) {
  plan_t plan = {.time_s = 10, .timeout_s = 10, .max_len = 65536, .seed = 1};
  corpus_t corpus = {0};
  struct stat info;
  strcpy(crash_path, "crash-input");
  __sanitizer_set_death_callback(save_running);
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
  for (int i = 1; i < argc; i++)
    if (argv[i][0] == '-') read_flag(&plan, argv[i]);
  if (plan.max_len < 1) plan.max_len = 1;
  bool only_files = false;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-') continue;
    if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode)) {
      load_folder(&corpus, argv[i], plan.max_len);
    } else if (load_file(&corpus, argv[i], plan.max_len)) {
      only_files = true;
    } else {
      fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
  }
  if (only_files)
    for (size_t i = 0; i < corpus.count; i++)
      try_sample(&corpus.sample[i], plan.timeout_s);
  else
    fuzz(&plan, &corpus);
  corpus_release(&corpus);
  return 0;
}
