#!/bin/sh
# One run, one directory: two runs at once, a killed one, and a fresh start where an earlier run has saved.
set -eu
. "$(dirname "$0")/lib.sh"

cat >"$work/c.yaml" <<'Y'
model: {input: [8], loss: mse, layers: [{dense: {units: 16}}, {dense: {units: 1}}]}
data: {kind: synthetic, samples: 200, validation: 0.1}
train: {batch: 20, steps: 1000000000, evaluate_every: 0, checkpoint: {dir: RUN, every_steps: 500}}
parallel: {backend: cpu, threads: 1}
Y
sed -i "s#RUN#$work/run#" "$work/c.yaml"

wait_for_save() { # until the process $1 has saved, or is gone
  until ls -d "$work"/run/step-* >/dev/null 2>&1; do
    kill -0 "$1" 2>/dev/null || fail "the run ended before it saved: $(cat "$work/first")"
    sleep 0.05
  done
}

echo "a second run in the directory of a living one is refused"
"$program" train "$work/c.yaml" --quiet --set train.seed=1 >"$work/first" 2>&1 &
pid=$!
wait_for_save $pid
for flag in --quiet --resume; do
  expect 5 "$work/run: another run works in this directory: process $pid on $(uname -n), started 2" \
    train "$work/c.yaml" $flag --set train.steps=5 --set train.seed=1
done
expect 5 'another run works in this directory' train "$work/c.yaml" --ranks 2 --set parallel.strategy=ddp --set train.seed=2
[ ! -e "$work/run/previous-1" ] || fail "the second run has moved the first one's checkpoints"
grep -q '"seed": 1,' "$work/run/config.json" || fail "the second run has written config.json"
"$program" eval "$work/c.yaml" --checkpoint "$work/run" --set train.seed=1 >/dev/null || fail "eval needs no lock"

echo "a killed run does not block the next one"
kill -9 $pid
wait $pid 2>/dev/null || true
"$program" train "$work/c.yaml" --resume --quiet --set train.seed=1 --set train.steps=1 >"$work/out" 2>&1 ||
  fail "a stale lock blocks: $(cat "$work/out")"
[ ! -e "$work/run/.lock" ] || fail "the lock of a run that has ended is still there"

echo "a run whose directory was moved away saves nothing in the one of that name"
"$program" train "$work/c.yaml" --quiet --set train.checkpoint.dir="$work/mine" --set train.checkpoint.every_steps=0 \
  >"$work/first" 2>&1 &
pid=$!
until [ -e "$work/mine/config.json" ]; do
  kill -0 $pid 2>/dev/null || fail "the run ended before it began: $(cat "$work/first")"
  sleep 0.05
done
mv "$work/mine" "$work/away"
kill -TERM $pid # it saves, then ends
got=0
wait $pid || got=$?
[ $got = 5 ] || fail "the directory was moved: exit code $got: $(cat "$work/first")"
grep -q 'mine: the directory was moved or its lock was removed; nothing was saved there' "$work/first" || fail "$(cat "$work/first")"
[ ! -e "$work/mine" ] || fail "saved in a directory that is not the run's: $(ls "$work/mine")"
# the_supervisor_says_what_a_rank_says: that another run worked there
"$program" train "$work/c.yaml" --supervise --quiet --set train.checkpoint.dir="$work/mine" --set monitor.dir="$work/watched" \
  --set train.checkpoint.every_steps=0 >"$work/first" 2>&1 &
pid=$!
until [ -e "$work/mine/config.json" ]; do
  kill -0 $pid 2>/dev/null || fail "the supervised run ended before it began: $(cat "$work/first")"
  sleep 0.05
done
mv "$work/mine" "$work/far"
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 5 ] || fail "the directory was moved under supervision: exit code $got: $(cat "$work/first")"
grep -q "rank 0 of 1 .*: the run's directory was moved, or its lock removed; step" "$work/watched/supervise.txt" || fail "$(cat "$work/watched/supervise.txt")"
! grep 'another run works' "$work/first" "$work/watched/supervise.txt" || fail "nobody else works there"

echo "a fresh start moves all of an earlier run, its configuration too"
steps=$(ls -d "$work"/run/step-* | wc -l)
"$program" train "$work/c.yaml" --quiet --set train.seed=9 --set train.steps=5 >"$work/out" 2>"$work/err" ||
  fail "a fresh start: $(cat "$work/err")"
grep -q "moved to $work/run/previous-1; it stays there until you remove that folder" "$work/err" ||
  fail "nobody says what moved: $(cat "$work/err")"
[ "$(ls -d "$work"/run/previous-1/step-* | wc -l)" = "$steps" ] || fail "checkpoints are missing in previous-1"
grep -q '"seed": 1,' "$work/run/previous-1/config.json" || fail "previous-1 lacks the earlier configuration"
grep -q '"seed": 9,' "$work/run/config.json" || fail "config.json is not the new run's"
"$program" train "$work/run/previous-1/config.json" --resume --quiet --set train.steps=1 \
  --set train.checkpoint.dir="$work/run/previous-1" >"$work/out" 2>&1 || fail "previous-1 is no run: $(cat "$work/out")"

echo "a run that dies before its first step leaves an earlier one where it is; a supervised one then begins, and does not go on with it"
newest=$(ls -d "$work"/run/step-*)
LOCKSTEP_FAULT="kill 0 0 always" "$program" train "$work/c.yaml" --quiet --set train.steps=5 >"$work/out" 2>"$work/err" &&
  fail "it was not killed"
[ "$(ls -d "$work"/run/step-*)" = "$newest" ] || fail "the earlier run was moved: $(ls "$work/run")"
LOCKSTEP_FAULT="kill 0 0 $work/once" "$program" train "$work/c.yaml" --supervise --quiet --json --set train.seed=11 --set train.steps=7 \
  >"$work/out" 2>"$work/err" || fail "supervised: $(cat "$work/err")"
grep -q 'Restart 1 of 3 from the beginning' "$work/err" || fail "what the second life begins with: $(cat "$work/err")"
grep -q 'started again' "$work/run/monitor/supervise.txt" || fail "no second life: $(cat "$work/run/monitor/supervise.txt")"
[ "$(field "$work/out" steps)" = 7 ] || fail "the second life went on with the earlier run: $(cat "$work/out")"
[ -d "$work/run/step-000000000007" ] && [ -e "$work/run/previous-2/${newest##*/}" ] || fail "the earlier run is not in previous-2"

if [ "${LOCKSTEP_OLD_STAT:-}" ]; then
  echo "attributes_of_a_network_file_system_may_be_old: a run that has begun goes on all the same"
  LD_PRELOAD=$LOCKSTEP_OLD_STAT LOCKSTEP_FAULT="kill 0 600 $work/again" "$program" train "$work/c.yaml" --supervise --quiet --json \
    --set train.checkpoint.dir="$work/far" --set train.checkpoint.beside=false --set train.steps=601 >"$work/out" 2>"$work/err" || fail "old attributes: $(cat "$work/err")"
  [ "$(field "$work/out" resumed_from_step)" = 500 ] || fail "the second life began anew: $(cat "$work/err")"
else
  echo "not run: old attributes (a sanitizer's runtime is the first library)"
fi
echo ok
