#!/bin/sh
# The whole story on this machine, each step with the command that it runs: probe, plan, train with the choice,
# measure, report. `make demo` builds the program first. All files go to build/demo; a second run reuses the profile
# there. If a step fails, the demo ends with its exit code.
#   scripts/demo.sh [PROGRAM]
#   DEMO_QUICK=1   few steps and repetitions (the test suite)
#   DEMO_DIR=DIR   instead of build/demo
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/release/bin/lockstep}
dir=${DEMO_DIR:-build/demo}
config=examples/05-auto.yaml
small=16
large=1024
start=$(date +%s)

if [ "${DEMO_QUICK:-0}" = 1 ]; then
  probe_flags=--quick
  train_flags="--set train.epochs=1"
  plan_flags="--budget-ms 1000"
  bench_flags="--repetitions 2 --steps 10 --warmup 2 --control 0"
else
  probe_flags=""
  train_flags=""
  plan_flags=""
  bench_flags="--repetitions 6 --steps 50 --control 0"
fi

# A profile of the user's own is not touched, unless LOCKSTEP_PROFILE asks for one.
LOCKSTEP_PROFILE=${LOCKSTEP_PROFILE:-$dir/profile.json}
export LOCKSTEP_PROFILE
mkdir -p "$dir"

section() {
  printf '\n== %s ==\n' "$1"
}
# Prints a command and runs it; its failure is the demo's.
run() {
  printf '$ %s\n' "$*"
  code=0
  "$@" || code=$?
  stop_at "$code" "$*"
}
stop_at() {
  if [ "$1" != 0 ]; then
    echo "demo: exit code $1 from: $2" >&2
    exit "$1"
  fi
}
# The plan for a batch as a table, and as JSON for bench.
plan() {
  # shellcheck disable=SC2086 # flags
  run "$program" plan "$config" --set "train.batch=$1" $plan_flags
  printf '$ %s\n' "$program plan $config --set train.batch=$1${plan_flags:+ $plan_flags} --json >$dir/plan-$1.json"
  code=0
  # shellcheck disable=SC2086 # flags
  "$program" plan "$config" --set "train.batch=$1" $plan_flags --json >"$dir/plan-$1.json" || code=$?
  stop_at "$code" "$program plan $config --set train.batch=$1${plan_flags:+ $plan_flags} --json"
}

echo "Does a second device pay? Here: one rank with all cores against several ranks that share them, for one small"
echo "network at two batch sizes. The GPUs of a machine are compared in the same way."

section "1. What can this machine do? (measured once, about 15 s)"
# A profile of another machine, or a damaged one, is refused with exit code 6: measure anew.
code=0
if [ -e "$LOCKSTEP_PROFILE" ]; then
  "$program" plan "$config" --json >"$dir/plan-$large.json" 2>"$dir/refused" || code=$?
  if [ "$code" = 6 ] && [ "$LOCKSTEP_PROFILE" = "$dir/profile.json" ]; then
    cat "$dir/refused"
    rm -f "$LOCKSTEP_PROFILE"
  fi
  rm -f "$dir/refused"
fi
printf '$ export LOCKSTEP_PROFILE=%s\n' "$LOCKSTEP_PROFILE"
if [ -e "$LOCKSTEP_PROFILE" ]; then
  echo "there is one already; measuring again: rm $LOCKSTEP_PROFILE"
  run "$program" probe --machine "$LOCKSTEP_PROFILE"
else
  # shellcheck disable=SC2086 # flags
  run "$program" probe $probe_flags
fi

section "2. One rank or several? (predicted)"
plan $small
plan $large

section "3. Train with the choice (predicted beside measured at the end of each report)"
# shellcheck disable=SC2086 # flags
run "$program" train "$config" --quiet --set train.batch=$small $train_flags
# shellcheck disable=SC2086
run "$program" train "$config" --quiet --set train.batch=$large $train_flags

section "4. Was the choice right? Every variant measured, repetitions interleaved"
ranks=1 # and two where the plan found a second device
if grep -q '"devices": 2,' "$dir/plan-$large.json"; then ranks=1,2; fi
set -- --output "$dir/bench.json"
if command -v python3 >/dev/null; then set -- "$@" --html "$dir/report.html"; fi
# shellcheck disable=SC2086
run "$program" bench "$config" --quiet --batches $small,$large --ranks-list $ranks $bench_flags \
  --plan "$dir/plan-$small.json,$dir/plan-$large.json" "$@"

section "5. The report"
if [ $# -gt 2 ]; then
  echo "$dir/report.html    intervals, tests, parts of a step, predictions beside measurements"
else
  echo "none, because python3 is not installed; later: lockstep bench --from $dir/bench.json --html $dir/report.html"
fi
echo "$dir/bench.json     the same as a document; lockstep compare takes two of them"
echo "demo: $(($(date +%s) - start)) s"
