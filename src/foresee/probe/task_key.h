/* The name of a task's time in a profile. The meter measures under it, the planner looks it up. */
#ifndef LS_PROBE_TASK_KEY_H
#define LS_PROBE_TASK_KEY_H

#include "machine/profile.h"
#include "schedule/schedule.h"

/* Names an op task by everything on which its time depends, except the state of the caches: backend (as ls_backend_key
 * names it), threads, op, attributes that are not 0, shapes. */
const char *ls_task_key(const ls_schedule_t *s, int task, const char *backend, int threads,
                        char buf[LS_PROFILE_KEY_BYTES]);

#endif
