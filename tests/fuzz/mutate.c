/* How the small fuzzer changes its samples: bits, numbers at the edges of their types, chunks cut, doubled
 * and taken from other samples, and words of the seeds in other places. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 4096, TOKEN_BYTES_MAX = 32, ROUNDS_MAX = 6 };

uint64_t random_next(random_t *random) {
  uint64_t z = (random->state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

size_t random_below(random_t *random, size_t limit) {
  return limit ? random_next(random) % limit : 0;
}

void corpus_add(corpus_t *corpus, const uint8_t *bytes, size_t size) {
  if (corpus->count == corpus->capacity) {
    corpus->capacity = corpus->capacity * 2 + 64;
    corpus->sample = realloc(corpus->sample, corpus->capacity * sizeof *corpus->sample);
    if (!corpus->sample) abort();
  }
  uint8_t *copy = malloc(size + 1);
  if (!copy) abort();
  if (size) memcpy(copy, bytes, size);
  corpus->sample[corpus->count++] = (sample_t){copy, size};
}

void corpus_release(corpus_t *corpus) {
  for (size_t i = 0; i < corpus->count; i++)
    free(corpus->sample[i].bytes);
  free(corpus->sample);
  *corpus = (corpus_t){0};
}

static int is_word(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.';
}

static void learn_token(dictionary_t *dictionary, const uint8_t *bytes, size_t size) {
  corpus_t *known = &dictionary->token;
  if (size < 2 || size > TOKEN_BYTES_MAX || known->count >= TOKENS_MAX) return;
  for (size_t i = 0; i < known->count; i++)
    if (known->sample[i].size == size && memcmp(known->sample[i].bytes, bytes, size) == 0) return;
  corpus_add(known, bytes, size);
}

void dictionary_learn(dictionary_t *dictionary, const uint8_t *bytes, size_t size) {
  for (size_t begin = 0; begin < size; begin++) {
    size_t end = begin;
    while (end < size && is_word(bytes[end]))
      end++;
    learn_token(dictionary, bytes + begin, end - begin);
    if (end > begin) begin = end - 1;
  }
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Short chunks are more useful than long ones. */
static size_t chunk(random_t *r, size_t limit) {
  return random_below(r, 4) ? random_below(r, least(limit, 16) + 1) : random_below(r, limit + 1);
}

static void cut(sample_t *s, size_t at, size_t size) {
  memmove(s->bytes + at, s->bytes + at + size, s->size - at - size);
  s->size -= size;
}

/* Makes room at `at` for `size` bytes, fewer when the sample would not fit; returns how many. */
static size_t open_gap(sample_t *s, size_t capacity, size_t at, size_t size) {
  size = least(size, capacity - s->size);
  memmove(s->bytes + at + size, s->bytes + at, s->size - at);
  s->size += size;
  return size;
}

static void insert(sample_t *s, size_t capacity, size_t at, const uint8_t *bytes, size_t size) {
  size = open_gap(s, capacity, at, size);
  if (size) memcpy(s->bytes + at, bytes, size);
}

static void flip_bit(random_t *r, sample_t *s) {
  if (s->size) s->bytes[random_below(r, s->size)] ^= (uint8_t)(1u << random_below(r, 8));
}

static void set_byte(random_t *r, sample_t *s) {
  static const char liked[] = "\n\r\t \"',:;{}[]-0129.eE#&*!|>%@`\\/\xff\x00\x7f\x80";
  if (!s->size) return;
  uint8_t *byte = &s->bytes[random_below(r, s->size)];
  *byte = random_below(r, 2) ? (uint8_t)liked[random_below(r, sizeof liked - 1)] : (uint8_t)random_next(r);
}

/* A number at the edge of its type over 1, 2, 4 or 8 bytes, in either byte order. */
static void set_number(random_t *r, sample_t *s) {
  static const uint64_t edges[] = {0,
                                   1,
                                   2,
                                   7,
                                   8,
                                   127,
                                   128,
                                   255,
                                   256,
                                   1000,
                                   32767,
                                   32768,
                                   65535,
                                   65536,
                                   100000,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x100000000,
                                   INT64_MAX,
                                   UINT64_MAX,
                                   UINT64_MAX - 7,
                                   UINT64_MAX / 2 + 1,
                                   UINT64_MAX / 4,
                                   100000001};
  size_t size = (size_t)1 << random_below(r, 4);
  if (s->size < size) return;
  size_t at = random_below(r, s->size - size + 1);
  uint64_t value = edges[random_below(r, sizeof edges / sizeof *edges)] + random_below(r, 3) - 1;
  int big = (int)random_below(r, 2);
  for (size_t i = 0; i < size; i++)
    s->bytes[at + i] = (uint8_t)(value >> 8 * (big ? size - 1 - i : i));
}

/* Digits in a text give way to another number. */
static void set_digits(random_t *r, sample_t *s, size_t capacity) {
  static const char *const numbers[] = {"0",
                                        "-1",
                                        "1",
                                        "00",
                                        "1e3",
                                        "1e999",
                                        "-0.0",
                                        ".5",
                                        "nan",
                                        "1.",
                                        "0x10",
                                        "2147483648",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551616",
                                        "1e-320",
                                        "1_000"};
  size_t at = random_below(r, s->size), end;
  while (at < s->size && (s->bytes[at] < '0' || s->bytes[at] > '9'))
    at++;
  for (end = at; end < s->size && s->bytes[end] >= '0' && s->bytes[end] <= '9';)
    end++;
  if (at == end) return;
  const char *number = numbers[random_below(r, sizeof numbers / sizeof *numbers)];
  cut(s, at, end - at);
  insert(s, capacity, at, (const uint8_t *)number, strlen(number));
}

static void remove_chunk(random_t *r, sample_t *s) {
  size_t at = random_below(r, s->size);
  cut(s, at, chunk(r, s->size - at));
}

static void double_chunk(random_t *r, sample_t *s, size_t capacity) {
  uint8_t copy[256];
  size_t at = random_below(r, s->size), size = least(chunk(r, s->size - at), sizeof copy);
  memcpy(copy, s->bytes + at, size);
  size_t times = random_below(r, 16) ? 1 : random_below(r, 64);
  for (size_t i = 0; i < times; i++)
    insert(s, capacity, at, copy, size);
}

static void insert_noise(random_t *r, sample_t *s, size_t capacity) {
  size_t at = random_below(r, s->size + 1), size = open_gap(s, capacity, at, 1 + random_below(r, 8));
  uint8_t byte = (uint8_t)random_next(r);
  for (size_t i = 0; i < size; i++)
    s->bytes[at + i] = random_below(r, 2) ? byte : (uint8_t)random_next(r);
}

static void insert_token(random_t *r, sample_t *s, size_t capacity, const dictionary_t *dictionary) {
  if (dictionary->token.count == 0) return;
  const sample_t *token = &dictionary->token.sample[random_below(r, dictionary->token.count)];
  size_t at = random_below(r, s->size + 1), over = at;
  while (random_below(r, 2) && over < s->size && is_word(s->bytes[over]))
    over++; /* sometimes in place of what stood there */
  cut(s, at, over - at);
  insert(s, capacity, at, token->bytes, token->size);
}

/* The front of this sample and the back of another, or a piece of the other put in. */
static void splice(random_t *r, sample_t *s, size_t capacity, const corpus_t *corpus) {
  const sample_t *other = &corpus->sample[random_below(r, corpus->count)];
  size_t from = random_below(r, other->size), at = random_below(r, s->size + 1);
  if (random_below(r, 2)) {
    s->size = at;
    insert(s, capacity, at, other->bytes + from, other->size - from);
  } else {
    insert(s, capacity, at, other->bytes + from, chunk(r, other->size - from));
  }
}

void mutate(random_t *r, const corpus_t *corpus, const dictionary_t *dictionary, sample_t *s,
            size_t capacity) {
  for (size_t rounds = 1 + random_below(r, ROUNDS_MAX); rounds > 0; rounds--) {
    switch (random_below(r, 11)) {
    case 0:
      flip_bit(r, s);
      break;
    case 1:
      set_byte(r, s);
      break;
    case 2:
      set_number(r, s);
      break;
    case 3:
      set_digits(r, s, capacity);
      break;
    case 4:
      remove_chunk(r, s);
      break;
    case 5:
      double_chunk(r, s, capacity);
      break;
    case 6:
      insert_noise(r, s, capacity);
      break;
    case 7:
      s->size -= random_below(r, 3) ? 0 : random_below(r, s->size + 1);
      break; /* truncate */
    case 8:
    case 9:
      insert_token(r, s, capacity, dictionary);
      break;
    default:
      splice(r, s, capacity, corpus);
    }
  }
}
