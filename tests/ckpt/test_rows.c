/* Rows of a state, saved by some ranks and loaded by others: every value exact, no more bytes read than
 * needed, and a refusal by name for pieces that are not what the manifest says. */
#include "image.h"
#include "rows_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define S(n) "step-00000000000" #n

static _Thread_local int64_t read_bytes;
ssize_t __real_pread(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset) {
  ssize_t n = __real_pread(fd, to, size, offset);
  read_bytes += n > 0 ? n : 0;
  return n;
}
static void forget_reads(void) {
  read_bytes = 0;
}

static void save_arg(rank_t *rank) {
  const int64_t *step = rank->arg;
  rank->status = rows_save(rank, rank->f->dir, *step, NAN, 9);
}
static void save_world(int size, cut_t cut, int64_t step, rank_t rank[RANKS_MAX]) {
  world_run(size, cut, save_arg, &step, rank);
}

static void load_counted(rank_t *rank) {
  rank->read_bytes = -1;
  int64_t step = rows_load(rank, rank->f->dir, forget_reads);
  rank->read_bytes = read_bytes;
  if (rank->rank == 0) *(int64_t *)rank->arg = step;
}

static void any_world_reads_what_any_other_has_saved(void **state) {
  rows_big = 100003;
  enum { HEADERS_BYTES = 2 * 4096 }; /* read when opened, and hashed again */
  rank_t rank[RANKS_MAX];
  for (int saved = 1; saved <= RANKS_MAX; saved++)
    for (int loaded = 1; loaded <= RANKS_MAX; loaded++) {
      int64_t step = 0, want = 10 * saved + loaded;
      save_world(saved, CUT_TWICE, want, rank);
      for (int r = 0; r < saved; r++)
        assert_int_equal(rank[r].status, LS_OK);
      world_run(loaded, CUT_TWICE, load_counted, &step, rank);
      assert_int_equal(step, want);
      int64_t headers = HEADERS_BYTES * (saved == 1 ? 2 : 2 + 2 * saved);
      for (int r = 0; r < loaded; r++) {
        int64_t needed = rank[r].own_bytes + (r == 0 ? rank[r].replicated_bytes : 0);
        assert_in_range(rank[r].read_bytes, needed, needed + headers);
        if (loaded == 4) assert_in_range(rank[r].own_bytes, rows_big * 8 / 4, rows_big * 8 / 4 + 1024);
      }
    }
  rows_big = 1003;
  assert_string_equal(f->log, "");
}

static void ranks_that_hold_the_same_save_what_one_rank_saves(void **state) {
  static const char *const files[] = {LS_MANIFEST_NAME, LS_MODEL_NAME, LS_OPTIM_NAME};
  rank_t rank[RANKS_MAX];
  for (int size = 1; size <= 3; size += 2)
    for (int cut = CUT_TWICE; cut <= CUT_NONE; cut += CUT_NONE) {
      if (size > 1 && cut != CUT_NONE) continue;
      save_world(size, (cut_t)cut, 5, rank);
      char dir[512], *bytes[3];
      size_t bytes_count[3], again;
      snprintf(dir, sizeof dir, "%s", joined(f->dir, S(5)));
      assert_string_equal(listing(dir), "manifest.json model.safetensors optim.safetensors");
      for (int i = 0; i < 3; i++)
        bytes[i] = get_file(joined(dir, files[i]), &bytes_count[i]);
      assert_non_null(strstr(bytes[0], "\"version\": 1,"));
      save_world(1, CUT_NONE, 5, rank);
      for (int i = 0; i < 3; i++) {
        char *other = get_file(joined(dir, files[i]), &again);
        assert_int_equal(again, bytes_count[i]);
        assert_memory_equal(other, bytes[i], again);
        ls_free(other);
        ls_free(bytes[i]);
      }
    }
}

static void every_rank_has_files_of_its_own(void **state) {
  rank_t rank[RANKS_MAX];
  save_world(3, CUT_TWICE, 1, rank);
  assert_string_equal(listing(joined(f->dir, S(1))),
                      "manifest.json model-00000-of-00003.safetensors model-00001-of-00003.safetensors "
                      "model-00002-of-00003.safetensors model.safetensors optim-00000-of-00003.safetensors "
                      "optim-00001-of-00003.safetensors optim-00002-of-00003.safetensors optim.safetensors");
}

static void save_with_metric(rank_t *rank) {
  static const double metrics[] = {NAN, 0.5, 0.1, 0.9};
  const int64_t *step = rank->arg;
  rank->status = rows_save(rank, rank->f->dir, *step, metrics[*step], 1);
}

static void retention_and_best_take_pieces_for_one_checkpoint(void **state) {
  rank_t rank[RANKS_MAX];
  for (int64_t step = 1; step <= 3; step++)
    world_run(3, CUT_TWICE, save_with_metric, &step, rank);
  assert_string_equal(listing(f->dir), "best " S(2) " " S(3));
  ls_ckpt_t *best;
  assert_int_equal(ls_ckpt_open_best(f->ctx, f->dir, &best), LS_OK);
  assert_int_equal(ls_ckpt_step(best), 2);
  ls_ckpt_close(best);
  assert_int_equal(world_newest(2), 3);
}

static void ranks_that_do_not_make_up_a_tensor_save_nothing(void **state) {
  static const struct {
    cut_t cut;
    const char *reason;
  } cases[] = {{CUT_OVERLAP, "of 'big' is held twice"}, {CUT_GAP, "element 0 of 'big' is held by no rank"}};
  rank_t rank[RANKS_MAX];
  save_world(2, CUT_TWICE, 1, rank);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    fixture_forget();
    save_world(2, cases[i].cut, 2, rank);
    for (int r = 0; r < 2; r++)
      assert_int_equal(rank[r].status, LS_ERR_INTERNAL);
    assert_contains(f->log, cases[i].reason);
    assert_string_equal(listing(f->dir), S(1));
  }
  fixture_forget();
  save_world(1, CUT_GAP, 2, rank);
  assert_int_equal(rank[0].status, LS_ERR_INTERNAL);
  assert_contains(f->log, "'big', but does not hold all of it");
  assert_string_equal(listing(f->dir), S(1));
}

/* Rank 1 has an infinity in its second range. */
static void save_infinity(rank_t *rank) {
  int big = ls_state_find(rank->table, "big");
  const ls_state_row_t *row = &rank->table->row[big];
  const double inf = INFINITY;
  ls_ckpt_rows_t rows;
  rows_fill(rank, 2);
  int64_t at = row->range[0].end - row->range[0].begin + 3;
  if (rank->rank == 1) memcpy((char *)rank->host[big] + at * 8, &inf, sizeof inf);
  NEED(ls_ckpt_rows(rank->ctx, rank->table, rank->host, &rows) == LS_OK);
  const ls_ckpt_save_t save = rows_request(rank, &rows, 2, NAN);
  char *path;
  rank->status = ls_ckpt_save(rank->ctx, rank->f->dir, &save, 1, &path);
  if (rank->rank == 1) *(int64_t *)rank->arg = row->range[1].begin + 3;
  ls_arena_release(&rows.arena);
}

static void a_rank_that_holds_what_is_not_finite_stops_the_save(void **state) {
  rank_t rank[RANKS_MAX];
  char reason[64];
  int64_t element;
  save_world(3, CUT_TWICE, 1, rank);
  world_run(3, CUT_TWICE, save_infinity, &element, rank);
  for (int r = 0; r < 3; r++)
    assert_int_equal(rank[r].status, LS_ERR_NONFINITE);
  snprintf(reason, sizeof reason, "value %lld of big is not finite", (long long)element);
  assert_contains(f->log, reason);
  assert_string_equal(listing(f->dir), S(1));
}

/* ---- the fingerprint ---- */

static void hash_rows(rank_t *rank) {
  char(*hex)[33] = rank->arg;
  rows_fill(rank, 4);
  rank->status = ls_ckpt_hash(rank->ctx, rank->comm, rank->table, rank->host, hex[rank->rank]);
}

/* The bytes of the model's tensors in name order, whatever lies between them and whoever holds them. */
static void the_fingerprint_is_of_whole_tensors_in_name_order(void **state) {
  char hex[RANKS_MAX][33], want[33];
  rank_t rank[RANKS_MAX];
  save_world(1, CUT_NONE, 4, rank);
  size_t size;
  char *bytes = get_file(joined(joined(f->dir, S(4)), LS_MODEL_NAME), &size);
  ls_arena_t arena;
  ls_ckpt_tensor_t *tensor;
  int count;
  ls_arena_init(&arena, f->ctx);
  assert_int_equal(image_read(f->ctx, &arena, "x", bytes, size, &tensor, &count), LS_OK);
  XXH3_state_t *hash = XXH3_createState();
  XXH3_128bits_reset(hash);
  static const char *const names[] = {"a.bias", "b.weight", "big", "c.frozen", "half"};
  assert_int_equal(count, LS_COUNT(names));
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++)
      if (strcmp(tensor[k].name, names[i]) == 0)
        XXH3_128bits_update(hash, tensor[k].data, ls_shape_bytes(&tensor[k].shape));
  ls_hash_text(XXH3_128bits_digest(hash), want);
  XXH3_freeState(hash);
  ls_arena_release(&arena);
  ls_free(bytes);
  for (int size_of_world = 1; size_of_world <= RANKS_MAX; size_of_world++) {
    world_run(size_of_world, CUT_TWICE, hash_rows, hex, rank);
    for (int r = 0; r < size_of_world; r++) {
      assert_int_equal(rank[r].status, LS_OK);
      assert_string_equal(hex[r], want);
    }
  }
}

/* ---- what is refused ---- */

/* Changes the manifest of step 1 and seals it again. */
static void edit_manifest(void (*edit)(json_t *root, json_t *tensors)) {
  char *path = joined(joined(f->dir, S(1)), LS_MANIFEST_NAME);
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  edit(root, json_object_get(root, "tensors"));
  json_object_del(root, "manifest_xxh3_128");
  char *dumped = json_dumps(root, JSON_INDENT(2));
  size_t size = strlen(dumped) - 2;
  char *text = malloc(size + LS_MANIFEST_SEAL_BYTES + 1);
  memcpy(text, dumped, size);
  ls_manifest_seal(text, size, text + size);
  put_file(path, text, size + LS_MANIFEST_SEAL_BYTES);
  free(text);
  free(dumped);
  json_decref(root);
}

static json_t *tensor_named(json_t *tensors, const char *name) {
  size_t i;
  json_t *t;
  json_array_foreach(tensors, i, t) {
    if (strcmp(json_string_value(json_object_get(t, "name")), name) == 0) return t;
  }
  return NULL;
}
static json_t *piece_of(json_t *tensors, size_t i) {
  return json_array_get(json_object_get(tensor_named(tensors, "big"), "pieces"), i);
}

static void other_file(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set(piece_of(tensors, 0), "file", json_object_get(piece_of(tensors, 1), "file"));
}
static void other_part(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set_new(piece_of(tensors, 0), "file", json_string("optim-00000-of-00002.safetensors"));
}
static void whole_file(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set_new(piece_of(tensors, 0), "file", json_string(LS_MODEL_NAME));
}
static void moved_cut(json_t *root, json_t *tensors) {
  (void)root;
  json_int_t cut = json_integer_value(json_object_get(piece_of(tensors, 0), "end")) - 1;
  json_object_set_new(piece_of(tensors, 0), "end", json_integer(cut));
  json_object_set_new(piece_of(tensors, 1), "begin", json_integer(cut));
}
static void shorter(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set_new(tensor_named(tensors, "big"), "shape", json_pack("[I]", (json_int_t)rows_big - 1));
  json_object_set_new(piece_of(tensors, 3), "end", json_integer(rows_big - 1));
}
static void other_dtype(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set_new(tensor_named(tensors, "big"), "dtype", json_string("I64"));
}
static void twice(json_t *root, json_t *tensors) {
  (void)root;
  json_object_set_new(tensor_named(tensors, "half"), "name", json_string("a.bias"));
}
static void left_out(json_t *root, json_t *tensors) {
  (void)root;
  for (size_t i = json_array_size(tensors); i-- > 0;)
    if (json_array_get(tensors, i) == tensor_named(tensors, "half")) json_array_remove(tensors, i);
}
static void unlisted(json_t *root, json_t *tensors) {
  (void)tensors;
  json_t *files = json_object_get(root, "files");
  for (size_t i = json_array_size(files); i-- > 0;)
    if (strstr(json_string_value(json_object_get(json_array_get(files, i), "name")), "model-00001"))
      json_array_remove(files, i);
}
static void hostile_name(json_t *root, json_t *tensors) {
  (void)tensors;
  json_object_set_new(json_array_get(json_object_get(root, "files"), 0), "name",
                      json_string("../" S(2) "/model.safetensors"));
}

static void refuses_pieces_that_contradict_their_files(void **state) {
  static const struct {
    void (*edit)(json_t *root, json_t *tensors);
    const char *reason[2];
  } cases[] = {
      {other_file, {"model-00001-of-00002.safetensors: tensor 'big' has fewer elements", ""}},
      {other_part, {"optim-00000-of-00002.safetensors: tensor 'big' is not there", ""}},
      {whole_file, {"model.safetensors: tensor 'big' is not there", ""}},
      {moved_cut, {"tensor 'big' has fewer elements than its pieces", "model-00001-of-00002"}},
      {shorter, {"tensor 'big' has more elements than its pieces", "model-00000-of-00002"}},
      {other_dtype, {"tensor 'big' is not a flat piece of the dtype", "model-0000"}},
      {twice, {"model.safetensors: tensor 'a.bias' is also in pieces", ""}},
      {left_out, {"tensor 'half' has more elements than its pieces", "model-0000"}},
      {unlisted, {"manifest.json: tensor", "has a piece in a file that is not listed"}},
      {hostile_name, {"a plain file name expected", "manifest.json"}},
  };
  rank_t rank[RANKS_MAX];
  for (int i = 0; i < LS_COUNT(cases); i++) {
    save_world(2, CUT_TWICE, 1, rank);
    edit_manifest(cases[i].edit);
    fixture_forget();
    ls_ckpt_t *ckpt;
    assert_refused(ls_ckpt_open(f->ctx, joined(f->dir, S(1)), &ckpt), LS_ERR_CORRUPT, cases[i].reason[0]);
    assert_contains(ls_ctx_error(f->ctx), cases[i].reason[1]);
  }
}

/* Each file of a rank is missing, cut or altered: the older checkpoint is taken, and the file is named. */
static void a_missing_or_altered_piece_is_named_and_the_older_checkpoint_taken(void **state) {
  static const char *const files[] = {"model-00001-of-00002.safetensors", "optim-00000-of-00002.safetensors"};
  rank_t rank[RANKS_MAX];
  for (int i = 0; i < LS_COUNT(files); i++)
    for (int fault = 0; fault < 3; fault++) {
      save_world(2, CUT_TWICE, 1, rank);
      save_world(2, CUT_TWICE, 2, rank);
      char *path = joined(joined(f->dir, S(2)), files[i]);
      size_t size;
      char *bytes = get_file(path, &size);
      bytes[size - 1] ^= 1;
      assert_int_equal(unlink(path), 0);
      if (fault > 0) put_file(path, bytes, fault == 1 ? size - 1 : size);
      ls_free(bytes);
      fixture_forget();
      assert_int_equal(world_newest(3), 1);
      assert_contains(f->log, files[i]);
    }
}

/* Another rank sees another manifest under that name. */
static void load_replaced(rank_t *rank) {
  ls_ckpt_t *ckpt = NULL;
  if (rank->rank == 0) {
    char *dir = joined(rank->f->dir, S(1));
    NEED(ls_ckpt_open(rank->ctx, dir, &ckpt) == LS_OK);
    NEED(ls_dir_remove(rank->ctx, dir) == LS_OK);
    NEED(rename(joined(rank->f->dir, S(2)), dir) == 0);
  }
  rank->status = ls_ckpt_load(rank->ctx, rank->comm, ckpt, rank->table, rank->host, false);
  ls_ckpt_close(ckpt);
}

static void ranks_do_not_mix_two_checkpoints(void **state) {
  rank_t rank[RANKS_MAX];
  save_world(2, CUT_TWICE, 1, rank);
  save_world(2, CUT_TWICE, 2, rank);
  world_run(2, CUT_TWICE, load_replaced, NULL, rank);
  for (int r = 0; r < 2; r++)
    assert_int_equal(rank[r].status, LS_ERR_CORRUPT);
  assert_contains(f->log, "is not the manifest that rank 0 has read");
}

TESTS(fixture_setup, fixture_teardown, any_world_reads_what_any_other_has_saved,
      ranks_that_hold_the_same_save_what_one_rank_saves, every_rank_has_files_of_its_own,
      retention_and_best_take_pieces_for_one_checkpoint, ranks_that_do_not_make_up_a_tensor_save_nothing,
      a_rank_that_holds_what_is_not_finite_stops_the_save, the_fingerprint_is_of_whole_tensors_in_name_order,
      refuses_pieces_that_contradict_their_files,
      a_missing_or_altered_piece_is_named_and_the_older_checkpoint_taken, ranks_do_not_mix_two_checkpoints)
