#!/bin/sh
# Weights of other programs: exported under their names and read back to the bit, a new head on them, what is refused.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
cat >a.yaml <<'Y'
model:
  input: [6]
  loss: cross-entropy
  layers:
    - dense: {name: h.0.mlp.c_fc, units: 11, activation: gelu}
    - dense: {name: h.0.mlp.c_proj, units: 6}
    - layer_norm: {name: ln_f}
    - dense: {name: head, units: 3, bias: false}
data: {kind: synthetic, samples: 300}
train: {batch: 20, epochs: 2, checkpoint: {dir: run}}
parallel: {backend: cpu}
Y
awk 'BEGIN { srand(1); OFS = ","; print "a,b,c,d,e,f"; for (i = 0; i < 50; i++) print rand(), rand(), rand(), rand(), rand(), rand() }' >x.csv
"$program" train a.yaml --quiet >/dev/null 2>err || fail "train: $(cat err)"
"$program" predict a.yaml --checkpoint run --input x.csv >a.csv 2>err || fail "predict: $(cat err)"

for map in names torchvision hf-gpt2 hf-bert; do
  "$program" export a.yaml --checkpoint run --map $map --output $map.safetensors --json >export.json 2>err ||
    fail "export $map: $(cat err)"
  [ "$(field export.json tensors)" = 7 ] || fail "export $map: $(cat export.json)"
  # the same predictions from the file alone, and the same file again
  set -- --set model.weights=$map.safetensors --set model.map=$map
  "$program" predict a.yaml "$@" --input x.csv >b.csv 2>err || fail "predict from $map: $(cat err)"
  grep -q "begins with 7 of the model's 7 tensors, 179 values$" err || fail "report of $map: $(cat err)"
  cmp a.csv b.csv || fail "other predictions from $map"
  "$program" export a.yaml "$@" --output again.safetensors >table 2>err || fail "export from $map: $(cat err)"
  cmp $map.safetensors again.safetensors || fail "$map is not written back to the bit"
done
head -c 4096 hf-gpt2.safetensors | grep -aq '"h.0.mlp.c_fc.weight":{[^}]*"shape":\[6,11\]' || fail "(in, out) of GPT-2"
head -c 4096 names.safetensors | grep -aq '"h.0.mlp.c_fc.weight":{[^}]*"shape":\[11,6\]' || fail "(out, in)"
cmp -s names.safetensors hf-gpt2.safetensors && fail "nothing was transposed"

# names of another program: what is called alike in both was taken, and the matrices began anew
expect 6 'hf-gpt2.safetensors: model.map: hf-bert fits 5 of the model.s 7 tensors, hf-gpt2 fits 7: set model.map: hf-gpt2$' \
  train a.yaml --set model.weights=hf-gpt2.safetensors --set model.map=hf-bert

# another head: taken, missing and left are said; a resumed run does not begin again
sed 's/name: head, units: 3/name: new, units: 5/; s/dir: run/dir: tuned/; s/units: 6}/units: 6, freeze: true}/' a.yaml >b.yaml
"$program" train b.yaml --quiet --set model.weights=hf-gpt2.safetensors --set model.map=hf-gpt2 >/dev/null 2>err ||
  fail "fine-tuning: $(cat err)"
grep -q "warning: .*hf-gpt2.safetensors (hf-gpt2): begins with 6 of the model's 7 tensors, 161 values; 1 of the model are not there and begin anew: new.weight; 1 of the file are not used: head.weight" err ||
  fail "report: $(cat err)"
"$program" export b.yaml --checkpoint tuned --output tuned.safetensors --map names >/dev/null 2>err || fail "export: $(cat err)"
"$program" train b.yaml --resume --quiet --set train.epochs=3 --set model.weights=gone.safetensors >/dev/null 2>err ||
  fail "resume: $(cat err)"
grep -q 'begins with' err && fail "a resumed run begins with weights: $(cat err)"
# a run is a file of weights as well
"$program" predict a.yaml --set model.weights=run --input x.csv >c.csv 2>err || fail "weights of a run: $(cat err)"
cmp a.csv c.csv || fail "other predictions from a run"
# only training begins a layer anew: everything else would go on with random numbers
expect 6 "tuned/step-.*: has 6 of the model's 7 tensors; 1 of the model are not there: head.weight; 1 of the file are not used: new.weight; only training" \
  predict a.yaml --set model.weights=tuned --input x.csv --output new.csv
another='another shape there: head.weight (head.weight is f32 (3, 6), the model needs f32 (4, 6)); only training'
set -- --set model.weights=names.safetensors --set model.layers.3.dense.units=4
for format in safetensors onnx; do
  expect 6 "$another" export a.yaml "$@" --output c.new --format $format
done
expect 6 "$another" predict a.yaml "$@" --input x.csv --output new.csv
[ ! -e c.new ] && [ ! -e new.csv ] || fail "a file of random numbers"
"$program" train a.yaml "$@" --quiet --set train.checkpoint.dir=four >/dev/null 2>err || fail "another size: $(cat err)"
grep -q '1 of the model have another shape there and begin anew: head.weight' err || fail "another size: $(cat err)"

# the presets have the names of others: PRESET MAP TENSOR SHAPE.., with the other sizes
awk 'BEGIN { print "a,b,c,d,e,f,g,h"; for (r = 0; r < 9; r++) print r ",1,2,3,4,5,6,7" }' >ids.csv
preset() {
  cat >p.yaml <<Y
model: {preset: $1, $sizes}
data: {kind: synthetic, samples: 40}
train: {batch: 10, steps: 2, checkpoint: {dir: $1}}
parallel: {backend: cpu}
Y
  name=$1 map=$2
  shift 2
  "$program" train p.yaml --quiet >/dev/null 2>err || fail "$name: train: $(cat err)"
  "$program" export p.yaml --checkpoint $name --map $map --output p.safetensors >/dev/null 2>err || fail "$name: export: $(cat err)"
  for tensor in "$@"; do
    head -c 16384 p.safetensors | grep -aq "\"${tensor% *}\":{[^}]*\"shape\":\[${tensor#* }\]" || fail "$name: no $tensor"
  done
  "$program" predict p.yaml --checkpoint $name --input $input >a.csv 2>err || fail "$name: predict: $(cat err)"
  "$program" predict p.yaml --set model.weights=p.safetensors --set model.map=$map --input $input >b.csv 2>err ||
    fail "$name: predict from $map: $(cat err)"
  cmp a.csv b.csv || fail "$name: other predictions from $map"
}
input=ids.csv texts="width: 12, depth: 2, heads: 3, context: 8, vocabulary: 10" sizes=$texts
preset gpt2 hf-gpt2 'wte.weight 10,12' 'wpe.weight 8,12' 'h.1.attn.c_attn.weight 12,36' 'h.1.attn.c_proj.bias 12' \
  'h.0.mlp.c_fc.weight 12,48' 'h.0.ln_2.weight 12' 'ln_f.bias 12'
# a network for shorter texts takes the first places of the table
"$program" predict p.yaml --set model.weights=p.safetensors --set model.map=hf-gpt2 --set model.context=5 --input - --output short.npy \
  --set model.loss=mse <<'Y' >/dev/null 2>err || fail "shorter: $(cat err)"
a,b,c,d,e
1,2,3,4,5
Y
grep -q "begins with 28 of the model's 28 tensors" err || fail "shorter: $(cat err)"
echo a,b,c,d,e,f,g,h,i >long.csv
echo 1,2,3,4,5,6,7,8,9 >>long.csv
expect 6 'another shape there: wpe.weight (wpe.weight is f32 (8, 12), the model needs f32 (9, 12))' \
  predict p.yaml --set model.weights=p.safetensors --set model.map=hf-gpt2 --set model.context=9 --input long.csv

sizes="$texts, classes: 2"
preset bert-base hf-bert 'bert.embeddings.word_embeddings.weight 10,12' 'bert.embeddings.LayerNorm.bias 12' \
  'bert.encoder.layer.1.attention.self.key.weight 12,12' 'bert.encoder.layer.1.attention.output.dense.bias 12' \
  'bert.encoder.layer.0.intermediate.dense.weight 48,12' 'bert.encoder.layer.0.output.LayerNorm.weight 12' 'classifier.weight 2,12'
sizes=$texts
preset bert-base-mlm hf-bert 'bert.embeddings.word_embeddings.weight 10,12' 'cls.predictions.transform.dense.weight 12,12' \
  'cls.predictions.transform.LayerNorm.bias 12' 'cls.predictions.bias 10'
# as resnext50_32x4d: the middle convolutions of a block have groups and a width of their own
awk 'BEGIN { for (r = -1; r < 9; r++) for (i = 0; i < 3072; i++) printf "%s%s", r < 0 ? "p" i : r * i % 7, i < 3071 ? "," : "\n" }' >images.csv
input=images.csv sizes="width: 8, depth: 1, image: 32, classes: 3, groups: 2, group_width: 32"
preset resnet50 torchvision 'conv1.weight 8,3,7,7' 'layer1.0.conv1.weight 8,8,1,1' 'layer1.0.conv2.weight 8,4,3,3' \
  'layer1.0.conv3.weight 32,8,1,1' 'layer4.0.conv2.weight 64,32,3,3' 'layer2.0.downsample.0.weight 64,32,1,1' 'fc.weight 3,256'

expect 5 'gone.safetensors' train a.yaml --set model.weights=gone.safetensors
expect 6 'none of its tensors belongs to this model' train a.yaml --set model.weights=hf-gpt2.safetensors \
  --set 'model.layers=[{dense: {units: 3}}]'
head -c 4500 names.safetensors >cut.safetensors
expect 6 'cut.safetensors' train a.yaml --set model.weights=cut.safetensors
expect 3 'hf-gpt3' train a.yaml --set model.map=hf-gpt3
expect 2 'not one of names, torchvision' export a.yaml --checkpoint run --output x --map tf
expect 2 'output cannot be stdout' export a.yaml --checkpoint run --output -
expect 2 '--output FILE is missing' export a.yaml --checkpoint run
expect 2 'there is no model to use' export a.yaml --output x
expect 5 'no-such' export a.yaml --checkpoint run --output no-such/x.safetensors
