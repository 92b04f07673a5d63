#!/bin/sh
# A thread that dies inside a lock hangs the run: without it no other thread gets on. The run ends by its deadline, with words.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {preset: mlp-medium}
data: {kind: synthetic, samples: 2000}
train: {batch: 256, steps: 1000000, evaluate_every: 0}
parallel: {backend: cpu, threads: 2, deadline_s: 3}
Y

# rank_process N: the process of rank N below mpirun
rank_process() {
  for process in /proc/[0-9]*; do
    if grep -aqs "$work/c[.]yaml" "$process/cmdline" && grep -aqs "OMPI_COMM_WORLD_RANK=$1" "$process/environ"; then
      echo "${process#/proc/}"
      return
    fi
  done
}
# held THREAD RANK WORDS ARGUMENT...: RANK is - without mpirun
held() {
  thread=$1 rank=$2 words=$3
  shift 3
  start_training "$program" train "$work/c.yaml" "$@"
  hold
}
# hold: the thread $thread of the process $pid, or of its rank $rank, which then ends with $words
hold() {
  process=$pid
  [ "$rank" = - ] || process=$(rank_process "$rank")
  got=0
  "$LOCKSTEP_HOLD_THREAD" "$process" "$thread" >"$work/held" || got=$?
  if [ $got = 77 ]; then
    kill -TERM $pid
    wait $pid || true
    echo "skipped: threads cannot be traced here"
    exit 77
  fi
  [ $got = 0 ] || fail "no thread \"$thread\" could be held in process $process: $(tail -5 "$work/err")"
  got=0
  wait $pid || got=$?
  [ $got = 9 ] || fail "$thread, rank $rank: exit code $got: $(tail -5 "$work/err")"
  grep -q -e "$words" "$work/err" || fail "$thread, rank $rank: no \"$words\": $(tail -5 "$work/err")"
}

held "ls worker" - "error: step [0-9]* waits for a thread that does not answer.*ls worker (held"
held lockstep - "error: step [0-9]* waits for a thread that does not answer.*lockstep (held"
# a process of bench said so, and went on waiting
loads() {
  grep -qsx "ls loader" /proc/"$pid"/task/*/comm
}
"$program" bench "$work/c.yaml" --once "$work/once" --steps 1000000 --warmup 0 2>"$work/err" &
pid=$! thread="ls worker" rank=- words="error: .*step [0-9]* waits for a thread that does not answer.*ls worker (held"
wait_until "the first batch of bench" loads
hold
held "ls loader" - "the thread that loads data does not answer"
command -v mpirun >/dev/null 2>&1 || { echo "no mpirun: one rank only"; exit 0; }
# the other rank waits for this one, also by its deadline: the first to speak ends the run
held "ls worker" 0 "error: rank [01]: .*\(does not answer\|within [0-9.]* s\)" --set parallel.strategy=ddp --ranks 2
echo ok
