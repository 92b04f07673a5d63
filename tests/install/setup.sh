#!/bin/sh
# setup_installs_npm_first: on a bare system the set-up installs npm with the other packages, and then what tests take from npm;
# a second run installs nothing. apt-get, dpkg-query, id and npm are stand-ins. Usage: setup.sh SOURCE
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" && cat "$work/out" && exit 1; }
mkdir -p "$work/bin" "$work/tree/scripts" "$work/tree/src/live/monitor/web" "$work/tree/tests/program"
cp "$source/scripts/setup.sh" "$work/tree/scripts/"
: >"$work/installed" >"$work/out"
for tool in sh env dirname grep mktemp rm cat mkdir cp; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
# stand_in FILE: a program with the lines of stdin
stand_in() { { echo "#!/bin/sh" && cat; } >"$1" && chmod +x "$1"; }
echo 'echo 0' | stand_in "$work/bin/id"
stand_in "$work/bin/dpkg-query" <<'Q'
for package; do :; done
grep -qx "$package" "$WORK/installed" && echo 'install ok installed'
Q
stand_in "$work/bin/apt-get" <<'A'
[ "$1" = install ] || exit 0
for package; do
  echo "$package" >>"$WORK/installed"
  [ "$package" != npm ] || cp "$WORK/npm" "$WORK/bin/npm"
done
A
stand_in "$work/npm" <<'N'
case $PWD in
*/web) mkdir -p node_modules/uplot ;;
*) mkdir -p node_modules/onnxruntime-node ;;
esac
N
run() { env -i WORK="$work" PATH="$work/bin" TMPDIR="$work" sh "$work/tree/scripts/setup.sh" "$@" >"$work/out" 2>&1 || fail "setup $*: exit code $?"; }

run
! grep -qx npm "$work/installed" || fail "the build alone needs no npm"
grep -q 'uplot' "$work/out" || fail "the loss without npm is not said"
run --all
[ -d "$work/tree/tests/program/node_modules/onnxruntime-node" ] || fail "onnxruntime-node was not taken from npm"
[ -d "$work/tree/src/live/monitor/web/node_modules/uplot" ] || fail "uplot was not taken from npm"
run --all
[ "$(cat "$work/out")" = 'setup: all packages are installed' ] || fail "the second run does something"
echo "setup: ok"
