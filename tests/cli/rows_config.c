/* Wrong command lines and wrong configurations. */
#include "bad_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL    "model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}\n"
#define SAMPLES  "data: {kind: synthetic, samples: 60}\n"
#define TRAIN    "train: {batch: 10, steps: 2}\n"
#define PARALLEL "parallel: {backend: cpu, threads: 1}\n"
#define GOOD     MODEL SAMPLES TRAIN PARALLEL

#define SAFETY "safety: [{name: hot, act: pause, when: gpu_margin_c < 5}]\n"

static void too_large(void) {
  size_t size = (1 << 20) + 1;
  char *text = malloc(size);
  memset(text, '#', size);
  put("c.yaml", text, size);
  free(text);
}

static void too_deep(void) {
  char text[512] = GOOD "deep: ";
  size_t used = strlen(text);
  memset(text + used, '[', 60);
  memset(text + used + 60, ']', 60);
  put("c.yaml", text, used + 120);
}

static void not_text(void) {
  put("c.yaml", "model: \xff\xfe\n", 10);
}
static void a_zero_byte(void) {
  put("c.yaml", "model: a\0b\n", 11);
}
static void hosts_of_mpich(void) {
  put_text("hosts", "a # the first\nb:2 x\n");
}
static void hosts_without_slots(void) {
  put_text("hosts", "a slots=2\nb slots=0\n");
}
static void host_that_is_an_option(void) {
  put_text("hosts", "a\n-oProxyCommand=x\n");
}
static void hosts_twice(void) {
  put_text("hosts", "fe80::1%eth0\nfd00::1 slots=2\n[fd00::1]\n");
}
static void hosts_with_many_slots(void) {
  put_text("hosts", "a slots=70000\n");
}
static void no_hosts(void) {
  put_text("hosts", "# none\n\n");
}
static void a_folder(void) {
  mkdir("c.yaml", 0777);
}

#define LAYERED "base: b.yaml\nmodel: {loss: mse}\n"
static void a_base_with_a_mistake(void) {
  put_text("b.yaml", "train:\n  batch: many\n");
}
static void a_loop(void) {
  put_text("b.yaml", "base: c.yaml\n");
}

const row_t rows_config[] = {
    /* bases and environments */
    {"base missing", CONFIG, NULL, LAYERED, .expect = {"c.yaml:1:7", "b.yaml", "No such file"}},
    {"base is a list", CONFIG, NULL, "base: [b.yaml]\n" GOOD, .expect = {"c.yaml:1:7", "one file"}},
    {"base in a loop", CONFIG, NULL, LAYERED, .files = a_loop, .expect = {"b.yaml:1:7", "loop", "c.yaml"}},
    {"mistake in a base", CONFIG, NULL, LAYERED SAMPLES, .files = a_base_with_a_mistake,
     .expect = {"b.yaml:2:10", "many"}},
    {"environment unknown", CONFIG, "check c.yaml --env lapto", GOOD "env: {laptop: , ci: {}}\n",
     .expect = {"c.yaml:5:1", "laptop, ci", "did you mean `laptop`"}},
    {"environment unknown, by variable", CONFIG, NULL, GOOD "env: {laptop: , ci: {}}\n",
     .env = "LOCKSTEP_ENV=dev", .expect = {"c.yaml:5:1", "`dev`", "laptop, ci"}},
    {"environment without any", CONFIG, "check c.yaml --env ci", GOOD,
     .expect = {"c.yaml", "`ci`", "section `env`"}},
    {"environment without any, by variable", OK, NULL, GOOD, .env = "LOCKSTEP_ENV=ci", .expect = {""}},
    {"environment is a value", CONFIG, NULL, GOOD "env: {ci: 3}\n", .expect = {"c.yaml:5:11", "env.ci"}},
    {"environments are a list", CONFIG, NULL, GOOD "env: [ci]\n", .expect = {"c.yaml:5:6", "by its name"}},
    {"base in an environment", CONFIG, NULL, GOOD "env: {ci: {base: b.yaml}}\n",
     .expect = {"c.yaml:5:12", "`base`", "top of the file"}},
    {"mistake in an environment", CONFIG, "check c.yaml --env ci", GOOD "env: {ci: {train: {batch: 0}}}\n",
     .expect = {"c.yaml:5:27", "train.batch"}},

    /* usage */
    {"no command", USAGE, "", .expect = {"usage: lockstep"}},
    {"unknown command", USAGE, "trian c.yaml", GOOD,
     .expect = {"unknown command \"trian\"", "did you mean train"}},
    {"unknown option", USAGE, "train c.yaml --resum", GOOD,
     .expect = {"\"--resum\"", "did you mean --resume"}},
    {"option of another command", USAGE, "inspect c.yaml --resume", GOOD, .expect = {"\"--resume\""}},
    {"no configuration", USAGE, "train", .expect = {"configuration file is missing"}},
    {"two configurations", USAGE, "check c.yaml d.yaml", GOOD, .expect = {"unexpected argument \"d.yaml\""}},
    {"--set without a value", USAGE, "check c.yaml --json --set", GOOD, .no_json = true, .expect = {"--set"}},
    {"--ranks 0", USAGE, "train c.yaml --ranks 0", GOOD, .expect = {"--ranks", "\"0\""}},
    {"--ranks 2x", USAGE, "train c.yaml --ranks 2x", GOOD, .expect = {"--ranks", "\"2x\""}},
    {"--ranks -1", USAGE, "train c.yaml --ranks -1", GOOD, .expect = {"--ranks"}},
    {"--quiet=1", USAGE, "train c.yaml --quiet=1", GOOD, .expect = {"--quiet"}},
    {"eval without a checkpoint", USAGE, "eval c.yaml", GOOD, .expect = {"--checkpoint DIR is missing"}},

    /* the file itself */
    {"configuration missing", IO, .expect = {"c.yaml", "No such file"}},
    {"configuration is a folder", IO, .files = a_folder, .expect = {"c.yaml", "directory"}},
    {"configuration with a byte order mark", OK, .config = "\xef\xbb\xbf" GOOD},
    {"byte order mark and a mistake", CONFIG, .config = "\xef\xbb\xbfmodle: {}\n",
     .expect = {"c.yaml:1:1: "}},
    {"configuration too large", CONFIG, .files = too_large, .expect = {"c.yaml", "limit"}},
    {"configuration empty", CONFIG, .config = "", .expect = {"c.yaml"}},
    {"configuration is a list", CONFIG, .config = "- model\n", .expect = {"c.yaml:1:1"}},
    {"configuration is not UTF-8", CONFIG, .files = not_text, .expect = {"c.yaml:1:8"}},
    {"configuration holds a zero byte", CONFIG, .files = a_zero_byte, .expect = {"c.yaml:1:9"}},
    {"YAML alias", CONFIG, .config = "model: &m {input: [4]}\ndata: *m\n",
     .expect = {"c.yaml:1:8", "c.yaml:2:7", "anchors", "alias"}},
    {"YAML tag", CONFIG, .config = GOOD "x: !!python/object:os.system {}\n",
     .expect = {"c.yaml:5:4", "tags"}},
    {"YAML too deep", CONFIG, .files = too_deep, .expect = {"c.yaml:5:", "deeper than 32"}},
    {"YAML bracket not closed", CONFIG, .config = "model: {input: [4\n", .expect = {"c.yaml:"}},
    {"YAML tab", CONFIG, .config = "model:\n\tinput: [4]\n", .expect = {"c.yaml:2:1"}},
    {"YAML two documents", CONFIG, .config = GOOD "---\n" GOOD, .expect = {"c.yaml:5:"}},
    {"YAML key twice", CONFIG, .config = GOOD "train: {batch: 5}\n",
     .expect = {"c.yaml:5:1", "`train` is given twice", "line 3"}},

    /* unknown names, section by section */
    {"unknown section", CONFIG, .config = GOOD "paralel: {}\n",
     .expect = {"c.yaml:5:1", "`paralel`", "did you mean `parallel`"}},
    {"unknown in model", CONFIG,
     .config = "model: {inputs: [4], loss: mse, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:9", "`inputs` in model", "did you mean `input`"}},
    {"unknown in a layer", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {unit: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:50", "`unit`", "did you mean `units`"}},
    {"unknown layer", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dens: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:42", "`dens`", "did you mean `dense`"}},
    {"layer that reads a later one", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, from: b}}, {dense: {units: 3, "
               "name: b}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:66", "model.layers.dense.from: `b` is not before this layer", "move it up"}},
    {"layer name used twice", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, name: a}}, {layer_norm: {name: "
               "a}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:91", "the name `a` is used twice"}},
    {"layers of two sizes added", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3}}, {add: {from: [input, "
               "layers.0]}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:", "`input` gives (4), but `layers.0` (3)"}},
    {"parameters of another size shared", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, name: a}}, {dense: {units: 3, "
               "share: a}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:", "weight of `a` is (3, 4), but this layer needs (3, 3)"}},
    {"layer that nobody reads", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3}}, {dense: {units: 3, from: "
               "input}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:42", "no layer reads the output of `layers.0`"}},
    {"everything frozen", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, freeze: true}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:40", "every layer that learns is frozen"}},
    {"unknown in data", CONFIG, .config = MODEL "data: {kind: synthetic, sample: 5}\n",
     .expect = {"c.yaml:2:25", "did you mean `samples`"}},
    {"unknown in train", CONFIG, .config = MODEL SAMPLES "train: {batch: 10, epoch: 5}\n",
     .expect = {"c.yaml:3:20", "did you mean `epochs`"}},
    {"unknown in train.optimizer", CONFIG, .config = MODEL SAMPLES "train: {optimizer: {nme: adam}}\n",
     .expect = {"c.yaml:3:21", "train.optimizer"}},
    {"unknown in train.schedule", CONFIG, .config = MODEL SAMPLES "train: {schedule: {warmup_step: 5}}\n",
     .expect = {"c.yaml:3:20", "did you mean `warmup_steps`"}},
    {"unknown in train.checkpoint", CONFIG, .config = MODEL SAMPLES "train: {checkpoint: {directory: x}}\n",
     .expect = {"c.yaml:3:22", "`directory` in train.checkpoint"}},
    {"unknown in parallel", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {rank: 2}\n",
     .expect = {"c.yaml:4:12", "did you mean `ranks`"}},
    {"a host that is an option of ssh", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: -oProxyCommand=x}]}\n",
     .expect = {"c.yaml:4:27", "parallel.hosts.name", "letters, digits"}},
    {"a host twice", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: a}, {name: a}]}\n",
     .expect = {"c.yaml:4:31", "a stands there twice; give it more slots"}},
    {"hosts that are no list", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {hosts: {name: a}}\n",
     .expect = {"c.yaml:4:19", "a list of at most 1024 hosts"}},
    {"too few slots", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {ranks: 4, hosts: [{name: a, slots: 3}]}\n",
     .expect = {"c.yaml:4:22", "3 slots, too few for 4 ranks"}},
    {"a file of hosts with another word", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD,
     .files = hosts_of_mpich, .expect = {"hosts:2: ", "NAME slots=N", "b:2"}},
    {"a file with a host without slots", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD,
     .files = hosts_without_slots, .expect = {"hosts:2: ", "1 to 65536 slots", "b slots=0"}},
    {"a file with a host that is an option", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD,
     .files = host_that_is_an_option, .expect = {"hosts:2: ", "letters, digits", "-oProxyCommand=x"}},
    {"a file with a host twice", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD,
     .files = hosts_twice, .expect = {"hosts:3: ", "stands there twice", "[fd00::1]"}},
    {"a file with too many slots", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD,
     .files = hosts_with_many_slots, .expect = {"hosts:1: ", "1 to 65536 slots", "a slots=70000"}},
    {"an address that is none", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: \"fd00::x\"}]}\n",
     .expect = {"c.yaml:4:27", "IPv4 or IPv6 address", "fd00::x"}},
    {"an address that does not end", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: \"[fd00::1\"}]}\n",
     .expect = {"c.yaml:4:27", "IPv4 or IPv6 address", "[fd00::1"}},
    {"an address with an empty zone", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: \"fe80::1%\"}]}\n",
     .expect = {"c.yaml:4:27", "IPv4 or IPv6 address", "fe80::1%"}},
    {"an IPv6 address twice", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: \"fd00::1\"}, {name: \"[fd00::1]\"}]}\n",
     .expect = {"parallel.hosts: fd00::1 stands there twice"}},
    {"a host's name like that of an IPv6 address", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {hosts: [{name: v6-node1}, {name: \"fd00::1\"}]}\n",
     .expect = {"c.yaml:4:", "begin with v6-", "give v6-node1 by its address"}},
    {"a file without hosts", CONFIG, .args = "train c.yaml --hosts hosts", .config = GOOD, .files = no_hosts,
     .expect = {"hosts: names no host"}},
    {"unknown preset", CONFIG, .config = "model: {preset: mlp-medum}\n" SAMPLES,
     .expect = {"c.yaml:1:17", "did you mean `mlp-medium`"}},
    {"unknown loss", CONFIG,
     .config = "model: {input: [4], loss: entropy, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:27", "cross-entropy"}},
    {"unknown strategy", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {strategy: dpd}\n",
     .expect = {"c.yaml:4:22", "did you mean `ddp`"}},
    {"an unknown strategy far from every name", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {strategy: zzzz}\n",
     .expect = {"parallel.strategy: `zzzz` is not one of ", "single, ddp, ", "auto"}},
    {"an unknown transport far from every name", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {transport: zzzz}\n",
     .expect = {"parallel.transport: `zzzz` is not one of ", "mpi", "auto"}},
    {"an unknown backend far from every name", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {backend: zzzz}\n",
     .expect = {"parallel.backend: `zzzz` is not one of ", "cpu", "cuda"}},
    {"unknown transport", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {transport: mpp}\n",
     .expect = {"parallel.transport: `mpp`", "did you mean `mpi`"}},
    {"unknown backend", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {backend: gpu}\n",
     .expect = {"c.yaml:4:21", "`gpu`"}},
    {"unknown activation", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, activation: rleu}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:72", "relu"}},
    {"unknown precision", CONFIG, .config = MODEL SAMPLES "train: {precision: fp8}\n",
     .expect = {"c.yaml:3:20", "fp32"}},
    {"a precision that the backend lacks", CONFIG,
     .config = MODEL SAMPLES "train: {precision: tf32}\nparallel: {backend: ref}\n",
     .expect = {"c.yaml:3:20", "backend ref", "parallel.backend: cuda"}},

    /* wrong types and ranges */
    {"text for a number", CONFIG, .config = MODEL SAMPLES "train: {batch: many}\n",
     .expect = {"c.yaml:3:16", "train.batch", "`many`"}},
    {"a number with a tail", CONFIG, .config = MODEL SAMPLES "train: {batch: 32xyz}\n",
     .expect = {"c.yaml:3:16", "`32xyz`"}},
    {"a fraction for an integer", CONFIG, .config = MODEL SAMPLES "train: {batch: 1.5}\n",
     .expect = {"c.yaml:3:16", "`1.5`"}},
    {"a huge integer", CONFIG, .config = MODEL SAMPLES "train: {batch: 99999999999999999999}\n",
     .expect = {"c.yaml:3:16"}},
    {"a list for a number", CONFIG, .config = MODEL SAMPLES "train: {optimizer: {lr: [1, 2]}}\n",
     .expect = {"c.yaml:3:25", "train.optimizer.lr"}},
    {"a text for a list", CONFIG,
     .config = "model: {input: 28x28, loss: mse, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:16", "`28x28`"}},
    {"yes for true", CONFIG, .config = MODEL "data: {kind: synthetic, normalize: yes}\n",
     .expect = {"c.yaml:2:36", "`yes`"}},
    {"a quoted number", CONFIG, .config = MODEL SAMPLES "train: {batch: \"10\"}\n",
     .expect = {"c.yaml:3:16"}},
    {"a value for a section", CONFIG, .config = MODEL SAMPLES "train: 5\n",
     .expect = {"c.yaml:3:8", "train"}},
    {"nan for a number", CONFIG, .config = MODEL SAMPLES "train: {optimizer: {lr: .nan}}\n",
     .expect = {"c.yaml:3:25"}},
    {"batch 0", CONFIG, .config = MODEL SAMPLES "train: {batch: 0}\n",
     .expect = {"c.yaml:3:16", "train.batch", "1"}},
    {"negative rate", CONFIG, .config = MODEL SAMPLES "train: {optimizer: {lr: -1}}\n",
     .expect = {"c.yaml:3:25"}},
    {"dropout above 1", CONFIG,
     .config = "model: {input: [4], loss: mse, layers: [{dense: {units: 3, dropout: 1.5}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:69"}},
    {"validation 1", CONFIG, .config = MODEL "data: {kind: synthetic, validation: 1}\n",
     .expect = {"c.yaml:2:37"}},
    {"keep 0", CONFIG, .config = MODEL SAMPLES "train: {checkpoint: {dir: run, keep: 0}}\n",
     .expect = {"c.yaml:3:38"}},
    {"ranks 0", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {ranks: 0}\n", .expect = {"c.yaml:4:19"}},
    {"input too large", CONFIG,
     .config = "model: {input: [1000000000], loss: mse, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:16", "268435456"}},
    {"no units", CONFIG, .config = "model: {input: [4], loss: mse, layers: [{dense: {}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:", "units"}},
    {"no layers", CONFIG, .config = "model: {input: [4], loss: mse, layers: []}\n" SAMPLES,
     .expect = {"c.yaml:1:", "layers"}},
    {"input of size 0", CONFIG,
     .config = "model: {input: [0], loss: mse, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:17"}},

    /* what does not go together */
    {"preset with layers", CONFIG,
     .config = "model: {preset: mlp-medium, layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:29", "model.preset"}},
    {"a group without a parameter", OK,
     .config = MODEL SAMPLES
     "train: {batch: 10, optimizer: {groups: [{match: '*'}, {match: '*.bias', lr: 0.1}]}}\n",
     .expect = {"warning: train.optimizer.groups: group 2 of 2 has no effect: no trained parameter"}},
    {"groups that have what they match", OK,
     .config = MODEL SAMPLES
     "train: {batch: 10, optimizer: {groups: [{match: ['*', '!*.bias'], lr: 0.1}, {match: '*'}]}}\n",
     .lacks = "warning"},
    {"a negative rate of a group", CONFIG,
     .config = MODEL SAMPLES "train: {optimizer: {groups: [{match: '*', lr: -0.5}]}}\n",
     .expect = {"c.yaml:3:47", "train.optimizer.groups.lr: `-0.5` must be -1 or in [0, 1000000]"}},
    {"a negative dropout of a preset", CONFIG, .config = "model: {preset: gpt-char, dropout: -0.5}\n" SAMPLES,
     .expect = {"c.yaml:1:36", "model.dropout: `-0.5` must be -1 or in [0, 0.99]"}},
    {"momentum of adam", CONFIG, .config = MODEL SAMPLES "train: {batch: 10, optimizer: {momentum: 0.9}}\n",
     .expect = {"c.yaml:3:20", "train.optimizer: momentum has no effect without name: sgd"}},
    {"cross-entropy of one class", OK,
     .config = "model: {input: [4], loss: cross-entropy, layers: [{dense: {units: 1}}]}\n" SAMPLES TRAIN,
     .expect = {"warning: model.loss: cross-entropy of one class is always 0", "binary-cross-entropy"}},
    {"cross-entropy of one class, trained", OK, "train c.yaml",
     "model: {input: [4], loss: cross-entropy, layers: [{dense: {units: 1}}]}\n" SAMPLES TRAIN,
     .expect = {"warning: model.loss: cross-entropy of one class is always 0"}},
    {"a norm that no float holds", CONFIG, "check c.yaml --set train.clip_norm=1e300", GOOD,
     .expect = {"train.clip_norm: `1e300` must be at most 1e+30"}},
    {"epochs and steps", CONFIG, .config = MODEL SAMPLES "train: {epochs: 1, steps: 5}\n",
     .expect = {"c.yaml:3:27", "not both: train.epochs is at", "c.yaml:3:17"}},
    {"epochs of --set replace the file's steps", OK, "check c.yaml --set train.epochs=2", GOOD},
    {"steps of --set replace the file's epochs", OK, "check c.yaml --set train.steps=2",
     MODEL SAMPLES "train: {batch: 10, epochs: 3}\n" PARALLEL},
    {"a run in which steps replace epochs says so", OK, "train c.yaml --set train.steps=2",
     MODEL SAMPLES "train: {batch: 10, epochs: 3}\n" PARALLEL,
     .expect = {"train.steps of --set (2) replaces train.epochs of c.yaml:3"}},
    {"epochs and steps of --set", CONFIG, "check c.yaml --set train.epochs=2 --set train.steps=5", GOOD,
     .expect = {"give train.epochs or train.steps, not both"}},
    {"shards that are no power of two", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {reproducible: true, shards: 6}\n",
     .expect = {"c.yaml:4:40", "power of two", "4, 8 or 16"}},
    {"shards for three ranks", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 3, reproducible: true}\n",
     .expect = {"c.yaml:4:34", "8 shards cannot be spread evenly over 3 ranks", "raise parallel.shards"}},
    {"more ranks than shards", CONFIG,
     .config = MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 4, reproducible: true, shards: 2}\n",
     .expect = {"2 shards cannot be spread evenly over 4 ranks"}},
    {"shards and micro-batches", CONFIG,
     .config = MODEL SAMPLES "train: {batch: 10, steps: 2, accumulate: 2}\nparallel: {reproducible: true}\n",
     .expect = {"c.yaml:3:42", "leave train.accumulate out and raise parallel.shards (8)"}},
    {"single on two ranks", CONFIG, .config = MODEL SAMPLES TRAIN "parallel: {strategy: single, ranks: 2}\n",
     .expect = {"c.yaml:4:22", "single, which uses one rank, but 2", "write ddp"}},
    {"single and --ranks 2", CONFIG, "train c.yaml --ranks 2",
     .config = MODEL SAMPLES TRAIN "parallel: {strategy: single}\n",
     .expect = {"c.yaml:4:22", "single, which uses one rank, but 2", "--ranks", "write ddp"}},
    {"more ranks must be left than there are", OK,
     .config = MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 2}\nsupervise: {ranks: {least: 3}}\n",
     .expect = {"warning: supervise.ranks.least is 3 and the run has 2 ranks", "--supervise refuses"}},
    {"more ranks must be left than there are, supervised", CONFIG,
     "train c.yaml --supervise --set train.checkpoint.dir=run",
     MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 2}\nsupervise: {ranks: {least: 3}}\n",
     .expect = {"c.yaml:5:28", "supervise.ranks.least: the run has 2 ranks", "at most 2"}},
    {"more ranks must be left than are asked for", OK, "check c.yaml --ranks 1",
     MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 2}\nsupervise: {ranks: {least: 2}}\n",
     .expect = {"warning: supervise.ranks.least is 2 and the run has 1 rank:"}},
    {"as many ranks must be left as there are", OK, NULL,
     MODEL SAMPLES TRAIN "parallel: {strategy: ddp, ranks: 2}\nsupervise: {ranks: {least: 2}}\n",
     .lacks = "least"},
    {"limits that nothing judges", CONFIG, NULL, GOOD SAFETY,
     .expect = {"c.yaml:5:9", "it needs monitor.dir (--set monitor.dir=DIR)"}},
    {"limits that nothing judges, trained", CONFIG, "train c.yaml --quiet --set train.checkpoint.dir=run",
     GOOD SAFETY, .expect = {"c.yaml:5:9", "it needs monitor.dir (--set monitor.dir=DIR)"}},
    {"limits that only a supervised run judges", OK, "check c.yaml --set train.checkpoint.dir=run",
     GOOD SAFETY, .expect = {"warning: safety needs monitor.dir", "--supervise"}},
    {"limits that a monitor judges", OK, "check c.yaml --set monitor.dir=m", GOOD SAFETY, .lacks = "safety"},
    {"batch smaller than ranks", CONFIG,
     .config = MODEL SAMPLES "train: {batch: 2}\nparallel: {strategy: ddp, ranks: 3}\n",
     .expect = {"c.yaml:3:1", "(2)", "(3)"}},
    {"more ranks than anything allows", CONFIG, "check c.yaml --ranks 65",
     MODEL SAMPLES TRAIN "parallel: {strategy: single, reproducible: true}\n",
     .expect = {"single, which uses one rank, but 65"}, .lacks = "smaller than the number of ranks"},
    {"no data section", CONFIG, .config = MODEL, .expect = {"c.yaml: data.kind is missing"}},
    {"no model section", CONFIG, .config = SAMPLES, .expect = {"c.yaml: model.input is missing"}},
    {"no model section", CONFIG, .config = SAMPLES, .expect = {"model."}},
    {"no loss", CONFIG, .config = "model: {input: [4], layers: [{dense: {units: 3}}]}\n" SAMPLES,
     .expect = {"c.yaml:1:1", "loss"}},
    {"csv without a path", CONFIG, .config = MODEL "data: {kind: csv, target: [a]}\n",
     .expect = {"data.path"}},
    {"idx with a path", CONFIG, .config = MODEL "data: {kind: idx, path: x, features: a, targets: b}\n",
     .expect = {"data.path"}},
    {"line ends in a value and in a name", CONFIG,
     .config = MODEL SAMPLES "train: {batch: \"1\\nlockstep: error: x\", \"y\\nlockstep: error: z\": 1}\n",
     .expect = {"`1\\nlockstep: error: x` is quoted", "`y\\nlockstep: error: z` in train"},
     .lacks = "\nlockstep: error: x"},
    {"two errors at once", CONFIG,
     .config = MODEL SAMPLES "train: {batch: 0, epoch: 1}\n"
                             "parallel: {rank: 1}\n",
     .expect = {"c.yaml:3:16", "c.yaml:3:19", "c.yaml:4:12", "train: {batch: 0, epoch: 1}"}},

    /* --set */
    {"--set without =", CONFIG, "check c.yaml --set train.batch", GOOD,
     .expect = {"--set:1:", "`=` is missing"}},
    {"--set unknown option", CONFIG, "check c.yaml --set train.bach=3", GOOD,
     .expect = {"--set:1:", "did you mean `batch`"}},
    {"--set wrong type", CONFIG, "check c.yaml --set train.batch=x", GOOD, .expect = {"--set:1:13", "`x`"}},
    {"--set below a value", CONFIG, "check c.yaml --set train.batch.x=3", GOOD,
     .expect = {"--set:1:", "is a value"}},
    {"--set list index", CONFIG, "check c.yaml --set model.layers.7={}", GOOD, .expect = {"--set:1:", "7"}},
    {"--set without a name", CONFIG, "check c.yaml --set =3", GOOD, .expect = {"--set:1:1"}},
    {"--set bad YAML", CONFIG, "check c.yaml --set train.batch=[", GOOD, .expect = {"--set:1:"}},
};
const int rows_config_count = sizeof rows_config / sizeof *rows_config;
