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

for kind in $(all_or "lstm gru" gru); do
  set -- --set "model.layers=[{$kind: {units: 12, layers: 2, bidirectional: true, dropout: 0.1}}, {$kind: {units: 9, output: last}}, {dense: {units: 1}}]" \
    --set parallel.reproducible=true --set parallel.deadline_s=60
  want=''
  for ranks in $(all_or "1 2 4" "1 2"); do
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
# predict cuts a CSV file into windows as training does, also from a pipe, and goes on behind its end: the predictions have the error
# of eval, and the last ones are for rows that are not there yet
gunzip -c examples/data/sp500-2000.csv.gz | head -2001 >"$work/rows.csv"
(cat "$work/rows.csv"; for i in $(seq 20); do tail -n +2 "$work/rows.csv"; done) >"$work/many.csv"
for cut in '5 2 3' '4 1 1' '2 3 7'; do
  # shellcheck disable=SC2086 # words
  set -- $cut
  cat >"$work/cut.yaml" <<Y
model: {input: [$1, 2], loss: mse, layers: [{gru: {units: 4, output: last}}, {dense: {units: 1}}]}
data: {kind: csv, path: rows.csv, columns: [close, volume], target: [close], window: $1, horizon: $2, stride: $3, normalize: true}
train: {batch: 50, steps: 20, metrics: [mae], checkpoint: {dir: cut-$1}}
parallel: {backend: cpu}
Y
  "$program" train "$work/cut.yaml" --quiet >/dev/null 2>"$work/log" || fail "windows: $(cat "$work/log")"
  "$program" eval "$work/cut.yaml" --checkpoint "$work/cut-$1" --json >"$work/eval.json" 2>"$work/log" || fail "$(cat "$work/log")"
  "$program" predict "$work/cut.yaml" --checkpoint "$work/cut-$1" --input - <"$work/rows.csv" >"$work/cut.csv" 2>"$work/log" ||
    fail "windows of a CSV file: $(cat "$work/log")"
  [ "$(wc -l <"$work/cut.csv")" = $(((2000 - $1) / $3 + 2)) ] || fail "$cut: $(wc -l <"$work/cut.csv") lines of predictions"
  awk -F, -v w="$1" -v h="$2" -v s="$3" -v mae="$(sed -n 's/.*"mae": //p' "$work/eval.json")" '
    FNR == 1 { file++; for (i = 1; i <= NF; i++) if ($i == "close") c = i; next }
    file == 1 { close_[FNR - 2] = $c } file == 2 { at = (FNR - 2) * s + w - 1 + h; if (at in close_) { d = $1 - close_[at]; e += d < 0 ? -d : d; n++ } }
    END { d = e / n - mae; exit !(d * d < 1e-8 * mae * mae) }' "$work/rows.csv" "$work/cut.csv" || fail "$cut: predictions do not have the error of eval"
  grep -q 'earlier than the row before' "$work/log" && fail "rows in the order of time: $(cat "$work/log")"
  # a file of many batches, which repeats itself: a warning says once that its dates do
  "$program" predict "$work/cut.yaml" --checkpoint "$work/cut-$1" --input "$work/many.csv" >"$work/many" 2>"$work/log" || fail "$(cat "$work/log")"
  [ "$(wc -l <"$work/many")" = $(((42000 - $1) / $3 + 2)) ] || fail "$cut: $(wc -l <"$work/many") lines of predictions"
  [ "$(grep -c 'earlier than the row before' "$work/log")" = 1 ] || fail "dates that do not ascend: $(cat "$work/log")"
  awk 'NR > 1 { v[NR] = $1; if (NR > 2001) { d = $1 - v[NR - 2000]; if (d * d > 1e-8 * $1 * $1) exit 1 } }' "$work/many" || fail "$cut: later batches"
done
head -2 "$work/rows.csv" >"$work/few.csv"
expect 4 'few.csv: 1 row give no sample of data.window: 2 rows' predict "$work/cut.yaml" --checkpoint "$work/cut-2" --input "$work/few.csv"
# priced for another machine
"$program" simulate $config --machine machines/h200.yaml --ranks 1..2 >"$work/simulate" || fail "simulate: $(cat "$work/simulate")"
