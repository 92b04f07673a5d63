#!/bin/sh
# Every command, with a stdout that nobody reads, that is closed, or that is full: one exit code, and words where they help.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}
data: {kind: synthetic, samples: 64, validation: 0.25}
train: {batch: 16, steps: 2, checkpoint: {dir: $work/run}}
parallel: {backend: cpu, threads: 1}
Y
with_profile
"$program" train "$work/c.yaml" --quiet >"$work/out"
grep -q 'memory of a device .* predicted (libraries [0-9]' "$work/out" || fail "no prediction from the profile: $(cat "$work/out")"
# the_others_wait_while_rank_0_reports: longer than parallel.deadline_s, for a reader who takes his time
reports=
time=${LOCKSTEP_TEST_TIME:-1}
if command -v mpirun >/dev/null 2>&1; then
  mkfifo "$work/slow"
  exec 5<>"$work/slow"
  dd if=/dev/zero of="$work/slow" bs=4096 oflag=nonblock 2>/dev/null || true # until it is full
  # shellcheck disable=SC2086,SC2016 # words; the inner shell's
  $launcher -np 2 sh -c 'exec "$0" train "$1/c.yaml" --quiet --set parallel.strategy=ddp --set parallel.deadline_s="$2" --set train.checkpoint.dir="$1/slow-run" >"$1/slow"' \
    "$program" "$work" $((3 * time)) 2>"$work/slow.err" 3<&- 5<&- &
  reports=$!
  wait_until "the end of the training before a report" [ -d "$work/slow-run/step-000000000002" ]
  since=$(date +%s)
fi
"$program" bench "$work/c.yaml" --ranks-list 1 --repetitions 2 --steps 4 --warmup 1 --control 0 --quiet \
  --output "$work/bench.json" >"$work/out"
mkfifo "$work/pipe"
exec 3<>"$work/pipe" 4>"$work/pipe" 3<&- # 4: the writing end of a pipe that nobody reads
cat >"$work/commands" <<C
--version
--version --json
--help
help config
help man
help train
train --help
completion bash
completion zsh
completion fish
check $work/c.yaml
inspect $work/c.yaml
inspect $work/c.yaml --json
train $work/c.yaml --quiet
train $work/c.yaml --quiet --json
train $work/c.yaml --quiet --supervise
eval $work/c.yaml --checkpoint $work/run --json
plan $work/c.yaml --devices 1 --json
simulate $work/c.yaml --machine $source_dir/machines/h200.yaml --ranks 1,2 --set parallel.strategy=ddp
compare $work/bench.json $work/bench.json
probe --machine $LOCKSTEP_PROFILE
C
echo "train $work/c.yaml --quiet --json --ranks 2" >>"$work/commands"
[ ! -c /dev/full ] || full=/dev/full
while read -r arguments; do
  # shellcheck disable=SC2086 # words
  for stdout in reader-gone closed ${full:-}; do
    got=0
    case $stdout in
    reader-gone) "$program" $arguments 2>"$work/err" >&4 4>&- </dev/null || got=$? ;;
    closed) "$program" $arguments 2>"$work/err" >&- 4>&- </dev/null || got=$? ;;
    *) "$program" $arguments 2>"$work/err" >$stdout 4>&- </dev/null || got=$? ;;
    esac
    [ $got = 5 ] || fail "$stdout, exit code $got: lockstep $arguments: $(cat "$work/err")"
    # the reason of a later call was told: "No such file or directory"
    reason='Bad file descriptor'
    [ $stdout = closed ] || reason='No space left on device'
    said=$(grep -c "error: \(rank 0: \)\{0,1\}cannot write the result to stdout: $reason\$" "$work/err" || true)
    case $stdout in
    reader-gone) if grep 'error\|Broken pipe' "$work/err"; then fail "a reader that has gone: lockstep $arguments"; fi ;;
    *) [ "$said" = 1 ] || fail "$stdout: lockstep $arguments: $(cat "$work/err")" ;;
    esac
  done
done <"$work/commands"
# what is meant for a stdout that is closed went into the file that was opened first
got=0
"$program" train "$work/c.yaml" --quiet --trace "$work/trace.json" >&- 2>"$work/err" || got=$?
[ $got = 5 ] || fail "closed, with a trace: exit code $got: $(cat "$work/err")"
if grep -l 'whole run' -r "$work/run" "$work/trace.json"; then fail "the result is in a file of the run"; fi
# a trace for which there is no room once took the run's report with it
if [ ${full:-} ]; then
  ln -s $full "$work/full.json"
  got=0
  "$program" train "$work/c.yaml" --quiet --json --trace "$work/full.json" >"$work/out" 2>"$work/err" || got=$?
  [ $got = 5 ] || fail "no room for the trace: exit code $got: $(cat "$work/err")"
  grep -q 'full.json.* No space left on device' "$work/err" || fail "no room for the trace: $(cat "$work/err")"
  grep -q '"params_xxh3": "' "$work/out" || fail "no room for the trace, and no report: $(cat "$work/out")"
fi
if [ $reports ]; then
  while [ $(($(date +%s) - since)) -lt $((3 * time + 2)) ]; do sleep 0.1; done
  exec 6<"$work/slow" 5<&-
  tr -d '\0' <&6 >"$work/slow.out"
  got=0
  wait $reports || got=$?
  [ $got = 0 ] || fail "a report that took long: exit code $got: $(cat "$work/slow.err")"
  grep -q 'whole run' "$work/slow.out" || fail "no report: $(cat "$work/slow.out")"
fi
echo ok
