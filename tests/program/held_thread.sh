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

# Each case has a number, and files with it in their names: all cases wait for their deadlines at once.
cases=0
# next_case COMMAND...: the next case, as $pid, up to its first step
next_case() {
  start_training "$@"
  cases=$((cases + 1))
  mv "$work/err" "$work/err.$cases"
}
# hold THREAD RANK WORDS: the thread of this case's process, or of its rank (-: there is one), which is to end with the words
hold() {
  process=$pid
  [ "$2" = - ] || process=$(rank_process "$2" c)
  rm -f "$work/held"
  "$LOCKSTEP_HOLD_THREAD" "$process" "$1" >"$work/held" 2>&1 &
  holder=$!
  wait_until "the hold" [ -s "$work/held" ]
  if ! grep -qx held "$work/held"; then
    got=0
    wait $holder || got=$?
    [ $got = 77 ] || fail "no thread \"$1\" could be held in process $process: $(cat "$work/held" "$work/err.$cases")"
    echo "skipped: threads cannot be traced here"
    exit 77
  fi
  echo "$pid" >"$work/pid.$cases"
  echo "$1, rank $2" >"$work/name.$cases"
  echo "$3" >"$work/words.$cases"
}

# the other rank waits for this one, also by its deadline: the first to speak ends the run
next_case "$program" train "$work/c.yaml" --set parallel.strategy=ddp --ranks 2
hold "ls worker" 0 "error: rank [01]: .*\(does not answer\|within [0-9.]* s\)"
next_case "$program" train "$work/c.yaml"
hold "ls worker" - "error: step [0-9]* waits for a thread that does not answer.*ls worker (held"
next_case "$program" train "$work/c.yaml"
hold lockstep - "error: step [0-9]* waits for a thread that does not answer.*lockstep (held"
next_case "$program" train "$work/c.yaml"
hold "ls loader" - "the thread that loads data does not answer"
# a process of bench said so, and went on waiting
loads() {
  grep -qsx "ls loader" /proc/"$pid"/task/*/comm
}
cases=$((cases + 1))
"$program" bench "$work/c.yaml" --once "$work/once" --steps 1000000 --warmup 0 2>"$work/err.$cases" &
pid=$!
wait_until "the first batch of bench" loads
hold "ls worker" - "error: .*step [0-9]* waits for a thread that does not answer.*ls worker (held"

for n in $(seq $cases); do
  got=0
  wait "$(cat "$work/pid.$n")" || got=$?
  [ $got = 9 ] || fail "$(cat "$work/name.$n"): exit code $got: $(tail -5 "$work/err.$n")"
  grep -q -f "$work/words.$n" "$work/err.$n" || fail "$(cat "$work/name.$n"): no \"$(cat "$work/words.$n")\": $(tail -5 "$work/err.$n")"
done
echo ok
