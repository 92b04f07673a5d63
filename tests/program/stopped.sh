#!/bin/sh
# Ctrl-Z: the time in which a run is stopped is in its wall time, and in no step's, nor in the evaluation's, nor in what is left.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {preset: mlp-medium}
data: {kind: synthetic, samples: 2000}
train: {batch: 64, steps: 100000000, evaluate_every: 0}
parallel: {backend: cpu, threads: 1, strategy: single}
Y
start_training "$program" train "$work/c.yaml" --json
kill -STOP $pid
sleep 4
lines=$(wc -l <"$work/err")
kill -CONT $pid
goes_on() { [ "$(wc -l <"$work/err")" -gt "$lines" ]; }
wait_until "a line after the stop" goes_on
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "stopped and gone on: exit code $got: $(cat "$work/err")"
number() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" "$work/out" | head -1; }
counted=$(awk -v mean="$(number mean)" -v steps="$(number steps)" -v eval="$(number eval_s)" 'BEGIN { print mean * steps * 1e-6 + eval }')
below "$counted" "$(awk -v wall="$(number wall_s)" 'BEGIN { print wall - 3.5 }')" ||
  fail "stopped for 4 s of $(number wall_s) s: steps and evaluation took $counted s"
# the first line after the stop: step N/TOTAL ... elapsed, which counts the stop, ... left; what N steps have taken by that does not
sed -n "$((lines + 1))s|.* step \([0-9]*\)/\([0-9]*\) .* \([0-9:]*\) elapsed  \([0-9:]*\) left|\1 \2 \3 \4|p" "$work/err" |
  awk 'function seconds(text, part, n, s, i) { n = split(text, part, ":"); for (i = 1; i <= n; i++) s = 60 * s + part[i]; return s }
    { print seconds($3), seconds($4) * $1 / ($2 - $1) }' >"$work/left"
read -r elapsed took <"$work/left" || fail "no time left after the stop: $(sed -n "$((lines + 1))p" "$work/err")"
below "$took" $((elapsed - 3)) || fail "stopped for 4 s of $elapsed s: what is left counts them, $took s: $(sed -n "$((lines + 1))p" "$work/err")"
echo ok
