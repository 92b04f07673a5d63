/* lockstep tokenize: text files to a token file, and back. */
#include "cli/cli.h"
#include "data/text/corpus.h"
#include "data/text/tokenizer.h"

#include <inttypes.h>
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
  ls_tokenizer_t *tokenizer;
  ls_dtype_t dtype;
  cli_file_t out;
  int64_t tokens, bytes;
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

/* Of the characters' list, which stands beside the tokens. */
static const char *list_path(job_t *j) {
  return ls_arena_printf(&j->arena, "%s.vocabulary.json", j->args->operand[1]);
}

static ls_status_t check_outputs(job_t *j) {
  const cli_input_t inputs[] = {
      {"INPUT", j->args->operand[0]}, {"--vocabulary", j->args->extra[EXTRA_VOCABULARY]}, {0}};
  ls_status_t status = cli_file_spares(j->ctx, j->args->operand[1], inputs, NULL);
  if (status == LS_OK && j->args->extra[EXTRA_CHARACTERS])
    status = cli_file_spares(j->ctx, list_path(j), inputs, NULL);
  return status;
}

/* ---- encoding ---- */

static ls_status_t open_tokenizer(job_t *j) {
  const char *vocabulary = j->args->extra[EXTRA_VOCABULARY];
  if (vocabulary) return ls_tokenizer_open(j->ctx, vocabulary, &j->tokenizer);
  if (j->args->extra[EXTRA_BYTES]) return ls_tokenizer_bytes(j->ctx, &j->tokenizer);
  if (j->inputs.count > 1)
    return ls_fail(j->ctx, LS_ERR_ARGUMENT,
                   "--characters of %d files: make their list from one of them, and give it "
                   "to all with --vocabulary",
                   j->inputs.count);
  ls_view_t view;
  ls_status_t status = ls_view_open(j->ctx, j->inputs.v[0], false, &view);
  if (status != LS_OK) return status;
  ls_view_doubt(j->ctx, &view);
  status = ls_tokenizer_scan(j->ctx, j->inputs.v[0], view.bytes, view.size, &j->tokenizer);
  return ls_view_end(j->ctx, &view, status);
}

static ls_status_t choose_type(job_t *j) {
  int64_t size = ls_tokenizer_size(j->tokenizer);
  const char *type = j->args->extra[EXTRA_TYPE];
  j->dtype = type ? (strcmp(type, "u16") == 0 ? LS_U16 : LS_I32) : size <= UINT16_MAX + 1 ? LS_U16 : LS_I32;
  if (j->dtype == LS_I32 || size <= UINT16_MAX + 1) return LS_OK;
  return ls_fail(j->ctx, LS_ERR_ARGUMENT, "--type u16 does not hold %" PRId64 " tokens: use i32", size);
}

static void put_u16(void *job, int32_t token) {
  job_t *j = job;
  uint16_t narrow = (uint16_t)token;
  fwrite(&narrow, sizeof narrow, 1, j->out.to);
  j->tokens++;
}

static void put_i32(void *job, int32_t token) {
  job_t *j = job;
  fwrite(&token, sizeof token, 1, j->out.to);
  j->tokens++;
}

static ls_status_t encode_file(job_t *j, const char *path) {
  ls_view_t view;
  ls_status_t status = ls_view_open(j->ctx, path, false, &view);
  if (status != LS_OK) return status;
  j->bytes += (int64_t)view.size;
  ls_view_doubt(j->ctx, &view);
  status = ls_tokenizer_encode(j->tokenizer, path, view.bytes, view.size,
                               j->dtype == LS_U16 ? put_u16 : put_i32, j);
  status = ls_view_end(j->ctx, &view, status);
  return status == LS_OK ? cli_file_written(&j->out) : status;
}

static ls_status_t put_header(job_t *j) {
  char header[LS_CORPUS_HEADER_BYTES];
  if (j->tokens > INT32_MAX)
    return ls_fail(j->ctx, LS_ERR_UNSUPPORTED,
                   "llm.c's header counts at most %d tokens, these are %" PRId64 ": leave "
                   "--header out, or cut the text into several files",
                   INT32_MAX, j->tokens);
  ls_corpus_header(j->dtype, (int32_t)j->tokens, header);
  if (fseek(j->out.to, 0, SEEK_SET) != 0) return ls_fail_errno(j->ctx, "%s: cannot be written", j->out.path);
  fwrite(header, sizeof header, 1, j->out.to);
  return cli_file_written(&j->out);
}

/* The list of characters, beside the tokens. */
static ls_status_t save_list(job_t *j) {
  ls_strings_t list = ls_tokenizer_list(j->tokenizer);
  const char *path = list_path(j);
  json_t *array = json_array();
  for (int i = 0; i < list.count; i++)
    json_array_append_new(array, json_string(list.v[i]));
  char *text = json_dumps(array, JSON_COMPACT);
  ls_status_t status = path && text && (int)json_array_size(array) == list.count
                           ? ls_file_replace(j->ctx, path, text, strlen(text))
                           : ls_fail(j->ctx, LS_ERR_MEMORY, "out of memory: the list of characters");
  free(text);
  json_decref(array);
  return status;
}

static ls_status_t encode(job_t *j) {
  bool header = j->args->extra[EXTRA_HEADER] != NULL;
  ls_status_t status = choose_type(j);
  if (status != LS_OK) return status;
  status = cli_file_open(j->ctx, j->args->operand[1], &j->out);
  if (status != LS_OK) return cli_file_close(&j->out, status);
  char none[LS_CORPUS_HEADER_BYTES] = {0};
  if (header) fwrite(none, sizeof none, 1, j->out.to);
  for (int i = 0; i < j->inputs.count && status == LS_OK; i++)
    status = encode_file(j, j->inputs.v[i]);
  if (status == LS_OK && header) status = put_header(j);
  if (status == LS_OK && j->args->extra[EXTRA_CHARACTERS]) status = save_list(j);
  return cli_file_close(&j->out, status);
}

/* ---- decoding ---- */

static ls_status_t decode_file(job_t *j, ls_corpus_file_t *f) {
  ls_status_t status = ls_corpus_numbers(j->ctx, j->dtype, j->args->extra[EXTRA_TYPE] != NULL, f);
  for (int64_t i = 0; i < f->count && status == LS_OK; i++) {
    int64_t token = j->dtype == LS_U16 ? ((const uint16_t *)f->tokens)[i] : ((const int32_t *)f->tokens)[i];
    size_t bytes;
    const char *text = ls_tokenizer_text(j->tokenizer, token, i == 0, &bytes);
    if (!text)
      return ls_fail(j->ctx, LS_ERR_DATA,
                     "%s: token %" PRId64 " (from 0) is %" PRId64 ", which is not in the vocabulary", f->path,
                     i, token);
    fwrite(text, 1, bytes, j->out.to);
    j->tokens++;
    j->bytes += (int64_t)bytes;
  }
  return status == LS_OK ? cli_file_written(&j->out) : status;
}

static ls_status_t decode(job_t *j) {
  const char *type = j->args->extra[EXTRA_TYPE];
  ls_status_t status = cli_file_open(j->ctx, j->args->operand[1], &j->out);
  if (status != LS_OK) return cli_file_close(&j->out, status);
  for (int i = 0; i < j->inputs.count && status == LS_OK; i++) {
    ls_corpus_file_t f = {.path = j->inputs.v[i]};
    status = ls_view_open(j->ctx, f.path, false, &f.view);
    if (status != LS_OK) break;
    ls_view_doubt(j->ctx, &f.view);
    bool wide =
        type ? strcmp(type, "i32") == 0
             : ls_corpus_guess(&f) == LS_TOKENS_I32 || ls_tokenizer_size(j->tokenizer) > UINT16_MAX + 1;
    j->dtype = wide ? LS_I32 : LS_U16;
    status = decode_file(j, &f);
    status = ls_view_end(j->ctx, &f.view, status);
  }
  return cli_file_close(&j->out, status);
}

static void print_result(const job_t *j) {
  const char *output = j->args->operand[1], *type = j->dtype == LS_U16 ? "u16" : "i32";
  const char *const *given = j->args->extra;
  int64_t size = ls_tokenizer_size(j->tokenizer);
  if (cli_is_stdout(output)) return;
  if (j->args->json)
    cli_print_json(json_pack("{s:s, s:I, s:I, s:I, s:s, s:o}", "command", "tokenize", "tokens",
                             (json_int_t)j->tokens, "bytes", (json_int_t)j->bytes, "vocabulary",
                             (json_int_t)size, "type", type, "output", ls_json_text(output)));
  else
    cli_print("  %-12s %s (%s)\n  %-12s %s\n  %-12s %s tokens\n  %-12s %s\n", "tokens", cli_count(j->tokens),
              type, "text", cli_bytes(j->bytes), "vocabulary", cli_count(size), "output", cli_shown(output));
  if (!j->args->json && !given[EXTRA_DECODE])
    cli_print("  %-12s data: {kind: text, path: %s, tokens: %s}\n", "to train", cli_shown(output),
              given[EXTRA_HEADER] ? "auto" : type);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  job_t j = {.ctx = ctx, .args = args};
  ls_arena_init(&j.arena, ctx);
  ls_status_t status = check_args(ctx, args);
  if (status == LS_OK) status = ls_files_find(&j.arena, args->operand[0], false, &j.inputs);
  if (status == LS_OK) status = check_outputs(&j);
  if (status == LS_OK) status = open_tokenizer(&j);
  if (status == LS_OK) status = (args->extra[EXTRA_DECODE] ? decode : encode)(&j);
  if (status == LS_OK) print_result(&j);
  ls_tokenizer_close(j.tokenizer);
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
