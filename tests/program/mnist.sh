#!/bin/sh
# MNIST as in the examples, with 2 ranks, on one seed or three: the 2,000 digits of the repository, and all 10,000
# where they are (LOCKSTEP_DATA names the folder with mnist/).
set -eu
. "$(dirname "$0")/lib.sh"
data=${LOCKSTEP_DATA:-$source_dir/../shared/data}
cd "$source_dir"
learns() { # least validation accuracy, option of train ...
  least=$1
  shift
  for seed in $(all_or "1 2 3" 1); do
    "$program" train examples/02-mnist.yaml --quiet --json --set train.seed=$seed "$@" \
      --set train.checkpoint.dir="$work/run-$least-$seed" >"$work/out.json"
    accuracy=$(field "$work/out.json" val_accuracy)
    echo "seed $seed: accuracy $accuracy, $(field "$work/out.json" wall_s) s"
    below "$least" "$accuracy" || fail "accuracy $accuracy is below $least"
  done
}
learns 0.86
learns 0.86 --set train.precision=bf16
learns 0.86 --set train.precision=fp16
rest
if [ -f "$data/mnist/images-idx3-ubyte.gz" ]; then
  learns 0.94 --set data.features="$data/mnist/images-idx3-ubyte.gz" --set data.targets="$data/mnist/labels-idx1-ubyte.gz"
else
  echo "not tried: all 10,000 digits, none at $data/mnist (set LOCKSTEP_DATA)"
fi
