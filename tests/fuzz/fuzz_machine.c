/* Fuzz target: machine files of `simulate`. What is accepted gives finite costs for every collective, and its
 * JSON form, which is YAML too, is accepted again as the same machine. */
#include "plan/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_collectives(const ls_sim_machine_t *machine) {
  static const double sizes[] = {0, 4, 1e6, 1e12};
  int devices = ls_sim_machine_devices(machine), ranks[] = {1, 2, devices};
  check(devices >= 1);
  for (int r = 0; r < LS_COUNT(ranks); r++) {
    if (ranks[r] > devices) continue;
    int kind = ls_sim_machine_kind(machine, ranks[r] - 1);
    check(kind >= 0 && kind < machine->kinds);
    for (int k = 0; k < LS_COLLECTIVE_COUNT; k++)
      for (int s = 0; s < LS_COUNT(sizes); s++) {
        double ns = ls_sim_collective_ns(machine, (ls_collective_kind_t)k, sizes[s], ranks[r], NULL);
        check(isfinite(ns) && ns >= 0);
      }
  }
}

/* JSON strings may hold characters that YAML wants escaped; only plain texts make the round trip. */
static bool is_plain(const char *text) {
  for (; *text; text++)
    if (*text < 0x20 || *text > 0x7e) return false;
  return true;
}

static void check_again(const ls_sim_machine_t *machine) {
  ls_sim_machine_t again;
  json_t *json = ls_sim_machine_json(machine);
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  check(text != NULL);
  if (is_plain(text)) {
    check(ls_sim_machine_read(NULL, "again", text, strlen(text), &again) == LS_OK);
    json_t *second = ls_sim_machine_json(&again);
    check(json_equal(json, second));
    json_decref(second);
    ls_sim_machine_release(&again);
  }
  free(text);
  json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_sim_machine_t machine;
  if (!ctx) return 0;
  ls_status_t status = ls_sim_machine_read(ctx, "input.yaml", (const char *)bytes, size, &machine);
  if (status == LS_OK) {
    check_collectives(&machine);
    check_again(&machine);
    ls_sim_machine_release(&machine);
  } else {
    check(status == LS_ERR_CONFIG && ls_ctx_error_count(ctx) > 0);
  }
  ls_ctx_destroy(ctx);
  return 0;
}
