#!/bin/sh
# lockstep stress as a user runs it: figures, a planted fault's exit code, refusals.
set -eu
. "$(dirname "$0")/../program/lib.sh"

got=0
"$program" stress --seconds 1 --memory 1 --json >"$work/out.json" 2>"$work/err" || got=$?
case $got in 0 | 11) ;; *) fail "exit code $got: $(cat "$work/err")" ;; esac
for want in '"command": "stress"' '"precision": "fp32"' '"wrong_chains": 0' '"wrong_words": 0' '"utilization": ' '"links": \[\]'; do
  grep -q -e "$want" "$work/out.json" || fail "no $want in $(cat "$work/out.json")"
done
expect 7 'not sound: results were wrong' stress --seconds 1 --parts compute --plant product:0
grep -q '^rank 0: .*WRONG: 1 of [0-9]* chains of products in fp32' "$work/out" || fail "$(cat "$work/out")"
grep -q 'busy [0-9.]* %.*fault' "$work/out" || fail "no rounds in $(cat "$work/out")"
mkdir "$work/disk"
expect 5 'asked for, .* MB free' stress --seconds 1 --parts compute --disk "$work/disk:900T"
expect 5 'No such file or directory' stress --seconds 1 --parts compute --disk "$work/none"
expect 2 'disk takes DIR or DIR:SIZE' stress --disk "$work/disk:4X"
expect 2 'name of a preset .* not "huge"' stress --parts none --network huge
expect 2 'nothing to do' stress --parts none

rest
# the_report_of_a_wrong_machine: a rank that left first ended rank 0 before it had printed
expect 7 'not sound: results were wrong' stress --seconds 1 --parts links --ranks 2 --plant transfer:1-0
grep -q 'rank 1 to 0 .* 1 wrong: WRONG' "$work/out" || fail "$(cat "$work/out")"
grep -q 'rank 0 to 1 .* 0 wrong: ' "$work/out" || fail "$(cat "$work/out")"
# a file is written and read back, nothing of it stays, and what fails is named
echo '{"t": 0, "gpu_power_limited": 1, "gpu_clock_mhz": 1485, "gpu_clock_most_mhz": 1980}' >"$work/capped.jsonl"
export LOCKSTEP_NVML="$work/capped.jsonl" # a power cap beside it
expect 7 'not sound: results were wrong' stress --seconds 1 --parts compute --disk "$work/disk:4M" --plant disk:0
unset LOCKSTEP_NVML
grep -q 'products .* at the 75 % of the clock that the power cap leaves' "$work/out" || fail "$(cat "$work/out")"
grep -q "^  disk  *$work/disk, a file of 4.19 MB, .*, 1 wrong word$" "$work/out" || fail "$(cat "$work/out")"
[ -z "$(ls -A "$work/disk")" ] || fail "left behind: $(ls -A "$work/disk")"
got=0
(ulimit -f 1024 && "$program" stress --seconds 1 --parts compute --disk "$work/disk:4M") >"$work/out" 2>"$work/err" || got=$?
[ $got = 7 ] && grep -q 'WRONG.*writing at byte [0-9]*: File too large' "$work/out" || fail "a failing write: $got: $(cat "$work/out" "$work/err")"
# a network is trained on all ranks, and one that diverges is no sound load
cat >"$work/net.yaml" <<Y
model: {input: [16], layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 4}}], loss: mse}
data: {kind: synthetic, samples: 256, validation: 0.5}
train: {batch: 16, steps: 3, checkpoint: {dir: saved}}
Y
"$program" stress --seconds 1 --parts none --network "$work/net.yaml" --ranks 2 >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
grep -q "^  network .*, 172 parameters, batch 16: [0-9]* steps, .* finite, the same on all ranks" "$work/out" || fail "$(cat "$work/out")"
[ ! -e "$work/saved" ] || fail "the network was saved"
got=0
LOCKSTEP_FAULT="flip 1 1 always" "$program" stress --seconds 60 --parts none --network "$work/net.yaml" --ranks 2 >"$work/out" 2>"$work/err" || got=$?
[ $got = 7 ] && grep -q "^rank 1: .*WRONG: training .*: losses or parameters of the ranks differ" "$work/out" || fail "a flipped bit: $got: $(cat "$work/out" "$work/err")"
sed 's/steps: 3/optimizer: {name: sgd, lr: 1e6}/' "$work/net.yaml" >"$work/wild.yaml"
expect 7 'not sound: results were wrong' stress --seconds 60 --parts none --network "$work/wild.yaml"
grep -q 'WRONG: training .*wild.yaml: a loss or gradient was not finite' "$work/out" || fail "$(cat "$work/out")"
# a signal ends the run, with what is known and its own exit code
begin "$program" stress --seconds 100 --parts compute
wait_until "a round" grep -q 'busy' "$work/out"
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "interrupted: exit code $got: $(cat "$work/err")"
grep -q '^after .* s, interrupted: \(nothing wrong until then\|disturbed\)' "$work/out" || fail "interrupted: $(cat "$work/out")"
begin "$program" stress --seconds 100 --parts compute --ranks 2
wait_until "a round of two ranks" grep -q 'busy' "$work/out"
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] && [ "$(grep -c 'interrupted by' "$work/err")" = 1 ] && grep -q 'interrupted by SIGTERM' "$work/err" || fail "SIGTERM to two ranks: $got: $(cat "$work/err")"
expect 2 'rank 1 writes no file' stress --seconds 1 --parts compute --disk "$work/disk:4M" --plant disk:1 --ranks 2
expect 2 'name of a preset .* not "huge"' stress --parts none --network huge --ranks 2
[ "$(grep -c 'name of a preset' "$work/err")" = 1 ] || fail "refused by each rank: $(cat "$work/err")"
expect 2 'not "heat"' stress --parts compute,heat
expect 2 'not ""' stress --parts compute,,memory
expect 2 'not "link:1"' stress --plant link:1
# A fault that was planted nowhere, and was not found therefore, was once a sound machine.
expect 2 'not "product:0x"' stress --plant product:0x
expect 2 'a rank of 0 to 0 expected' stress --plant product:1
expect 2 'two different ranks of 0 to 1 expected' stress --plant link:1-1 --ranks 2
expect 2 'the part that finds it does not run' stress --plant disk:0
expect 2 'the part that finds it does not run' stress --plant memory:0 --parts compute
expect 2 'seconds takes a whole number' stress --seconds 0
expect 2 'memory takes' stress --memory 101
echo ok
