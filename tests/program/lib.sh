# Shared by scripts that run the program: a work folder, failing with a reason, reading a field of --json output, errors.
program=$1
# shellcheck disable=SC2034 # used by the scripts
source_dir=$2
work=$(mktemp -d)
# No profile of this machine but the script's own: the user's may be large, which every start pays, and is not for tests to fill.
export XDG_CACHE_HOME="$work/cache"
unset LOCKSTEP_PROFILE
# A script that fails, or runs out of time, leaves no training behind: what runs in the background has its folder.
clean_up() {
  for process in $(echo "$work/" | grep -alsFf - /proc/[0-9]*/cmdline | tr -dc '0-9\n'); do kill -KILL "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP
# Several ranks by hand: $launcher -np N "$program" ... No option here that a version of Open MPI refuses.
# shellcheck disable=SC2034 # used by the scripts
launcher="mpirun --oversubscribe"
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM PRTE_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT_CONFIRM
fail() {
  echo "FAILED: $*"
  exit 1
}
# rest: make test ends the script here. make test-all goes on, in a test of its own (NAME_all).
rest() {
  [ "${LOCKSTEP_TEST_ALL:-}" ] || { echo "ok; the rest: make test-all" && exit 0; }
}
# all_or MANY FEW: how many of something make test-all tries, and how many make test
all_or() {
  if [ "${LOCKSTEP_TEST_ALL:-}" ]; then echo "$1"; else echo "$2"; fi
}
# with_profile: $LOCKSTEP_PROFILE is the script's copy of a quick profile, which the first script since the build has had measured
with_profile() {
  measured=${program%/*}/../tests/profile.json
  ( # other scripts that start meanwhile wait
    flock 9
    [ "$measured" -nt "$program" ] || "$program" probe --quick --fresh --output "$measured" >"$work/out" 2>"$work/err"
  ) 9>"$measured.lock" || fail "probe: $(cat "$work/err")"
  export LOCKSTEP_PROFILE="$work/profile.json"
  cp "$measured" "$LOCKSTEP_PROFILE"
}
# plan FILE ARGUMENT...: lockstep plan into the file. What a busy machine leaves no time for is not priced; the next plan goes on from there.
plan() {
  planned=$1
  shift
  "$program" plan "$@" >"$planned" 2>"$work/err" || fail "plan $*: $(cat "$work/err")"
}
# well_timed: what plans have timed into $LOCKSTEP_PROFILE counts as timed on an idle machine. Beside other programs every plan would
# time its steps again, for seconds.
well_timed() {
  times=$((${times:-0} + 1))
  sed -i "s/| busy\"/| busy, $times\"/" "$LOCKSTEP_PROFILE"
  contents=$("$program" probe --machine "$LOCKSTEP_PROFILE" 2>&1 | sed -n 's/.*altered (checksum .*, contents \([0-9a-f]*\)).*/\1/p')
  [ -z "$contents" ] || sed -i "s/\"checksum\": .*/\"checksum\": \"$contents\"/" "$LOCKSTEP_PROFILE"
}
# children PROCESS: the processes whose parent it is
children() {
  sed -n "s/^\([0-9]*\) (.*) [A-Z] $1 .*/\1/p" /proc/[0-9]*/stat 2>/dev/null || true
}
# rank_process N NAME: the process of rank N with $work/NAME.yaml
rank_process() {
  for cmdline in $(grep -als "$work/$2[.]yaml" /proc/[0-9]*/cmdline); do
    if grep -aqs "LOCKSTEP_RANK=$1 " "${cmdline%cmdline}environ"; then echo "$cmdline" | tr -dc '0-9'; fi
  done
}
# train_as NAME OPTION...: trains c.yaml; checkpoints are in $work/NAME, the report is $work/NAME.json
train_as() {
  as=$1
  shift
  "$program" train "$work/c.yaml" --quiet --json --set "train.checkpoint.dir=$work/$as" "$@" >"$work/$as.json"
}
# field FILE NAME: the value of a top-level scalar, without quotes
field() {
  sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}
# member FILE OBJECT NAME: a scalar of a top-level object
member() {
  sed -n "/^  \"$2\": {/,/}/s/^    \"$3\": \([^,]*\),\{0,1\}\$/\1/p" "$1"
}
# below A B: true when A < B (decimals)
below() {
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
}
# wait_until WHAT COMMAND...: the command has come true; fails after a minute (longer under a sanitizer) without WHAT
wait_until() {
  what=$1
  shift
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt $((1200 * ${LOCKSTEP_TEST_TIME:-1})) ] || fail "$what did not come in time: $(tail -5 "$work/err")"
    sleep 0.05
  done
}
# begin COMMAND...: starts a program as $pid and waits until the shell's copy of itself has become it. Until then a signal would be
# lost, because this shell has traps, and $work/out and $work/err would still hold what the command before it said.
begin() {
  "$@" >"$work/out" 2>"$work/err" &
  pid=$!
  wait_until "the start of $1" began
}
began() {
  [ "$(readlink "/proc/$pid/exe")" != "$(readlink "/proc/$$/exe")" ]
}
# start_training COMMAND...: begins a training and waits until it has said a step
start_training() {
  begin "$@"
  wait_until "the first step" said_a_step
}
said_a_step() {
  if grep -qs ' step [0-9]' "$work/err"; then return; fi
  kill -0 $pid 2>/dev/null || fail "the training did not begin: $(cat "$work/err")"
  return 1
}
# has_terminal: programs can be given a terminal here, or $no_terminal says what is missing
has_terminal() {
  no_terminal="script (util-linux) is not installed"
  command -v script >/dev/null 2>&1 || return
  no_terminal="there is no pseudo-terminal: $(script -qefc true /dev/null 2>&1 </dev/null | tr -d '\r')"
  script -qefc true /dev/null >/dev/null 2>&1 </dev/null
}
# expect CODE PATTERN ARGUMENT...: exit code, and a pattern on stderr
expect() {
  code=$1 pattern=$2
  shift 2
  got=0
  "$program" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] || fail "exit code $got, not $code: lockstep $*: $(cat "$work/err")"
  grep -q -e "$pattern" "$work/err" || fail "no \"$pattern\" from lockstep $*: $(cat "$work/err")"
}
