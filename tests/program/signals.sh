#!/bin/sh
# Signals at random moments of a training with large products: it saves, ends with 130 and can go on. LOCKSTEP_SIGNALS: how many per world, LOCKSTEP_SEED: when.
set -eu
. "$(dirname "$0")/lib.sh"
runs=${LOCKSTEP_SIGNALS:-$(all_or 7 3)}
seed=${LOCKSTEP_SEED:-1}
echo "random seed $seed"
cat >"$work/c.yaml" <<Y
model: {preset: mlp-medium}
data: {kind: synthetic, samples: 2000}
train: {batch: 256, steps: 1000000, evaluate_every: 0, checkpoint: {dir: $work/run, keep: 1}}
parallel: {backend: cpu, threads: 1, deadline_s: 20}
Y

# moment N: a random part of a second
moment() {
  awk -v s="$seed" -v n="$1" 'BEGIN { srand(s + n); printf "%.3f", 0.3 * rand() }'
}
nothing_left() {
  if grep -l "$work/c[.]yaml" /proc/[0-9]*/cmdline >"$work/left" 2>/dev/null; then
    fail "after $1: still there: $(cat "$work/left")"
  fi
}
# interrupted NAME SIGNAL COMMAND...: the N-th life under this signal
count=0
interrupted() {
  name=$1 signal=$2
  shift 2
  count=$((count + 1))
  start_training "$@"
  sleep "$(moment $count)"
  kill -"$signal" $pid
  got=0
  wait $pid || got=$?
  [ $got = 130 ] || fail "$name, SIG$signal: exit code $got: $(tail -5 "$work/err")"
  nothing_left "$name, SIG$signal"
  grep -q 'interrupted after' "$work/err" || fail "$name, SIG$signal: no word: $(tail -5 "$work/err")"
  steps=$(sed -n 's/.*interrupted after \([0-9]*\) of.*/\1/p' "$work/err")
  [ -f "$work/run/$(printf 'step-%012d' "$steps")/manifest.json" ] || fail "$name, SIG$signal: step $steps was not saved"
}

# Ctrl-Z stops the ranks too, and they go on without a deadline having passed: they are stopped while the lives below come and go.
deadline=4
states() { # of all processes of the stopped run, one letter each
  sed -n 's/^State:[^A-Za-z]*\([A-Za-z]\).*/\1/p' $(grep -l "$work/held[.]yaml" /proc/[0-9]*/cmdline 2>/dev/null | sed 's/cmdline$/status/') \
    2>/dev/null | sort -u | tr -d '\n'
}
all_stopped() {
  [ "$(states)" = T ]
}
sed "s#$work/run#$work/held#" "$work/c.yaml" >"$work/held.yaml"
start_training "$program" train "$work/held.yaml" --set parallel.strategy=ddp --set parallel.deadline_s=$deadline --ranks 2
held=$pid
mv "$work/err" "$work/held.err"
kill -STOP "$(rank_process 1 held)" # first, so that the other waits for it when it is stopped
kill -TSTP $held
wait_until "the stop of all processes" all_stopped
since=$(date +%s)

resume=
for n in $(seq "$runs"); do
  signal=$(echo TERM INT USR1 HUP USR2 QUIT ALRM | cut -d' ' -f$((n % 7 + 1)))
  # shellcheck disable=SC2086 # a word or nothing
  interrupted "one rank" "$signal" "$program" train "$work/c.yaml" $resume
  resume=--resume
done
echo "one rank: $runs of $runs saved and went on"
# timeout sends a signal to its child and to its group: the second one within 0.2 s is the same one
start_training "$program" train "$work/c.yaml" --resume
kill -TERM $pid && kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "SIGTERM twice: exit code $got"
grep -q 'interrupted after' "$work/err" || fail "SIGTERM twice is not one: $(tail -5 "$work/err")"
# The handlers are those of one rank; what their parent passes on is the same for all.
for n in $(seq $((runs / 2))); do
  signal=$(echo TERM INT HUP | cut -d' ' -f$((n % 3 + 1)))
  interrupted "two ranks" "$signal" "$program" train "$work/c.yaml" --set parallel.strategy=ddp --ranks 2 --resume
done
echo "two ranks: $n of $n saved and went on"
if command -v mpirun >/dev/null 2>&1; then
  for n in $(seq $((runs / 3))); do
    interrupted "mpirun of one's own" USR1 mpirun --bind-to none --map-by :OVERSUBSCRIBE -np 2 "$program" train "$work/c.yaml" \
      --set parallel.strategy=ddp --resume
  done
  echo "SIGUSR1 to an mpirun of one's own: $n of $n saved and went on"
fi

longer_than_the_deadline() {
  [ $(($(date +%s) - since)) -gt $((deadline + 1)) ]
}
wait_until "the deadline of the stopped run" longer_than_the_deadline
all_stopped || fail "not stopped any more: $(states)"
kill -CONT $held
lines=$(wc -l <"$work/held.err")
goes_on() {
  kill -0 $held 2>/dev/null || fail "stopped and gone on: $(tail -5 "$work/held.err")"
  [ "$(wc -l <"$work/held.err")" -gt "$((lines + 2))" ]
}
wait_until "a further step after SIGCONT" goes_on
kill -TERM $held
got=0
wait $held || got=$?
[ $got = 130 ] || fail "stopped and gone on: exit code $got: $(tail -5 "$work/held.err")"

# a file limit is an error with words
got=0
(ulimit -f 100 && exec "$program" train "$work/c.yaml" --set train.checkpoint.dir="$work/limited" --set train.steps=2 --quiet) \
  >"$work/out" 2>"$work/err" || got=$?
[ $got = 5 ] || fail "with ulimit -f 100: exit code $got: $(cat "$work/err")"
grep -q 'cannot be written: File too large' "$work/err" || fail "with ulimit -f 100: $(cat "$work/err")"
echo ok
