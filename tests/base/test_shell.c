/* Words for a shell, read back by one. */
#include "base/shell.h"

#include "base/base.h"
#include "base/child.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

static void a_shell_reads_every_word_as_it_was(void **state) {
  static const char *const words[] = {"",  "plain/a.b-c_d:1",    "a b",  "it's",
                                      "'", "\"$HOME\" `x` \\ *", "-n;x&"};
  for (int i = 0; i < LS_COUNT(words); i++) {
    char *line = NULL, said[256];
    size_t size;
    FILE *to = open_memstream(&line, &size);
    fputs("printf .%s ", to);
    ls_shell_put(to, words[i]);
    fclose(to);
    const char *const argv[] = {"sh", "-c", line, NULL};
    ls_child_spec_t spec = {.argv = argv, .limit_s = 60, .said = said, .said_bytes = sizeof said};
    ls_child_end_t end;
    spec.stream[STDOUT_FILENO].fd = STDERR_FILENO;
    assert_true(ls_child_run(&spec, &end));
    assert_int_equal(said[0], '.');
    assert_string_equal(said + 1, words[i]);
    free(line);
  }
}

TESTS(NULL, NULL, a_shell_reads_every_word_as_it_was)
