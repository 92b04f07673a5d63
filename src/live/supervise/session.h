/* Session directories of Open MPI: they stay when mpirun and its daemons are killed. They are put into one folder,
 * which is removed when no process of a life is left. Inside supervise. */
#ifndef LS_SUPERVISE_SESSION_H
#define LS_SUPERVISE_SESSION_H

enum { LS_SESSION_BYTES = 512, LS_SESSION_VARIABLES = 2 };
typedef struct {
  char dir[LS_SESSION_BYTES]; /* "": there is none */
  /* "NAME=value" for mpirun's environment, by versions of Open MPI; "": the user has set it */
  char variable[LS_SESSION_VARIABLES][LS_SESSION_BYTES + 64];
} ls_session_t;

/* Uses a folder that exists, or is made, on all hosts. */
void ls_session_at(const char *dir, ls_session_t *session);
void ls_session_remove(const ls_session_t *session);

#endif
