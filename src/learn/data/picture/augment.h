/* Changes that a training image undergoes on its way into a batch, drawn from (seed, position): whichever rank or thread
 * fills the batch, and wherever the run began, the image is the same. */
#ifndef LS_DATA_AUGMENT_H
#define LS_DATA_AUGMENT_H

#include "data/data.h"
#include "data/picture/picture.h"

/* Scratch of one thread that fills batches, and what it has done. Released by ls_batch_work_release. */
struct ls_batch_work {
  ls_room_t file, pixels, scratch, scaled;
  ls_input_times_t times;
};

/* The part of a picture that becomes a sample: 10 tries of a random area (at least `least` of the whole) and ratio (3/4 to
 * 4/3), else the largest central part of an allowed ratio; torchvision's RandomResizedCrop. */
ls_picture_t ls_augment_part(const ls_picture_t *picture, double least, uint64_t seed, uint64_t position);

/* Copies one image of `augment`'s size, with its random shift and flip if `drawn`. Rows of `from` are `stride` bytes
 * apart. What a shift brings in is 0: all of the sample, if the shift is as wide as the image. */
void ls_augment_copy(const ls_augment_t *augment, bool drawn, uint64_t seed, uint64_t position,
                     const void *from, size_t stride, void *to);

#endif
