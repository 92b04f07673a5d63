/* What people who know other programs write, and what it is called here. Words of PyTorch, Keras and scikit-learn are often
 * close in letters to another option than the one that is meant: `mae` is nearer to mse than to l1. */
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
    {"l2 mseloss meansquarederror squarederror rmse", "model.loss", "the squared error is `mse`"},
    {"smoothl1 smoothl1loss huberloss", "model.loss", "the smooth L1 loss is `huber`, with huber_delta"},
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
    {"conv1d", "model.layers", "there is `conv2d` alone: give it samples [T, 1, channels]"},
    {"flatten reshape view", "model.layers", "leave it out: a dense layer reads all values of a sample"},
    {"softmax logsoftmax", "model.layers",
     "leave it out: loss: cross-entropy contains it, and predict gives probabilities"},
    {"sigmoid", "model.layers",
     "it is {activation: {kind: sigmoid}}; behind the last layer loss: binary-cross-entropy contains it"},
    {"relu gelu silu tanh swish", "model.layers",
     "it is an option of the layer before, {dense: {units: 64, activation: relu}}, or a layer `activation`: "
     "{activation: {kind: relu}}"},
    {"leakyrelu elu selu prelu celu mish hardswish", "model.layers",
     "there is none: relu, gelu and silu come closest: {activation: {kind: gelu}}"},
    {"batchnorm batchnorm1d batchnorm2d batchnormalization bn", "model.layers", "it is `batch_norm`"},
    {"layernorm layernormalization", "model.layers", "it is `layer_norm`"},
    {"maxpool maxpool2d maxpooling2d avgpool avgpool2d averagepooling2d", "model.layers",
     "it is `pool`: {pool: {kind: max, size: 2}}, or kind: average"},
    {"globalaveragepooling2d globalaveragepooling1d adaptiveavgpool2d gap globalmaxpooling2d "
     "globalmaxpooling1d",
     "model.layers", "it is `global_pool`: {global_pool: {kind: mean}}, or kind: max"},
    {"multiheadattention selfattention mha", "model.layers", "it is `attention`: {attention: {heads: 4}}"},
    {"transformer transformerencoder transformerencoderlayer", "model.layers",
     "it is model.preset: encoder, or `attention`, layer_norm, dense and add in a repeat"},
    {"rnn simplernn", "model.layers", "there are `lstm` and gru"},
    {"bidirectional", "model.layers",
     "it is an option of `lstm` and gru: {lstm: {units: 64, bidirectional: true}}"},
    {"residual skip shortcut", "model.layers",
     "it is `add`, which names the layers that it joins: {add: {from: [a, b]}}"},
    {"concatenate cat", "model.layers", "it is `concat`: {concat: {from: [a, b]}}"},
    {"normalization rescaling standardize", "model.layers", "leave it out: data.normalize: true does that"},
    {"input inputlayer", "model.layers", "leave it out: model.input is the shape of a sample"},
    {"timedistributed", "model.layers", "it is an option of `dense`: {dense: {units: 64, over: last}}"},

    {"leakyrelu elu selu prelu celu mish hardswish", "*.activation",
     "there is none: `relu`, gelu and silu come closest"},
    {"swish", "*.activation", "it is `silu`"},
    {"linear identity", "*.activation", "it is `none`"},
    {"softmax logsoftmax", "*.activation",
     "it is `none`: loss: cross-entropy contains the softmax, and predict gives probabilities"},
    {"gelunew geluapproximate gelufast quickgelu", "*.activation", "the form with tanh is `gelu_tanh`"},
    {"transformer", "model.preset", "it is `encoder`, or those of gpt and bert"},
    {"mlp", "model.preset", "there are `mlp-medium`, mlp-large and mlp-extreme"},
    {"resnet", "model.preset", "there are `resnet18`, resnet34 and resnet50"},
    {"resnet101 resnet152", "model.preset", "it is `resnet50` with depth: [3, 4, 23, 3], or [3, 8, 36, 3]"},

    {"gpu cuda0 nvidia", "parallel.backend", "that of GPUs is `cuda`"},
    {"mps metal rocm hip tpu xla", "parallel.backend", "there is none: `cpu` and cuda compute"},
    {"nccl mpi gloo", "parallel.backend", "that is parallel.transport; `cuda` and cpu compute"},
    {"gloo", "parallel.transport", "between hosts and processors it is `mpi`"},
    {"dp dataparallel distributeddataparallel distributed mirrored horovod", "parallel.strategy",
     "data parallel is `ddp`"},
    {"fsdp zero deepspeed", "parallel.strategy",
     "there is none that spreads the parameters: in `ddp` every rank has them all"},

    {"rmsprop adagrad nadam radam adamax lion lamb lbfgs adadelta", "train.optimizer.name",
     "there is none: `adam` and adamw come closest"},
    {"momentum nesterov", "train.optimizer.name", "that is an option of `sgd`"},
    {"float32 32 single", "train.precision", "it is `fp32`"},
    {"float16 16 half 16mixed amp mixed mixedfloat16", "train.precision",
     "it is `fp16`, or bf16, which needs no scale of the loss"},
    {"bfloat16 bf16mixed mixedbfloat16", "train.precision", "it is `bf16`"},
    {"steplr multisteplr exponential exponentiallr", "train.schedule.name",
     "it is `step`, with every_steps and factor"},
    {"cosineannealing cosineannealinglr cosinedecay", "train.schedule.name", "it is `cosine`"},
    {"linear onecycle onecyclelr polynomial", "train.schedule.name",
     "there is none: `cosine` with warmup_steps comes closest"},
    {"reducelronplateau reduceonplateau plateau", "train.schedule.name",
     "there is none: `cosine`, or train.patience, which ends a run that no longer gets better"},
    {"acc categoricalaccuracy binaryaccuracy accuracyscore", "train.metrics", "it is `accuracy`"},
    {"f1score f1macro macrof1", "train.metrics", "it is `f1`, the mean over the classes"},
    {"top5accuracy topkcategoricalaccuracy", "train.metrics", "it is `top5`"},

    {"image imagefolder folder pictures", "data.kind", "it is `images`"},
    {"numpy npz", "data.kind", "it is `npy`, also of FILE.npz:NAME"},
    {"mnist ubyte", "data.kind", "the files of MNIST are `idx`"},
    {"tsv dataframe pandas", "data.kind", "it is `csv`, of any delimiter (data.delimiter)"},
    {"parquet excel xlsx xls hdf5 h5 json jsonl feather arrow", "data.kind",
     "write a `csv` file: pandas' to_csv(FILE, index=False)"},
    {"tokens txt", "data.kind", "it is `text`"},
    {"median zero mostfrequent constant fill impute", "data.missing", "there is `mean`, and indicator"},
    {"drop dropna ignore", "data.missing", "leave the rows out of the file, or fill them with `mean`"},

    {"outfeatures neurons nodes hidden hiddensize", "in model.layers.dense", "it is `units`"},
    {"hiddensize hidden", "in model.layers.*", "it is `units`"},
    {"numlayers", "in model.layers.*", "it is `layers`"},
    {"outchannels channels", "in model.layers.conv2d", "it is `filters`"},
    {"poolsize kernelsize kernel", "in model.layers.pool", "it is `size`"},
    {"kernelsize", "in model.layers.*", "it is `kernel`"},
    {"numembeddings vocabsize inputdim", "in model.layers.embedding", "it is `size`"},
    {"embeddingdim embeddim outputdim", "in model.layers.embedding", "it is `units`"},
    {"p prob probability", "in model.layers.dropout", "it is `rate`"},
    {"numheads nhead", "in model.layers.attention", "it is `heads`"},
    {"returnsequences", "in model.layers.*", "it is `output`: all, or last"},
    {"learningrate eta0 learningrateinit", "in train.optimizer*", "it is `lr`"},
    {"learningrate lr eta0 learningrateinit", "in *", "the learning rate is train.optimizer.lr"},
    {"betas", "in train.optimizer", "there are `beta1` and beta2"},
    {"l2 decay alpha", "in train.optimizer", "it is `weight_decay`"},
    {"weightdecay l2", "in *", "it is train.optimizer.weight_decay"},
    {"momentum", "in *", "it is train.optimizer.momentum, of sgd"},
    {"batchsize minibatch bs perdevicetrainbatchsize trainbatchsize", "in *",
     "it is train.batch, the samples of a step over all ranks"},
    {"numepochs nepochs maxepochs numtrainepochs maxiter", "in *", "it is train.epochs"},
    {"maxsteps numsteps", "in *", "it is train.steps"},
    {"earlystopping earlystop niternochange", "in *",
     "it is train.patience: evaluations without a better one"},
    {"restorebestweights savebestonly loadbestmodelatend", "in *",
     "predict, eval and export take the best checkpoint with --best"},
    {"callbacks", "in *", "train.patience stops early, train.checkpoint saves, monitor.dir shows the run"},
    {"modelcheckpoint logdir savedir outputdir checkpointdir defaultrootdir", "in *",
     "it is train.checkpoint.dir"},
    {"savesteps saveeverysteps", "in *", "it is train.checkpoint.every_steps"},
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
    {"validationdata valdata evaldata", "in *",
     "it is data.validation_path, or validation_features and validation_targets"},
    {"gradclip clipgradnorm maxgradnorm gradientclipval gradclipnorm", "in *", "it is train.clip_norm"},
    {"accumulategradbatches gradientaccumulationsteps accumulationsteps", "in *", "it is train.accumulate"},
    {"fp16 bf16 amp mixedprecision halfprecision", "in *", "it is train.precision"},
    {"scheduler lrscheduler", "in *", "it is train.schedule: {name: cosine}"},
    {"warmup warmupsteps warmupratio", "in *", "it is train.schedule.warmup_steps"},
    {"criterion lossfn lossfunction", "in *", "it is model.loss"},
    {"hiddenlayersizes hidden hiddensize hiddenunits", "in *",
     "each is a layer of model.layers: {dense: {units: 64}}"},
    {"numclasses nclasses numlabels", "in *",
     "it is the units of the last layer, or model.classes of a preset"},
    {"inputshape inputsize inputdim indim infeatures", "in *", "it is model.input"},
    {"pretrained", "in *", "it is model.weights, a .safetensors file, with model.map"},
    {"standardize standardscaler scaler scale normalization", "in *", "it is data.normalize: true"},
    {"fillna impute imputer navalues", "in *", "it is data.missing: mean"},
    {"sep separator", "in data", "it is `delimiter`"},
    {"label labels y targetcolumn targetcolumns labelcolumn", "in data",
     "it is `target`, a column of the CSV file"},
    {"x featurecolumns usecols inputcolumns", "in data", "it is `columns`, those of the features"},
    {"file filename filepath root", "in data", "it is `path`"},
    {"imagesize imgsize", "in *",
     "samples are scaled to model.input, [height, width, 3]; data.resize is the shorter side before"},
    {"horizontalflip randomhorizontalflip", "in data", "it is `flip`"},
    {"lookback seqlen sequencelength windowsize timesteps", "in data",
     "it is `window`, rows of a sample (csv), or context (text)"},
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
