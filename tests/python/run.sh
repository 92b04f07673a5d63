#!/bin/sh
# Runs the tests of the Python package, with numpy and pytest where some python3 has them. Usage: run.sh PROGRAM SOURCE
set -eu
skip() { echo "skipped: $*" && exit 77; }
[ -e "$LOCKSTEP_LIBRARY" ] || skip "the shared library is not built"
! ldd "$LOCKSTEP_LIBRARY" | grep -qE 'lib[at]san' || skip "a sanitized library needs a sanitized python3"
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy, pytest' 2>/dev/null || continue
  LOCKSTEP_PROGRAM=$(realpath "$1") PYTHONPATH=$2/python exec "$python" -B -m pytest -q -p no:cacheprovider "$2/tests/python"
done
skip "no python3 with numpy and pytest (python3-numpy, python3-pytest)"
