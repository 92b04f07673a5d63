#!/bin/sh
# MNIST as in the examples: at least 94 % validation accuracy after 10 epochs on each of three seeds, 2 ranks.
set -eu
. "$(dirname "$0")/lib.sh"
data=${LOCKSTEP_DATA:-$source_dir/../shared/data}
[ -f "$data/mnist/images-idx3-ubyte.gz" ] || {
  echo "skipped: no MNIST at $data/mnist (set LOCKSTEP_DATA)"
  exit 77
}
for seed in 1 2 3; do
  "$program" train "$source_dir/examples/02-mnist.yaml" --quiet --json --set train.seed=$seed \
    --set data.features="$data/mnist/images-idx3-ubyte.gz" --set data.targets="$data/mnist/labels-idx1-ubyte.gz" \
    --set train.checkpoint.dir="$work/run-$seed" >"$work/out.json"
  accuracy=$(field "$work/out.json" val_accuracy)
  echo "seed $seed: accuracy $accuracy, $(field "$work/out.json" wall_s) s"
  below 0.94 "$accuracy" || fail "accuracy $accuracy is below 94 %"
done
