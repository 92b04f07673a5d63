#!/bin/sh
# kill -9 of one rank or of all at random moments (LOCKSTEP_KILLS: how many, LOCKSTEP_SEED: which), then --resume: the same bits as an undisturbed run,
# which is as long as the lives together came: no number here depends on how fast the machine is.
set -eu
. "$(dirname "$0")/lib.sh"
# Open MPI waits two seconds before it kills the survivors of a dead rank; here there is nothing to wait for.
export OMPI_MCA_odls_base_sigkill_timeout=0

cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 64, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 32, steps: 1000000000, evaluate_every: 0, optimizer: {name: adam}, checkpoint: {dir: $work/killed, every_steps: 50}}
parallel: {strategy: ddp, ranks: 2, backend: cpu, threads: 1, deadline_s: 20}
Y
all=${LOCKSTEP_KILLS:-$(all_or 12 5)}
seed=${LOCKSTEP_SEED:-1}
echo "random seed $seed"
newest() {
  find "$work/killed" -mindepth 1 -maxdepth 1 -name 'step*' 2>/dev/null | sort | tail -1
}
saved() {
  [ "$(newest)" != "$before" ] || ! kill -0 $pid 2>/dev/null
}
kills=0 lives=0
while [ $kills -lt "$all" ] || [ -z "$(newest)" ]; do # the last one leaves a checkpoint to resume from
  lives=$((lives + 1))
  before=$(newest)
  "$program" train "$work/c.yaml" --resume --quiet --json >"$work/killed.json" 2>>"$work/log" &
  pid=$!
  # every third life ends while it starts (within 0.1 s), the others soon after they have saved
  [ $((lives % 3)) -eq 0 ] || wait_until "a checkpoint of life $lives" saved
  sleep "$(awk -v s="$seed" -v n="$lives" 'BEGIN { srand(s + n); printf "%.3f", (n % 3 ? 0.15 : 0.5) * rand() }')"
  ranks=$(children $pid)
  victims=$(echo "$ranks" | head -n $((lives % 2 + 1)))
  if [ -z "$ranks" ] || [ $((lives % 5)) -eq 0 ]; then victims="$pid $ranks"; fi
  hit=0
  for victim in $victims; do
    kill -9 "$victim" 2>/dev/null && hit=1
  done
  got=0
  wait $pid || got=$?
  [ $hit -eq 1 ] && [ $got -ne 0 ] || fail "life $lives ended by itself, exit code $got: $(tail -5 "$work/log")"
  for rank in $ranks; do # a rank that outlived its parent must be gone before the next life writes
    while [ -d "/proc/$rank" ] && ! grep -q '^State:.Z' "/proc/$rank/status" 2>/dev/null; do sleep 0.05; done
  done
  kills=$((kills + 1))
done
echo "$kills kills in $lives lives"
saved=$(newest)
steps=$(($(basename "$saved" | sed 's/^step-0*//') + 100))
"$program" train "$work/c.yaml" --resume --quiet --json --set train.steps=$steps >"$work/killed.json" 2>>"$work/log" ||
  fail "the last resume failed: $(tail -5 "$work/log")"
"$program" train "$work/c.yaml" --quiet --json --set train.steps=$steps --set train.checkpoint.dir="$work/whole" >"$work/whole.json"
want=$(field "$work/whole.json" params_xxh3)
[ -n "$want" ] || fail "the undisturbed run reported no hash"
got=$(field "$work/killed.json" params_xxh3)
[ "$got" = "$want" ] || fail "params_xxh3 $got, undisturbed $want"
[ "$(field "$work/killed.json" resumed_from_step)" != null ] || fail "$saved is not gone on with"
echo "resumed from step $(field "$work/killed.json" resumed_from_step) of $steps, params_xxh3 $got: ok"
