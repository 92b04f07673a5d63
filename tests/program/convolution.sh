#!/bin/sh
# Networks of images through every command: the example is proven, priced and learns; one with batch norm is proven on
# three ranks and goes on from its checkpoint as if it had not stopped, running statistics included.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$source_dir"
config=examples/07-convolution.yaml
"$program" check $config --ranks 3 --set parallel.backend=cpu >"$work/check"
grep -q 'schedules .* ok: ddp, 3 ranks' "$work/check" || fail "check: $(cat "$work/check")"
"$program" inspect $config >"$work/inspect"
grep -q 'total  *421,642' "$work/inspect" || fail "inspect: $(cat "$work/inspect")"
grep -Eq '^  conv2d +2 +18,816 +4\.5 % +[0-9,]+ +[0-9.]+ %$' "$work/inspect" || fail "inspect: kinds: $(cat "$work/inspect")"
cat >"$work/norm.yaml" <<EOF
model:
  input: [28, 28]
  layers:
    - conv2d: {filters: 8, stride: 2, bias: false}
    - batch_norm: {name: norm}
    - activation: {kind: relu}
    - conv2d: {filters: 8, groups: 8, kernel: 5, bias: false}
    - batch_norm: {statistics: local, name: own}
    - activation: {kind: relu}
    - global_pool
    - dense: {units: 10}
  loss: cross-entropy
data: {kind: idx, features: $PWD/examples/data/mnist-2000-images-idx3-ubyte.gz,
  targets: $PWD/examples/data/mnist-2000-labels-idx1-ubyte.gz, validation: 0.2, normalize: true}
train: {batch: 120, steps: 20, accumulate: 2, optimizer: {name: adam}, checkpoint: {every_steps: 7}}
parallel: {strategy: ddp, backend: cpu, ranks: 2}
EOF
"$program" check "$work/norm.yaml" --ranks 3 >"$work/check"
grep -q 'schedules .* ok: ddp, 3 ranks' "$work/check" || fail "check: $(cat "$work/check")"
for precision in fp32 fp16; do
  norm() { # DIR, options of train ..
    dir=$precision-$1
    shift
    "$program" train "$work/norm.yaml" --quiet --json --set train.precision=$precision --set train.checkpoint.dir="$work/$dir" "$@"
  }
  norm whole >"$work/whole.json"
  norm part --set train.steps=10 >"$work/part.json"
  norm part --resume >"$work/rest.json"
  [ "$(field "$work/whole.json" params_xxh3)" = "$(field "$work/rest.json" params_xxh3)" ] || fail "$precision: other bits after resuming"
  [ "$(field "$work/whole.json" val_loss)" = "$(field "$work/rest.json" val_loss)" ] ||
    fail "$precision: other running statistics after resuming"
done
grep -aq '"norm.running_var"' "$work"/fp32-whole/step-*/model.safetensors || fail "running statistics are not saved"
# With micro-batches too, the number of ranks changes nothing but the order of sums: batches of 100 in 34, 34 and 32, shared unevenly.
sed 's/statistics: local, //' "$work/norm.yaml" >"$work/global.yaml"
for accumulate in $(all_or "2 3" 3); do
  for ranks in 1 2 3; do
    "$program" train "$work/global.yaml" --quiet --json --ranks $ranks --set train.batch=100 --set train.accumulate=$accumulate \
      --set train.optimizer.name=sgd --set train.optimizer.lr=0.5 --set train.checkpoint.dir="$work/global-$accumulate-$ranks" >"$work/global.json"
    loss=$(field "$work/global.json" val_loss)
    echo "accumulate $accumulate, $ranks ranks: loss $loss"
    [ $ranks -gt 1 ] || alone=$loss
    awk -v a="$loss" -v b="$alone" 'BEGIN { exit !(a < b * 1.0001 && a > b * 0.9999) }' || fail "$ranks ranks: loss $loss, alone $alone"
  done
done
expect 7 'statistics over all ranks (batch_norm) are of other samples' train "$work/norm.yaml" --set parallel.reproducible=true --set train.accumulate=1

rest
"$program" train $config --quiet --json --set parallel.backend=cpu --set train.epochs=3 \
  --set train.checkpoint.dir="$work/example" >"$work/example.json"
accuracy=$(field "$work/example.json" val_accuracy)
echo "accuracy $accuracy"
below 0.84 "$accuracy" || fail "accuracy $accuracy"
