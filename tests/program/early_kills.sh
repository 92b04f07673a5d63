#!/bin/sh
# a_rank_that_dies_at_its_start: killed within 50 ms, 60 times (LOCKSTEP_KILLS); each run ends with the undisturbed bits.
set -eu
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
"$source_dir/bench/early_kills.py" "$program" "${LOCKSTEP_KILLS:-60}" "${LOCKSTEP_SEED:-1}" || fail "exit code $?"
echo ok
