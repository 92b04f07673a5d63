/* Ranks of a life are counted over the places that are not left out. */
#include "supervise/places.h"

#include "base/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls_places_ranks(const ls_places_t *p) {
  return p->all - p->out_count;
}

static bool is_out(const ls_places_t *p, int place) {
  for (int i = 0; i < p->out_count; i++)
    if (p->out[i] == place) return true;
  return false;
}

int ls_places_at(const ls_places_t *p, int rank) {
  int place = 0;
  for (int left = rank; left > 0 || is_out(p, place); place++)
    left -= !is_out(p, place);
  return place;
}

bool ls_places_take_out(ls_places_t *p, int place) {
  if (is_out(p, place) || p->out_count == LS_PLACES_OUT_MAX) return false;
  p->out[p->out_count++] = place;
  return true;
}

bool ls_places_fit(ls_places_t *p) {
  bool enough = true;
  while (enough && p->fits && !p->fits[ls_places_ranks(p)] && ls_places_ranks(p) > p->least)
    enough = ls_places_take_out(p, ls_places_at(p, ls_places_ranks(p) - 1));
  return enough && ls_places_ranks(p) >= p->least && (!p->fits || p->fits[ls_places_ranks(p)]);
}

void ls_places_return(ls_places_t *p, const bool *there) {
  int left = 0;
  for (int i = 0; i < p->out_count; i++)
    if (!there[p->out[i]]) p->out[left++] = p->out[i];
  p->out_count = left;
  ls_places_fit(p);
}

bool ls_places_device(const char *devices, int place, char device[LS_PLACES_DEVICE_BYTES]) {
  const char *at = devices;
  for (int i = 0; at && i < place; i++)
    at = (at = strchr(at, ',')) ? at + 1 : NULL;
  if (devices && !at) return false;
  if (at)
    snprintf(device, LS_PLACES_DEVICE_BYTES, "%.*s", (int)strcspn(at, ","), at);
  else
    snprintf(device, LS_PLACES_DEVICE_BYTES, "%d", place);
  return true;
}

/* A list that is too short is left to the ranks, which say so. */
void ls_places_devices(const ls_places_t *p, const char *devices, char variable[LS_PLACES_DEVICES_BYTES]) {
  char device[LS_PLACES_DEVICE_BYTES];
  size_t used = (size_t)snprintf(variable, LS_PLACES_DEVICES_BYTES, "CUDA_VISIBLE_DEVICES=");
  for (int r = 0; r < ls_places_ranks(p) && used < LS_PLACES_DEVICES_BYTES; r++)
    if (ls_places_device(devices, ls_places_at(p, r), device))
      used += (size_t)snprintf(variable + used, LS_PLACES_DEVICES_BYTES - used, "%s%s", r ? "," : "", device);
}

char *ls_places_hosts(const ls_places_t *p) {
  json_t *list = json_array();
  for (int h = 0; h < p->hosts->count; h++) {
    int64_t slots = 0;
    for (int r = 0; r < ls_places_ranks(p); r++)
      slots += ls_hosts_at(p->hosts, ls_places_at(p, r)) == h;
    if (slots > 0)
      json_array_append_new(
          list, json_pack("{s:s, s:I}", "name", p->hosts->host[h].name, "slots", (json_int_t)slots));
  }
  char *text = json_dumps(list, JSON_COMPACT), *assignment = NULL;
  json_decref(list);
  if (text && asprintf(&assignment, "parallel.hosts=%s", text) < 0) assignment = NULL;
  free(text);
  return assignment;
}
