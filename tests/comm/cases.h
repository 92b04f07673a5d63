/* Every collective, dtype and count on one communicator, with data whose sums are exact (small integers, the
 * idea of nccl-tests): so every result is known to the last bit, whatever the transport and the number of
 * ranks. Used by ranks that are threads, so it does not assert: it returns what went wrong. */
#ifndef LS_TESTS_COMM_CASES_H
#define LS_TESTS_COMM_CASES_H

#include "comm/comm.h"

enum { CASES_TEXT_BYTES = 256 };

/* All cases through run(), or on `stream` when it is not NULL. NULL, or what failed, in `text`. */
const char *cases_run(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]);
/* Random floats: all ranks get the bits of the sum in rank order; twice the same. */
const char *cases_bits(ls_comm_t *comm, char text[CASES_TEXT_BYTES]);
/* Large collectives on a stream while this thread runs control collectives; the order of the two differs
 * between ranks. */
const char *cases_overlap(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]);

/* Everything in groups of ranks: halves, a group within a group, a rank in none. */
const char *cases_groups(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]);

/* Binds and runs one collective and waits for it. */
ls_status_t cases_do(ls_comm_t *comm, ls_stream_t *stream, ls_collective_t *c);

#endif
