#!/bin/sh
# The demo as `make demo` runs it, with few steps; and with a stand-in for the program, that a second run reuses the
# profile, that a refused one is measured anew, and that a step's failure is the demo's exit code.
set -eu
. "$(dirname "$0")/lib.sh"
demo=$source_dir/scripts/demo.sh
command -v python3 >/dev/null || { echo "SKIPPED: no python3, which the report needs" && exit 77; }

cat >"$work/stand-in" <<'S'
#!/bin/sh
echo "$*" >>"$LOG"
case $1 in
plan) [ "$(cat "$LOCKSTEP_PROFILE")" != other ] || exit 6 ;;
probe) [ "$2" = --machine ] || echo good >"$LOCKSTEP_PROFILE" ;;
esac
[ "$1" != "$FAILS" ] || exit 42
S
chmod +x "$work/stand-in"
LOG=$work/log DEMO_QUICK=1 DEMO_DIR=$work/second
export LOG DEMO_QUICK DEMO_DIR
unset LOCKSTEP_PROFILE
stand_in() { # exit code that is expected, the command that fails
  : >"$LOG"
  got=0
  FAILS=$2 "$demo" "$work/stand-in" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$1" ] || fail "exit code $got, not $1, with failing: $2: $(cat "$work/err")"
}
stand_in 42 probe
for command in plan train bench; do
  stand_in 42 $command
  grep -q "exit code 42 from: .*$command" "$work/err" || fail "$command failed, but its command is not named"
  [ ! -s "$work/second/report.html" ] || fail "a report after a failure"
done
stand_in 0 none
! grep -q 'probe --quick' "$LOG" || fail "measured again, although there is a profile"
echo other >"$work/second/profile.json"
stand_in 0 none
grep -q 'probe --quick' "$LOG" || fail "not measured again, although the profile was refused"
echo other >"$work/mine.json"
LOCKSTEP_PROFILE=$work/mine.json
export LOCKSTEP_PROFILE
stand_in 6 none
[ "$(cat "$work/mine.json")" = other ] || fail "the user's own profile was replaced"
unset LOCKSTEP_PROFILE

rest
DEMO_DIR=$work/first
"$demo" "$program" >"$work/out" 2>"$work/err" || fail "exit code $?: $(cat "$work/err")"
for part in 'probe --quick' 'plan examples/05-auto.yaml --set train.batch=16' 'predicted by the plan' \
  'all times predicted, 90 % intervals' "$work/first/report.html"; do
  grep -q -e "$part" "$work/out" || fail "the output lacks \"$part\": $(cat "$work/out")"
done
[ -s "$work/first/profile.json" ] || fail "no profile"
grep -q 'predicted by lockstep plan' "$work/first/report.html" || fail "the report shows no predictions"
grep -q '"error_percent"' "$work/first/bench.json" || fail "predictions are not beside what was measured"
echo ok
