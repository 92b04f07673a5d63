#!/bin/sh
# lockstep simulate as a user runs it: tables, JSON, usage errors.
set -eu
. "$(dirname "$0")/../program/lib.sh"

config=examples/04-simulate-h200.yaml
machine=machines/h200.yaml
workload=examples/workloads/resnet50.yaml

refused() { # code, pattern on stderr, arguments...
  code=$1 pattern=$2
  shift 2
  expect "$code" "$pattern" simulate "$@"
  [ ! -s "$work/out" ] || fail "lockstep simulate $* printed something"
}
refused 2 '--machine FILE is missing' "$config"
refused 2 'either CONFIG or --workload' --machine $machine
refused 2 'either CONFIG or --workload' "$config" --workload $workload --machine $machine
refused 2 'ascending' "$config" --machine $machine --ranks 4,2
refused 2 'did you mean --machine' "$config" --machin $machine
refused 5 'no-such.yaml' "$config" --machine no-such.yaml
refused 3 'devices is missing' "$config" --machine "$config"
refused 5 'no such name among the shipped machines' "$config" --machine h2000
refused 5 'share/lockstep/workloads' --machine $machine --workload resnet51

"$program" simulate $config --machine $machine >"$work/table"
head -1 "$work/table" | grep -q '^SIMULATED, not measured' || fail "the table is not labelled: $(head -1 "$work/table")"
[ "$(grep -c '^ *[0-9]' "$work/table")" = 4 ] || fail "1, 2, 4 and 8 of eight devices: $(cat "$work/table")"

"$program" simulate $config --machine machines/v100-hdr.yaml --ranks 1..1024 --json >"$work/s.json"
grep -q '"figures": "simulated"' "$work/s.json" || fail "the document is not labelled"
[ "$(grep -c '"step_time_us"' "$work/s.json")" = 11 ] || fail "eleven points: $(cat "$work/s.json")"
for key in version machine points samples_per_s speedup efficiency exposed_comm_share step_bytes source; do
  grep -q "\"$key\"" "$work/s.json" || fail "simulate --json lacks $key"
done

# A side lane is not simulated, and that is said.
"$program" simulate $config --machine $machine --set parallel.side_lane=on >"$work/side"
grep -q 'left out: parallel.side_lane' "$work/side" || fail "the side lane: $(cat "$work/side")"
grep -v 'left out' "$work/side" | diff "$work/table" - || fail "a side lane changes what is simulated"
"$program" simulate $config --machine $machine --set parallel.side_lane=on --json | grep -q '"left_out": "parallel.side_lane"' ||
  fail "simulate --json does not say what it leaves out"

# By name: what is shipped is found below LOCKSTEP_SHARE, with and without its ending; a path is never looked up.
mkdir -p "$work/data" && cp -r machines "$work/data/" && cp -r examples/workloads "$work/data/"
LOCKSTEP_SHARE=$work/data "$program" simulate $config --machine h200 >"$work/named"
diff "$work/table" "$work/named" || fail "h200 by name is not machines/h200.yaml"
LOCKSTEP_SHARE=$work/data "$program" simulate $config --machine h200.yaml >"$work/named"
diff "$work/table" "$work/named" || fail "h200.yaml by name is not machines/h200.yaml"
LOCKSTEP_SHARE=$work/data "$program" simulate --workload resnet50 --machine v100-hdr --ranks 1..4 >"$work/named" ||
  fail "a workload by name"
# Before anything is installed, a program that was built in the source tree finds what the tree ships.
case $program in
"$source_dir"/*)
  (unset LOCKSTEP_SHARE && "$program" simulate $config --machine h200) >"$work/named" ||
    fail "h200 by name from the build tree"
  diff "$work/table" "$work/named" || fail "h200 by name from the build tree is not machines/h200.yaml"
  (unset LOCKSTEP_SHARE && "$program" simulate --workload resnet50 --machine v100-hdr --ranks 1..4) \
    >"$work/named" || fail "a workload by name from the build tree"
  ;;
esac
LOCKSTEP_SHARE=$work/data refused 5 './h200' "$config" --machine ./h200

"$program" simulate $config --machine machines/rtx5080-rtx4060.yaml >"$work/table"
grep -q '2 proportional' "$work/table" || fail "unequal devices: $(cat "$work/table")"
"$program" simulate $config --machine $machine --ranks 4,16 >"$work/table"
grep -q '16 the machine has 8 devices' "$work/table" || fail "too many ranks: $(cat "$work/table")"

"$program" simulate --workload $workload --machine machines/v100-hdr.yaml --ranks 1..256 >"$work/table"
grep -q 'beside what was reported' "$work/table" || fail "the report: $(cat "$work/table")"
grep -q 'contradicts itself' "$work/table" || fail "the contradictions"
"$program" simulate --workload $workload --machine machines/v100-hdr.yaml --ranks 1..256 --json >"$work/w.json"
[ "$(grep -c '"why"' "$work/w.json")" = 9 ] || fail "nine reported rows: $(cat "$work/w.json")"
echo ok
