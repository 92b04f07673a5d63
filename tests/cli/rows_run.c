/* What goes wrong while a model is trained, saved, loaded: disks, folders, checkpoints, numbers, devices. */
#include "bad_input.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL    "model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}\n"
#define SAMPLES  "data: {kind: synthetic, samples: 60, validation: 0.2, normalize: true}\n"
#define TRAIN    "train: {batch: 10, steps: 6, evaluate_every: 0, checkpoint: {dir: run, every_steps: 3}}\n"
#define PARALLEL "parallel: {backend: cpu, threads: 1}\n"
#define GOOD     MODEL SAMPLES TRAIN PARALLEL
#define WIDE                                                                                                 \
  "model: {input: [4], loss: mse, layers: [{dense: {units: 900}}, {dense: {units: 3}}]}\n" SAMPLES PARALLEL  \
  "train: {batch: 10, steps: 6, checkpoint: {dir: disk/run, every_steps: 3}}\n"

#define SGD                                                                                                  \
  MODEL SAMPLES PARALLEL                                                                                     \
      "train: {batch: 10, steps: 6, optimizer: {name: sgd}, checkpoint: {dir: run, every_steps: 3}}\n"

/* The same inputs and outputs with a hidden layer. */
#define DEEP                                                                                                 \
  "model: {input: [4], loss: mse, layers: [{dense: {units: 8}}, {dense: {units: 3}}]}\n" SAMPLES TRAIN       \
      PARALLEL
/* Terabytes, from allowed values; few outputs, because the targets are made before the model. */
#define HUGE                                                                                                 \
  "model: {input: [4], loss: mse, layers: [{dense: {units: 1048576}}, {dense: {units: 1048576}}, "           \
  "{dense: {units: 3}}]}\n" SAMPLES TRAIN PARALLEL

#define REMEDY "start it with --set monitor.dir=DIR"
#define NEWEST "run/step-000000000006"
#define OLDER  "run/step-000000000003"

static void trained(void) {
  must_run("train c.yaml --quiet");
}
static void trained_once(void) {
  must_run("train c.yaml --quiet --set train.checkpoint.every_steps=0");
}
static void trained_beside_deep(void) {
  trained();
  put_text("other.yaml", DEEP);
}
static void trained_deep(void) {
  put_text("other.yaml", DEEP);
  must_run("train other.yaml --quiet");
}
static void altered_model(void) {
  trained_once();
  flip_byte(NEWEST "/model.safetensors", -1);
}
static void altered_optimizer(void) {
  trained_once();
  flip_byte(NEWEST "/optim.safetensors", 20);
}
static void altered_manifest(void) {
  trained_once();
  flip_byte(NEWEST "/manifest.json", 60);
}
static void torn_model(void) {
  trained_once();
  cut_file(NEWEST "/model.safetensors", 4100);
}
static void no_manifest(void) {
  trained_once();
  unlink(NEWEST "/manifest.json");
}
static void both_altered(void) {
  trained();
  flip_byte(NEWEST "/model.safetensors", 5000 % 4096);
  flip_byte(OLDER "/model.safetensors", -2);
}
static void newest_altered(void) {
  trained();
  flip_byte(NEWEST "/model.safetensors", -1);
}
static void empty_run(void) {
  mkdir("run", 0777);
}
static void run_is_a_file(void) {
  put_text("run", "mine\n");
}
static void run_is_there(void) {
  mkdir("disk/run", 0777);
}
static void run_with_a_pipe(void) {
  mkdir("run", 0777);
  mkfifo("run/config.json", 0666);
}
static void run_with_a_pipe_of_evaluations(void) {
  mkdir("run", 0777);
  mkfifo("run/history.jsonl", 0666);
}
static void seen_is_a_pipe(void) {
  mkdir("seen", 0777);
  mkfifo("seen/ranks.page", 0666);
}
static void full(void) {
  fill_disk("disk/other");
}
static void not_a_module(void) {
  put_text("module.so", "not a module\n");
}

static void extreme_csv(void) { /* finite numbers whose squares are not */
  FILE *file = fopen("d.csv", "w");
  if (!file) return;
  fputs("a,b,y\n", file);
  for (int i = 0; i < 40; i++)
    fprintf(file, "%de30,%de30,%de30\n", i % 7 - 3, i % 5 - 2, i % 3);
  fclose(file);
}
#define EXTREME                                                                                              \
  "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n" PARALLEL                                 \
  "data: {kind: csv, path: d.csv, target: [y]}\n"                                                            \
  "train: {batch: 10, steps: 50, max_skipped: 4, checkpoint: {dir: run}}\n"

/* What the run has learned is far from these samples. */
static void trained_then_extreme(void) {
  put_text("d.csv", "a,b,y\n1,2,3\n4,5,6\n7,8,9\n1,1,1\n");
  must_run("train c.yaml --quiet --set train.batch=2 --set train.steps=1");
  extreme_csv();
}

const row_t rows_run[] = {
    /* folders and disks */
    {"checkpoint folder in /proc", IO, "train c.yaml --set train.checkpoint.dir=/proc/none/run", GOOD,
     .expect = {"/proc/none"}},
    {"checkpoint folder below a file", IO, "train c.yaml --set train.checkpoint.dir=run/below", GOOD,
     run_is_a_file, .expect = {"run"}},
    {"checkpoint folder is a file", IO, "train c.yaml", GOOD, run_is_a_file,
     .expect = {"run", "not a directory"}},
    {"a pipe where the configuration is written", IO, "train c.yaml", GOOD, run_with_a_pipe,
     .expect = {"run/config.json: a special file, a regular file was expected"}},
    {"a pipe where evaluations are written", IO, "train c.yaml", GOOD, run_with_a_pipe_of_evaluations,
     .expect = {"run/history.jsonl: a special file, a regular file was expected"}},
    {"a pipe where the ranks show themselves", IO, "train c.yaml --set monitor.dir=seen", GOOD,
     seen_is_a_pipe, .expect = {"seen/ranks.page: a special file, a regular file was expected"}},
    {"disk already full", IO, "train c.yaml", WIDE, full, .expect = {"disk/run", "No space left"},
     .tiny_disk = true},
    {"disk full while saving", IO, "train c.yaml", WIDE,
     .expect = {"disk/run", "is not saved: it needs", "are free"}, .tiny_disk = true},
    {"disk full while saving into a folder that was there", IO, "train c.yaml", WIDE, run_is_there,
     .expect = {"disk/run", "is not saved: it needs", "are free"}, .tiny_disk = true, .leaves = "disk/run"},
    {"trace file in no folder", IO, "train c.yaml --trace none/t.json", GOOD, .expect = {"none/t.json"},
     .leaves = "run"},
    {"stdout full", IO, "inspect c.yaml", GOOD, .expect = {"stdout", "No space left"}, .stdout_full = true},
    {"stdout full, help", IO, "--help", NULL, .expect = {"No space left"}, .stdout_full = true},
    {"stdout full, version", IO, "--version", NULL, .expect = {"No space left"}, .stdout_full = true},

    /* a run that is looked at */
    {"monitor of no folder", IO, "monitor none", .expect = {"none: there is no such folder", REMEDY}},
    {"monitor of a configuration", IO, "monitor c.yaml", GOOD,
     .expect = {"c.yaml: there is no such folder", REMEDY}},
    {"monitor of a run that shows nothing", IO, "monitor run", GOOD, trained,
     .expect = {"run: there is no events.jsonl", REMEDY}},
    {"page of no folder", IO, "monitor none --web --port 0", .no_json = true,
     .expect = {"none: there is no such folder", REMEDY}},
    {"report of no folder", IO, "report none", .no_json = true,
     .expect = {"there is no such folder", REMEDY}},
    {"report of an empty folder", IO, "report run", .files = empty_run, .no_json = true,
     .expect = {"run: there is no events.jsonl", REMEDY}},

    /* checkpoints */
    {"checkpoint missing", IO, "eval c.yaml --checkpoint none", GOOD, .expect = {"none", "no checkpoint"}},
    {"checkpoint folder empty", IO, "eval c.yaml --checkpoint run", GOOD, empty_run,
     .expect = {"run", "no checkpoint"}},
    {"checkpoint is a file", IO, "eval c.yaml --checkpoint run", GOOD, run_is_a_file, .expect = {"run"}},
    {"checkpoint of another width", CHECKPOINT,
     "eval other.yaml --checkpoint run --set model.layers.0.dense.units=7", .files = trained_deep,
     .expect = {"run/step", "model.layers.0.dense.units: checkpoint has 8, configuration has 7",
                "Use the configuration that was saved with it, run/config.json"}},
    {"evaluation of a loss that is not finite", DIVERGED, "eval c.yaml --checkpoint run", EXTREME,
     trained_then_extreme, .expect = {"run/step-000000000001: the loss is not finite"}},
    {"best of one checkpoint", USAGE, "eval c.yaml --checkpoint " NEWEST " --best", GOOD, trained,
     .expect = {NEWEST ": is one checkpoint"}},
    {"checkpoint of another depth", CHECKPOINT, "eval other.yaml --checkpoint run", GOOD, trained_beside_deep,
     .expect = {"model.layers: checkpoint has 1 layer, configuration has 2"}},
    {"checkpoint of other targets", CHECKPOINT,
     "eval c.yaml --checkpoint run --set model.layers.0.dense.units=5", GOOD, trained,
     .expect = {"model.layers.0.dense.units: checkpoint has 3, configuration has 5"}},
    {"resume another model", CHECKPOINT, "train other.yaml --resume", GOOD, trained_beside_deep,
     .expect = {"model.layers: checkpoint has 1 layer, configuration has 2"}},
    {"resume another optimizer", CHECKPOINT, "train c.yaml --resume --set train.optimizer.name=sgd", GOOD,
     trained, .expect = {"train.optimizer.name: checkpoint has adam, configuration has sgd", "--init"}},
    {"resume another momentum", CHECKPOINT, "train c.yaml --resume --set train.optimizer.momentum=0.5", SGD,
     trained, .expect = {"optim.safetensors", "'momentum.layers.0.bias' is in the model only"}},
    {"resume another input width", CHECKPOINT, "train c.yaml --resume --set model.input=[5]", GOOD, trained,
     .expect = {"model"}},
    {"resume without a folder", CONFIG, "train c.yaml --resume", MODEL SAMPLES PARALLEL,
     .expect = {"train.checkpoint.dir"}},
    {"only checkpoint altered: model", CHECKPOINT, "train c.yaml --resume", GOOD, altered_model,
     .expect = {NEWEST "/model.safetensors", "altered"}},
    {"only checkpoint altered: optimizer", CHECKPOINT, "train c.yaml --resume", GOOD, altered_optimizer,
     .expect = {NEWEST "/optim.safetensors", "altered"}},
    {"only checkpoint altered: manifest", CHECKPOINT, "eval c.yaml --checkpoint run", GOOD, altered_manifest,
     .expect = {NEWEST "/manifest.json"}},
    {"only checkpoint torn", CHECKPOINT, "eval c.yaml --checkpoint " NEWEST, GOOD, torn_model,
     .expect = {NEWEST "/model.safetensors", "4100 bytes"}},
    {"only checkpoint without manifest", CHECKPOINT, "eval c.yaml --checkpoint run", GOOD, no_manifest,
     .expect = {NEWEST "/manifest.json", "missing"}},
    {"all checkpoints altered", CHECKPOINT, "eval c.yaml --checkpoint run", GOOD, both_altered,
     .expect = {NEWEST, OLDER, "none of the 2"}},
    {"newest checkpoint altered", OK, "eval c.yaml --checkpoint run", GOOD, newest_altered,
     .expect = {"warning: " NEWEST, "model.safetensors", "altered"}},

    /* weights of other programs, and what is made of a model */
    {"weights are no safetensors", CHECKPOINT, "train c.yaml --set model.weights=c.yaml", GOOD,
     .expect = {"c.yaml", "not a safetensors file"}},
    {"weights of another network", CHECKPOINT,
     "predict other.yaml --input - --set model.weights=run --set model.map=hf-bert "
     "--set model.layers.0.dense.name=other --set model.layers.1.dense.units=5",
     GOOD, trained_beside_deep, .expect = {"run", "none of its tensors belongs to this model", "hf-bert"}},
    {"integers of another file", CHECKPOINT,
     "predict c.yaml --checkpoint run --input - --int8 " NEWEST "/model.safetensors", GOOD, trained,
     .expect = {NEWEST "/model.safetensors: no weights of 8-bit integers", "lockstep quantize"}},
    {"integers into no folder", IO, "quantize c.yaml --checkpoint run --output none/q.safetensors", GOOD,
     trained, .expect = {"none/"}},
    {"pruning that ends before it begins", CONFIG,
     "train c.yaml --set train.prune.sparsity=0.5 --set train.prune.begin=9 --set train.prune.end=9", GOOD,
     .expect = {"train.prune: end (9) must be a later step than begin (9)"}},

    /* numbers and sizes */
    {"diverging", DIVERGED, "train c.yaml --quiet", EXTREME, extreme_csv,
     .expect = {"4 steps in a row", "not finite"}, .leaves = "run"},
    {"a model larger than memory", MEMORY, "train c.yaml --quiet", HUGE,
     .expect = {"out of memory", "bytes were asked for"}, .huge = true},

    /* devices */
    {"cuda module is not one", UNSUPPORTED, "check c.yaml --set parallel.backend=cuda", GOOD, not_a_module,
     .expect = {"backend cuda", "module.so"}, .env = "LOCKSTEP_CUDA_MODULE=module.so"},
    {"cuda module missing", UNSUPPORTED, "train c.yaml --set parallel.backend=cuda", GOOD,
     .expect = {"backend cuda", "none.so"}, .env = "LOCKSTEP_CUDA_MODULE=none.so"},
};
const int rows_run_count = sizeof rows_run / sizeof *rows_run;
