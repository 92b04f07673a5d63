/* Which images there are: a folder with one folder for each class, or a CSV file of paths and labels. */
#include "data/picture/images.h"
#include "data/table/csv_scan.h"
#include "data/table/number.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 16, SHOWN_NAMES = 5, SHOWN_BYTES = 64 };

/* Files that are no samples: how many, and the first ones' names. */
typedef struct {
  int64_t count;
  char shown[SHOWN_NAMES * SHOWN_BYTES];
} left_out_t;

typedef struct {
  left_out_t unlike, loose; /* not named like pictures; pictures outside of the classes' folders */
  ls_ctx_t *ctx;
  const ls_data_want_t *want;
  ls_labels_t *labels;
  char *names;
  size_t used, names_capacity;
  uint64_t *at;
  double *label; /* of each file: ls_labels_close changes them */
  int64_t count, capacity;
  size_t root; /* bytes of the present root and the slash after it */
} list_t;

/* ---- growing ---- */

static ls_status_t add_text(list_t *l, const char *text) {
  size_t bytes = strlen(text) + 1;
  if (l->used + bytes > l->names_capacity) {
    size_t capacity = 2 * (l->used + bytes) + 4096;
    char *grown = ls_realloc_array(l->ctx, l->names, capacity, 1);
    if (!grown) return LS_ERR_MEMORY;
    l->names = grown;
    l->names_capacity = capacity;
  }
  memcpy(l->names + l->used, text, bytes);
  l->used += bytes;
  return LS_OK;
}

static ls_status_t add_file(list_t *l, const char *name, double label) {
  if (l->count == l->capacity) {
    int64_t capacity = 2 * l->capacity + 256;
    uint64_t *at = ls_realloc_array(l->ctx, l->at, (size_t)capacity, sizeof *at);
    if (at) l->at = at;
    double *labels = at ? ls_realloc_array(l->ctx, l->label, (size_t)capacity, sizeof *labels) : NULL;
    if (labels) l->label = labels;
    if (!labels) return LS_ERR_MEMORY;
    l->capacity = capacity;
  }
  l->at[l->count] = l->used;
  l->label[l->count] = label;
  ls_status_t status = add_text(l, name);
  l->count += status == LS_OK;
  return status;
}

/* ---- files that are left out ---- */

static void leave_out(left_out_t *left, const char *name) {
  char text[SHOWN_BYTES - sizeof ", "];
  size_t used = strlen(left->shown);
  if (left->count++ < SHOWN_NAMES)
    snprintf(left->shown + used, sizeof left->shown - used, "%s%s", used ? ", " : "",
             ls_text_shown(name, strlen(name), text, sizeof text));
}

static void tell(ls_ctx_t *ctx, const char *folder, const left_out_t *left, const char *what,
                 const char *why) {
  if (left->count > 0)
    ls_log(ctx, LS_LOG_WARN, "%s: %" PRId64 " %s%s left out, %s: %s%s", folder, left->count, what,
           left->count == 1 ? " is" : "s are", why, left->shown, left->count > SHOWN_NAMES ? ", ..." : "");
}

static void tell_left_out(list_t *l, const char *folder) {
  tell(l->ctx, folder, &l->unlike, "file", "not named like a picture (.png, .jpg, .jpeg)");
  tell(l->ctx, folder, &l->loose, "picture", "which no class's folder holds");
  l->unlike = l->loose = (left_out_t){0};
}

/* ---- folders ---- */

/* Bytes of a folder's path before the names of what lies in it. */
static size_t root_bytes(const char *path) {
  size_t length = strlen(path);
  return length + (length == 0 || path[length - 1] != '/');
}

/* All pictures of a class, in the order of their names. Links are followed, so a circle of them ends by its depth. */
static ls_status_t walk(list_t *l, const char *folder, int depth, double label) {
  char **name;
  int count;
  if (depth > DEPTH_MAX)
    return ls_fail(l->ctx, LS_ERR_DATA, "%s: folders are nested deeper than %d", folder, DEPTH_MAX);
  ls_status_t status = ls_dir_list(l->ctx, folder, &name, &count);
  if (status != LS_OK) return status;
  for (int i = 0; i < count && status == LS_OK; i++) {
    bool picture = ls_picture_named(name[i]);
    if (name[i][0] == '.') continue;
    char *path = ls_path_join(l->ctx, folder, name[i]);
    if (!path)
      status = LS_ERR_MEMORY;
    else if (picture)
      status = add_file(l, path + l->root, label);
    else if (ls_path_is_folder(path))
      status = walk(l, path, depth + 1, label);
    else
      leave_out(&l->unlike, path + l->root);
    ls_free(path);
  }
  ls_free(name);
  return status;
}

static ls_status_t refuse_class(list_t *l, const char *path, const char *name) {
  if (l->labels->closed)
    return ls_fail(l->ctx, LS_ERR_DATA, "%s: class '%s' is none of the %d that the model was trained on",
                   path, LS_SHOWN(name), l->labels->count);
  return ls_fail(l->ctx, LS_ERR_DATA,
                 "%s: '%s' is class folder number %d, but the model's last layer has %" PRId64 " unit%s",
                 path, LS_SHOWN(name), l->labels->count + 1, l->want->outputs, LS_PLURAL(l->want->outputs));
}

static ls_status_t add_class(list_t *l, const char *path, const char *name) {
  int64_t number = 0, before = l->count;
  if (!ls_text_utf8(name))
    return ls_fail(l->ctx, LS_ERR_DATA, "%s: the name of a class is not UTF-8", LS_SHOWN(path));
  ls_status_t status = ls_labels_add(l->labels, name, &number);
  const bool refused = status == LS_ERR_DATA; /* unless it is no class at all */
  if (status == LS_OK || refused) status = walk(l, path, 1, (double)number);
  if (status == LS_OK && refused && l->count > before) return refuse_class(l, path, name);
  if (status == LS_OK && l->count == before)
    status = ls_fail(l->ctx, LS_ERR_DATA, "%s: a class folder without PNG or JPEG files", path);
  return status;
}

static ls_status_t read_folder(list_t *l, const char *root) {
  char **name;
  int count;
  int64_t before = l->count;
  ls_status_t status = ls_dir_list(l->ctx, root, &name, &count);
  if (status != LS_OK) return status;
  l->root = root_bytes(root);
  for (int i = 0; i < count && status == LS_OK; i++) {
    char *path = name[i][0] == '.' ? NULL : ls_path_join(l->ctx, root, name[i]);
    if (name[i][0] != '.' && !path) status = LS_ERR_MEMORY;
    if (path && ls_path_is_folder(path))
      status = add_class(l, path, name[i]);
    else if (path && ls_picture_named(name[i]))
      leave_out(&l->loose, name[i]);
    ls_free(path);
  }
  ls_free(name);
  tell_left_out(l, root);
  if (status == LS_OK && l->count == before)
    status = ls_fail(
        l->ctx, LS_ERR_DATA,
        "%s: no folders in it: images need a folder for each class, or a CSV file of paths and labels", root);
  return status;
}

/* ---- CSV ---- */

typedef struct {
  int64_t file, label; /* columns */
  int64_t count;
} header_t;

/* `label` NULL: the list may be without labels. */
static ls_status_t read_header(ls_csv_scan_t *scan, const char *file, const char *label, header_t *h) {
  ls_csv_cell_t cell = {0};
  *h = (header_t){-1, -1, 0};
  for (; !cell.last; h->count++) {
    ls_status_t status = ls_csv_scan_cell(scan, &cell);
    if (status != LS_OK) return status;
    if (cell.len == strlen(file) && !memcmp(cell.text, file, cell.len)) h->file = h->count;
    if (label && cell.len == strlen(label) && !memcmp(cell.text, label, cell.len)) h->label = h->count;
  }
  if (h->file >= 0 && (!label || h->label >= 0)) return LS_OK;
  return ls_csv_fail(scan, &cell, "there is no column '%s': data.%s names the one of the %s",
                     LS_SHOWN(h->file < 0 ? file : label), h->file < 0 ? "columns" : "target",
                     h->file < 0 ? "files" : "labels");
}

/* A cell without the quotes that quoting doubled. */
static ls_status_t text_of(list_t *l, const ls_csv_scan_t *scan, const ls_csv_cell_t *cell, const char *what,
                           char **text) {
  if (cell->len == 0) return ls_csv_fail(scan, cell, "empty cell where a %s is needed", what);
  if (memchr(cell->text, '\0', cell->len)) return ls_csv_fail(scan, cell, "a %s holds a zero byte", what);
  char *to = *text = ls_alloc(l->ctx, cell->len + 1);
  if (!to) return LS_ERR_MEMORY;
  for (size_t i = 0; i < cell->len; i++) {
    *to++ = cell->text[i];
    if (cell->doubled && cell->text[i] == '"') i++;
  }
  return LS_OK;
}

/* A class number, where labels are numbers. */
static ls_status_t number_of(list_t *l, const ls_csv_scan_t *scan, const ls_csv_cell_t *cell,
                             double *number) {
  if (ls_number_parse(cell->text, cell->len, number) != LS_NUMBER_OK || *number != floor(*number) ||
      *number < 0)
    return ls_csv_fail(scan, cell,
                       "a class number was expected, as the first label with a value is one: give class "
                       "numbers alone, or texts alone");
  if (*number >= (double)l->want->outputs)
    return ls_csv_fail(scan, cell,
                       "class %.0f, but the model's last layer has %" PRId64
                       " unit%s: classes are 0 to %" PRId64,
                       *number, l->want->outputs, LS_PLURAL(l->want->outputs), l->want->outputs - 1);
  return LS_OK;
}

static ls_status_t label_of(list_t *l, const ls_csv_scan_t *scan, const ls_csv_cell_t *cell, double *label) {
  char *name = NULL;
  int64_t number = 0;
  char why[LS_CSV_GAP_TEXT_BYTES];
  if (ls_csv_is_label_gap(cell) && !l->labels->given)
    return ls_csv_fail(scan, cell, "%s", ls_csv_gap_text(cell, why));
  if (!l->labels->text) return number_of(l, scan, cell, label);
  ls_status_t status = text_of(l, scan, cell, "label", &name);
  if (status != LS_OK) return status;
  bool utf8 = ls_text_utf8(name);
  status = utf8 ? ls_labels_add(l->labels, name, &number) : ls_csv_fail(scan, cell, "the label is not UTF-8");
  if (utf8 && status == LS_ERR_DATA && l->labels->closed)
    ls_csv_fail(scan, cell, "label '%s' is none of the %d that the model was trained on", LS_SHOWN(name),
                l->labels->count);
  else if (utf8 && status == LS_ERR_DATA)
    ls_csv_fail(scan, cell, "'%s' is label number %d, but the model's last layer has %" PRId64 " unit%s",
                LS_SHOWN(name), l->labels->count + 1, l->want->outputs, LS_PLURAL(l->want->outputs));
  *label = (double)number;
  ls_free(name);
  return status;
}

static ls_status_t read_row(list_t *l, ls_csv_scan_t *scan, const header_t *h, bool first) {
  ls_csv_cell_t cell = {0}, file = {0}, label = {0};
  char *name = NULL;
  double number = 0;
  ls_status_t status = LS_OK;
  int64_t i = 0;
  for (; !cell.last; i++) {
    status = ls_csv_scan_cell(scan, &cell);
    if (status != LS_OK) return status;
    if (i == h->file) file = cell;
    if (i == h->label) label = cell;
  }
  if (i != h->count)
    return ls_csv_fail(scan, &cell, "this row has %" PRId64 " cells, the header has %" PRId64, i, h->count);
  if (first && h->label >= 0 && !l->labels->closed)
    l->labels->text = ls_number_parse(label.text, label.len, &number) == LS_NUMBER_BAD;
  if (h->label >= 0) status = label_of(l, scan, &label, &number);
  if (status == LS_OK) status = text_of(l, scan, &file, "file", &name);
  if (status == LS_OK) status = add_file(l, name, number);
  ls_free(name);
  return status;
}

static const char *file_column(const ls_data_config_t *config) {
  return config->columns.count > 0 ? config->columns.v[0] : "file";
}

static ls_status_t read_text(list_t *l, const ls_data_config_t *config, const char *path, const char *text,
                             size_t size, const char *label) {
  const char *file = file_column(config);
  char delimiter;
  int64_t before = l->count;
  ls_csv_scan_t scan;
  header_t h;
  ls_data_delimiter(config, &delimiter); /* was checked */
  ls_status_t status = ls_csv_scan_begin(l->ctx, path, text, size, delimiter, &scan);
  if (status == LS_OK && ls_csv_scan_done(&scan))
    status =
        ls_fail(l->ctx, LS_ERR_DATA, "%s: the file is empty: a header with the column%s %s%s%s is needed",
                path, label ? "s" : "", LS_SHOWN(file), label ? " and " : "", label ? LS_SHOWN(label) : "");
  if (status == LS_OK) status = read_header(&scan, file, label, &h);
  for (bool first = true; status == LS_OK && !ls_csv_scan_done(&scan); first = false)
    status = read_row(l, &scan, &h, first && before == 0);
  if (status == LS_OK && l->count == before)
    status = ls_fail(l->ctx, LS_ERR_DATA, "%s: there are no rows below the header", path);
  return status;
}

static ls_status_t read_csv(list_t *l, const ls_data_config_t *config, const char *path) {
  char *text;
  size_t size;
  ls_status_t status = ls_read_bytes(l->ctx, path, &text, &size);
  if (status != LS_OK) return status;
  status = read_text(l, config, path, text, size, config->target.count > 0 ? config->target.v[0] : "label");
  ls_free(text);
  return status;
}

/* ---- both ---- */

static ls_status_t read_part(list_t *l, const ls_data_config_t *config, const char *path) {
  return ls_path_is_folder(path) ? read_folder(l, path) : read_csv(l, config, path);
}

/* The folder at which the paths of a part begin. */
static ls_status_t add_root(list_t *l, const char *path) {
  char *parent = path && !ls_path_is_folder(path) ? ls_path_parent(l->ctx, path) : NULL;
  if (path && !ls_path_is_folder(path) && !parent) return LS_ERR_MEMORY;
  ls_status_t status = add_text(l, parent ? parent : path ? path : "");
  ls_free(parent);
  return status;
}

static ls_status_t read_all(list_t *l, const ls_data_config_t *config, ls_dataset_t *d) {
  ls_status_t status = add_root(l, config->path);
  if (status == LS_OK) status = add_root(l, config->validation_path);
  if (status == LS_OK) status = read_part(l, config, config->path);
  d->split_rows = l->count;
  if (status == LS_OK && l->labels->text) status = ls_labels_close(l->labels, l->label, l->count);
  if (status == LS_OK && config->validation_path) {
    status = read_part(l, config, config->validation_path);
    d->train_count = d->split_rows;
    d->validation_count = l->count - d->split_rows;
  }
  d->rows = l->count;
  int32_t *targets = status == LS_OK ? ls_alloc_array(l->ctx, (size_t)l->count, sizeof *targets) : NULL;
  d->targets = targets;
  for (int64_t i = 0; targets && i < l->count; i++)
    targets[i] = (int32_t)l->label[i];
  return status == LS_OK && !targets ? LS_ERR_MEMORY : status;
}

static ls_status_t give(list_t *l, ls_status_t status, ls_images_t *im, int64_t *count) {
  im->names = l->names;
  im->names_bytes = l->used;
  im->name_at = l->at;
  *count = l->count;
  ls_free(l->label);
  return status;
}

ls_status_t ls_images_list(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_labels_t *labels, ls_dataset_t *d) {
  list_t l = {.ctx = ctx, .want = want, .labels = labels};
  int64_t count;
  return give(&l, read_all(&l, config, d), d->images, &count);
}

ls_status_t ls_images_find(ls_ctx_t *ctx, const char *path, ls_images_t *im, int64_t *count) {
  list_t l = {.ctx = ctx};
  bool folder = ls_path_is_folder(path);
  ls_status_t status = add_root(&l, path);
  l.root = root_bytes(path);
  const char *name = strrchr(path, '/');
  if (status == LS_OK) status = folder ? walk(&l, path, 1, 0) : add_file(&l, name ? name + 1 : path, 0);
  tell_left_out(&l, path);
  if (status == LS_OK && l.count == 0)
    status = ls_fail(ctx, LS_ERR_DATA, "%s: a folder without PNG or JPEG files", path);
  return give(&l, status, im, count);
}

ls_status_t ls_images_read_list(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                                const char *name, const char *text, size_t size, ls_images_t *im,
                                int64_t *count) {
  list_t l = {.ctx = ctx};
  ls_status_t status = add_root(&l, path);
  if (status == LS_OK) status = read_text(&l, config, name, text, size, NULL);
  return give(&l, status, im, count);
}

bool ls_images_is_list(const ls_data_config_t *config, const char *text, size_t size) {
  char delimiter;
  ls_csv_scan_t scan;
  header_t h;
  ls_data_delimiter(config, &delimiter); /* was checked */
  return ls_csv_scan_begin(NULL, "", text, size, delimiter, &scan) == LS_OK && !ls_csv_scan_done(&scan) &&
         read_header(&scan, file_column(config), NULL, &h) == LS_OK;
}

ls_status_t ls_images_path(const ls_dataset_t *d, int64_t row, char **path) {
  const char *root = d->images->names;
  if (row >= d->split_rows) root += strlen(root) + 1;
  *path = ls_path_join(d->arena.ctx, root, d->images->names + d->images->name_at[row]);
  return *path ? LS_OK : LS_ERR_MEMORY;
}
