#!/bin/sh
# lockstep train --supervise: whatever happens to a rank or a checkpoint, the run ends with the bits of an
# undisturbed one, or with a diagnosis where it must. Prints how soon a fault was noticed and the first new step came.
set -eu
. "$(dirname "$0")/lib.sh"
# a segmentation fault is one for the supervisor, too
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0" TSAN_OPTIONS="${TSAN_OPTIONS:-}:handle_segv=0"
mkdir "$work/tmp"
export TMPDIR="$work/tmp"
steps=1200
cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 64, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 60, steps: $steps, evaluate_every: 0, max_skipped: 5, optimizer: {name: adam}, checkpoint: {every_steps: 120, beside: false}}
parallel: {strategy: ddp, ranks: 3, backend: cpu, threads: 1, deadline_s: 60}
supervise: {hang_s: 600, restarts: {backoff_s: 0.1}}
Y
"$program" train "$work/c.yaml" --quiet --json --set train.checkpoint.dir="$work/whole" >"$work/whole.json"
want=$(field "$work/whole.json" params_xxh3)
[ -n "$want" ] || fail "the undisturbed run reported no hash"

# supervised NAME [ARGUMENT...]: a run in $work/NAME; sets got, its exit code
supervised() {
  run=$1
  shift
  got=0
  "$program" train "$work/c.yaml" --supervise --quiet --json --set train.checkpoint.dir="$work/$run" "$@" \
    >"$work/$run.json" 2>"$work/err" || got=$?
}
# faulty NAME KIND RANK [ARGUMENT...]: the same with this fault after step 400, once
faulty() {
  name=$1 kind=$2 rank=$3
  shift 3
  LOCKSTEP_FAULT="$kind $rank 400 $work/$name.once" supervised "$name" "$@"
  [ -f "$work/$name.once" ] || fail "$name: the fault did not come: $(cat "$work/err")"
}
# of FILE NAME: the first value of this name, at any depth
of() {
  sed -n "s/^ *\"$2\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" | head -1
}
same_bits() {
  [ "$got" = 0 ] || fail "$run: exit code $got: $(cat "$work/err")"
  [ "$(field "$work/$run.json" params_xxh3)" = "$want" ] || fail "$run: params_xxh3 $(field "$work/$run.json" params_xxh3), undisturbed $want"
}
nobody_left() {
  ! grep -ls "$work/c[.]yaml" /proc/[0-9]*/cmdline >"$work/left" 2>/dev/null
}
# delays KIND: how long until the fault was noticed, and until the first new step
delays() {
  report=$work/$1/monitor/supervise.json
  noticed=$(awk -v a="$(cat "$work/$1.once")" -v b="$(of "$report" noticed_unix_s)" 'BEGIN { printf "%.3f", b - a }')
  again=$(grep -o '"first_step_unix_s": [0-9.]*' "$report" | sed -n 2p | tr -dc '0-9.')
  first=$(awk -v a="$(cat "$work/$1.once")" -v b="${again:-0}" 'BEGIN { printf "%.3f", b - a }')
  echo "$1: noticed after $noticed s, first new step after $first s: $(of "$report" text)"
}
# cured NAME KIND RANK CAUSE PATTERN [STEP [ARGUMENT...]]: the run goes on to the same bits; its report says why it had to
cured() {
  name=$1 kind=$2 rank=$3 cause=$4 pattern=$5 least=${6:-360}
  shift 5
  [ $# -eq 0 ] || shift
  faulty "$name" "$kind" "$rank" "$@"
  same_bits
  nobody_left || fail "$run: still there: $(cat "$work/left")"
  report=$work/$run/monitor/supervise.json
  grep -q "\"cause\": \"$cause\"" "$report" || fail "$run: the cause is \"$(of "$report" cause)\", not \"$cause\": $(cat "$report")"
  grep -q "\"text\": \"$pattern" "$report" || fail "$run: no \"$pattern\" in $(cat "$report")"
  [ "$(field "$work/$run.json" resumed_from_step)" -ge "$least" ] ||
    fail "$run: resumed from $(field "$work/$run.json" resumed_from_step)"
  # a busy machine may make any rank look as if it hung
  [ "$cause" = hang ] || grep -q '"restarts": 1,' "$report" || fail "$run: not one restart: $(cat "$report")"
  delays "$run"
}
# given_up NAME CODE PATTERN: the last run has ended with this code, and says so
given_up() {
  [ "$got" = "$2" ] || fail "$1: exit code $got, not $2: $(cat "$work/err")"
  grep -q "$3" "$work/err" || fail "$1: no \"$3\" in $(cat "$work/err")"
  nobody_left || fail "$1: still there: $(cat "$work/left")"
  echo "$1: exit code $got: $(grep "$3" "$work/err" | head -1)"
}

supervised calm --set train.checkpoint.keep=20
same_bits
grep -q '"result": "finished"' "$work/calm/monitor/supervise.json" || fail "calm: $(cat "$work/calm/monitor/supervise.json")"
cured kill kill 1 signal 'rank 1 of 3 (process [0-9]*) was ended by signal 9'
cured exit exit 1 exit 'rank 1 of 3 (process [0-9]*) ended without having finished'
supervised refused --set train.batch=1000000
given_up refused 4 'starting again cannot cure that'
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 expect 2 'supervise starts the ranks itself' train "$work/c.yaml" --supervise
expect 2 'ranks are more than' train "$work/c.yaml" --supervise --ranks 65536 --set train.batch=65536 --set train.checkpoint.dir="$work/x"
expect 3 'needs train.checkpoint.dir' train "$work/c.yaml" --supervise
expect 3 'the run has 3 ranks .*; 4 cannot be left' train "$work/c.yaml" --supervise --set train.checkpoint.dir="$work/x" --set supervise.ranks.least=4
expect 3 'run lockstep plan' train "$work/c.yaml" --supervise --set train.checkpoint.dir="$work/x" --set parallel.strategy=auto
rest
cured segv segfault 2 signal 'rank 2 of 3 (process [0-9]*) was ended by signal 11'
cured abort abort 0 signal 'rank 0 of 3 (process [0-9]*) was ended by signal 6'
hangs="--set supervise.hang_s=$((2 * ${LOCKSTEP_TEST_TIME:-1}))"
# shellcheck disable=SC2086 # words
cured stop stop 2 hang 'rank 2 of 3 (process [0-9]*) is stopped' 360 $hangs
# shellcheck disable=SC2086 # words
cured loop loop 1 hang 'rank 1 of 3 (process [0-9]*) has shown nothing.*rank [02] waits in all-reduce .*#401 (.*B), rank 1 has done no more than all-reduce .*#400 ' 360 $hangs
grep -q 'thread [0-9]* "lockstep", state R' "$work/loop/monitor/supervise.txt" || fail "loop: $(cat "$work/loop/monitor/supervise.txt")"
! [ -e "$work/loop/monitor/collectives.ring" ] || fail "loop: a run without a supervisor would write its collectives"
cured nan nan 2 'not finite' 'the training diverged'

# a_rank_that_dies_at_its_start ended the run: program_early_kills does this 60 times
if command -v python3 >/dev/null 2>&1; then
  "$source_dir/bench/early_kills.py" "$program" 3 "${LOCKSTEP_SEED:-1}" >"$work/out" || fail "early kills: $(cat "$work/out")"
  cat "$work/out"
fi

# a_program_that_is_replaced: the next life is one of the program that began the run, not none
cp "$program" "$work/lockstep"
LOCKSTEP_FAULT="kill 1 400 $work/replaced.once" "$work/lockstep" train "$work/c.yaml" --supervise --quiet --json --set train.checkpoint.dir="$work/replaced" \
  >"$work/replaced.json" 2>"$work/err" &
pid=$! run=replaced
wait_until "the ranks of a program" [ -e "$work/replaced/monitor/ranks.page" ]
rm "$work/lockstep"
got=0
wait $pid || got=$?
same_bits

# a rank that fails in every life is left out: the bits are those of a run that was resumed on the others
# fewer NAME RANKS RANK [ARGUMENT...]: of so many ranks this one is left out
fewer() {
  name=$1 left=$(($2 - 1)) rank=$3
  shift 3
  LOCKSTEP_FAULT="kill $rank 400 always" supervised "$name" "$@" --set supervise.ranks.least=$left
  same_bits
  nobody_left || fail "$run: still there: $(cat "$work/left")"
  grep -q "on $left of $((left + 1)) ranks, without rank $rank" "$work/err" || fail "$run: $(cat "$work/err")"
  grep -q "\"left_out_next\": \[" "$work/$run/monitor/supervise.json" || fail "$run: $(cat "$work/$run/monitor/supervise.json")"
  grep -q "started again after 0 s without rank $rank" "$work/$run/monitor/supervise.txt" || fail "$run: $(cat "$work/$run/monitor/supervise.txt")"
  grep -q "life 3: $left rank" "$work/$run/monitor/supervise.txt" || fail "$run: $(cat "$work/$run/monitor/supervise.txt")"
  [ "$(field "$work/$run.json" resumed_from_step)" = 360 ] || fail "$run: $(cat "$work/$run.json")"
}
cp -r "$work/calm" "$work/resumed"
rm -r "$work"/resumed/step-000000000[4-9]* "$work"/resumed/step-000000001*
"$program" train "$work/c.yaml" --quiet --json --resume --ranks 2 --set train.checkpoint.dir="$work/resumed" >"$work/resumed.json" 2>"$work/err" ||
  fail "resumed: $(cat "$work/err")"
calm=$want want=$(field "$work/resumed.json" params_xxh3)
fewer fewer 3 2
# the GPU of rank 1 is broken, and rank 0 dies of it: rank 1 is left out at once
for rank in 0 1 2; do
  echo "{\"t\": 0, \"rank\": $rank, \"gpu_xid_errors\": 1, \"gpu_xid\": $((rank == 1 ? 79 : 45))}"
done >"$work/nvml.jsonl"
LOCKSTEP_NVML=$work/nvml.jsonl
export LOCKSTEP_NVML
faulty gpu kill 0 --set supervise.ranks.least=2 --set monitor.every_s=0.02 --set 'monitor.alerts=[]'
unset LOCKSTEP_NVML
same_bits
grep -q 'life 1: .*rank 1 of 3 .*: its GPU has reported an error' "$work/gpu/monitor/supervise.txt" &&
  grep -q 'life 2: 2 ranks' "$work/gpu/monitor/supervise.txt" || fail "gpu: $(cat "$work/gpu/monitor/supervise.txt")"
exact="--ranks 2 --set parallel.reproducible=true"
# shellcheck disable=SC2086 # words
supervised exact $exact
want=$(field "$work/exact.json" params_xxh3)
# shellcheck disable=SC2086 # words
fewer exactly 2 1 $exact
want=$calm

# a flipped bit in one rank's weights: named, and never saved. Products of the library need more rows.
large="--set train.batch=360 --set train.replica_steps=50"
# shellcheck disable=SC2086 # words
supervised steady $large
calm=$want want=$(field "$work/steady.json" params_xxh3)
same_bits
# shellcheck disable=SC2086 # words
cured flip flip 1 exit 'rank 1 of 3' 360 $large
grep -q 'the parameters of rank 1 differ from those of the other ranks' "$work/err" || fail "flip: $(cat "$work/err")"
# of two ranks nobody can say which one is wrong: the first one that spoke was blamed
# shellcheck disable=SC2086 # words
supervised two $large --ranks 2
want=$(field "$work/two.json" params_xxh3)
# shellcheck disable=SC2086 # words
cured flips flip 0 exit "the ranks' parameters differ, and no majority says whose are right; step" 360 $large --ranks 2
want=$calm

# a checkpoint that was altered is passed over
cured spoil spoil 0 signal 'rank 0 of 3' 240
grep -q 'step-000000000360: not used' "$work/err" || fail "spoil: no word of the checkpoint: $(cat "$work/err")"

# the supervisor itself: nothing goes on without it, and the same command takes the run up
faulty supervisor supervisor 1
[ "$got" = 137 ] || fail "supervisor killed: exit code $got"
wait_until "the end of the ranks after SIGKILL to the supervisor" nobody_left
supervised supervisor --resume
same_bits
[ "$(field "$work/supervisor.json" resumed_from_step)" -ge 360 ] || fail "supervisor: $(cat "$work/supervisor.json")"

# an agent that is killed, and a supervisor, once left the ranks' page in memory
echo 'localhost slots=3' >"$work/hosts"
"$program" train "$work/c.yaml" --supervise --quiet --hosts "$work/hosts" --set train.steps=100000000 --set train.checkpoint.dir="$work/pages" >"$work/out" 2>"$work/err" &
pid=$!
pages() { find /dev/shm -maxdepth 1 -name "lockstep-$pid-*" | wc -l; }
no_page() { [ "$(pages)" = 0 ]; }
agent() { grep -lsz '^--agent$' $(children $pid | sed 's#.*#/proc/&/cmdline#') | tr -dc '0-9'; }
saved() { find "$work/pages" -name 'step-*' 2>/dev/null | grep -q .; }
wait_until "a checkpoint beside an agent" saved
kill -KILL "$(agent)"
wait_until "the life behind an agent that was killed" grep -q 'alert: restart raised' "$work/err"
[ "$(pages)" = 1 ] || fail "$(pages) pages of ranks"
kill -KILL $pid
wait $pid || true
wait_until "the end of the page" no_page
wait_until "the end of the ranks" nobody_left
# a host that cannot be reached ended the life while the other one's agent was still beginning, whose page then stayed in some lives
printf 'localhost slots=2\nnowhere.invalid\n' >"$work/hosts"
begin "$program" train "$work/c.yaml" --supervise --quiet --hosts "$work/hosts" --set train.checkpoint.dir="$work/unreached" \
  --set supervise.restarts.most=9 --set supervise.restarts.backoff_s=0 --set parallel.remote_shell=false
got=0
wait $pid || got=$?
[ $got = 9 ] || fail "a host that cannot be reached: exit code $got: $(cat "$work/err")"
[ "$(pages)" = 0 ] || fail "$(pages) pages of lives that had not begun"
! grep -q 'host localhost is lost' "$work/err" || fail "the host that was there is lost: $(cat "$work/err")"

# preemption: it saves where it is, however late that is, and the same command goes on
endless="--set train.steps=100000000"
for kind in preempt usr1; do
  faulty $kind $kind 0 $endless
  given_up $kind 75 'interrupted after'
  [ "$(of "$work/$kind/monitor/supervise.json" result)" = preempted ] || fail "preempted: $(cat "$work/$kind/monitor/supervise.json")"
  at=$(ls "$work/$kind" | sed -n 's/^step-0*\([0-9]\)/\1/p' | sort -n | tail -1)
  more="--set train.steps=$((at + 50))"
  want=$("$program" train "$work/c.yaml" --quiet --json $more --set train.checkpoint.dir="$work/$kind.whole" >"$work/$kind.whole.json" && field "$work/$kind.whole.json" params_xxh3)
  supervised $kind --resume $more
  same_bits
  [ "$at" -ge 400 ] && [ "$(field "$work/$kind.json" resumed_from_step)" = "$at" ] || fail "preempted at step $at: $(cat "$work/$kind.json")"
done
want=$calm
faulty interrupt interrupt 0 $endless
given_up interrupt 130 'interrupted after'
[ "$(of "$work/interrupt/monitor/supervise.json" exit_code)" = 130 ] || fail "interrupted: $(cat "$work/interrupt/monitor/supervise.json")"

# what_a_killed_run_leaves
left=$(find "$TMPDIR" -mindepth 1)
[ -z "$left" ] || fail "left in TMPDIR: $left"

# where it must stop
supervised diverges --set train.optimizer.name=sgd --set train.optimizer.lr=1e6
given_up diverges 8 'not finite.*the same failure at the same step twice'
faulty spent kill 1 --set supervise.restarts.most=0
given_up spent 137 'as many restarts in a row'
mkdir "$work/full"
if mount -t tmpfs -o size=96k none "$work/full" 2>/dev/null; then
  trap 'umount "$work/full"; clean_up' EXIT
  supervised disk --set train.checkpoint.dir="$work/full/run" --set monitor.dir="$work/shown"
  given_up disk 5 'rank 0 of 3 .*no space left.*the same failure at the same step twice'
  [ "$(of "$work/shown/supervise.json" cause)" = "disk full" ] || fail "disk: $(cat "$work/shown/supervise.json")"
else
  echo "no full disk: only root can mount one"
fi
# what a run can do without was called an error, with exit code 0
mkdir -p "$work/ringless/collectives.ring"
supervised ringless --set train.checkpoint.dir="$work/r" --set monitor.dir="$work/ringless"
same_bits
grep -q '^lockstep: warning: .*/collectives.ring: cannot be made: File exists; the report of a hang will lack collectives: free room, or set monitor.dir$' "$work/err" ||
  fail "no rings: $(cat "$work/err")"
! grep 'lockstep: error' "$work/err" || fail "an error without an end"
echo ok
