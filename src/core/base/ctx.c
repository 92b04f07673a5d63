/* Contexts: message delivery, the kept first error, checked allocation. */
#include "base/ctx.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MAX = 4096, CARET_LINE_MAX = 200 };

struct ls_ctx {
  ls_log_fn log;
  void *user;
  ls_log_level_t level;
  int rank, world_size;
  pthread_mutex_t lock; /* protects the kept error, and keeps messages in one piece */
  int error_count;
  char first_error[MESSAGE_MAX];
  bool (*doubted)(const void *user); /* NULL: no doubt; of the thread `doubter` */
  const void *doubt;
  pthread_t doubter;
  _Atomic int64_t alloc_count;
  ls_io_t io_fails;
  int io_error;
  _Atomic int64_t alloc_fail_at; /* value of alloc_count that fails, 0 = never */
};

typedef struct {
  ls_status_t status;
  int exit_code;
  const char *name, *text;
} status_row_t;

static const status_row_t *row_of(ls_status_t status) {
  static const status_row_t unknown = {.exit_code = 1, .name = "LS_ERR_UNKNOWN", .text = "unknown status"};
  static const status_row_t rows[] = {
#define ROW(name, value, exit_code, text) {name, exit_code, #name, text},
      LS_STATUS_TABLE(ROW)
#undef ROW
  };
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (rows[i].status == status) return &rows[i];
  return &unknown;
}

const char *ls_status_text(ls_status_t status) {
  return row_of(status)->text;
}
const char *ls_status_name(ls_status_t status) {
  return row_of(status)->name;
}
int ls_status_exit_code(ls_status_t status) {
  return row_of(status)->exit_code;
}

ls_ctx_t *ls_ctx_create(ls_log_fn log, void *user) {
  ls_ctx_t *ctx = calloc(1, sizeof *ctx);
  if (!ctx) return NULL;
  if (pthread_mutex_init(&ctx->lock, NULL) != 0) {
    free(ctx);
    return NULL;
  }
  ctx->log = log;
  ctx->user = user;
  ctx->level = LS_LOG_INFO;
  ctx->world_size = 1;
  return ctx;
}

void ls_ctx_destroy(ls_ctx_t *ctx) {
  if (!ctx) return;
  pthread_mutex_destroy(&ctx->lock);
  free(ctx);
}

void ls_ctx_set_level(ls_ctx_t *ctx, ls_log_level_t level) {
  ctx->level = level;
}
const char *ls_ctx_error(const ls_ctx_t *ctx) {
  return ctx->first_error;
}
int ls_ctx_error_count(const ls_ctx_t *ctx) {
  return ctx->error_count;
}

void ls_ctx_clear(ls_ctx_t *ctx) {
  ctx->error_count = 0;
  ctx->first_error[0] = '\0';
}

void ls_ctx_set_rank(ls_ctx_t *ctx, int rank, int world_size) {
  ctx->rank = rank;
  ctx->world_size = world_size;
}

/* Appends formatted text to a message and silently cuts it at the buffer's end. A "%s: .." or "%s/.." begins
 * with a name, mostly of a file: it is shown on one line, whatever it contains. */
static void append(char *message, const char *fmt, ...) LS_PRINTF(2, 3);
static void append_v(char *message, const char *fmt, va_list args) {
  if (!strncmp(fmt, "%s:", 3) || !strncmp(fmt, "%s/", 3)) {
    size_t before = strlen(message);
    ls_text_shown(va_arg(args, const char *), SIZE_MAX, message + before, MESSAGE_MAX - before);
    fmt += 2;
  }
  size_t used = strlen(message);
  vsnprintf(message + used, MESSAGE_MAX - used, fmt, args);
}
static void append(char *message, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  append_v(message, fmt, args);
  va_end(args);
}

enum { CHARACTER_BYTES_MAX = 4 };

/* Unicode, table 3-7. */
size_t ls_utf8_bytes(const unsigned char *t) {
  if (t[0] < 0x80) return 1;
  size_t size = t[0] >= 0xC2 && t[0] <= 0xDF   ? 2
                : (t[0] & 0xF0) == 0xE0        ? 3
                : t[0] >= 0xF0 && t[0] <= 0xF4 ? 4
                                               : 0;
  for (size_t i = 1; i < size; i++)
    if ((t[i] & 0xC0) != 0x80) return 0;
  if ((t[0] == 0xE0 && t[1] < 0xA0) || (t[0] == 0xF0 && t[1] < 0x90)) return 0; /* longer than needed */
  if ((t[0] == 0xED && t[1] > 0x9F) || (t[0] == 0xF4 && t[1] > 0x8F))
    return 0; /* surrogates, beyond the end */
  return size;
}

/* 0 for a control character too. */
static size_t character_bytes(const unsigned char *t) {
  if (t[0] < 0x80) return (t[0] >= 0x20 && t[0] != 0x7f) || t[0] == '\n' || t[0] == '\t';
  return t[0] == 0xC2 && t[1] < 0xA0 ? 0 : ls_utf8_bytes(t);
}

bool ls_text_utf8(const char *text) {
  for (size_t size; *text; text += size)
    if (!(size = ls_utf8_bytes((const unsigned char *)text))) return false;
  return true;
}

size_t ls_text_plain(const char *text, char plain[LS_PLAIN_BYTES]) {
  size_t size = character_bytes((const unsigned char *)text);
  if (size)
    snprintf(plain, LS_PLAIN_BYTES, "%.*s", (int)size, text);
  else
    snprintf(plain, LS_PLAIN_BYTES, "\\x%02x", (unsigned)(unsigned char)*text);
  return size ? size : 1;
}

const char *ls_text_shown(const char *text, size_t len, char *shown, size_t size_bytes) {
  static const char cut[] = "...";
  size_t used = 0, fits = 0; /* the text fits up to here, with room for the dots after it */
  if (len == SIZE_MAX) len = strlen(text);
  for (size_t at = 0; at < len;) {
    char piece[LS_PLAIN_BYTES], here[CHARACTER_BYTES_MAX + 1] = ""; /* the text need not end with a NUL */
    for (size_t i = 0; i < CHARACTER_BYTES_MAX && i < len - at; i++)
      here[i] = text[at + i];
    size_t took = ls_text_plain(here, piece);
    if (*piece == '\n') snprintf(piece, sizeof piece, "\\n");
    if (*piece == '\t') snprintf(piece, sizeof piece, "\\t");
    size_t size = strlen(piece);
    if (used + sizeof cut <= size_bytes) fits = used;
    if (used + size >= size_bytes) {
      strcpy(shown + fits, cut);
      return shown;
    }
    memcpy(shown + used, piece, size);
    used += size;
    at += took;
  }
  shown[used] = '\0';
  return shown;
}

/* Messages quote files and arguments. */
static void make_plain(char message[MESSAGE_MAX]) {
  char plain[MESSAGE_MAX], piece[LS_PLAIN_BYTES];
  size_t used = 0;
  for (const char *c = message; *c;) {
    c += ls_text_plain(c, piece);
    size_t size = strlen(piece);
    if (used + size >= sizeof plain) break;
    memcpy(plain + used, piece, size);
    used += size;
  }
  plain[used] = '\0';
  memcpy(message, plain, used + 1);
}

void ls_ctx_doubt(ls_ctx_t *ctx, bool (*doubted)(const void *user), const void *user) {
  if (!ctx) return;
  pthread_mutex_lock(&ctx->lock);
  ctx->doubted = doubted;
  ctx->doubt = user;
  ctx->doubter = pthread_self();
  pthread_mutex_unlock(&ctx->lock);
}

static bool is_doubted(ls_ctx_t *ctx) {
  pthread_mutex_lock(&ctx->lock);
  const bool mine = ctx->doubted && pthread_equal(ctx->doubter, pthread_self());
  bool (*doubted)(const void *user) = ctx->doubted;
  const void *user = ctx->doubt;
  pthread_mutex_unlock(&ctx->lock);
  return mine && doubted(user);
}

static void deliver(ls_ctx_t *ctx, ls_log_level_t level, char *message) {
  if (is_doubted(ctx)) return;
  make_plain(message);
  pthread_mutex_lock(&ctx->lock);
  if (level == LS_LOG_ERROR && ctx->error_count++ == 0)
    snprintf(ctx->first_error, sizeof ctx->first_error, "%s", message);
  if (ctx->log && level <= ctx->level) ctx->log(ctx->user, level, message);
  pthread_mutex_unlock(&ctx->lock);
}

/* The source line with a caret under the column. Tabs are kept in the padding, and continuation bytes of a
 * UTF-8 character take no room, so that the caret lines up. */
static void append_caret(char *message, const ls_place_t *place) {
  int len = place->source_len < CARET_LINE_MAX ? place->source_len : CARET_LINE_MAX;
  append(message, "\n  %.*s", len, place->source);
  if (place->column < 1 || place->column > len + 1) return;
  append(message, "\n  ");
  for (int i = 0; i < place->column - 1; i++)
    if (((unsigned char)place->source[i] & 0xC0) != 0x80)
      append(message, "%c", place->source[i] == '\t' ? '\t' : ' ');
  append(message, "^");
}

/* place: before the text, its source line after it; error: an errno value after that; NULL and 0: none. */
static void say(ls_ctx_t *ctx, ls_log_level_t level, const ls_place_t *place, int error, const char *fmt,
                va_list args) {
  char message[MESSAGE_MAX];
  message[0] = '\0';
  if (ctx->world_size > 1) append(message, "rank %d: ", ctx->rank);
  if (place && place->file) append(message, "%s:", place->file);
  if (place && place->line > 0) append(message, "%d:", place->line);
  if (place && place->column > 0) append(message, "%d:", place->column);
  if (place && place->file) append(message, " ");
  if (place && place->about) append(message, "%s: ", place->about);
  append_v(message, fmt, args);
  if (place && place->source) append_caret(message, place);
  if (error) append(message, ": %s", strerror(error));
  deliver(ctx, level, message);
}

ls_status_t ls_fail(ls_ctx_t *ctx, ls_status_t status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (ctx) say(ctx, LS_LOG_ERROR, NULL, 0, fmt, args);
  va_end(args);
  return status;
}

ls_status_t ls_fail_at(ls_ctx_t *ctx, ls_status_t status, const ls_place_t *place, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (ctx) say(ctx, LS_LOG_ERROR, place, 0, fmt, args);
  va_end(args);
  return status;
}

ls_status_t ls_fail_errno(ls_ctx_t *ctx, const char *fmt, ...) {
  int error = errno;
  va_list args;
  va_start(args, fmt);
  if (ctx) say(ctx, LS_LOG_ERROR, NULL, error, fmt, args);
  va_end(args);
  if (error == ENOSPC || error == EDQUOT) return LS_ERR_NO_SPACE;
  return error == ENOENT ? LS_ERR_NOT_FOUND : LS_ERR_IO;
}

void ls_log(ls_ctx_t *ctx, ls_log_level_t level, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (ctx && level <= ctx->level) say(ctx, level, NULL, 0, fmt, args);
  va_end(args);
}

int64_t ls_ctx_fail_alloc(ls_ctx_t *ctx, int64_t n) {
  int64_t made = atomic_exchange(&ctx->alloc_count, 0);
  atomic_store(&ctx->alloc_fail_at, n);
  return made;
}

void ls_ctx_fail_io(ls_ctx_t *ctx, ls_io_t io, int error) {
  ctx->io_fails = io;
  ctx->io_error = error;
}

static bool io_fails(ls_ctx_t *ctx, ls_io_t io) {
  if (!ctx || ctx->io_fails != io) return false;
  ctx->io_fails = LS_IO_NONE;
  errno = ctx->io_error;
  return true;
}

ssize_t ls_io_write(ls_ctx_t *ctx, int fd, const void *bytes, size_t size_bytes) {
  bool fails = io_fails(ctx, LS_IO_WRITE);
  if (fails && errno != 0) return -1;
  return write(fd, bytes, fails && size_bytes > 1 ? size_bytes / 2 : size_bytes);
}

int ls_io_sync(ls_ctx_t *ctx, int fd) {
  return io_fails(ctx, LS_IO_SYNC) ? -1 : fsync(fd);
}

/* True if a test asked for this allocation to fail, or if no machine could ever provide that much memory. */
static bool refused(ls_ctx_t *ctx, size_t size_bytes) {
  if (size_bytes > PTRDIFF_MAX) return true;
  return ctx && atomic_fetch_add(&ctx->alloc_count, 1) + 1 == atomic_load(&ctx->alloc_fail_at);
}

static void *checked(ls_ctx_t *ctx, void *memory, size_t size_bytes) {
  if (!memory) ls_fail(ctx, LS_ERR_MEMORY, "out of memory: %zu bytes were asked for", size_bytes);
  return memory;
}

void *ls_alloc(ls_ctx_t *ctx, size_t size_bytes) {
  return checked(ctx, refused(ctx, size_bytes) ? NULL : calloc(1, size_bytes ? size_bytes : 1), size_bytes);
}

void *ls_alloc_array(ls_ctx_t *ctx, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) return checked(ctx, NULL, SIZE_MAX);
  return ls_alloc(ctx, total);
}

void *ls_alloc_aligned(ls_ctx_t *ctx, size_t align_bytes, size_t size_bytes) {
  void *memory = NULL;
  if (refused(ctx, size_bytes) || posix_memalign(&memory, align_bytes, size_bytes ? size_bytes : 1) != 0)
    return checked(ctx, NULL, size_bytes);
  return memset(memory, 0, size_bytes);
}

void *ls_realloc_array(ls_ctx_t *ctx, void *old, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) return checked(ctx, NULL, SIZE_MAX);
  return checked(ctx, refused(ctx, total) ? NULL : realloc(old, total ? total : 1), total);
}

char *ls_strdup(ls_ctx_t *ctx, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = ls_alloc(ctx, size);
  return copy ? memcpy(copy, text, size) : NULL;
}

void ls_free(void *memory) {
  free(memory);
}
