/* The program: sub-commands as rows, flags as rows. The only place of the project that prints, reads flags or
 * exits. Results go to stdout (a table for people, or one JSON document with --json); messages
 * go to stderr. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include "train/train.h"
#include <stdio.h>

enum {
  CLI_SETS_MAX = LS_CONFIG_SETS_MAX,
  CLI_EXTRA_MAX = 32,
  CLI_COMMANDS_MAX = 32,
  CLI_OPERAND_MAX = 2,
  CLI_JSON_VERSION = 1
};

/* messages.c: the messages of this process on stderr. */
enum { CLI_KEPT_BYTES = 8192 };
typedef struct {
  int32_t used;
  char record[CLI_KEPT_BYTES];
} cli_kept_t;
typedef struct {
  int rank;          /* as the launcher gave it; 0 when started by hand */
  bool gathering;    /* several ranks whose messages are still gathered */
  int columns;       /* of the terminal that stderr ends on; 0 = it is none */
  _Atomic bool line; /* a progress line is shown: a message, of whatever thread, replaces it */
  bool shared;       /* another process of the job may have put one there */
  cli_kept_t kept;   /* since the beginning; ranks other than 0 have not printed it */
} cli_messages_t;

/* From now on messages are gathered, if a launcher has started several ranks. */
void cli_messages_gather(cli_messages_t *messages);
void cli_messages_print(void *messages, ls_log_level_t level, const char *message); /* an ls_log_fn */
/* Collective, when all ranks have been set up or have failed: ranks other than 0 print the messages that rank
 * 0 did not report. From now on every message is printed at once. A missing rank is waited for 5 s. */
void cli_messages_settle(cli_messages_t *messages, ls_world_t *world);
/* Collective: joins the world, once all ranks have read their configuration. `own` is this rank's result. If
 * any rank failed, every rank reports its reason or nothing, and the job ends. *world is written only on
 * success. */
ls_status_t cli_world_open(ls_ctx_t *ctx, cli_messages_t *messages, double deadline_s, ls_status_t own,
                           ls_world_t **world);
/* Columns of the terminal that stderr ends on, directly or through a launcher (CLI_ENV_TERMINAL). 0 = no terminal, or one that
 * cannot rewrite a line (TERM). */
int cli_terminal_columns(void);
/* Local: prints the messages that are kept. */
void cli_messages_end(cli_messages_t *messages);
/* For ls_trainer_options_t.stuck, user: the messages. Prints and ends this process, and with it the job,
 * without any lock. */
void cli_messages_stuck(void *messages, const char *message);

/* The command line; a command's row says which flags it takes. */
typedef struct {
  int argc;
  char **argv; /* as given, for starting ourselves again */
  cli_messages_t *messages;
  const char *config;
  const char *data_root, *env;
  char *run_config;  /* the path of a run's own configuration, where `config` is that */
  char *config_text; /* text of a configuration that can be read only once; NULL: `config` is a file */
  size_t config_size;
  const char *checkpoint, *trace;
  const char *sets[CLI_SETS_MAX];
  int set_count, sets_added; /* the last of them are not in argv */
  int64_t ranks;             /* 0 = not given */
  bool json, resume, quiet, verbose, help;
  const char *operand[CLI_OPERAND_MAX];
  /* By row of the command's own flags: the text, NULL = not given, "" = a switch; and the number of a row that takes one. */
  const char *extra[CLI_EXTRA_MAX];
  int64_t whole[CLI_EXTRA_MAX];
  double percent[CLI_EXTRA_MAX];
} cli_args_t;

/* A flag is a row: parsing, help, manual pages and completion come from it. */
typedef enum { CLI_TEXT, CLI_WHOLE, CLI_PERCENT } cli_value_t;
typedef struct {
  const char *name, *value; /* value: its placeholder, NULL for switches */
  const char *help;
  cli_value_t type; /* PERCENT: between 0 and 100, both excluded */
  int64_t min, max; /* of a whole number */
  int64_t usual;    /* the number where the flag is not given */
  unsigned flag;    /* in args.c: the cli_flag_t that gives it to a command, */
  size_t place;     /* and where in cli_args_t its value goes. 0: into `extra` */
} cli_extra_t;
#define CLI_NUMBER(least, most, otherwise)                                                                   \
  .type = CLI_WHOLE, .min = (least), .max = (most), .usual = (otherwise)
#define CLI_SHARE(otherwise) .type = CLI_PERCENT, .usual = (otherwise)

typedef enum {
  CLI_FLAG_CONFIG = 1 << 0, /* positional CONFIG, and --data-root */
  CLI_FLAG_SET = 1 << 1,
  CLI_FLAG_JSON = 1 << 2,
  CLI_FLAG_RANKS = 1 << 3,
  CLI_FLAG_RESUME = 1 << 4,
  CLI_FLAG_CHECKPOINT = 1 << 5,
  CLI_FLAG_TRACE = 1 << 6,
  CLI_FLAG_QUIET = 1 << 7,
  CLI_FLAG_VERBOSE = 1 << 8,
  CLI_FLAG_CONFIG_OPTIONAL = 1 << 9, /* with CLI_FLAG_CONFIG: may be left out */
  CLI_FLAG_HELP = 1 << 10,           /* every command has it */
  CLI_FLAG_TOGETHER = 1 << 11        /* its ranks gather their messages and settle them */
} cli_flag_t;

typedef struct {
  const char *name;
  int place; /* among the commands of --help: from 10 training, 30 the network, 50 foresight, 70 live runs, 90 the rest */
  const char *summary;
  const char *details;      /* further --help text, may be NULL */
  unsigned flags;           /* cli_flag_t */
  const char *operands;     /* positional arguments other than CONFIG, as in usage: "A B"; NULL = none */
  int operand_count;        /* how many of them are needed, at most CLI_OPERAND_MAX */
  const cli_extra_t *extra; /* its own flags, ended by a row without name; NULL = none */
  ls_status_t (*run)(ls_ctx_t *ctx, const cli_args_t *args);
} cli_command_t;

/* Adds the row to the program's commands before main begins. A command is one file: it ends with its row and this line. */
#define CLI_COMMAND(row)                                                                                     \
  __attribute__((constructor)) static void row##_register(void) {                                            \
    cli_command_register(&row);                                                                              \
  }
void cli_command_register(const cli_command_t *command);
const cli_command_t *cli_command_at(int index);          /* in the order of their places; NULL: no more */
const cli_command_t *cli_command_find(const char *name); /* NULL: there is none */

/* args.c: reads argv after the command's name. Reports LS_ERR_ARGUMENT with the remedy. */
ls_status_t cli_args_parse(ls_ctx_t *ctx, const cli_command_t *command, int argc, char **argv,
                           cli_args_t *args);
/* All of it; and a few lines for whoever gave no command. */
void cli_help_program(FILE *to);
/* Every flag that the command takes, its own first. Returns how many. */
enum { CLI_FLAGS_MAX = CLI_EXTRA_MAX + 16 };
int cli_flags(const cli_command_t *command, cli_extra_t rows[CLI_FLAGS_MAX]);
/* Joins all meanings of an exit code; false when the program never exits with it. */
enum { CLI_EXIT_CODE_MAX = 130, CLI_EXIT_TEXT_BYTES = 256 };
bool cli_exit_code_text(int code, char text[CLI_EXIT_TEXT_BYTES]);

/* with_model.c: opens the configuration's model with the weights of the checkpoint, else of model.weights, uses it, and
 * closes everything. One process; the configured data are not read. */
typedef struct {
  ls_status_t (*use)(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config, ls_trainer_t *trainer);
  const char *int8; /* a file of weights, in place of the checkpoint's; NULL: none */
  bool best;
  int64_t rows;               /* predicted at once; 0 = chosen */
  const char *output, *input; /* the file to write, and one that is read besides; NULL: none */
} cli_model_use_t;
ls_status_t cli_with_model(ls_ctx_t *ctx, const cli_args_t *args, const cli_model_use_t *use);

/* manual.c: prints the source (scdoc) of a manual page: of the program (NULL), a command, or "config". False
 * when there is no such page. */
bool cli_manual(const char *name);
/* completion.c: what a shell's script asks with --complete: prints what may follow the words of a command line after the
 * program's name; the last one is unfinished. A line is a word, a tab and its help, or /files, /folders or
 * /configurations, which the shell lists itself. */
void cli_complete(int count, char **words);
void cli_usage_program(FILE *to);
void cli_help_command(FILE *to, const cli_command_t *command);

/* config.c */
/* Reads a configuration that is not a regular file (-, a pipe, anything below /dev and /proc) and keeps its
 * text for this process and for the processes that it starts, which ask for the same name. Nothing to do for
 * files. Without a configuration finds that of the checkpoint's run. */
#define CLI_ENV_CONFIG "LOCKSTEP_CONFIG_TEXT" /* PATH:NAME, for started processes: the place of the text */
ls_status_t cli_config_take(ls_ctx_t *ctx, cli_args_t *args);
/* The environment that --env or else the variable chooses; NULL: none. */
#define CLI_ENV_ENVIRONMENT "LOCKSTEP_ENV"
const char *cli_config_env(const cli_args_t *args);
/* The configuration's source that the command line names; borrows from args. */
ls_config_source_t cli_config_source(const cli_args_t *args);
/* The configuration that the command line names, under the given assignments (an ls_config_load). */
ls_status_t cli_config_load(ls_ctx_t *ctx, const cli_args_t *args, const char *const *sets, int set_count,
                            ls_config_t **config);
/* Under the command line's assignments and then --ranks, which beats the file and is checked with it. */
ls_status_t cli_config_load_ranks(ls_ctx_t *ctx, const cli_args_t *args, ls_config_t **config);
/* If a launcher started this process, its number of ranks replaces --ranks; else false. */
bool cli_ranks_started(cli_args_t *args);

/* launch.c: if this process was started by hand and needs more than one rank, runs the same command line in as many
 * processes and exits with their code. Ranks that a signal asked to end, and that have not after deadline_s (at least 5 s),
 * are ended. Returns LS_OK if there is nothing to start; an error if they cannot be started. */
#define CLI_ENV_TERMINAL                                                                                     \
  "LOCKSTEP_TERMINAL" /* for supervised ranks whose stderr ends on a terminal: its columns */
extern const ls_requests_t cli_requests; /* of signals (stop.h) */
ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks, double deadline_s);
/* The same, on several hosts by mpirun, if the configuration has them. */
ls_status_t cli_launch_hosts(ls_ctx_t *ctx, const cli_args_t *args, const ls_parallel_config_t *parallel);

/* Adds the hosts of a file (NULL: of a Slurm allocation of several nodes, where parallel.hosts does not say so) to the
 * command line's assignments, as parallel.hosts. Nothing in a rank. */
ls_status_t cli_hosts_take(ls_ctx_t *ctx, ls_arena_t *arena, cli_args_t *args, const char *file);

/* supervise.c: trains under supervision (src/live/supervise), with the lives of the run as children, and exits with the
 * run's code, or LS_SUPERVISE_AGAIN. Without monitor.dir the run shows itself in CLI_MONITOR_NAME of its checkpoint
 * directory. Returns only a refusal. */
#define CLI_MONITOR_NAME "monitor"
ls_status_t cli_supervise(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args);

/* out_file.c: a file of results, which takes its place when it is whole; "-" is stdout. */
typedef struct {
  ls_ctx_t *ctx;
  const char *path;
  FILE *to;
  bool seeks; /* it is a file of its own */
  ls_new_file_t file;
} cli_file_t;
/* The form of a file: of `names` (NULL-terminated) the index of the one that --format gives, else of the one that is the
 * ending of the path's name, in capitals or not, else 0. LS_ERR_ARGUMENT: none of them. */
ls_status_t cli_file_format(ls_ctx_t *ctx, const char *path, const char *given, const char *const *names,
                            int *index);
/* "-", or a device, pipe or link that leads to the file that stdout is, such as /dev/stdout. A regular file's own name is
 * none: the file is replaced. */
bool cli_is_stdout(const char *path);
ls_status_t cli_file_open(ls_ctx_t *ctx, const char *path, cli_file_t *file);
ls_status_t cli_file_written(cli_file_t *file); /* reports what went wrong since the last call */
/* Puts the file in its place if `status` is LS_OK, else takes it away; returns the first failure. Also after a
 * cli_file_open that failed. */
ls_status_t cli_file_close(cli_file_t *file, ls_status_t status);

/* output.c */
/* printf for tables: names and texts from outside come out without control characters (ls_text_plain).
 * Returns the bytes of the text before that. */
int cli_print(const char *fmt, ...) LS_PRINTF(1, 2);
/* Takes the reference; adds "version". A document that could not be made (NULL) ends the program. */
void cli_print_json(json_t *document);
/* Prints figures of an evaluation that the table does not have already, a line each, with `what` before the name, in columns so
 * wide. */
void cli_metrics_print(const ls_eval_metrics_t *metrics, const char *what, int name_width, int value_width);
/* After a write to stdout has failed (errno): reports it and returns its status. LS_ERR_IO without a word
 * when the reader of stdout has gone. */
ls_status_t cli_output_lost(ls_ctx_t *ctx);
/* A name in one line (ls_text_shown); "1,234,567"; "27.5 MB"; a time. Valid until the next four calls. */
const char *cli_shown(const char *name);
const char *cli_count(int64_t value);
const char *cli_bytes(int64_t bytes);
const char *cli_time(double ns); /* "12 ns", "12.3 us", "27.80 ms" */

#endif
