/* Fuzz target: recorded machines. What is accepted can be drawn and fingerprinted, and its JSON form is
 * accepted again as the same machine. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void use(const ls_machine_t *machine) {
  static ls_machine_t again; /* large */
  char hex[17], second[17], *drawn = ls_machine_draw(machine);
  check(drawn != NULL);
  ls_free(drawn);
  json_t *json = ls_machine_json(machine);
  check(json && ls_machine_from_json(NULL, "again", json, &again) == LS_OK);
  json_t *back = ls_machine_json(&again);
  check(json_equal(json, back));
  ls_machine_fingerprint(machine, hex);
  ls_machine_fingerprint(&again, second);
  check(!strcmp(hex, second));
  json_decref(back);
  json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static ls_machine_t machine;
  json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
  ls_ctx_t *ctx = json ? ls_ctx_create(NULL, NULL) : NULL;
  if (ctx) {
    ls_status_t status = ls_machine_from_json(ctx, "input.json", json, &machine);
    check(status == LS_OK || (status == LS_ERR_CONFIG && ls_ctx_error_count(ctx) > 0));
    if (status == LS_OK) use(&machine);
  }
  ls_ctx_destroy(ctx);
  json_decref(json);
  return 0;
}
