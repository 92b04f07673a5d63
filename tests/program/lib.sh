# Shared by scripts that run the program: a work folder, failing with a reason, reading a field of --json output, errors.
program=$1
# shellcheck disable=SC2034 # used by the scripts
source_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
# field FILE NAME: the value of a top-level scalar, without quotes
field() {
  sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}
# below A B: true when A < B (decimals)
below() {
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
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
