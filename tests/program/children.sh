#!/bin/sh
# Processes that a command starts: none goes on when the command ends, however it ends; and where they keep their files.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<'Y'
model: {preset: mlp-medium}
data: {kind: synthetic, samples: 20000}
train: {batch: 256, steps: 1000000, evaluate_every: 0}
parallel: {backend: cpu, threads: 1}
Y
mkdir "$work/tmp"
# start ARGUMENT...: in the background, in an environment that marks whatever comes of it; sets pid
start() {
  begin env LOCKSTEP_TEST_MARK="$work" TMPDIR="$work/tmp" LOCKSTEP_PROFILE="$work/profile.json" "$program" "$@"
}
marked() {
  grep -lzsxF -- "LOCKSTEP_TEST_MARK=$work" /proc/[0-9]*/environ | sed 's/[^0-9]//g'
}
nobody() {
  [ -z "$(marked)" ]
}
# child_with TEXT: sets child, the process right below the command that has TEXT among its arguments
child_with() {
  for child in $(marked); do
    if grep -qs "^PPid:[^0-9]*$pid\$" "/proc/$child/status" && tr '\0' ' ' <"/proc/$child/cmdline" | grep -qF -e "$1"; then
      return
    fi
  done
  return 1
}
timing() {
  grep -qs '^ls \(timed rank\|lane\|worker\)' /proc/"$pid"/task/*/comm
}
left() {
  for process in $(marked); do
    echo "$process: $(tr '\0' ' ' <"/proc/$process/cmdline" || true)"
  done
}

# SIGKILL to a command left its children running. The child is stopped: it cannot notice anything by itself.
killed() { # TEXT of the child's arguments, the command
  text=$1
  shift
  start "$@"
  wait_until "a child with $text" child_with "$text"
  kill -STOP "$child"
  kill -KILL $pid
  wait $pid || true
  begin=$(date +%s%N)
  wait_until "the end of all children after SIGKILL to lockstep $1" nobody
  echo "SIGKILL to $1 at $text: nobody is left after $((($(date +%s%N) - begin) / 1000000)) ms"
}
killed "--once" bench "$work/c.yaml" --ranks-list 1 --control 0 --repetitions 2
# SIGKILL to train left its ranks running for seconds, and they held the run's lock
several=
if [ "$(nproc)" -ge 2 ]; then several=yes; fi
ranks() {
  [ "$(marked | grep -vcx "$pid")" = 2 ]
}
trained() {
  [ -n "$(find "$work/run" -name manifest.json 2>/dev/null)" ]
}
if [ $several ]; then
  set -- train "$work/c.yaml" --ranks 2 --set parallel.strategy=ddp --set train.checkpoint.dir="$work/run" --set train.checkpoint.every_steps=5
  start "$@"
  wait_until "a checkpoint" trained
  ranks || fail "not two ranks: $(left)"
  kill -KILL $pid
  wait $pid || true
  wait_until "the end of the ranks after SIGKILL to train" nobody
  "$program" "$@" --resume --quiet --set train.steps=1 >"$work/out" 2>"$work/err" || fail "resumed: $(cat "$work/err")"
fi
rm -rf "$work/tmp" && mkdir "$work/tmp"

# SIGTERM while plan times
with_profile
start plan "$work/c.yaml" --fresh --budget-ms 3600000
wait_until "timing" timing
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "SIGTERM while timing: exit code $got: $(cat "$work/err")"
grep -q '^lockstep: error: interrupted by SIGTERM$' "$work/err" || fail "SIGTERM while timing: $(cat "$work/err")"
nobody || fail "SIGTERM while timing: $(left)"
# and while its child measures
rm "$work/profile.json"
start plan "$work/c.yaml"
wait_until "the probe" child_with 'probe --quick'
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "SIGTERM while measuring: exit code $got: $(cat "$work/err")"
grep -q 'error: interrupted by SIGTERM while measuring this machine$' "$work/err" || fail "SIGTERM while measuring: $(cat "$work/err")"
wait_until "the end of the probe's children" nobody
! ls "$work"/tmp/lockstep-* 2>/dev/null || fail "SIGTERM while measuring: files are left"

# TMPDIR that is missing, may not be written, or is full
no_room() { # DIR, pattern
  for command in "bench $work/c.yaml --ranks-list 1 --control 0 --repetitions 1 --steps 2" "probe --quick --output $work/p.json" \
    "plan $work/c.yaml"; do
    # shellcheck disable=SC2086 # words
    TMPDIR=$1 LOCKSTEP_PROFILE="$work/no-profile.json" expect 5 \
      "no temporary files: $1/lockstep-.*: $2; make room there, or set TMPDIR to another folder" $command
  done
}
no_room "$work/missing" 'cannot be made: No such file or directory'
no_room /proc/self 'cannot be made: .*'
mkdir "$work/full"
if mount -t tmpfs -o size=64k none "$work/full" 2>/dev/null; then
  trap 'umount "$work/full"; clean_up' EXIT
  cat /dev/zero >"$work/full/all" 2>/dev/null || true
  no_room "$work/full" '.* No space left on device'
else
  echo "no full disk: only root can mount one"
fi
rest
rm -f "$work/profile.json"
killed 'probe --quick' plan "$work/c.yaml"
if [ $several ]; then
  killed --ranks-into probe --quick --output "$work/p.json"
  killed "--once" bench "$work/c.yaml" --ranks-list 2 --control 0 --repetitions 2
fi
echo ok
