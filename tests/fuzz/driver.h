/* The small fuzzer for compilers without libFuzzer: a corpus in memory, mutations, a coverage map. */
#ifndef TESTS_FUZZ_DRIVER_H
#define TESTS_FUZZ_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint8_t *bytes;
  size_t size;
} sample_t;

/* Samples that are worth mutating: the seeds, and what reached new code. */
typedef struct {
  sample_t *sample;
  size_t count, capacity;
} corpus_t;

void corpus_add(corpus_t *corpus, const uint8_t *bytes, size_t size);
void corpus_release(corpus_t *corpus);

/* splitmix64 (Steele, Lea, Flood 2014): the whole run is a function of the seed. */
typedef struct {
  uint64_t state;
} random_t;
uint64_t random_next(random_t *random);
size_t random_below(random_t *random, size_t limit); /* in [0, limit); 0 when limit is 0 */

/* Names and numbers that occur in the seeds (or between them in later finds). */
typedef struct {
  corpus_t token;
} dictionary_t;
void dictionary_learn(dictionary_t *dictionary, const uint8_t *bytes, size_t size);

/* Changes `sample` in place, a few times; it owns `capacity` bytes and stays within them. */
void mutate(random_t *random, const corpus_t *corpus, const dictionary_t *dictionary, sample_t *sample,
            size_t capacity);

#endif
