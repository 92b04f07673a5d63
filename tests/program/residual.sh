#!/bin/sh
# The residual network of the examples through every command: it is proven on three ranks, learns, its checkpoint
# evaluates alike and goes on, pretrained layers stay frozen, and another graph is refused by name.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$source_dir"
config=examples/06-residual.yaml
"$program" check $config --ranks 3 --set parallel.backend=cpu >"$work/check"
grep -q 'schedules .* ok: ddp, 3 ranks' "$work/check" || fail "check: $(cat "$work/check")"
"$program" inspect $config --set model.layers.2.concat='{from: [stem, block.0.sum, block.2.sum]}' >"$work/inspect"
grep -q '^  block.2.fc  *dense  *(128)  *16,512  *4,341,760  (128, 128) (128)$' "$work/inspect" || fail "inspect: $(cat "$work/inspect")"
grep -q '^  layers.14  *dense  *(10)  *3,850  .*  (10, 384) (10)$' "$work/inspect" || fail "inspect: $(cat "$work/inspect")"
grep -q '^  block.1.sum  *add  *(128)  *0  *16,384$' "$work/inspect" || fail "a layer without parameters: $(cat "$work/inspect")"
# a configuration without a strategy: the one that several ranks would use
"$program" simulate $config --machine machines/h200.yaml --ranks 1..2 >"$work/simulate"

run() { "$program" "$@" --set parallel.backend=cpu --set train.checkpoint.dir="$work/run"; }
run train $config --quiet --json >"$work/train.json"
accuracy=$(field "$work/train.json" val_accuracy)
echo "accuracy $accuracy"
below 0.86 "$accuracy" || fail "accuracy $accuracy"
run eval $config --checkpoint "$work/run" --json >"$work/eval.json"
[ "$(field "$work/eval.json" accuracy)" = "$accuracy" ] || fail "eval: $(cat "$work/eval.json")"
run train $config --resume --quiet --json --set train.epochs=11 >"$work/more.json"
[ "$(field "$work/more.json" resumed_from_step)" = 125 ] || fail "resume: $(cat "$work/more.json")"
expect 6 'layers.13.concat.from: checkpoint has \["stem", "block.2.sum"\], configuration has \["input", "block.2.sum"\]' \
  train $config --resume --set train.checkpoint.dir="$work/run" --set parallel.backend=cpu \
  --set 'model.layers.2.concat.from=[input, block.2.sum]'
expect 6 'model.layers.1.layer_norm.name: checkpoint has block.0.0, configuration has deep.0.0' \
  train $config --resume --set train.checkpoint.dir="$work/run" --set parallel.backend=cpu \
  --set 'model.layers.1.repeat.name=deep' --set 'model.layers.2.concat.from=[stem, deep.2.sum]'

# the stem of one run, frozen in another, is saved with that
"$program" train $config --quiet --init "$work/run" --set parallel.backend=cpu --set model.layers.0.dense.freeze=true \
  --set train.checkpoint.dir="$work/tuned" --set train.epochs=1 --json >"$work/tuned.json"
step=$work/tuned/step-000000000013
grep -aq '"stem.weight"' "$step/model.safetensors" || fail "a frozen layer is not saved"
grep -aq '"m.block.0.fc.weight"' "$step/optim.safetensors" || fail "no optimizer state"
! grep -aq '"m.stem.weight"' "$step/optim.safetensors" || fail "a frozen layer has optimizer state"
