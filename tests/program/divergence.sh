#!/bin/sh
# A few samples make the loss infinite: a supervised run goes on behind them, and its checkpoints remember that.
set -eu
. "$(dirname "$0")/lib.sh"
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 600; i++) print (i == 300 ? "1e38" : (i % 7) / 7) "," (i % 5) / 5 "," (i % 3) }' >"$work/d.csv"
cat >"$work/c.yaml" <<Y
model: {input: [2], loss: mse, layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 1}}]}
data: {kind: csv, path: d.csv, target: y, normalize: false}
train: {batch: 10, steps: 50, seed: 3, evaluate_every: 0, max_skipped: 1, optimizer: {name: sgd, lr: 0.01}, checkpoint: {every_steps: 4, keep: 30, beside: false}}
parallel: {backend: cpu, threads: 1}
supervise: {restarts: {backoff_s: 0.1}}
Y
# supervised NAME CODE [ARGUMENT...]
supervised() {
  name=$1 code=$2 got=0
  shift 2
  "$program" train "$work/c.yaml" --supervise --quiet --json --set train.checkpoint.dir="$work/$name" "$@" \
    >"$work/$name.json" 2>"$work/err" || got=$?
  [ $got = "$code" ] || fail "$name: exit code $got: $(cat "$work/err")"
}
supervised again 8 # at step 37
grep -q 'the same failure at the same step twice' "$work/err" || fail "$(cat "$work/err")"
supervised past 0 --set supervise.skip_steps=6
grep -q 'goes on behind the samples of steps' "$work/err" || fail "$(cat "$work/err")"
grep -q '"left_out": *\[' "$work/past/step-000000000050/manifest.json" || fail "$(cat "$work/past/step-000000000050/manifest.json")"
# However late the supervisor looks at a life, it knows where it began.
grep -q 'life 1: 1 rank, steps 0 to 37:' "$work/past/monitor/supervise.txt" && grep -q 'life 2: 1 rank, steps 36 to 50:' "$work/past/monitor/supervise.txt" ||
  fail "$(cat "$work/past/monitor/supervise.txt")"
past=$(sed -n 's/^ *"past_step_next": \([0-9]*\),*$/\1/p' "$work/past/monitor/supervise.json" | tail -1)
[ "$past" = 43 ] || fail "$(cat "$work/past/monitor/supervise.json")"
# The first checkpoint behind the jump, of step 40, comes before step 43: who goes on from it does not jump again.
for dir in "$work"/past/step-*; do
  step=$(basename "$dir" | sed 's/step-0*//')
  [ "$step" -le 40 ] || rm -r "$dir"
done
"$program" train "$work/c.yaml" --resume --quiet --json --set train.checkpoint.dir="$work/past" --set train.past_step="$past" \
  >"$work/resumed.json" 2>"$work/err" || fail "resumed: $(cat "$work/err")"
! grep -q 'goes on behind' "$work/err" || fail "resumed: it jumped again: $(cat "$work/err")"
[ "$(field "$work/resumed.json" params_xxh3)" = "$(field "$work/past.json" params_xxh3)" ] || fail "resumed: other bits"
[ "$(field "$work/resumed.json" resumed_from_step)" = 40 ] || fail "resumed: $(cat "$work/resumed.json")"
echo ok
