#!/bin/sh
# A device that captures its steps and runs them behind the host's back (stand_in.c) trains, is watched, planned and
# supervised as backend cuda: with and without a side lane it gives ref's bits.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/dense.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 24, activation: relu, dropout: 0.2}}, {dense: {units: 16, activation: tanh}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 500, validation: 0.1}
train: {batch: 24, steps: 60, seed: 3, evaluate_every: 20, clip_norm: 0.5, optimizer: {name: adam}}
parallel: {strategy: ddp, backend: cuda, threads: 1, bucket_bytes: 1024}
Y
cat >"$work/conv.yaml" <<Y
model: {input: [6, 5, 2], loss: cross-entropy, layers: [{conv2d: {filters: 4, kernel: 3}}, {batch_norm: {}}, {activation: {kind: relu}}, {conv2d: {filters: 3, kernel: 1}}, {global_pool: {}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 200, validation: 0.1}
train: {batch: 16, steps: 20, seed: 5, optimizer: {name: sgd, lr: 0.05, momentum: 0.9}}
parallel: {strategy: ddp, backend: cuda, threads: 1, bucket_bytes: 64}
Y
world=$(all_or "1 2" 2)
on="--set parallel.side_lane=on"
off="--set parallel.side_lane=off"
with_profile # of this machine without the stand-in, whose GPU takes a minute to measure in plain C
"$LOCKSTEP_STAND_IN_CURVE" "$LOCKSTEP_PROFILE" || fail "the curve of two GPUs"
export LOCKSTEP_CUDA_MODULE="$LOCKSTEP_STAND_IN"

# train NAME NETWORK ARGUMENT...: a report in $work/NAME.json
train() {
  name=$1 network=$2
  shift 2
  "$program" train "$work/$network.yaml" --quiet --json "$@" >"$work/$name.json" 2>"$work/err" || fail "train $network $*: $(cat "$work/err")"
}
# same NAME OTHER: bits, losses, accuracy
same() {
  for key in params_xxh3 train_loss val_loss val_accuracy; do
    [ -n "$(field "$work/$2.json" $key)" ] || fail "$2: no $key"
    [ "$(field "$work/$1.json" $key)" = "$(field "$work/$2.json" $key)" ] ||
      fail "$1: $key $(field "$work/$1.json" $key), $2 $(field "$work/$2.json" $key)"
  done
}
# beside NAME: what the device held at the end, less what is predicted for every network
beside() {
  echo $(($(member "$work/$1.json" bytes_per_device measured) - $(member "$work/$1.json" bytes_per_device device) - $(member "$work/$1.json" bytes_per_device side)))
}
# both NETWORK ARGUMENT...: as ref on the lanes that cuda has
both() {
  net=$1
  shift
  train ref "$net" --set parallel.backend=ref "$@"
  # shellcheck disable=SC2086 # words
  train off "$net" $off "$@"
  # shellcheck disable=SC2086 # words
  train on "$net" $on "$@"
  same off ref
  same on ref
}
for ranks in $world; do
  both dense --ranks "$ranks"
  grep -q '"device": "stand-in for a GPU' "$work/on.json" || fail "not on the stand-in: $(cat "$work/on.json")"
  # the side stream's memory has a figure of its own
  [ "$(member "$work/off.json" bytes_per_device side)" = 0 ] && [ "$(member "$work/on.json" bytes_per_device side)" = 1048576 ] ||
    fail "memory of the side lane: $(member "$work/off.json" bytes_per_device side), $(member "$work/on.json" bytes_per_device side)"
  [ "$(beside off)" = "$(beside on)" ] || fail "memory beside the prediction: $(beside off), with a side lane $(beside on)"
  beside off >"$work/beside"
  cp "$work/ref.json" "$work/whole.json"
  both conv --ranks "$ranks" --set train.accumulate=2
  both dense --ranks "$ranks" --set parallel.reproducible=true --set parallel.shards=4 --set data.resident=true

  # what was begun on one lane goes on on two, and the other way round
  for turn in "$off:$on" "$on:$off"; do
    saved="--set train.checkpoint.dir=$work/turn"
    # shellcheck disable=SC2086 # words
    train half dense --ranks "$ranks" ${turn%:*} $saved --set train.steps=30
    # shellcheck disable=SC2086 # words
    train resumed dense --ranks "$ranks" ${turn#*:} $saved --resume
    [ "$(field "$work/resumed.json" resumed_from_step)" = 30 ] || fail "not resumed: $(cat "$work/resumed.json")"
    [ "$(field "$work/resumed.json" params_xxh3)" = "$(field "$work/whole.json" params_xxh3)" ] || fail "resumed with ${turn#*:}: other bits"
    rm -r "$work/turn"
  done

  # the side lane is seen: in a trace, whose steps are timed task by task, and in the drawing
  # shellcheck disable=SC2086 # words
  train traced dense --ranks "$ranks" $on --trace "$work/trace.json"
  [ "$(field "$work/traced.json" params_xxh3)" = "$(field "$work/whole.json" params_xxh3)" ] || fail "a traced run has other bits"
  lane=$(grep -o '"tid":[0-9]*,"args":{"name":"side"}' "$work/trace.json" | sed -n '1s/"tid":\([0-9]*\).*/\1/p')
  [ -n "$lane" ] || fail "the trace has no lane \"side\""
  grep -q "\"tid\":$lane,\"args\":{\"step\":" "$work/trace.json" || fail "the trace's lane \"side\" is empty"
  # shellcheck disable=SC2086 # words
  "$program" inspect "$work/dense.yaml" --ranks "$ranks" $on >"$work/out" 2>"$work/err" || fail "inspect: $(cat "$work/err")"
  grep -q '^side ' "$work/out" || fail "inspect draws no side lane: $(cat "$work/out")"
  # shellcheck disable=SC2086 # words
  "$program" inspect "$work/dense.yaml" --ranks "$ranks" $off >"$work/out" 2>"$work/err" || fail "inspect: $(cat "$work/err")"
  ! grep -q '^side ' "$work/out" || fail "inspect draws a side lane: $(cat "$work/out")"

  # every step is planned with and without a side lane, and what the plan says trains
  "$program" plan "$work/dense.yaml" --no-crossover --budget-ms 60000 --devices "$ranks" --json >"$work/plan.json" 2>"$work/err" || fail "plan: $(cat "$work/err")"
  for lane in on off; do
    grep -q "\"side_lane\": \"$lane\"" "$work/plan.json" || fail "no candidate with side_lane $lane: $(cat "$work/plan.json")"
  done
  grep -q '"priced": false' "$work/plan.json" && fail "not priced: $(cat "$work/plan.json")"
  sed -n 's/^ *"command": "\(.* train .*\)",\{0,1\}$/\1/p' "$work/plan.json" | sort -u >"$work/commands"
  for lane in on off; do
    grep -Eq "parallel.side_lane=$lane( |\$)" "$work/commands" || fail "no command with side_lane=$lane: $(cat "$work/commands")"
  done
  while read -r command; do
    for backend in ref cuda; do
      sh -c "$command --quiet --json --set parallel.backend=$backend" </dev/null >"$work/planned-$backend.json" 2>"$work/err" || fail "$command: $(cat "$work/err")"
    done
    same planned-cuda planned-ref
  done <"$work/commands"
done

rest
# records of a run whose steps are captured say how long a rank waits for others, and who is slow
long="--ranks 2 --set train.steps=400 --set monitor.every_s=0.01"
# shellcheck disable=SC2086 # words
train ref dense --set parallel.backend=ref $long
# shellcheck disable=SC2086 # words
for lane in "$off" "$on"; do
  train seen dense $long $lane --set monitor.dir="$work/seen"
  same seen ref
  [ "$(beside seen)" = "$(cat "$work/beside")" ] || fail "a monitored rank takes $(beside seen) bytes beside the prediction, without $(cat "$work/beside")"
  for log in events events-1; do
    grep -q '^{"kind":"record",.*"exposed_comm_us":[0-9]' "$work/seen/$log.jsonl" || fail "$log: no exposed_comm_us: $(tail -2 "$work/seen/$log.jsonl")"
  done
  grep -q '^{"kind":"record",.*"straggler_ratio":[0-9]' "$work/seen/events.jsonl" || fail "no straggler_ratio: $(tail -2 "$work/seen/events.jsonl")"
  LOCKSTEP_FAULT="slow300 1 20 $work/struck"
  export LOCKSTEP_FAULT
  train slow dense $long $lane --set monitor.dir="$work/slow"
  unset LOCKSTEP_FAULT
  [ -s "$work/struck" ] || fail "no rank was slow"
  same slow ref
  rm -r "$work/seen" "$work/slow" "$work/struck"
done

# a rank is killed while a step is under way: the run goes on to the same bits
# shellcheck disable=SC2086 # words
for lane in "$off" "$on"; do
  LOCKSTEP_FAULT="kill 1 300 $work/killed"
  export LOCKSTEP_FAULT
  train cured dense $long $lane --supervise --set train.checkpoint.dir="$work/cured" --set train.checkpoint.every_steps=100 \
    --set supervise.restarts.backoff_s=0.1
  unset LOCKSTEP_FAULT
  [ -s "$work/killed" ] || fail "no rank was killed"
  [ "$(field "$work/cured.json" params_xxh3)" = "$(field "$work/ref.json" params_xxh3)" ] || fail "a killed rank: other bits"
  [ "$(field "$work/cured.json" resumed_from_step)" -ge 100 ] || fail "not resumed: $(cat "$work/cured.json")"
  rm -r "$work/cured" "$work/killed"
done
echo ok
