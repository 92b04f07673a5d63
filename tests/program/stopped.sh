#!/bin/sh
# Ctrl-Z: the time in which a run is stopped is in its wall time, and in no step's, nor in the evaluation's, nor in what is left.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {preset: mlp-medium}
data: {kind: synthetic, samples: 2000}
train: {batch: 64, steps: 4000, evaluate_every: 0}
parallel: {backend: cpu, threads: 1, strategy: single}
Y
"$program" train "$work/c.yaml" --json >"$work/out" 2>"$work/err" &
pid=$!
tries=0
until grep -qs "step [0-9]" "$work/err"; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] && kill -0 $pid 2>/dev/null || fail "the training did not begin: $(cat "$work/err")"
  sleep 0.1
done
kill -STOP $pid
sleep 4
lines=$(wc -l <"$work/err")
kill -CONT $pid
wait $pid || fail "stopped and gone on: $(cat "$work/err")"
number() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" "$work/out" | head -1; }
counted=$(awk -v mean="$(number mean)" -v eval="$(number eval_s)" 'BEGIN { print mean * 4000e-6 + eval }')
below "$counted" "$(awk -v wall="$(number wall_s)" 'BEGIN { print wall - 3.5 }')" ||
  fail "stopped for 4 s of $(number wall_s) s: steps and evaluation took $counted s"
# the first line after the stop: step N/TOTAL ... MINUTES:SECONDS left; what N steps then have taken
sed -n "$((lines + 1))s|.* step \([0-9]*\)/\([0-9]*\) .* \([0-9]*\):\([0-9]*\) left|\1 \2 \3 \4|p" "$work/err" >"$work/left"
took=$(awk '{ print ($3 * 60 + $4) * $1 / ($2 - $1) }' "$work/left")
[ -n "$took" ] || fail "no time left after the stop: $(sed -n "$((lines + 1))p" "$work/err")"
below "$took" 3 || fail "stopped for 4 s: what is left counts them, $took s: $(sed -n "$((lines + 1))p" "$work/err")"
echo ok
