#!/bin/sh
# parallel.reproducible with real processes: 1, 2 and 4 ranks of 1 and 2 threads train to the same bits, and so does a run
# that is killed on four ranks, killed on two and finished on one.
set -eu
. "$(dirname "$0")/lib.sh"
export OMPI_MCA_odls_base_sigkill_timeout=0

cat >"$work/c.yaml" <<'Y'
model: {input: [64], loss: cross-entropy, layers: [{dense: {units: 256, activation: relu, dropout: 0.2}}, {dense: {units: 256, activation: gelu}}, {dense: {units: 10}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 100, steps: STEPS, evaluate_every: 0, clip_norm: 1, optimizer: {name: adam}, checkpoint: {dir: DIR, every_steps: 20}}
parallel: {strategy: ddp, backend: cpu, deadline_s: 30, bucket_bytes: 65536, reproducible: BITS}
Y
sed "s#DIR#$work/NAME#; s#STEPS#40#; s#BITS#true#" "$work/c.yaml" >"$work/bits.yaml"
want='' loss=''
for world in $(all_or "1:1 1:2 2:1 2:2 4:1 4:2" "1:1 2:2 4:1"); do
  ranks=${world%:*} threads=${world#*:}
  "$program" train "$work/bits.yaml" --ranks "$ranks" --set parallel.threads="$threads" \
    --set train.checkpoint.dir="$work/$ranks-$threads" --quiet --json >"$work/r.json" 2>"$work/log" ||
    fail "$ranks ranks of $threads threads: $(cat "$work/log")"
  [ "$(field "$work/r.json" world_size)" = "$ranks" ] || fail "not $ranks ranks"
  got=$(field "$work/r.json" params_xxh3)
  [ -n "$got" ] || fail "no hash"
  [ -n "$want" ] || want=$got loss=$(field "$work/r.json" val_loss)
  echo "$ranks ranks of $threads threads: $got, loss $(field "$work/r.json" val_loss)"
  [ "$got" = "$want" ] || fail "$ranks ranks of $threads threads: $got, one rank $want"
  [ "$(field "$work/r.json" val_loss)" = "$loss" ] || fail "$ranks ranks of $threads threads: another validation loss"
done

# Without the option one rank and two differ: the comparison can fail.
sed "s#DIR#$work/plain#; s#STEPS#40#; s#BITS#false#" "$work/c.yaml" >"$work/plain.yaml"
for ranks in 1 2; do
  rm -rf "$work/plain"
  "$program" train "$work/plain.yaml" --ranks $ranks --set parallel.threads=1 --quiet --json >"$work/r.json"
  field "$work/r.json" params_xxh3
done | sort -u >"$work/hashes"
[ "$(wc -l <"$work/hashes")" = 2 ] || fail "plain data parallelism gave equal bits: nothing is shown"

# Killed in the middle, gone on with on fewer ranks; as long as the lives came, and a little more.
sed "s#DIR#$work/whole#; s#STEPS#1000000000#; s#BITS#true#" "$work/c.yaml" >"$work/whole.yaml"
sed "s#DIR#$work/killed#; s#STEPS#1000000000#; s#BITS#true#" "$work/c.yaml" >"$work/killed.yaml"
newest() {
  find "$work/killed" -mindepth 1 -maxdepth 1 -name 'step*' 2>/dev/null | sort | tail -1
}
saved() {
  [ "$(newest)" != "$before" ] || ! kill -0 $pid 2>/dev/null
}
for ranks in 4 2; do
  before=$(newest)
  "$program" train "$work/killed.yaml" --ranks $ranks --set parallel.threads=1 --resume --quiet --json >"$work/r.json" \
    2>>"$work/log" &
  pid=$!
  wait_until "a checkpoint on $ranks ranks" saved
  all="$pid $(children $pid)"
  for victim in $all; do kill -9 "$victim" 2>/dev/null || true; done
  echo "killed on $ranks ranks at $(basename "$(newest)")"
  wait $pid || true
  for rank in $all; do
    while [ -d "/proc/$rank" ] && ! grep -q '^State:.Z' "/proc/$rank/status" 2>/dev/null; do sleep 0.05; done
  done
done
steps=$(($(basename "$(newest)" | sed 's/^step-0*//') + 30))
"$program" train "$work/whole.yaml" --ranks 2 --set parallel.threads=1 --set train.steps=$steps --quiet --json >"$work/whole.json"
"$program" train "$work/killed.yaml" --ranks 1 --set parallel.threads=2 --set train.steps=$steps --resume --quiet --json >"$work/r.json" \
  2>>"$work/log" || fail "the last life: $(tail -5 "$work/log")"
[ "$(field "$work/r.json" total_steps)" = "$steps" ] || fail "the run did not reach its end"
[ "$(field "$work/r.json" params_xxh3)" = "$(field "$work/whole.json" params_xxh3)" ] ||
  fail "killed and resumed on other ranks: $(field "$work/r.json" params_xxh3), undisturbed $(field "$work/whole.json" params_xxh3)"
echo "killed on 4 and 2 ranks, finished on 1 from step $(field "$work/r.json" resumed_from_step) of $steps: ok"
