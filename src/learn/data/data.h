/* Training data: readers, split, order, batches filled ahead of time. Data are held in memory as rows of one
 * shape and dtype: images as bytes, tokens as integers, everything else as f32.
 *
 * Order: epoch e visits training sample order(seed, e, i) for i = 0 .. n-1, a keyed bijection: nothing is
 * stored, every rank computes it, and every sample comes exactly once per epoch. The run is one endless
 * stream of positions: position p is index p mod n of epoch p / n; step s covers positions origin + s * batch
 * .. + batch - 1 (a batch may reach into the next epoch). Positions from total_samples on are padding
 * of weight 0. */
#ifndef LS_DATA_DATA_H
#define LS_DATA_DATA_H

#include "base/base.h"
#include "device/kernel.h"
#include <lockstep/data.h>

typedef enum {
  LS_DATA_IDX,
  LS_DATA_CSV,
  LS_DATA_NPY,
  LS_DATA_TEXT,
  LS_DATA_IMAGES,
  LS_DATA_SYNTHETIC,
  LS_DATA_MEMORY
} ls_data_kind_t;
/* text: what a token is, and where training windows begin. */
typedef enum {
  LS_TOKENS_AUTO,
  LS_TOKENS_CHARACTERS,
  LS_TOKENS_BYTES,
  LS_TOKENS_U16,
  LS_TOKENS_I32
} ls_tokens_t;
typedef enum { LS_WINDOWS_RANDOM, LS_WINDOWS_STRIDED } ls_windows_t;

/* csv: a cell without a value. */
typedef enum { LS_MISSING_ERROR, LS_MISSING_MEAN, LS_MISSING_INDICATOR } ls_missing_t;
/* npy: whether features stay in their files. */
typedef enum { LS_MAPPED_AUTO, LS_MAPPED_TRUE, LS_MAPPED_FALSE } ls_mapped_choice_t;
/* csv: date columns that the configuration does not name. */
typedef enum { LS_DATES_SKIP, LS_DATES_PARTS } ls_dates_t;

/* images: what training takes of a picture, and when pictures are decoded: once if they fit, once, for each batch. */
typedef enum { LS_CROP_CENTRE, LS_CROP_RANDOM } ls_crop_t;
typedef enum { LS_DECODE_AUTO, LS_DECODE_ONCE, LS_DECODE_ALWAYS } ls_decode_t;

typedef enum { LS_RESIDENT_AUTO, LS_RESIDENT_TRUE, LS_RESIDENT_FALSE } ls_resident_t;

/* Section data. */
typedef struct {
  int kind;              /* ls_data_kind_t (files cannot select MEMORY) */
  const char *features;  /* idx, npy: file */
  const char *targets;   /* idx, npy: file */
  const char *path;      /* csv: file; text: file, or all that match; images: folder or CSV file */
  ls_strings_t target;   /* csv: target columns; images: the label's, if the path is a CSV file */
  ls_strings_t columns;  /* csv: feature columns; empty = every other column that is not a date */
  bool columns_trained;  /* the columns come from a checkpoint: if one is missing, the data do not belong
                          * to it */
  const char *delimiter; /* csv: between cells; "auto" or NULL: found in the header */
  double validation;     /* share of the samples held out for validation, [0, 1) */
  int64_t split_seed;    /* of which samples those are; -1 = train.seed */
  const char *validation_features, *validation_targets; /* idx, npy: files held out, or NULL */
  const char *validation_path;                          /* csv, text: the same */
  int tokens;                                           /* text: ls_tokens_t */
  int windows;                                          /* text: ls_windows_t */
  int64_t context;                                      /* text: tokens of a sample; 0 = follow the model */
  int64_t stride;                                       /* text, csv: between windows; 0 = context, 1 */
  double masked;      /* text: share of tokens that are to be found again; 0: each next token is */
  int64_t mask_token; /* .. and a value that stands for most of them */
  int64_t window,
      horizon; /* csv: rows of a sample (0: each row is one); rows from its last to the target's */
  ls_strings_t vocabulary; /* text: characters of a checkpoint; empty: found in the files */
  ls_strings_t labels;     /* csv: labels of a checkpoint's classes, in the order of their numbers */
  bool classes_trained;    /* there is a checkpoint: classes have its labels, or none */
  int mapped;              /* npy: ls_mapped_choice_t */
  int missing;             /* csv: ls_missing_t */
  ls_strings_t indicators; /* csv: of a checkpoint: columns that have an indicator of gaps, .. */
  bool indicators_trained; /* .. or it has none; else those with gaps in the training file */
  int dates;               /* csv: ls_dates_t */
  bool normalize;
  /* images, and idx and npy as ls_data_pictures says: */
  int64_t resize;    /* pixels of the shorter side before the crop; 0: the whole becomes the sample */
  int interpolation; /* ls_scale_t */
  int crop;          /* ls_crop_t */
  double crop_area;  /* least part of the picture that a random crop covers */
  int64_t padding;   /* images, idx, npy: pixels around a training image before its size is cut out of it */
  bool flip;         /* images, idx, npy: half of the training images, left to right */
  ls_floats_t mean, std;   /* pictures: of each channel, as parts of 255; empty: 0 and 1 */
  int decode;              /* pictures: ls_decode_t */
  int resident;            /* ls_resident_t: whether the samples stay on the device (train/data.c) */
  int64_t samples;         /* synthetic */
  int64_t inputs, outputs; /* synthetic: 0 = follow the model */
  double noise;            /* synthetic: standard deviation added to the teacher's outputs */
  int64_t data_seed;       /* synthetic */
} ls_data_config_t;
extern const ls_section_t ls_data_section;

/* The needs of the model, checked against the files. */
typedef struct {
  int64_t inputs;    /* features per sample */
  int64_t outputs;   /* classes, or width of the targets */
  bool classes;      /* integer targets in [0, outputs) */
  bool labels;       /* real targets in [0, 1], never normalised */
  int64_t positions; /* number of them per sample; 0 = one */
  bool whole;        /* features are whole numbers (tokens) and stay so: u8, u16 or i32, never normalised */
  int64_t ids;       /* whole: they are below this; 0 = any */
  int64_t ignored;   /* positions: a class of no output that targets may hold all the same */
  ls_shape_t x;      /* the model's input: a sample's dimensions */
  bool preset;       /* .. which its sizes give, as model.image */
} ls_data_want_t;

/* One sample and its target, without the rows: their shapes, and the dtypes in which they are kept, sent and
 * given to the graph. */
typedef struct {
  ls_shape_t x;      /* f32 (features); u8 (28, 28); u16 or i32 (positions) */
  ls_shape_t target; /* f32 (outputs); i32 (): a class; i32 (positions) */
} ls_sample_t;

typedef enum { LS_PART_TRAIN, LS_PART_VALIDATION } ls_part_t;

typedef struct ls_corpus ls_corpus_t; /* data/corpus.h */
typedef struct ls_images ls_images_t; /* data/images.h */
typedef struct ls_mapped ls_mapped_t; /* data/mapped.h */

/* Random changes of a training image, (height, width) pixels. */
typedef struct {
  int64_t height, width;
  size_t pixel_bytes;
  int padding; /* shifts by at most so many pixels in each direction */
  bool flip;
} ls_augment_t;

/* x' = (x - mean) * scale, per column (csv, npy, synthetic) or one value for all (idx: pixels share a unit).
 * Computed on the training part. Constant columns get scale 1. The mean is f64, because a column may be far
 * from 0; if f32 holds every measured value, the mean is f32, too. */
typedef struct {
  int64_t inputs, outputs;     /* widths; outputs 0 for classes */
  double *mean, *target_mean;  /* (inputs), (outputs); real targets are normalised too */
  float *scale, *target_scale; /* (inputs), (outputs) */
} ls_norm_t;

/* One value, in f64: the same mean and scale give the same bits, and no difference overflows. */
static inline float ls_norm_value(double x, double mean, float scale) {
  return (float)((x - mean) * (double)scale);
}

typedef struct {
  ls_arena_t arena;
  int64_t rows, inputs, outputs;
  bool classes;
  ls_sample_t sample;
  void *features; /* (rows, sample.x): f32 normalised; bytes and tokens as read, for the device to convert: */
  float mean[LS_STEP_CHANNELS],
      scale[LS_STEP_CHANNELS]; /* x' = (x - mean) * scale, by channel of images in colour, else
                                                          * all alike; 0 and 1 where they are f32 or tokens */
  void *targets;               /* (rows, sample.target), f32 normalised */
  ls_corpus_t
      *corpus; /* text: features and targets are windows of it, and both are NULL; a row is a window's place.
                        * NULL: samples are rows */
  ls_mapped_t *mapped; /* npy: features, or pictures, stay in their files, and are NULL here; else NULL */
  ls_images_t
      *images; /* pictures of files or arrays; features is NULL if samples are made of them for each batch */
  ls_augment_t augment;
  ls_strings_t
      vocabulary; /* text: the characters, in the order of their numbers; empty: tokens are numbers */
  ls_strings_t
      labels; /* csv: names of the classes, in the order of their numbers; empty: they have none. Only of the
                        * process that has read the file */
  int64_t train_count, validation_count;
  int64_t split_rows; /* rows that are split; the validation part follows. text: windows before the split */
  bool ordered;       /* windows over time: the split keeps their order, the last ones are held out */
  uint64_t seed;      /* of the split */
  ls_norm_t norm;     /* identity when not normalised */
  char source[256];   /* for messages: the file */
  char validation_source[256]; /* the same of a validation part that has files of its own; else "" */
  char **columns;       /* (column_count) names of a row's features, one block; NULL: these data have none */
  int64_t column_count; /* inputs without indicators, or those of one row of a window */
  ls_strings_t indicators; /* columns that have an indicator, after all columns, in the arena */
  int64_t reading_bytes;   /* buffers in addition to the samples, while reading */
  void *
      mapping; /* read-only memory that processes share, with features and targets in it; NULL: they are own */
  size_t mapping_bytes;
} ls_dataset_t;

/* Reads everything, splits with `seed`, normalises. With `norm` (of a checkpoint; NULL = compute) its values
 * are used. `memory` only for LS_DATA_MEMORY, which ignores every file of the section. Errors (LS_ERR_DATA,
 * with file and line, row or offset): unreadable, ragged, not numeric, not finite, sizes that lie, widths or
 * classes the model does not have, a validation part that leaves nothing; LS_ERR_CONFIG: keys that do not go
 * with the kind; LS_ERR_MISMATCH: `norm` is of other widths; LS_ERR_NOT_FOUND, LS_ERR_IO. */
ls_status_t ls_dataset_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_memory_t *memory,
                            const ls_data_want_t *want, uint64_t seed, const ls_norm_t *norm,
                            ls_dataset_t **dataset);
void ls_dataset_close(ls_dataset_t *dataset);
/* Returns LS_ERR_IO, reported with the file's name, if a mapped file of the dataset has faulted (watch.h). Call it
 * after reading samples other than by batches, which check by themselves. */
ls_status_t ls_dataset_check(const ls_dataset_t *dataset);
/* The dtype of a sample as ls_dataset_open leaves it. False: only the files know it (arrays, text). */
bool ls_data_dtype(const ls_data_config_t *config, const ls_data_want_t *want, ls_dtype_t *dtype);

/* share.c. Moves features and targets to memory that other processes of this machine can map while *fd is open; the
 * caller closes it. The move is piece by piece, so there is never a second copy, and the memory is read-only
 * afterwards. If the system has no such memory, logs that, leaves the dataset as it is and sets *fd to -1. Text
 * also sets *fd to -1, silently, because every process maps its files for itself. LS_ERR_MEMORY: memory ran out on
 * the way, and the dataset can only be closed. */
ls_status_t ls_dataset_share(ls_ctx_t *ctx, ls_dataset_t *dataset, int *fd);
/* The same dataset by the path of that file, "/proc/PID/fd/FD". LS_ERR_IO, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_dataset_map(ls_ctx_t *ctx, const char *path, ls_dataset_t **dataset);
void ls_dataset_unmap(ls_dataset_t *dataset); /* lets go of features and targets; of ls_dataset_close */

/* Time that threads have spent on samples, added up. */
typedef struct {
  int64_t read_ns, decode_ns, augment_ns, copy_ns, samples;
} ls_input_times_t;

/* Splits again: `validation` is the part that is held out. Norms stay as they are, and so does a validation
 * part that has files of its own. LS_ERR_DATA. */
ls_status_t ls_dataset_split(ls_ctx_t *ctx, double validation, ls_dataset_t *dataset);
/* Whether the host makes training samples each time: they change at random, or are to be decoded always. Pure. */
bool ls_data_makes(const ls_data_config_t *config);
/* Whether samples are made of pictures: with images always; with idx and npy, whose arrays are then bytes, if a key is given
 * that only pictures have (resize, interpolation, crop, mean, std, decode). Pure. */
bool ls_data_pictures(const ls_data_config_t *config);
/* Reads every file that training would read later, for a batch, so that they are known to be good. The first ten bad
 * ones are reported. ls_batch_fill's errors. */
ls_status_t ls_dataset_verify(ls_ctx_t *ctx, const ls_dataset_t *dataset);
/* How long one thread takes for training samples that are decoded for each batch: some of them, made and thrown away.
 * samples 0: this dataset's are not. ls_batch_fill's errors. */
ls_status_t ls_dataset_time(ls_ctx_t *ctx, const ls_dataset_t *dataset, ls_input_times_t *times);
static inline double ls_input_sample_ns(const ls_input_times_t *t) {
  return t->samples > 0
             ? (double)(t->read_ns + t->decode_ns + t->augment_ns + t->copy_ns) / (double)t->samples
             : 0;
}
/* Whether the given keys belong to the kind, and those that it needs are there. Every error is reported. LS_ERR_CONFIG. */
ls_status_t ls_data_keys_check(ls_ctx_t *ctx, const ls_data_config_t *config);
/* Holds out nothing, neither a part of the samples nor files. */
void ls_data_config_all(ls_data_config_t *config);

/* Names of `count` classes, in the arena: those of `labels`, which are borrowed, and numbers for the rest. LS_ERR_MEMORY. */
ls_status_t ls_class_names(ls_arena_t *arena, const ls_strings_t *labels, int64_t count, ls_strings_t *names);

/* Memory of this process in which samples and targets are kept. Files that are mapped take none. Pure. */
int64_t ls_dataset_bytes(const ls_dataset_t *dataset);
/* The most memory that a thread used so far to make samples of pictures: files, pictures, room to scale them. */
int64_t ls_dataset_work_bytes(const ls_dataset_t *dataset);

/* Fingerprint of `count` samples from row `first` as the model gets them (f32, normalised; classes i32), mapped or
 * in memory: sizes and values, in 16 hexadecimal digits. Reads all samples of up to 64 MiB; of larger data every k-th, so
 * that about 64 MiB are read. Local; pure. */
enum { LS_DATASET_HASH_BYTES = 17 };
void ls_dataset_hash(const ls_dataset_t *dataset, int64_t first, int64_t count,
                     char hex[LS_DATASET_HASH_BYTES]);

/* Features [first, first + count) of a row as the model gets them. Pure. */
void ls_dataset_features(const ls_dataset_t *dataset, int64_t row, int64_t first, int64_t count, float *out);

/* Row of the dataset that is number `index` of a part. Pure. */
int64_t ls_dataset_row(const ls_dataset_t *dataset, ls_part_t part, int64_t index);
/* The same for `count` numbers from `index` on, at most 64, in less time. */
void ls_dataset_rows(const ls_dataset_t *dataset, ls_part_t part, int64_t index, int count, int64_t *row);

/* Channels of images in colour, which have a mean and scale each; else 1. Pure. */
static inline int64_t ls_channels(const ls_shape_t *sample) {
  return sample->rank == 3 && sample->dim[2] > 1 && sample->dim[2] <= LS_STEP_CHANNELS ? sample->dim[2] : 1;
}

/* Destination of one micro-batch: memory of the run's inputs, owned by the caller. */
typedef struct {
  void *x;                /* (rows, sample.x) */
  void *target;           /* (rows, sample.target) */
  float *weight;          /* (rows) */
  ls_step_params_t *step; /* every field is written */
  int32_t *
      row; /* (rows), or NULL: rows of the dataset, in the place of x and target, which are then not written */
} ls_batch_t;

/* The part of each global batch that this rank fills, in `micro_batches` micro-batches: micro-batch m is the `rows` rows of the
 * global batch from first + m * stride on. Rows beyond the end of the batch are padding. */
typedef struct {
  ls_part_t part;
  uint64_t seed;
  bool shuffle; /* false: in part order (evaluation) */
  int64_t global_batch, first, rows;
  int64_t stride; /* >= rows; without effect if micro_batches is 1 */
  int micro_batches;
  int64_t origin;        /* position of step 0; not 0, and possibly < 0, if a run continued with another
                          * batch size */
  int64_t total_samples; /* stream length: epochs * n, or steps * batch */
  int64_t total_steps;
  float (*lr)(void *user, int64_t step); /* NULL: 0. A loader calls it from the thread that fills */
  void *lr_user;
  int threads;         /* threads of a loader that fill a batch; 0: none, the loop's own thread fills it */
  int64_t deadline_ns; /* of a wait for the loader's thread; 0 = none */
  int64_t spin_ns; /* for which that thread looks for a free slot before it sleeps: 0 where cores compute */
  ls_input_times_t *times; /* written when the loader is destroyed; may be NULL */
} ls_loader_spec_t;

/* Fills micro-batch `unit` of the run, number unit % micro_batches of step unit / micro_batches; pure function of its
 * arguments and the files. Weights are 1 / (valid rows of the global batch). Padding rows repeat row 0 of the part with
 * weight 0. Files that are read now, images and mapped ones: LS_ERR_DATA, LS_ERR_IO, LS_ERR_NOT_FOUND, LS_ERR_MEMORY. */
ls_status_t ls_batch_fill(const ls_dataset_t *dataset, const ls_loader_spec_t *spec, int64_t unit,
                          const ls_batch_t *to);
/* The same for one of `parts` contiguous shares of the rows; all shares together fill the micro-batch. `work`: of this
 * thread, zeros at first. */
typedef struct ls_batch_work ls_batch_work_t; /* data/augment.h */
ls_status_t ls_batch_fill_part(const ls_dataset_t *dataset, const ls_loader_spec_t *spec, int64_t unit,
                               const ls_batch_t *to, int part, int parts, ls_batch_work_t *work);
void ls_batch_work_release(ls_batch_work_t *work);
size_t ls_batch_work_bytes(const ls_batch_work_t *work);

/* Fills micro-batches with several threads, of which the caller is one. */
typedef struct ls_filler ls_filler_t;
ls_status_t ls_filler_create(ls_ctx_t *ctx, const ls_dataset_t *dataset, int threads, ls_filler_t **filler);
void ls_filler_destroy(ls_filler_t *filler); /* NULL is fine */
/* ls_batch_fill's errors. */
ls_status_t ls_filler_fill(ls_filler_t *filler, const ls_loader_spec_t *spec, int64_t unit,
                           const ls_batch_t *to);

/* Work done so far. Call it only while nothing is being filled. */
ls_input_times_t ls_filler_times(const ls_filler_t *filler);

/* Fills slots ahead of the loop from threads of its own; with none (a batch that is filled in less time than two
 * threads take to meet), acquire fills the slot. Micro-batch `unit`, counted as above, uses slot unit mod
 * slot_count; the first is that of first_step. Borrowed until destroy: dataset, the slots' memory. Acquire and release come from one thread. Errors: LS_ERR_ARGUMENT (a
 * spec that cannot be filled, an empty part, row numbers beyond i32), LS_ERR_MEMORY. */
typedef struct ls_loader ls_loader_t;
ls_status_t ls_loader_create(ls_ctx_t *ctx, const ls_dataset_t *dataset, const ls_loader_spec_t *spec,
                             int64_t first_step, int slot_count, const ls_batch_t *slots,
                             ls_loader_t **loader);
void ls_loader_destroy(ls_loader_t *loader);
/* Blocks until the micro-batch's slot is filled. Those of steps at or after total_steps return at once (padding
 * is never run). Errors of filling it, already reported; LS_ERR_TIMEOUT. */
ls_status_t ls_loader_acquire(ls_loader_t *loader, int64_t unit);
/* The micro-batch's slot, and those of all before it, may be refilled. */
void ls_loader_release(ls_loader_t *loader, int64_t unit);

#endif
