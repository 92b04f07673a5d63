#!/bin/sh
# Section safety with a recorded GPU (LOCKSTEP_NVML): each rung is entered, logged and left, and leaves the bits of the run as they are.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 32, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 60, steps: 6000, evaluate_every: 0, checkpoint: {every_steps: 100000}}
parallel: {backend: cpu, threads: 1, ranks: 1}
monitor: {every_s: 0.01, alerts: []}
safety:
  - {name: warm, act: duty, when: "gpu_margin_c < 10", clear: "gpu_margin_c > 15", share: 0.05}
  - {name: hot, act: pause, when: "gpu_margin_c < 5", clear: "gpu_margin_c > 15", clear_for_s: 0.1}
  - {name: melting, act: end, when: "gpu_margin_c < 1"}
Y
# run NAME ARGUMENT...: sets got
run() {
  run=$1
  shift
  got=0
  "$program" train "$work/c.yaml" --quiet --json --set train.checkpoint.dir="$work/$run/run" --set monitor.dir="$work/$run/monitor" "$@" \
    >"$work/$run.json" 2>"$work/err" || got=$?
}
# margins NAME T1 M1 T2 M2 ..: a recording
margins() {
  name=$1
  shift
  while [ $# -gt 0 ]; do
    echo "{\"t\": $1, \"gpu_margin_c\": $2}"
    shift 2
  done >"$work/$name.jsonl"
}
# events NAME: "warm begins", "warm ends", .. in their order
events() {
  sed -n 's/.*"kind":"safety".*"rung":"\([a-z]*\)","act":"[a-z_]*","status":"\([a-z]*\)".*/\1 \2/p' "$work/$1/monitor/events.jsonl" | tr '\n' ' '
}
margins cool 0 40
LOCKSTEP_NVML=$work/cool.jsonl run calm
want=$(field "$work/calm.json" params_xxh3)
[ $got = 0 ] && [ -n "$want" ] && [ -z "$(events calm)" ] || fail "calm: $got: $(events calm): $(cat "$work/err")"

# slower, with the same bits
margins slow 0 8
LOCKSTEP_NVML=$work/slow.jsonl run slow --set train.steps=600
[ $got = 0 ] && [ "$(events slow)" = "warm begins " ] || fail "slow: $got: $(events slow): $(cat "$work/err")"

# Up and down again: between 5 and 15 nothing changes. The pause lasts until a record shows its save, and a second longer, so it is
# the last to end however late a busy machine begins it.
margins wave 0 3 0.5 12 0.8 20
wave='{name: warm, act: duty, when: gpu_margin_c < 5, clear: gpu_margin_c > 15, share: 0.5}'
wave="$wave, {name: hot, act: pause, when: save_s <= 0, clear: save_s > 0, clear_for_s: 1}"
LOCKSTEP_NVML=$work/wave.jsonl run wave --set "safety=[$wave]"
[ $got = 0 ] || fail "wave: exit code $got: $(cat "$work/err")"
[ "$(field "$work/wave.json" params_xxh3)" = "$want" ] || fail "wave: other bits"
[ "$(events wave)" = "warm begins hot begins warm ends hot ends " ] || fail "wave: $(events wave)"
grep -q 'safety: hot: begins (pause): save_s is 0' "$work/err" || fail "wave: $(cat "$work/err")"
grep -q 'safety: goes on after' "$work/err" || fail "wave: $(cat "$work/err")"

# half the micro-batch and the usual one again: the same batches, in another order of adding
smaller='{name: small, act: micro_batch, when: step < 15000, clear: step >= 15000}'
LOCKSTEP_NVML=$work/cool.jsonl run long --set train.steps=30000
run half --set "safety=[$smaller]" --set train.steps=30000
[ $got = 0 ] || fail "half: exit code $got: $(cat "$work/err")"
[ "$(events half)" = "small begins small ends " ] || fail "half: $(events half): $(cat "$work/err")"
grep -q 'safety: goes on with micro-batches of half the size: 2 to a step' "$work/err" || fail "half: $(cat "$work/err")"
grep -q 'safety: goes on with micro-batches of the usual size: 1 to a step' "$work/err" || fail "half: $(cat "$work/err")"
! grep -q "differs from the checkpoint's" "$work/err" || fail "half: its own change is told as the user's: $(cat "$work/err")"
[ "$(field "$work/half.json" total_steps)" = 30000 ] && [ "$(field "$work/half.json" resumed_from_step)" -gt 0 ] || fail "half: $(cat "$work/half.json")"
below "$(awk -v a="$(field "$work/half.json" val_loss)" -v b="$(field "$work/long.json" val_loss)" 'BEGIN { d = a / b - 1; print d < 0 ? -d : d }')" 1e-2 ||
  fail "half: loss $(field "$work/half.json" val_loss), not $(field "$work/long.json" val_loss)"

# the end: exit code 75, and the same command goes on
margins melt 0 0
LOCKSTEP_NVML=$work/melt.jsonl run melt
[ $got = 75 ] || fail "melt: exit code $got: $(cat "$work/err")"
grep -q 'error: .*a limit of safety ended the run after [0-9]* of 6000 steps; go on with --resume' "$work/err" || fail "melt: $(cat "$work/err")"
LOCKSTEP_NVML=$work/cool.jsonl run melt --resume
[ $got = 0 ] && [ "$(field "$work/melt.json" params_xxh3)" = "$want" ] || fail "melt, resumed: $got: $(cat "$work/err")"
[ "$(field "$work/melt.json" resumed_from_step)" -gt 0 ] || fail "melt: nothing was saved"
# one rank's limit holds for all
margins both 0 40
echo '{"rank": 1, "t": 0, "gpu_margin_c": 3}' >>"$work/both.jsonl" # to the end: ranks that wait for a processor agree late
: >"$work/err"
LOCKSTEP_NVML=$work/both.jsonl run both --ranks 2 --set train.steps=100000000 &
pid=$!
wait_until "the pause of both" grep -q 'safety: paused after step' "$work/err"
kill -TERM $(children $pid)
wait $pid
grep -q 'error: .*interrupted after .*; go on with --resume' "$work/err" || fail "both: $(cat "$work/err")"
expect 3 'safety.when: .*gpu_marginc. is not measured' train "$work/c.yaml" --set 'safety=[{name: a, when: gpu_marginc < 1}]'
expect 3 'micro_batch needs clear' train "$work/c.yaml" --set train.checkpoint.dir="$work/x" --set 'safety=[{name: a, act: micro_batch, when: gpu_margin_c < 1}]'
expect 3 'micro_batch .* needs train.checkpoint.dir' train "$work/c.yaml" --set "safety=[$smaller]"
expect 3 'raise parallel.shards instead' train "$work/c.yaml" --set train.checkpoint.dir="$work/x" --set parallel.reproducible=true --set "safety=[$smaller]"
expect 3 'safety judges .* it needs monitor.dir' train "$work/c.yaml"
echo ok
