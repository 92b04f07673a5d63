#!/bin/sh
# The scripts of bench/ refuse wrong arguments before they run anything: exit code 2 and one sentence.
set -eu
. "$(dirname "$0")/../program/lib.sh"
# refuses PATTERN SCRIPT ARGUMENT...
refuses() {
  pattern=$1 script=$2
  shift 2
  got=0
  "$source_dir/$script" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ $got = 2 ] && ! grep -q Traceback "$work/err" || fail "exit code $got, not 2: $script $*: $(tail -3 "$work/err")"
  grep -q -e "$pattern" "$work/err" || fail "no \"$pattern\" from $script $*: $(cat "$work/err")"
}
export PYTHONDONTWRITEBYTECODE=1
for script in bench/straggler.py bench/interrupts.py bench/drawn_chaos.py; do
  refuses 'required' $script
  for count in 0 -1 many; do refuses "$count: a whole number above 0" $script "$program" -- $count; done
  refuses "$work/none: no program" $script "$work/none"
done
refuses 'not allowed with' bench/straggler.py "$program" 1 11 --paced --backend cuda
memory() {
  pattern=$1
  shift
  refuses "$pattern" bench/memory_accuracy.py --lockstep "$program" "$@"
}
refuses "$work/none: no program" bench/memory_accuracy.py --lockstep "$work/none"
memory 'no such cell: nonsense' --only lstm,nonsense
memory 'no such cell: lstm' --only lstm --backend cuda
memory 'invalid choice' --backend tpu
memory 'not allowed with' --random 2 --only lstm
memory "$work/none: no folder" --out "$work/none/cells.json"
for option in repeat ranks random limit; do memory 'a whole number above 0' --$option=-1; done
for ranks in x '' 1,,2; do memory 'a whole number above 0' --ranks "$ranks"; done
refuses 'usage' bench/same_bits.sh "$program"
refuses 'nonsense: no backend' bench/same_bits.sh "$program" "$program" cpu nonsense
refuses "$work/none: no program" bench/same_bits.sh "$program" "$work/none"

# a_late_training_leaves_its_group: the control group of a training that was ended is removed
got=0
python3 - "$source_dir/bench" "$work/group" 2>"$work/err" <<'P' || got=$?
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import memory_accuracy
memory_accuracy.GROUP, memory_accuracy.LIMIT_S, os.rmdir = sys.argv[2], 0.1, lambda path: subprocess.check_call(["rm", "-r", path])
memory_accuracy.survives(["sleep", "300"], 1)
P
[ $got = 1 ] && grep -q '^not done within 0.1 s: sleep 300$' "$work/err" || fail "a late training: exit code $got: $(tail -3 "$work/err")"
[ ! -e "$work/group" ] || fail "the control group is still there"
echo ok
