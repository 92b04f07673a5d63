/* A parser with a planted bug behind a few conditions: the suite fails when the fuzzer cannot find it any
 * more. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char magic[] = "open";
  char *table = calloc(16, 1);
  if (!table) return 0;
  size_t at = 0;
  while (at < size && at < sizeof magic - 1 && data[at] == (uint8_t)magic[at])
    at++;
  if (at == sizeof magic - 1 && size > at + 2 && data[at] == ':') table[data[at + 1] & 31] = 1; /* 16 to 31 */
  free(table);
  return 0;
}
