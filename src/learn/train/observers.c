/* The list of observers, and what the trainer tells them outside the loop. */
#include "train/observers/observers.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(((ls_observer_t *)0)->wanted) == sizeof(void (*)(void)), "a row is a list of functions");

static const ls_observer_t *rows[LS_OBSERVERS_MAX + 1] = {
    &ls_observer_watchdog, &ls_observer_page,    &ls_observer_inject,   &ls_observer_safety,
    &ls_observer_history,  &ls_observer_monitor, &ls_observer_timeline, &ls_observer_trace,
    &ls_observer_replicas, &ls_observer_saving,  &ls_observer_progress};

bool ls_observer_register(const ls_observer_t *row) {
  int count = 0;
  while (rows[count])
    count++;
  if (count == LS_OBSERVERS_MAX) return false;
  rows[count] = row;
  return true;
}

static bool has(const ls_observer_t *row, int hook) {
  void (*function)(void);
  memcpy(&function, (const char *)row + offsetof(ls_observer_t, wanted) + (size_t)hook * sizeof function,
         sizeof function);
  return function;
}

static void list(ls_observers_t *all) {
  for (int h = 0; h < LS_HOOKS; h++) {
    int count = 0;
    for (int i = 0; i < all->count; i++)
      if (has(all->all[i].row, h)) all->with[h][count++] = &all->all[i];
    all->with[h][count] = NULL;
  }
}

static ls_status_t open_one(ls_trainer_t *t, const ls_observer_t *row, const ls_trainer_options_t *options) {
  ls_observers_t *all = &t->observers;
  void *own = ls_alloc(t->ctx, row->own_bytes);
  if (!own) return LS_ERR_MEMORY;
  memcpy(own, &t, sizeof(ls_trainer_t *));
  all->all[all->count++] = (ls_observed_t){row, own};
  list(all);
  return row->open ? row->open(own, options) : LS_OK;
}

ls_status_t ls_observers_open(ls_trainer_t *t, const ls_trainer_options_t *options) {
  ls_status_t status = LS_OK;
  for (int i = 0; rows[i] && status == LS_OK; i++)
    if (rows[i]->wanted ? rows[i]->wanted(t) : t->training) status = open_one(t, rows[i], options);
  return status;
}

void ls_observers_close(ls_trainer_t *t) {
  ls_observers_t *all = &t->observers;
  while (all->count > 0) {
    const ls_observed_t last = all->all[--all->count];
    list(all);
    if (last.row->close) last.row->close(last.own);
    ls_free(last.own);
  }
}

void *ls_observers_own(const ls_trainer_t *t, const ls_observer_t *row) {
  for (int i = 0; i < t->observers.count; i++)
    if (t->observers.all[i].row == row) return t->observers.all[i].own;
  return NULL;
}

void ls_trainer_failed(ls_trainer_t *t, ls_status_t status) {
  if (status == LS_OK) return;
  LS_OBSERVERS(o, t, failed) o->row->failed(o->own, status);
}

void ls_trainer_tell(ls_trainer_t *t, const char *kind, json_t *members) {
  LS_OBSERVERS(o, t, told) o->row->told(o->own, kind, members);
  json_decref(members);
}
