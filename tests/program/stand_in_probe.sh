#!/bin/sh
# Probe measures a device that is slow (stand_in.c, plain C): it leaves out the products that would take too long, says so,
# and with its profile the memory of a rank is predicted to the byte: monitored or not, with and without a side lane.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 24, activation: relu}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 500, validation: 0.1}
train: {batch: 24, steps: 10}
parallel: {strategy: ddp, backend: cuda, threads: 1}
Y
ranks=2
[ "$(nproc)" -ge 2 ] || ranks=1
export LOCKSTEP_CUDA_MODULE="$LOCKSTEP_STAND_IN" LOCKSTEP_PROFILE="$work/profile.json"
"$program" probe --quick --output "$LOCKSTEP_PROFILE" >"$work/out" 2>"$work/err" || fail "probe: $(cat "$work/err")"
grep -q 'GPU 0: [0-9]* products* would take more than a second each' "$work/out" || fail "nothing was left out: $(cat "$work/out" "$work/err")"
! grep -q 'op cuda t1 linear f32 (8192, 4096)' "$LOCKSTEP_PROFILE" || fail "a product of 275 GFLOP was measured in plain C"
grep -q 'op cuda t1 linear f32 (16, 256)' "$LOCKSTEP_PROFILE" || fail "no product was measured: $(cat "$work/out")"
for set in monitor.every_s=1 monitor.dir="$work/seen" parallel.side_lane=on; do
  "$program" train "$work/c.yaml" --ranks "$ranks" --quiet --json --set "$set" >"$work/report" 2>"$work/err" || fail "train: $(cat "$work/err")"
  measured=$(member "$work/report" bytes_per_device measured)
  [ "$measured" -gt 0 ] && [ "$(member "$work/report" bytes_per_device predicted)" = "$measured" ] ||
    fail "$ranks ranks, $set: $(grep -A30 bytes_per_device "$work/report"), probe: $(cat "$work/out")"
done
echo ok
