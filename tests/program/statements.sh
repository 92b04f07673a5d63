#!/bin/sh
# What reports and messages state has to be so: each section is named after a statement that was not.
set -eu
. "$(dirname "$0")/lib.sh"
export LOCKSTEP_PROFILE="$work/profile.json" # there is none

cat >"$work/c.yaml" <<'Y'
model: {input: [12], loss: cross-entropy, layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400, validation: 0.25}
train: {batch: 20, steps: 150}
parallel: {backend: cpu, threads: 1}
Y

# parts did not add up to the step
"$program" train "$work/c.yaml" --quiet --json >"$work/train.json"
mean=$(member "$work/train.json" step_time_us mean)
sum=$(sed -n '/^  "step_parts_us": {/,/}/s/^ *"[a-z_]*": \([^,]*\),\{0,1\}$/\1/p' "$work/train.json" |
  awk '{ s += $1 } END { printf "%.6f", s }')
awk -v a="$sum" -v b="$mean" 'BEGIN { d = a - b; exit !(b > 0 && d < 0.01 && d > -0.01) }' ||
  fail "parts add up to $sum us, the mean step is $mean us: $(cat "$work/train.json")"
[ "$(member "$work/train.json" step_time_us steps)" = 140 ] || fail "the warm-up counts: $(cat "$work/train.json")"
[ "$(field "$work/train.json" train_loss_steps)" = 100 ] || fail "train_loss_steps: $(cat "$work/train.json")"
# an assumed figure stood as predicted memory
[ "$(member "$work/train.json" bytes_per_device predicted)" = null ] || fail "predicted: $(cat "$work/train.json")"

# "go on with --resume", and nothing was saved
start_training "$program" train "$work/c.yaml" --set train.steps=1000000000
kill -TERM $pid
got=0
wait $pid || got=$?
[ "$got" = 130 ] || fail "interrupted: exit code $got: $(cat "$work/err")"
if grep -q -e '--resume' "$work/err"; then fail "interrupted without a directory: $(tail -3 "$work/err")"; fi

# no arguments printed all of the help
got=0
"$program" >"$work/out" 2>"$work/err" || got=$?
[ "$got" = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" -le 10 ] || fail "no arguments: exit code $got: $(cat "$work/out" "$work/err")"

# --ranks was applied after the checks, and did not mean a strategy of several ranks
sed 's/parallel: {/parallel: {strategy: ddp, ranks: 2, /' "$work/c.yaml" >"$work/two.yaml"
sed 's/parallel: {/parallel: {strategy: single, /' "$work/c.yaml" >"$work/single.yaml"
runs() { # world_size, strategy, then the command
  world=$1 strategy=$2
  shift 2
  "$@" --quiet --json --set train.steps=3 >"$work/r.json" 2>"$work/err" || fail "$*: $(cat "$work/err")"
  [ "$(field "$work/r.json" world_size) $(field "$work/r.json" strategy)" = "$world $strategy" ] ||
    fail "$*: $(cat "$work/r.json")"
}
runs 1 single "$program" train "$work/two.yaml" --ranks 1 --set parallel.strategy=single
runs 1 ddp "$program" train "$work/two.yaml" --ranks 1
runs 2 ddp "$program" train "$work/c.yaml" --ranks 2
runs 3 ddp "$program" train "$work/two.yaml" --ranks 3
runs 1 single "$program" train "$work/c.yaml"
expect 3 'single.yaml:4:22: .*single, which uses one rank, but 2 are asked for' train "$work/single.yaml" --ranks 2
! command -v mpirun >/dev/null 2>&1 || runs 2 ddp mpirun --oversubscribe -np 2 "$program" train "$work/c.yaml"
"$program" inspect "$work/two.yaml" --ranks 1 --json >"$work/r.json"
[ "$(field "$work/r.json" world_size) $(field "$work/r.json" strategy)" = "1 ddp" ] || fail "inspect --ranks 1"
"$program" inspect "$work/two.yaml" --ranks 2 --set train.batch=37 --set train.accumulate=10 |
  grep -q '(19 of 37 samples, 10 micro-batches)' || fail "inspect counts padding as samples"
echo ok
