/* Networks by name, written as in a configuration. docs/config.md says where each comes from; tests/model/test_presets.c
 * has their parameter counts. */
#include "model/layer.h"

#include <string.h>

#define MODEL(input, layers)   "input: " input "\nlayers:\n" layers
#define HIDDEN(units, dropout) "  - dense: {units: " #units ", activation: relu, dropout: " #dropout "}\n"
#define OUTPUTS(units)         "  - dense: {units: " #units "}\n"
#define RECURRENT(kind, units) "  - " kind ": {units: " #units ", layers: 2, output: last}\n"

static const struct {
  const char *name, *model;
} presets[] = {
    {"mlp-medium", MODEL("[799]", HIDDEN(256, 0.2) HIDDEN(128, 0.2) HIDDEN(64, 0.2) OUTPUTS(192))},
    {"mlp-large", MODEL("[4608]", HIDDEN(1024, 0.3) HIDDEN(1024, 0.3) HIDDEN(512, 0.3) HIDDEN(512, 0.3)
                                      HIDDEN(256, 0.3) OUTPUTS(768))},
    {"mlp-extreme", MODEL("[4096]", HIDDEN(8192, 0) HIDDEN(6144, 0) HIDDEN(4096, 0) HIDDEN(2048, 0)
                                        HIDDEN(1024, 0) OUTPUTS(512))},
    {"lstm", MODEL("[60, 50]", RECURRENT("lstm", 192) OUTPUTS(3))},
    {"gru", MODEL("[60, 50]", RECURRENT("gru", 160) OUTPUTS(3))},
};

const char *const ls_preset_names[] = {"mlp-medium", "mlp-large", "mlp-extreme", "lstm", "gru", NULL};
_Static_assert(LS_COUNT(presets) + 1 == LS_COUNT(ls_preset_names), "every preset has a name");

const char *ls_preset_text(const char *name) {
  for (int i = 0; i < LS_COUNT(presets); i++)
    if (strcmp(presets[i].name, name) == 0) return presets[i].model;
  return NULL;
}
