#!/bin/sh
# Recurrent layers over windows of a series through every command: proven on three ranks, the same bits on 1, 2 and 4 with
# parallel.reproducible, the same loss but for rounding on 3, a stopped run goes on to the same bits, its checkpoint
# evaluates alike, simulate prices it.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$source_dir"
config=examples/08-lstm.yaml
small="--set parallel.backend=cpu --set train.batch=96 --set train.epochs=1 --set train.schedule.name=constant"
"$program" check $config --ranks 3 $small >"$work/check"
grep -q 'data .* ok: 4,058 training and 1,015 validation samples' "$work/check" || fail "check: $(cat "$work/check")"
grep -q 'schedules .* ok: ddp, 3 ranks' "$work/check" || fail "check: $(cat "$work/check")"

for kind in lstm gru; do
  set -- --set "model.layers=[{$kind: {units: 12, layers: 2, bidirectional: true, dropout: 0.1}}, {$kind: {units: 9, output: last}}, {dense: {units: 1}}]" \
    --set parallel.reproducible=true --set parallel.deadline_s=60
  want=''
  for ranks in 1 2 4; do
    # shellcheck disable=SC2086 # words
    "$program" train $config $small "$@" --ranks $ranks --quiet --json --set train.checkpoint.dir="$work/$kind-$ranks" \
      >"$work/$ranks.json" 2>"$work/log" || fail "$kind, $ranks ranks: $(cat "$work/log")"
    got=$(field "$work/$ranks.json" params_xxh3) loss=$(field "$work/$ranks.json" val_loss)
    echo "$kind, $ranks ranks: $got, loss $loss"
    [ "$got$loss" = "${want:-$got$loss}" ] || fail "$kind: $ranks ranks have other bits than one"
    want=$got$loss
  done
  # shellcheck disable=SC2086
  "$program" train $config $small "$@" --ranks 3 --set parallel.reproducible=false --quiet --json \
    --set train.checkpoint.dir="$work/$kind-3" >"$work/3.json" 2>"$work/log" || fail "$kind, 3 ranks: $(cat "$work/log")"
  awk -v a="$(field "$work/3.json" val_loss)" -v b="$loss" 'BEGIN { d = a - b; exit !(d * d < 1e-6 * b * b) }' ||
    fail "$kind: loss $(field "$work/3.json" val_loss) on 3 ranks, $loss on one"
  # shellcheck disable=SC2086
  "$program" train $config $small "$@" --ranks 2 --quiet --json --set train.checkpoint.dir="$work/$kind" --set train.epochs=0 \
    --set train.steps=20 >"$work/part.json" 2>"$work/log" || fail "$kind: $(cat "$work/log")"
  # shellcheck disable=SC2086
  "$program" train $config $small "$@" --ranks 1 --quiet --json --set train.checkpoint.dir="$work/$kind" --resume \
    >"$work/rest.json" 2>"$work/log" || fail "$kind goes on: $(cat "$work/log")"
  [ "$(field "$work/rest.json" resumed_from_step)" = 20 ] || fail "$kind did not resume: $(cat "$work/rest.json")"
  [ "$(field "$work/rest.json" params_xxh3)$(field "$work/rest.json" val_loss)" = "$want" ] || fail "$kind resumed to other bits"
  # shellcheck disable=SC2086
  "$program" eval $config $small "$@" --checkpoint "$work/$kind" --json >"$work/eval.json" 2>"$work/log" || fail "$(cat "$work/log")"
  [ "$(field "$work/eval.json" loss)" = "$(field "$work/rest.json" val_loss)" ] || fail "$kind: eval: $(cat "$work/eval.json")"
done
# priced for another machine
"$program" simulate $config --machine machines/h200.yaml --ranks 1..2 >"$work/simulate" || fail "simulate: $(cat "$work/simulate")"
