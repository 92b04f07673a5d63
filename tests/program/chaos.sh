#!/bin/sh
# lockstep chaos: faults by seed, each of which must leave the undisturbed run's bits. LOCKSTEP_LONG=N: all kinds at N seeds.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 64, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 60, steps: 300, evaluate_every: 0, max_skipped: 5, optimizer: {name: adam}}
parallel: {strategy: ddp, ranks: 3, backend: cpu, threads: 1, deadline_s: 60}
supervise: {restarts: {backoff_s: 0.1}}
Y
if [ -n "${LOCKSTEP_LONG:-}" ]; then
  "$program" chaos "$work/c.yaml" --seeds "$LOCKSTEP_LONG" --set supervise.hang_s=$((2 * ${LOCKSTEP_TEST_TIME:-1})) || fail "chaos: exit code $?"
  exit 0
fi
# the same seed chooses the same rank and step; what must be noticed and is not counts as a failure
got=0
"$program" chaos "$work/c.yaml" --kinds kill --seeds 1 --first-seed 7 --keep "$work/kept" --set supervise.restarts.most=0 >"$work/out" 2>"$work/err" || got=$?
[ $got = 11 ] || fail "no restart is allowed: exit code $got: $(cat "$work/out" "$work/err")"
grep -q 'kill, seed 7 (rank [0-2], after step [0-9]*): other bits' "$work/err" || fail "$(cat "$work/err")"
[ -f "$work/kept/kill-7/monitor/supervise.json" ] || fail "nothing was kept"
expect 2 'there is no fault "flood"; there are kill, segfault' chaos "$work/c.yaml" --kinds kill,flood
# what cannot happen to such a run: it was counted as a run that did not come out right
expect 2 'kinds: mpirun needs several hosts' chaos "$work/c.yaml" --kinds kill,mpirun
expect 2 'kinds: host_lost needs several hosts' chaos "$work/c.yaml" --kinds host_lost
expect 3 'chaos needs 30 or more' chaos "$work/c.yaml" --set train.steps=20
for fault in "flood 0 1" "slow11x 0 1" "slow11@ 0 1" "slow0 0 1" "slow11@-5 0 1" "slow1001 0 1" "slow99999999999 0 1" \
  "slow10@10000001 0 1" "slow10@99999999999 0 1" "kill -1 1" "kill 0 -1" "kill 0 99999999999999999999" "kill 0"; do
  LOCKSTEP_FAULT="$fault $work/x" expect 2 'KIND RANK STEP FILE expected' train "$work/c.yaml" --ranks 1
done

rest
# what no other test does to a run: the disk fails, a rank gets no memory
"$program" chaos "$work/c.yaml" --kinds memory,nospace,fsync --seeds 1 --json >"$work/chaos.json" 2>"$work/err" ||
  fail "chaos: exit code $?: $(cat "$work/err" "$work/chaos.json")"
[ "$(field "$work/chaos.json" right)" = 3 ] || fail "$(cat "$work/chaos.json")"
grep -q '"noticed_s": [0-9]' "$work/chaos.json" || fail "no delay in $(cat "$work/chaos.json")"
# a configuration that keeps one checkpoint has none left after that is spoiled; of two ranks nobody can say which one is wrong
"$program" chaos "$work/c.yaml" --ranks 2 --kinds spoil,nan,flip --seeds 2 --set train.checkpoint.keep=1 --set train.batch=360 \
  >"$work/out" 2>"$work/err" || fail "two ranks, one checkpoint: $(cat "$work/out" "$work/err")"
# a run of tiny steps was over before the supervisor's signal had come back to its ranks
"$program" chaos "$work/c.yaml" --ranks 2 --kinds kill,preempt,interrupt --seeds 2 --set train.batch=4 --set model.layers='[{dense: {units: 4}}]' \
  >"$work/out" 2>"$work/err" || fail "tiny steps: $(cat "$work/out" "$work/err")"
# one that is over before its ranks would agree to end, for the first time after 256 tiny steps
"$program" chaos "$work/c.yaml" --ranks 2 --kinds preempt --seeds 2 --set train.batch=4 --set train.steps=250 --set model.layers='[{dense: {units: 4}}]' \
  >"$work/out" 2>"$work/err" || fail "over before it was agreed: $(cat "$work/out" "$work/err")"
if [ "${LOCKSTEP_LOST_SIGNALS:-}" ]; then
  echo "a_request_that_is_lost: a run that never hears that it is to end, and finishes, counted as right"
  got=0
  LD_PRELOAD=$LOCKSTEP_LOST_SIGNALS "$program" chaos "$work/c.yaml" --ranks 1 --kinds preempt --seeds 1 >"$work/out" 2>"$work/err" || got=$?
  [ $got = 11 ] || fail "a request that is lost: exit code $got: $(cat "$work/out" "$work/err")"
  grep -q 'preempt, seed 1 .*: the request to end changed nothing: exit code 0' "$work/err" || fail "$(cat "$work/err")"
else
  echo "not run: lost requests (a sanitizer's runtime is the first library)"
fi
# a_rank_that_dies_before_it_was_watched: a single rank did its steps and died between two looks; the launcher was blamed
"$program" chaos "$work/c.yaml" --ranks 1 --kinds kill,exit --seeds 4 --set model.layers='[{dense: {units: 4}}]' --set train.batch=4 \
  >"$work/out" 2>"$work/err" || fail "a rank that dies at once: $(cat "$work/out" "$work/err")"
# an_exit_code_of_0_is_no_end: a single rank that ended so without having finished counted as finished
LOCKSTEP_FAULT="exit 0 100 always" expect 1 'ended without having finished.*Not started again' train "$work/c.yaml" --ranks 1 --supervise \
  --set train.checkpoint.dir="$work/exits" --set supervise.restarts.least_life_s=0 --quiet
grep -q 'failed, exit code 1, 2 lives of 1 rank$' "$work/exits/monitor/supervise.txt" || fail "$(cat "$work/exits/monitor/supervise.txt")"
# a pace: from the first step on no less than 10 ms for every rank, and half as much again where the fault has struck
for run in "0 10 245" "1 10 200"; do
  set -- $run
  LOCKSTEP_FAULT="slow50@10000 $1 $2 always" "$program" train "$work/c.yaml" --ranks 1 --quiet --set train.steps=20 \
    --set monitor.dir="$work/paced$1" || fail "a paced run: exit code $?"
  took_ms=$(sed -n 's/.*"step_s":\([0-9.e-]*\).*/\1/p' "$work/paced$1/events.jsonl" | awk 'END { printf "%d", 1000 * $1 + 0.5 }')
  [ "$took_ms" -ge "$3" ] || fail "a pace of 10 ms, rank $1 slowed: 20 steps in $took_ms ms"
done
echo ok
