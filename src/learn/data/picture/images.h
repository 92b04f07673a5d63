/* Pictures, in files of their own or as rows of an array: which there are, and samples made of them. A sample is made
 * whenever a batch needs it, or once at the beginning (ls_dataset_t.features). */
#ifndef LS_DATA_IMAGES_H
#define LS_DATA_IMAGES_H

#include "data/parts.h"
#include "data/picture/augment.h"

struct ls_images {
  int height, width, channels; /* of a sample */
  int64_t resize;    /* pixels of the shorter side before the centre is cut out; 0: the whole is the sample */
  int scale;         /* ls_scale_t */
  bool random;       /* training samples are random parts */
  double area;       /* of which each is at least this part of the picture */
  uint64_t *name_at; /* (rows) where a file's name begins in `names` */
  char *
      names; /* (names_bytes) two folders, of training and validation files, then the files' paths below them */
  size_t names_bytes; /* 0: pictures are rows of an array, */
  ls_picture_t each;  /* .. all of this size, */
  uint8_t
      *pixels; /* .. (rows, each); NULL: in the dataset's mapped files, or samples are made of them already */
  _Atomic int64_t work_bytes; /* the most memory that a thread used to make samples */
};

/* images_list.c: fills the list from folders or CSV files, and the classes from dataset->labels' memory `labels`.
 * LS_ERR_DATA: no classes, an empty one, one that the model or the checkpoint does not have; LS_ERR_NOT_FOUND,
 * LS_ERR_IO, LS_ERR_MEMORY. */
ls_status_t ls_images_list(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_labels_t *labels, ls_dataset_t *dataset);
/* The same for a folder's images at any depth, or a single file, without classes; *count of them. Errors as above. */
ls_status_t ls_images_find(ls_ctx_t *ctx, const char *path, ls_images_t *images, int64_t *count);
/* The same for those that the text of a CSV file names, at `path`; whether a text is one, by its header. */
ls_status_t ls_images_read_list(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                                const char *name, const char *text, size_t size, ls_images_t *images,
                                int64_t *count);
bool ls_images_is_list(const ls_data_config_t *config, const char *text, size_t size);
/* The path of row `row`, in `path`. LS_ERR_MEMORY. */
ls_status_t ls_images_path(const ls_dataset_t *dataset, int64_t row, char **path);

/* Makes dataset->images of an array of bytes whose rows are `row`; their pixels are set by the caller. LS_ERR_CONFIG,
 * LS_ERR_DATA: rows that are no pictures; LS_ERR_MEMORY. */
ls_status_t ls_images_array(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                            const char *name, const ls_shape_t *row, ls_dataset_t *dataset);
/* Once pictures, classes and the split are known: how samples are made, the samples themselves if that happens once (an
 * array's pixels are then let go), and their normalisation (how->pictures is the section). Errors also: as
 * ls_images_decode. */
ls_status_t ls_images_ready(ls_ctx_t *ctx, const ls_normalize_t *how, ls_matrix_t *targets,
                            ls_dataset_t *dataset);
/* Mean and scale of the samples, by channel: given, of the section, or measured. Fills those of dataset->norm, too. Errors as
 * ls_images_decode. */
ls_status_t ls_images_normalize(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_norm_t *given,
                                ls_dataset_t *dataset);
/* The whole dataset of files. Errors also: LS_ERR_CONFIG, sizes that do not go together; LS_ERR_MISMATCH. */
ls_status_t ls_images_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           const ls_norm_t *norm, ls_labels_t *labels, ls_dataset_t *dataset);
/* images_make.c: reads a whole file into `room`. LS_ERR_DATA, LS_ERR_IO, LS_ERR_NOT_FOUND, LS_ERR_MEMORY. */
ls_status_t ls_images_read(ls_ctx_t *ctx, const char *path, ls_room_t *room, size_t *size);
static inline size_t ls_images_each_bytes(const ls_images_t *images) { /* of an array's picture */
  return images->each.stride * (size_t)images->each.height;
}
/* One sample from its picture, at `position` of the stream of samples if it is `drawn`. Errors: LS_ERR_DATA, LS_ERR_IO,
 * LS_ERR_NOT_FOUND, LS_ERR_MEMORY, with the file's name. */
ls_status_t ls_images_put(const ls_dataset_t *dataset, int64_t row, bool drawn, uint64_t seed,
                          uint64_t position, ls_batch_work_t *work, uint8_t *to);
/* `count` samples as they are evaluated, rows `row`, or with NULL those from `first` on, by all processors. to NULL:
 * they are thrown away, and up to ten bad ones are reported. Errors as ls_images_put. */
ls_status_t ls_images_decode(ls_ctx_t *ctx, const ls_dataset_t *dataset, const int64_t *row, int64_t first,
                             int64_t count, uint8_t *to);
/* A picture as it is evaluated, of whatever size. LS_ERR_MEMORY. */
ls_status_t ls_images_fit(ls_ctx_t *ctx, const ls_images_t *images, ls_batch_work_t *work,
                          ls_picture_t *picture);
/* The settings of the section for samples of `x`. LS_ERR_CONFIG. */
ls_status_t ls_images_settings(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_shape_t *x,
                               ls_images_t *images);
/* Factors for data.mean and data.std, which ls_images_settings has checked. A channel's byte b
 * becomes (b - *mean) * *scale. */
void ls_images_unit(const ls_data_config_t *config, int channel, float *mean, float *scale);
/* Names and classes of rows from `first` on, and the bytes of some files among them; of arrays the classes and some
 * samples, as they are evaluated. */
uint64_t ls_images_hash(const ls_dataset_t *dataset, int64_t first, int64_t count, uint64_t seed);
int64_t ls_images_bytes(const ls_dataset_t *dataset);      /* of the list, or the pixels */
size_t ls_images_pixel_bytes(const ls_dataset_t *dataset); /* of the pixels alone */
void ls_images_close(ls_images_t *images);                 /* NULL is fine */

#endif
