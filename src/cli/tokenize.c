/* lockstep tokenize: text files to a token file, and back. */
#include "cli/cli.h"
#include "config/spare.h"
#include "data/text/convert.h"

#include <string.h>

enum { EXTRA_VOCABULARY, EXTRA_CHARACTERS, EXTRA_BYTES, EXTRA_TYPE, EXTRA_HEADER, EXTRA_DECODE };
static const cli_extra_t extra[] = {
    [EXTRA_VOCABULARY] = {"--vocabulary", "FILE",
                          "tokenizer.json with byte-pair merges (GPT, Llama, Mistral, Qwen) or WordPiece "
                          "(BERT), or a JSON list of "
                          "characters."},
    [EXTRA_CHARACTERS] =
        {"--characters", NULL,
         "A token for each character of the text; their list goes to OUTPUT.vocabulary.json."},
    [EXTRA_BYTES] = {"--bytes", NULL, "A token for each byte."},
    [EXTRA_TYPE] = {"--type", "NAME",
                    "u16 or i32 (default: u16 if the vocabulary has at most 65,536 tokens; with --decode "
                    "llm.c's header says it)."},
    [EXTRA_HEADER] = {"--header", NULL, "Write llm.c's header in front of the tokens."},
    [EXTRA_DECODE] = {"--decode", NULL, "INPUT is a token file, and OUTPUT gets its text."},
    {NULL, NULL, NULL}};

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  ls_arena_t arena;
  ls_strings_t inputs;
  ls_convert_t convert;
  cli_file_t out;
} job_t;

static ls_status_t check_args(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *const *given = args->extra, *type = given[EXTRA_TYPE];
  int ways =
      (given[EXTRA_VOCABULARY] != NULL) + (given[EXTRA_CHARACTERS] != NULL) + (given[EXTRA_BYTES] != NULL);
  const char *output = args->operand[1];
  if (ways != 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep tokenize takes one of --vocabulary FILE, --characters and --bytes");
  if (!strcmp(args->operand[0], "-"))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep tokenize reads files: INPUT cannot be stdin");
  if (type && strcmp(type, "u16") != 0 && strcmp(type, "i32") != 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--type: \"%s\" is not one of u16, i32", LS_SHOWN(type));
  if (given[EXTRA_CHARACTERS] && given[EXTRA_DECODE])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--decode needs the list of characters: --vocabulary FILE");
  if (given[EXTRA_HEADER] && given[EXTRA_DECODE])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--header belongs to a token file, and --decode writes text");
  if (cli_is_stdout(output) && (given[EXTRA_HEADER] || given[EXTRA_CHARACTERS]))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%s needs a file as OUTPUT, not stdout",
                   given[EXTRA_HEADER] ? "--header" : "--characters");
  return LS_OK;
}

/* The file of the list of characters. */
static const char *list_path(job_t *j) {
  return ls_arena_printf(&j->arena, "%s.vocabulary.json", j->args->operand[1]);
}

static ls_status_t check_outputs(job_t *j) {
  const ls_config_input_t inputs[] = {
      {"INPUT", j->args->operand[0]}, {"--vocabulary", j->args->extra[EXTRA_VOCABULARY]}, {0}};
  ls_status_t status = ls_config_spares(j->ctx, j->args->operand[1], inputs, NULL);
  if (status == LS_OK && j->args->extra[EXTRA_CHARACTERS])
    status = ls_config_spares(j->ctx, list_path(j), inputs, NULL);
  return status;
}

static ls_status_t open_tokenizer(job_t *j) {
  const char *vocabulary = j->args->extra[EXTRA_VOCABULARY];
  ls_tokenizer_t **tokenizer = &j->convert.tokenizer;
  if (vocabulary) return ls_tokenizer_open(j->ctx, vocabulary, tokenizer);
  if (j->args->extra[EXTRA_BYTES]) return ls_tokenizer_bytes(j->ctx, tokenizer);
  return ls_convert_characters(j->ctx, &j->inputs, tokenizer);
}

static ls_status_t convert(job_t *j) {
  const char *const *given = j->args->extra;
  const bool decodes = given[EXTRA_DECODE] != NULL;
  ls_status_t status = decodes ? LS_OK : ls_convert_type(&j->convert);
  if (status != LS_OK) return status;
  status = cli_file_open(j->ctx, j->args->operand[1], &j->out);
  j->convert.to = j->out.to;
  if (status == LS_OK)
    status = decodes ? ls_convert_decode(&j->convert, &j->inputs)
                     : ls_convert_encode(&j->convert, &j->inputs, given[EXTRA_HEADER] != NULL);
  if (status == LS_OK) status = cli_file_written(&j->out);
  if (status == LS_OK && given[EXTRA_CHARACTERS])
    status = ls_convert_save_list(j->ctx, j->convert.tokenizer, list_path(j));
  return cli_file_close(&j->out, status);
}

static void print_result(const job_t *j) {
  const char *output = j->args->operand[1], *type = ls_dtype_name(j->convert.dtype);
  const char *const *given = j->args->extra;
  int64_t size = ls_tokenizer_size(j->convert.tokenizer);
  if (cli_is_stdout(output)) return;
  if (j->args->json)
    cli_print_json(json_pack("{s:s, s:I, s:I, s:I, s:s, s:o}", "command", "tokenize", "tokens",
                             (json_int_t)j->convert.tokens, "bytes", (json_int_t)j->convert.bytes,
                             "vocabulary", (json_int_t)size, "type", type, "output", ls_json_text(output)));
  else
    cli_print("  %-12s %s (%s)\n  %-12s %s\n  %-12s %s tokens\n  %-12s %s\n", "tokens",
              cli_count(j->convert.tokens), type, "text", cli_bytes(j->convert.bytes), "vocabulary",
              cli_count(size), "output", cli_shown(output));
  if (!j->args->json && !given[EXTRA_DECODE])
    cli_print("  %-12s data: {kind: text, path: %s, tokens: %s}\n", "to train", cli_shown(output),
              given[EXTRA_HEADER] ? "auto" : type);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *type = args->extra[EXTRA_TYPE];
  job_t j = {.ctx = ctx, .args = args, .convert = {.ctx = ctx, .chosen = LS_F32}};
  ls_arena_init(&j.arena, ctx);
  ls_status_t status = check_args(ctx, args);
  if (status == LS_OK) status = ls_files_find(&j.arena, args->operand[0], false, &j.inputs);
  if (status == LS_OK) status = check_outputs(&j);
  if (status == LS_OK) status = open_tokenizer(&j);
  if (status == LS_OK && type) j.convert.chosen = strcmp(type, "u16") == 0 ? LS_U16 : LS_I32;
  if (status == LS_OK) status = convert(&j);
  if (status == LS_OK) print_result(&j);
  ls_tokenizer_close(j.convert.tokenizer);
  ls_arena_release(&j.arena);
  return status;
}

static const cli_command_t command = {
    .name = "tokenize",
    .place = 91,
    .summary = "Makes a token file of text (bytes, characters, byte-pair merges, WordPiece), or text of a "
               "token file.",
    .details = "INPUT is a file, or a pattern in quotes for several, which are written one after the other. "
               "The token file is\n"
               "what nanoGPT reads, or with --header what llm.c reads; data.kind: text trains on it.",
    .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .operands = "INPUT OUTPUT",
    .operand_count = 2,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
