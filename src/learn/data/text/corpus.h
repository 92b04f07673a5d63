/* Text as one long row of tokens. Tokens stay where they are, mostly in mapped files; samples are windows of them,
 * and each position's target is the token that follows it. A row of such a dataset is the place of a window's first
 * token, counted over all files. */
#ifndef LS_DATA_CORPUS_H
#define LS_DATA_CORPUS_H

#include "data/read.h"

/* The tokens of one file: places [first, first + count). */
typedef struct {
  const char *path;
  ls_view_t view; /* of the file; closed where `own` is in its place */
  void *own;      /* characters as numbers; NULL: the tokens are in the file */
  const void *tokens;
  int64_t first, count;
} ls_corpus_file_t;

/* A run of tokens that windows do not leave: a file, or a file's share of a part. */
typedef struct {
  int64_t first, count;
  int64_t windows, starts; /* of the part, before this piece */
} ls_corpus_piece_t;

typedef struct {
  ls_corpus_piece_t *piece;
  int pieces;
  int64_t stride;  /* between the first tokens of windows that are counted */
  int64_t windows; /* counted, all of them whole */
  int64_t starts;  /* places at which a window can begin */
} ls_corpus_part_t;

struct ls_corpus {
  int64_t context;
  bool random; /* training windows begin anywhere */
  ls_dtype_t dtype;
  const uint8_t *code; /* (256) u8: the number of the character of that byte; NULL: bytes are tokens */
  ls_corpus_file_t *file;
  int files, train_files;    /* files from train_files on are validation files */
  ls_corpus_part_t part[2];  /* of ls_part_t */
  ls_corpus_piece_t *pieces; /* (2 (files + 1)) memory of the parts */
  double masked; /* share of tokens that are to be found again; 0: each next token is the target */
  int64_t mask_token, tokens; /* .. and how many there are */
  int32_t ignored;            /* target of the other places */
};

/* corpus_open.c: files, tokens and vocabulary of dataset->corpus, whose memory is in the dataset's arena. Checks that
 * every token is one of want->outputs. LS_ERR_DATA, LS_ERR_MISMATCH (a character that the checkpoint's vocabulary
 * does not have), LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_MEMORY. */
ls_status_t ls_corpus_read(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_dataset_t *dataset);
/* Bytes of files that are not mapped. Pure. */
int64_t ls_corpus_bytes(const ls_corpus_t *corpus);
/* Guesses the tokens of a viewed file: a ls_tokens_t that is neither auto nor bytes. */
int ls_corpus_guess(const ls_corpus_file_t *file);
/* Reads a viewed file as numbers of that dtype, with or without llm.c's header. A header of another version is read
 * as tokens, with a warning, if the user has `chosen` the dtype; else LS_ERR_UNSUPPORTED. LS_ERR_DATA: among
 * others, u16 that the user has not chosen and that look like halves of i32. */
ls_status_t ls_corpus_numbers(ls_ctx_t *ctx, ls_dtype_t dtype, bool chosen, ls_corpus_file_t *file);
/* Writes that header, for u16 or i32. */
enum { LS_CORPUS_HEADER_BYTES = 1024 };
void ls_corpus_header(ls_dtype_t dtype, int32_t tokens, char header[LS_CORPUS_HEADER_BYTES]);
void ls_corpus_close(ls_corpus_t *corpus); /* NULL is fine */

/* corpus.c: the whole dataset from its files. Errors also: LS_ERR_CONFIG, a model that does not go with windows. */
ls_status_t ls_corpus_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_dataset_t *dataset);
/* The last `validation` part of the tokens is held out, unless there are validation files. LS_ERR_DATA. */
ls_status_t ls_corpus_split(ls_ctx_t *ctx, double validation, ls_dataset_t *dataset);
/* The row of a part's counted window `index`, and of the window that begins anywhere in the part, at `position` of the
 * stream of samples. Pure. */
int64_t ls_corpus_window(const ls_corpus_part_t *part, int64_t index);
int64_t ls_corpus_random(const ls_corpus_part_t *part, uint64_t seed, uint64_t position);
/* One window: x (context) of the stream's dtype, target (context) i32. */
/* Masked language modelling (Devlin et al. 2019), in place: of the window's tokens x at `position` of the stream, a share has
 * itself as target; 80 % of those become mask_token, 10 % any token, the others stay. All other targets are ignored. Returns
 * how many have a target; x and target NULL: only counts. A pure function of seed and position. */
int64_t ls_corpus_mask(const ls_corpus_t *corpus, uint64_t seed, uint64_t position, void *x, int32_t *target);
void ls_corpus_put(const ls_corpus_t *corpus, int64_t row, void *x, int32_t *target);
/* Hashes the tokens as they are kept: those of validation files, or of the others. Large files are sampled. */
uint64_t ls_corpus_hash(const ls_corpus_t *corpus, bool held, uint64_t seed);

#endif
