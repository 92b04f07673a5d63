/* What ranks do that are processes, whoever has started them. Each is collective over all ranks and returns NULL, or what is
 * wrong, in `text` or not. */
#ifndef LS_TESTS_COMM_WORLDS_H
#define LS_TESTS_COMM_WORLDS_H

#include "cases.h"

typedef const char *(*world_fn)(ls_comm_t *comm, char text[CASES_TEXT_BYTES]);

const char *world_sums(ls_comm_t *comm,
                       char *text); /* exact, blocking and on a stream; the same bits everywhere */
const char *world_overlap(ls_comm_t *comm, char *text); /* control while the lane is busy */
const char *world_groups(ls_comm_t *comm, char *text);
const char *world_agreement(ls_comm_t *comm, char *text);
/* The last member of a group stays away for longer than its deadline: it is named, and all ranks go on. */
const char *world_late_member(ls_comm_t *comm, char *text);
/* The same for the last rank; the communicator is broken then. Ranks end it when `wait` has returned. */
const char *world_late_rank(ls_comm_t *comm, char *text);
/* Each allocation of rank 0 while a group is made fails once. */
const char *world_allocations(ls_comm_t *comm, char *text);

#endif
