/* Words of other programs, and the names here. Words of PyTorch, Keras and scikit-learn are often close in letters
 * to another option than the one that is meant: `mae` is nearer to mse than to l1. */
#include "base/hints.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

enum { WORD_BYTES = 64 };

/* words: small letters and digits alone, so that Batch-Size and batch_size are one. where: a pattern of the option whose
 * value it is ("model.loss"), of the layers ("model.layers"), or "in SECTION" for the name of an option. The first row counts. */
static const struct {
  const char *words, *where, *remedy;
} rows[] = {
    {"mae meanabsoluteerror l1loss absoluteerror", "model.loss", "the mean absolute error is `l1`"},
    {"ce crossentropyloss categoricalcrossentropy sparsecategoricalcrossentropy softmax nll nllloss logloss",
     "model.loss",
     "for one class of several it is `cross-entropy`, which contains the softmax: the last layer gives "
     "logits"},
    {"bce bceloss bcewithlogits bcewithlogitsloss binarycrossentropy sigmoid", "model.loss",
     "for labels of 0 or 1 it is `binary-cross-entropy`, which contains the sigmoid: the last layer gives "
     "logits"},
    {"linear fc fullyconnected denselayer", "model.layers",
     "the fully connected layer is `dense`: {dense: {units: 64}}"},
    {"conv convolution conv2dlayer", "model.layers",
     "the convolution is `conv2d`: {conv2d: {filters: 16, kernel: 3}}, of samples [height, width, channels]"},
    {"flatten reshape view", "model.layers", "leave it out: a dense layer reads all values of a sample"},
    {"softmax logsoftmax", "model.layers",
     "leave it out: loss: cross-entropy contains it, and predict gives probabilities"},
    {"relu gelu silu tanh swish", "model.layers",
     "it is an option of the layer before, {dense: {units: 64, activation: relu}}, or a layer `activation`: "
     "{activation: {kind: relu}}"},
    {"leakyrelu elu selu prelu celu mish hardswish", "model.layers",
     "there is none: relu, gelu and silu come closest: {activation: {kind: gelu}}"},
    {"batchnorm batchnorm1d batchnorm2d batchnormalization bn", "model.layers", "it is `batch_norm`"},
    {"maxpool maxpool2d maxpooling2d avgpool avgpool2d averagepooling2d", "model.layers",
     "it is `pool`: {pool: {kind: max, size: 2}}, or kind: average"},
    {"leakyrelu elu selu prelu celu mish hardswish", "*.activation",
     "there is none: `relu`, gelu and silu come closest"},
    {"softmax logsoftmax", "*.activation",
     "it is `none`: loss: cross-entropy contains the softmax, and predict gives probabilities"},
    {"resnet", "model.preset", "there are `resnet18`, resnet34 and resnet50"},
    {"gpu cuda0 nvidia", "parallel.backend", "that of GPUs is `cuda`"},
    {"dp dataparallel distributeddataparallel distributed mirrored horovod", "parallel.strategy",
     "data parallel is `ddp`"},
    {"zero deepspeed sharded", "parallel.strategy", "ranks share the state of the optimizer in `fsdp`"},
    {"rmsprop adagrad nadam radam adamax lion lamb lbfgs adadelta", "train.optimizer.name",
     "there is none: `adam` and adamw come closest"},
    {"float32 32 single", "train.precision", "it is `fp32`"},
    {"float16 16 half 16mixed amp mixed mixedfloat16", "train.precision",
     "it is `fp16`, or bf16, which needs no scale of the loss"},
    {"bfloat16 bf16mixed mixedbfloat16", "train.precision", "it is `bf16`"},
    {"image imagefolder folder pictures", "data.kind", "it is `images`"},
    {"tsv dataframe pandas", "data.kind", "it is `csv`, of any delimiter (data.delimiter)"},
    {"parquet excel xlsx xls hdf5 h5 json jsonl feather arrow", "data.kind",
     "write a `csv` file: pandas' to_csv(FILE, index=False)"},
    {"outfeatures neurons nodes hidden hiddensize", "in model.layers.dense", "it is `units`"},
    {"outchannels channels", "in model.layers.conv2d", "it is `filters`"},
    {"learningrate eta0 learningrateinit", "in train.optimizer*", "it is `lr`"},
    {"learningrate lr eta0 learningrateinit", "in *", "the learning rate is train.optimizer.lr"},
    {"weightdecay l2", "in *", "it is train.optimizer.weight_decay"},
    {"batchsize minibatch bs perdevicetrainbatchsize trainbatchsize", "in *",
     "it is train.batch, the samples of a step over all ranks"},
    {"numepochs nepochs maxepochs numtrainepochs maxiter", "in *", "it is train.epochs"},
    {"maxsteps numsteps", "in *", "it is train.steps"},
    {"earlystopping earlystop niternochange", "in *",
     "it is train.patience: evaluations without a better one"},
    {"modelcheckpoint logdir savedir outputdir checkpointdir defaultrootdir", "in *",
     "it is train.checkpoint.dir"},
    {"device accelerator gpu cuda", "in *", "it is parallel.backend: cuda or cpu"},
    {"devices gpus ngpus numdevices worldsize nproc nprocpernode numprocesses", "in *",
     "it is parallel.ranks: one for each device"},
    {"classweight classweights posweight", "in *",
     "there are no weights of classes: give rare ones more rows, and judge by train.best: f1"},
    {"sampleweight sampleweights", "in *", "there are no weights of samples: give important ones more rows"},
    {"shuffle", "in *", "there is no such choice: training samples come in an order drawn from train.seed"},
    {"numworkers workers njobs", "in *", "it is parallel.threads: those of a rank make its batches, too"},
    {"randomstate randomseed", "in *", "it is train.seed"},
    {"validationsplit valsplit validsplit testsize validationfraction", "in *",
     "it is data.validation, a part of the samples"},
    {"gradclip clipgradnorm maxgradnorm gradientclipval gradclipnorm", "in *", "it is train.clip_norm"},
    {"accumulategradbatches gradientaccumulationsteps accumulationsteps", "in *", "it is train.accumulate"},
    {"fp16 bf16 amp mixedprecision halfprecision", "in *", "it is train.precision"},
    {"label labels y targetcolumn targetcolumns labelcolumn", "in data",
     "it is `target`, a column of the CSV file"},
    {"file filename filepath root", "in data", "it is `path`"},
};

static void reduce(const char *text, char word[WORD_BYTES]) {
  size_t used = 0;
  for (; *text && used + 1 < WORD_BYTES; text++)
    if (isalnum((unsigned char)*text)) word[used++] = (char)tolower((unsigned char)*text);
  word[used] = '\0';
}

/* Whether `list`, of words with a blank between them, has it. */
static bool has(const char *list, const char *word) {
  size_t len = strlen(word);
  for (const char *at = list; len > 0 && (at = strstr(at, word)); at++)
    if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0')) return true;
  return false;
}

const char *ls_hint(const char *where, const char *text) {
  char word[WORD_BYTES];
  reduce(text, word);
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (has(rows[i].words, word) && fnmatch(rows[i].where, where, 0) == 0) return rows[i].remedy;
  return NULL;
}

bool ls_hint_row(int index, const char **words, const char **where, const char **remedy) {
  if (index >= LS_COUNT(rows)) return false;
  *words = rows[index].words;
  *where = rows[index].where;
  *remedy = rows[index].remedy;
  return true;
}
