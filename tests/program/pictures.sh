#!/bin/sh
# Pictures in an array of bytes are scaled, cut out and changed like those in files: the same bits made once or for each batch, on
# any number of ranks and after a pause; evaluation and predictions make the same samples; plan and bench price them.
set -eu
. "$(dirname "$0")/lib.sh"
digits=$source_dir/examples/data/mnist-2000
cat >"$work/c.yaml" <<END
model: {input: [32, 32], loss: cross-entropy, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 10}}]}
data: {kind: idx, features: $digits-images-idx3-ubyte.gz, targets: $digits-labels-idx1-ubyte.gz, validation: 0.2, resize: 32,
       crop: random, crop_area: 0.7, padding: 1, mean: 0.13, std: 0.31}
train: {batch: 96, steps: 120, seed: 3, optimizer: {name: adam, lr: 3e-3}, checkpoint: {dir: run, every_steps: 30}}
parallel: {backend: cpu, threads: 1, reproducible: true, deadline_s: 60}
END
same() { # NAME NAME
  [ "$(field "$work/$1.json" params_xxh3)" = "$(field "$work/$2.json" params_xxh3)" ] || fail "$1 and $2 have other bits"
}
train_as one
below 0.8 "$(field "$work/one.json" val_accuracy)" || fail "accuracy $(field "$work/one.json" val_accuracy)"
train_as two --ranks 2 --set parallel.threads=2
same one two
train_as half --set train.steps=60
train_as half --resume 2>"$work/err"
same one half
train_as three --ranks 3 --set parallel.reproducible=false
awk -v a="$(field "$work/three.json" val_loss)" -v b="$(field "$work/one.json" val_loss)" \
  'BEGIN { d = a - b; exit !(d < 1e-3 && d > -1e-3) }' || fail "three ranks reach $(field "$work/three.json" val_loss)"
train_as once --set data.crop=centre --set data.crop_area=0.08 --set data.decode=once --ranks 2 --set train.steps=60
train_as always --set data.crop=centre --set data.crop_area=0.08 --set data.decode=always --set train.steps=60
same once always

# held-out files, and predictions; then the same bytes in a file that stays where it is
"$program" eval "$work/c.yaml" --checkpoint "$work/one" --set data.validation=0 --json \
  --set "data.validation_features=$digits-images-idx3-ubyte.gz" --set "data.validation_targets=$digits-labels-idx1-ubyte.gz" >"$work/eval.json"
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input "$digits-images-idx3-ubyte.gz" --output "$work/y.csv" >/dev/null
gunzip -c "$digits-labels-idx1-ubyte.gz" | tail -c 2000 | od -An -v -tu1 -w1 | tr -d ' ' >"$work/labels"
cut -d, -f1 "$work/y.csv" | tail -n +2 | paste -d, - "$work/labels" |
  awk -F, -v said="$(field "$work/eval.json" accuracy)" '{ right += $1 == $2 } END { exit !(NR == 2000 && right / NR == said) }' ||
  fail "predictions and eval (accuracy $(field "$work/eval.json" accuracy)) are not of the same samples"
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (2000, 28, 28), }"
  gunzip -c "$digits-images-idx3-ubyte.gz" | tail -c 1568000; } >"$work/x.npy"
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (2000,), }"
  gunzip -c "$digits-labels-idx1-ubyte.gz" | tail -c 2000; } >"$work/y.npy"
train_as mapped --set data.kind=npy --set "data.features=$work/x.npy" --set "data.targets=$work/y.npy" --set data.mapped=true --ranks 2
same one mapped

# weights alone: mean and std of the configuration are all of the normalisation
"$program" export "$work/c.yaml" --checkpoint "$work/one" --output "$work/one.safetensors" >/dev/null
"$program" predict "$work/c.yaml" --set "model.weights=$work/one.safetensors" --input "$work/x.npy" --output "$work/y2.csv" >/dev/null
cmp "$work/y.csv" "$work/y2.csv" || fail "weights alone predict otherwise"

with_profile
plan "$work/plan.json" "$work/c.yaml" --budget-ms 500 --json
grep -o '"input": [0-9.]*' "$work/plan.json" | awk '$2 > 0 { found = 1 } END { exit !found }' || fail "plan does not price scaling"
"$program" bench "$work/c.yaml" --repetitions 2 --control-repetitions 2 --steps 4 --warmup 1 --output "$work/bench.json" >"$work/bench.txt" 2>"$work/err" ||
  fail "bench: $(cat "$work/err")"
grep -o '"augment_us": [0-9.]*' "$work/bench.json" | awk '$2 > 0 { found = 1 } END { exit !found }' || fail "bench has no scaling"
