/* Words of a shell. */
#ifndef LS_BASE_SHELL_H
#define LS_BASE_SHELL_H

#include <stdio.h>

/* A word of a command line, in single quotes if a shell would interpret it. */
void ls_shell_put(FILE *to, const char *word);

#endif
