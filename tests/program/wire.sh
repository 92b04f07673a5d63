#!/bin/sh
# parallel.wire with real processes: gradients travel in 16 bits. Trained by 1, 2 and 3 ranks, checked, shown, priced.
set -eu
. "$(dirname "$0")/lib.sh"
with_profile
cat >"$work/c.yaml" <<'YAML'
model: {input: [12], loss: mse, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 33, activation: tanh}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400}
train: {batch: 30, steps: 100, optimizer: {name: adam, lr: 0.003}}
parallel: {backend: cpu, strategy: ddp, threads: 1, bucket_bytes: 4096}
YAML
config=$work/c.yaml

# One rank rounds nothing; several have other bits, and nearly the loss.
for ranks in 1 2 3; do
  for wire in f32 bf16 f16; do
    "$program" train "$config" --ranks $ranks --set parallel.wire=$wire --json --quiet >"$work/$wire.json" 2>"$work/err" ||
      fail "$ranks ranks, $wire: $(cat "$work/err")"
    echo "$ranks ranks, $wire: loss $(field "$work/$wire.json" train_loss)"
  done
  for wire in bf16 f16; do
    case "$ranks $(field "$work/$wire.json" params_xxh3)" in
      "1 $(field "$work/f32.json" params_xxh3)") ;;
      1*) fail "one rank, $wire: other bits" ;;
      *" $(field "$work/f32.json" params_xxh3)") fail "$ranks ranks, $wire: nothing was rounded" ;;
    esac
    awk -v a="$(field "$work/$wire.json" train_loss)" -v b="$(field "$work/f32.json" train_loss)" \
      'BEGIN { d = (a - b) / b; exit !(d < 0.01 && d > -0.01) }' || fail "$ranks ranks, $wire: another loss"
  done
done

# Proven; the collectives that inspect shows have half the bytes, but for the loss.
"$program" check "$config" --ranks 3 --set parallel.wire=bf16 >"$work/out" || fail "check: $(cat "$work/out")"
for wire in f32 bf16; do
  "$program" inspect "$config" --ranks 2 --set parallel.wire=$wire --json >"$work/inspect.json"
  tr -d '\n' <"$work/inspect.json" | sed 's/{/\n/g' | awk -F'[,:]' '/"collective"/ { for (i = 1; i < NF; i++)
    if ($i ~ /"bytes"/) sum += $(i + 1) } END { print sum }' >"$work/$wire.bytes"
done
[ $(($(cat "$work/bf16.bytes") * 2)) = $(($(cat "$work/f32.bytes") + 64)) ] ||
  fail "$(cat "$work/bf16.bytes") bytes travel as bf16, $(cat "$work/f32.bytes") as f32"

# Priced: its casts were timed, and no other step's times are taken for its own.
priced() {
  plan "$work/plan.json" "$config" --json --devices 1,2 --budget-ms 1500 --set parallel.wire=$wire
  [ "$(grep -c '"priced": true' "$work/plan.json")" -ge 2 ]
}
for wire in f32 bf16; do wait_until "the prices with $wire" priced; done
grep -q 'op cast' "$LOCKSTEP_PROFILE" || fail "no cast was timed"

expect 3 'parallel.wire: f32' check "$config" --set parallel.wire=bf16 --set parallel.reproducible=true
echo ok
