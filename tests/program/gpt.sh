#!/bin/sh
# The example of a GPT: it learns, two ranks learn the same, plan prices it, eval measures what training said,
# predict has a class for every place.
set -eu
. "$(dirname "$0")/lib.sh"
config=$source_dir/examples/08-gpt.yaml
run() { # DIR OPTIONS
  dir=$1
  shift
  "$program" train "$config" --quiet --json --set train.steps=6 --set train.schedule.warmup_steps=2 \
    --set "train.checkpoint.dir=$work/$dir" --set train.checkpoint.every_steps=3 --set parallel.backend=cpu --set data.samples=400 "$@"
}
run one --ranks 1 >"$work/one.json"
[ "$(field "$work/one.json" params)" = 809856 ] || fail "the network has $(field "$work/one.json" params) parameters"
loss=$(field "$work/one.json" val_loss)
below "$loss" 4.0 || fail "validation loss $loss after 6 steps"
field "$work/one.json" val_perplexity | awk -v l="$loss" '{ d = $1 / exp(l) - 1; exit !(d < 1e-6 && d > -1e-6) }' ||
  fail "perplexity is not exp(loss)"
run two --ranks 2 --set parallel.threads=1 >"$work/two.json"
field "$work/two.json" val_loss | awk -v l="$loss" '{ d = $1 - l; exit !(d < 1e-3 && d > -1e-3) }' ||
  fail "two ranks reach $(field "$work/two.json" val_loss), one $loss"
run low --ranks 2 --set parallel.threads=1 --set train.precision=bf16 >"$work/low.json"
field "$work/low.json" val_loss | awk -v l="$loss" '{ d = $1 - l; exit !(d < 1e-2 && d > -1e-2) }' ||
  fail "with bf16 two ranks reach $(field "$work/low.json" val_loss), with fp32 one $loss"
with_profile
plan "$work/plan.json" "$config" --budget-ms 1500 --no-crossover --json
"$program" eval "$config" --checkpoint "$work/one" --set data.samples=400 --json >"$work/eval.json"
[ "$(field "$work/eval.json" loss)" = "$loss" ] || fail "eval says another loss"
{
  printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 64), }"
  head -c 64 /dev/zero
} >"$work/x.npy"
"$program" predict "$config" --checkpoint "$work/one" --input "$work/x.npy" --output "$work/y.csv" --json >"$work/predict.json"
[ "$(wc -l <"$work/y.csv")" = 65 ] || fail "predict: $(wc -l <"$work/y.csv") lines for the header and 64 places"
[ "$(head -1 "$work/y.csv" | tr ',' '\n' | wc -l)" = 67 ] || fail "predict: $(head -1 "$work/y.csv")"
