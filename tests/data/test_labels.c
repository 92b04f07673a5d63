/* Text labels of a CSV file as classes: numbers by the order of names, those of a checkpoint, refusals. */
#include "common.h"

static const ls_data_want_t want = {.inputs = 1, .outputs = 3, .classes = true};

static ls_status_t open_labels(ls_ctx_t *ctx, const char *text, const char *held, ls_strings_t given,
                               bool trained, ls_dataset_t **d) {
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("t.csv", text, strlen(text)),
                             .target = NAMES("kind"),
                             .labels = given,
                             .classes_trained = trained};
  if (held) config.validation_path = file_make("v.csv", held, strlen(held));
  return ls_dataset_open(ctx, &config, NULL, &want, 7, NULL, d);
}

static void assert_classes(const ls_dataset_t *d, int count, const int32_t *expected) {
  assert_int_equal(d->rows, count);
  assert_memory_equal(d->targets, expected, (size_t)count * sizeof *expected);
}

static void numbers_follow_the_names(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(open_labels(said.ctx, "x,kind\n1,oak\n2,\"a \"\"b\"\"\"\n3, elm \n4,oak\n",
                               "x,kind\n5,elm\n", (ls_strings_t){0}, false, &d),
                   LS_OK);
  assert_int_equal(d->labels.count, 3);
  assert_string_equal(d->labels.v[0], "a \"b\"");
  assert_string_equal(d->labels.v[1], "elm");
  assert_string_equal(d->labels.v[2], "oak");
  assert_classes(d, 5, (const int32_t[]){2, 0, 1, 2, 1});
  ls_dataset_close(d);
}

/* The first label with a value says whether labels are texts, and quotes make a name of what stands for no value. */
static void quoted_gaps_are_names(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(
      open_labels(said.ctx, "x,kind\n1,\"NA\"\n2,oak\n3,\"?\"\n", NULL, (ls_strings_t){0}, false, &d), LS_OK);
  assert_classes(d, 3, (const int32_t[]){1, 2, 0});
  ls_dataset_close(d);
  assert_int_equal(open_labels(said.ctx, "x,kind\n1,NA\n", NULL, (ls_strings_t)NAMES("NA", "oak"), true, &d),
                   LS_OK);
  assert_classes(d, 1, (const int32_t[]){0}); /* of a checkpoint that has such a class */
  ls_dataset_close(d);
}

static void a_checkpoint_keeps_its_numbers(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(open_labels(said.ctx, "x,kind\n1,oak\n2,elm\n", NULL,
                               (ls_strings_t)NAMES("ash", "elm", "oak"), true, &d),
                   LS_OK);
  assert_classes(d, 2, (const int32_t[]){2, 1});
  assert_int_equal(d->labels.count, 3);
  ls_dataset_close(d);
}

static void more_units_than_labels(void **state) {
  ls_dataset_t *d = NULL;
  ls_strings_t all;
  assert_int_equal(open_labels(said.ctx, "x,kind\n1,oak\n2,elm\n", NULL, (ls_strings_t){0}, false, &d),
                   LS_OK);
  assert_said("t.csv: 2 labels, but the model's last layer has 3 units: classes from 2 on have no label");
  assert_int_equal(ls_class_names(&d->arena, &d->labels, 3, &all), LS_OK);
  assert_string_equal(all.v[1], "oak");
  assert_string_equal(all.v[2], "2");
  ls_dataset_close(d);
  said_clear(); /* a checkpoint's were warned of when it was trained */
  assert_int_equal(
      open_labels(said.ctx, "x,kind\n1,oak\n", NULL, (ls_strings_t)NAMES("elm", "oak"), true, &d), LS_OK);
  assert_string_equal(said.messages, "");
  ls_dataset_close(d);
}

static void numbers_stay_numbers(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(open_labels(said.ctx, "x,kind\n1,2\n2,0\n", NULL, (ls_strings_t){0}, false, &d), LS_OK);
  assert_classes(d, 2, (const int32_t[]){2, 0});
  assert_int_equal(d->labels.count, 0);
  ls_dataset_close(d);
}

static void refusals(void **state) {
  const struct {
    const char *text, *held;
    ls_strings_t given;
    bool trained;
    const char *why;
  } cases[] = {
      {"x,kind\n1,a\n2,b\n",
       "x,kind\n1,a\n2,c\n",
       {0},
       false,
       "v.csv:3:3: column 'kind': label 'c' is none of the 2 that the model was trained on"},
      {"x,kind\n1,a\n2,b\n3,c\n4,d\n",
       NULL,
       {0},
       false,
       "t.csv:5:3: column 'kind': 'd' is label number 4, but the model's last layer has 3 units"},
      {"x,kind\n1,a\n2,\n", NULL, {0}, false, "t.csv:3:3: column 'kind': empty cell where a label is needed"},
      {"x,kind\n1,\n2,a\n",
       NULL,
       {0},
       false,
       "t.csv:2:3: column 'kind': empty cell where a label is needed, and a target is never missing: remove "
       "the row"},
      {"x,kind\n1,\"NA\"\n2,oak\n",
       "x,kind\n3,\"NA\"\n4,NA\n",
       {0},
       false,
       "v.csv:3:3: column 'kind': 'NA' stands for a missing value, and a target is never missing: remove the "
       "row"},
      {"x,kind\n1,NA\n", NULL, NAMES("ash", "oak"), true,
       "t.csv:2:3: column 'kind': 'NA' stands for a missing value"},
      {"x,kind\n1,NA\n2,\n3,a\n",
       NULL,
       {0},
       false,
       "t.csv:2:3: column 'kind': 'NA' stands for a missing value, and a target is never missing: remove the "
       "row, or "
       "put the cell in quotes if a class has this name"},
      {"x,kind\n1,NA\n2,0\n3,1\n",
       NULL,
       {0},
       false,
       "t.csv:2:3: column 'kind': 'NA' is not a finite number, and a target is never missing: remove the "
       "row"},
      {"x,kind\n1,a\n2,\xff\n", NULL, {0}, false, "column 'kind': the label is not UTF-8"},
      {"x,kind\n1,\n2,0\n3,a\n",
       NULL,
       {0},
       false,
       "t.csv:4:3: column 'kind': 'a' is not a finite number, but the first label is one ('0' in line 3 of "},
      {"x,kind\n1,0\n2,a\n", NULL, {0}, false, "give class numbers alone, or texts alone"},
      {"x,kind\n1,0\n2,1\n",
       "x,kind\n1,a\n2,b\n",
       {0},
       false,
       "v.csv:2:3: column 'kind': 'a' is not a finite number"},
      {"x,kind\n1,b\n", NULL, NAMES("a"), true, "label 'b' is none of the 1 that the model was trained on"},
      {"x,kind\n1,b\n",
       NULL,
       {0},
       true,
       "t.csv:2:3: column 'kind': 'b' is not a finite number, but the model was trained on class numbers"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_dataset_t *d = NULL;
    said_clear();
    assert_refused(open_labels(said.ctx, cases[i].text, cases[i].held, cases[i].given, cases[i].trained, &d),
                   LS_ERR_DATA, cases[i].why);
    files_remove();
  }
}

static void allocation_failures(void **state) {
  static const char text[] = "x,kind\n1,oak\n2,elm\n";
  ls_data_config_t config = {
      .kind = LS_DATA_CSV, .path = file_make("t.csv", text, sizeof text - 1), .target = NAMES("kind")};
  each_alloc_fails(dataset_attempt, &(dataset_attempt_t){&config, &want});
}

TESTS(said_open, said_close, numbers_follow_the_names, a_checkpoint_keeps_its_numbers, more_units_than_labels,
      numbers_stay_numbers, quoted_gaps_are_names, refusals, allocation_failures)
