#!/bin/sh
# Networks exported to ONNX give the program's own predictions in onnxruntime.
set -eu
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$work"

# one NAME DIMS LOSS LAYERS [IDS]: trains a little, exports. IDS: samples are that many tokens, padded with 0 from any place on
one() {
  name=$1 dims=$2 loss=$3 layers=$4 ids=${5:-0} pad=-1
  [ "$ids" = 0 ] || pad=0
  cat >"$name.yaml" <<Y
model: {input: [$(echo $dims | tr ' ' ,)], loss: $loss, pad: $pad, layers: [$layers]}
data: {kind: csv, path: $name.csv, target: [class], normalize: true}
train: {batch: 10, epochs: 1, checkpoint: {dir: $name}}
parallel: {backend: cpu, threads: 1}
Y
  inputs=1
  for dim in $dims; do inputs=$((inputs * dim)); done
  awk -v n=$inputs -v ids="$ids" 'BEGIN { srand(7); for (i = 0; i < n; i++) printf "f%d,", i; print "class"
    for (r = 0; r < 40; r++) { for (i = 0; i < n; i++) printf "%s,", ids ? i < r % (n + 1) ? int(ids * rand()) : 0 : 5 + 3 * rand(); print r % 3 } }' >"$name.csv"
  "$program" train "$name.yaml" --quiet >/dev/null 2>err || fail "$name: train: $(cat err)"
  cut -d, -f-$inputs "$name.csv" >"$name.x.csv"
  "$program" predict "$name.yaml" --checkpoint "$name" --input "$name.x.csv" --output "$name.y.jsonl" >/dev/null 2>err || fail "$name: predict: $(cat err)"
  "$program" export "$name.yaml" --checkpoint "$name" --format onnx --output "$name.onnx" >/dev/null 2>err || fail "$name: export: $(cat err)"
  [ -s "$name.onnx" ] || fail "$name: no file"
  echo "$name 1e-6 $dims" >>list
}

one plain '6' cross-entropy '{dense: {units: 9, activation: relu}}, {dense: {units: 3}}'
one every '6' cross-entropy '{dense: {units: 8, activation: gelu, bias: false}}, layer_norm, {dense: {name: a, units: 8, activation: tanh, dropout: 0.3}},
  {dense: {name: b, units: 8, activation: sigmoid}}, {add: {name: s, from: [a, b]}}, {concat: {from: [s, b]}}, {dense: {units: 3, activation: relu}}'
one shared '6' mse '{dense: {name: a, units: 6, activation: gelu}}, {dense: {units: 6, share: a, activation: gelu}}, {dense: {units: 1}}'
one image '8 7 3' cross-entropy '{conv2d: {filters: 4, stride: 2, activation: relu}}, {conv2d: {filters: 8, groups: 4, dilation: 2, bias: false, activation: gelu}},
  {pool: {padding: same}}, {pool: {kind: average, size: 3, stride: 1, padding: 1}}, {dense: {units: 3}}'
one grouped '8 7 3' cross-entropy '{conv2d: {filters: 6, kernel: 5, padding: valid, activation: tanh}}, {group_norm: {groups: 3}}, {dense: {units: 3}}'
one far-norm '9 2' cross-entropy '{layer_norm: {over: last}}, {dense: {units: 3}}' # of two values that are nearly equal
one joined '6 5 3' cross-entropy '{conv2d: {name: a, filters: 4, activation: tanh}}, {conv2d: {name: b, from: input, kernel: 1, filters: 7}},
  {concat: {name: j, from: [a, input, b], over: last}}, {conv2d: {filters: 2, activation: silu}}, {dense: {units: 3}}'
one lstm-layers '6 4' cross-entropy '{lstm: {units: 5, layers: 2, bidirectional: true, dropout: 0.1}}, {dense: {units: 4, over: last, activation: tanh}}, {global_pool: {kind: mean}}, {dense: {units: 3}}'
one gru-layers '6 4' cross-entropy '{gru: {units: 5, bidirectional: true}}, {gru: {units: 7, output: last}}, {dense: {units: 3}}'
one padded-mean '6' cross-entropy '{embedding: {size: 9, units: 8}}, positions, {attention: {heads: 2}}, {global_pool: {kind: mean}}, {dense: {units: 3}}' 9
one padded-last '6' cross-entropy '{embedding: {size: 9, units: 8}}, {attention: {heads: 4, causal: true}}, layer_norm, {global_pool: {kind: last}}, {dense: {units: 3}}' 9
one padded-lstm '6' cross-entropy '{embedding: {size: 9, units: 4}}, {lstm: {units: 5, layers: 2, output: last}}, {dense: {units: 3}}' 9
one padded-gru '6' mse '{embedding: {size: 9, units: 4}}, {gru: {units: 5, output: last}}, {dense: {units: 1}}' 9
one padded-lstm-both '6' cross-entropy '{embedding: {size: 9, units: 4}}, {lstm: {units: 5, layers: 2, bidirectional: true}}, {global_pool: {kind: max}}, {dense: {units: 3}}' 9
one padded-gru-both '300' cross-entropy '{embedding: {size: 9, units: 4}}, {gru: {units: 5, layers: 2, bidirectional: true, output: last}}, {dense: {units: 3}}' 9
one max-257 '257 2' cross-entropy '{global_pool: {kind: max}}, {dense: {units: 3}}'
one padded-max-512 '512' cross-entropy '{embedding: {size: 9, units: 4}}, positions, {global_pool: {kind: max}}, {dense: {units: 3}}' 9
one max-1000 '1000 2' cross-entropy '{global_pool: {kind: max}}, {dense: {units: 3}}'
# preset NAME KIND DIMS SIZES..: samples of KIND (the number of ids; 0: values)
preset() {
  name=$1 ids=$2 dims=$3 sizes=$4
  printf 'model: {preset: %s%s}\ndata: {kind: synthetic, samples: 2}\ntrain: {batch: 2, steps: 1, evaluate_every: 0, checkpoint: {dir: %s}}\n' \
    "$name" "$sizes" "$name" >"$name.yaml"
  echo "parallel: {backend: cpu, threads: 1}" >>"$name.yaml"
  awk -v dims="$dims" -v ids=$ids 'BEGIN { srand(2); n = 1; k = split(dims, d, " "); for (i = 1; i <= k; i++) n *= d[i]
    for (r = -1; r < 2; r++) for (i = 1; i <= n; i++) printf "%s%s", r < 0 ? "f" i : ids ? int(ids * rand()) : rand(), i < n ? "," : "\n" }' >"$name.x.csv"
  "$program" train "$name.yaml" --quiet >/dev/null 2>err || fail "$name: train: $(cat err)"
  "$program" predict "$name.yaml" --checkpoint "$name" --input "$name.x.csv" --output "$name.y.jsonl" >/dev/null 2>err || fail "$name: predict: $(cat err)"
  "$program" export "$name.yaml" --checkpoint "$name" --format onnx --output "$name.onnx" >/dev/null 2>err || fail "$name: export: $(cat err)"
  rm -r "$name"
  echo "$name 1e-5 $dims" >>list
}
one normed '4 3' cross-entropy '{dense: {units: 5, over: last}}, {batch_norm: {name: a}}, {dense: {name: b, units: 5, over: last, activation: silu}},
  {multiply: {from: [a, b]}}, {global_pool: {kind: max}}, batch_norm, {dense: {units: 3}}'
preset mlp-medium 0 799 ""
preset lstm 0 '5 50' ", width: 16, context: 5"
preset gru 0 '5 50' ", width: 16, context: 5"
preset encoder 0 '6 50' ", width: 24, depth: 2, heads: 3, context: 6"
preset gpt2 20 10 ", width: 32, depth: 2, heads: 4, context: 10, vocabulary: 20"
preset bert-small 20 7 ", width: 32, depth: 2, heads: 4, context: 7, vocabulary: 20, classes: 2"
preset bert-base 5 9 ", width: 32, depth: 1, heads: 4, context: 9, vocabulary: 5, classes: 2, separator: 3"
preset bert-small-mlm 5 9 ", width: 32, depth: 2, heads: 4, context: 9, vocabulary: 5, pad: 4"
for large in resnet18 efficientnet-b0; do
  preset $large 0 '64 64 3' ", image: 64, classes: 10"
done
expect 2 'for --format safetensors' export plain.yaml --checkpoint plain --format onnx --map names --output x
expect 2 'not one of safetensors, onnx' export plain.yaml --checkpoint plain --format pb --output x
expect 2 'x.pt: "pt" is not one of safetensors, onnx' export plain.yaml --checkpoint plain --output x.pt
"$program" export plain.yaml --checkpoint plain --output named.onnx >/dev/null && cmp plain.onnx named.onnx || fail "the ending chooses the form"
(cd "$here" && node -e 'require("onnxruntime-node")') 2>/dev/null ||
  { echo "skipped: onnxruntime-node is not there (scripts/setup.sh --all installs it by npm): files were written, not run"; exit 77; }
node "$here/onnx.js" list || fail "onnxruntime differs"
