# Shared by the scripts of this folder: a work folder, failing with a reason, reading a field of --json output.
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
