/* Everything may stand in single quotes, but they themselves. */
#include "base/shell.h"

#include <string.h>

void ls_shell_put(FILE *to, const char *word) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
  if (*word && !word[strspn(word, plain)]) {
    fputs(word, to);
    return;
  }
  fputc('\'', to);
  for (; *word; word++)
    fputs(*word == '\'' ? "'\\''" : (char[2]){*word, '\0'}, to);
  fputc('\'', to);
}
