/* The making of a trainer, for the stages of create.c alone. */
#ifndef LS_TRAIN_MAKING_H
#define LS_TRAIN_MAKING_H

#include "train/trainer.h"

/* Values that one stage leaves for a later one. */
typedef struct {
  const ls_trainer_options_t *options;
  ls_ckpt_t *ckpt;  /* rank 0: the checkpoint or weights that the options name; NULL: none */
  json_t *meta;     /* every rank: the checkpoint's meta data; NULL: a new run */
  ls_saved_t saved; /* the same, read and checked */
  ls_ckpt_t *int8;  /* a file of 8-bit weights; NULL: none */
} ls_making_t;

/* begin.c. Collective. */
ls_status_t ls_making_checkpoint(ls_trainer_t *t, ls_making_t *m); /* ckpt, meta and the run's step */
ls_status_t ls_making_data(ls_trainer_t *t, ls_making_t *m);       /* saved, the dataset and its split */
/* Sets the run's length and position in the stream of samples. Local. */
ls_status_t ls_making_run(ls_trainer_t *t, ls_making_t *m);

#endif
