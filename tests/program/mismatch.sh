#!/bin/sh
# A checkpoint with another configuration or other data than it was trained with: refused, or said line by line.
set -eu
. "$(dirname "$0")/lib.sh"

# y = 3 a - 2 b + noise; the same rows with the columns in another order; other values; other rows.
awk 'BEGIN { srand(1); print "a,b,y" > "'"$work"'/d.csv"; print "y,b,extra,a" > "'"$work"'/swapped.csv"
  print "a,b,y" > "'"$work"'/huge.csv"; print "a,b,y" > "'"$work"'/scaled.csv"; print "a,b,y" > "'"$work"'/new.csv"
  for (i = 0; i < 200; i++) { a = rand(); b = 10 * rand(); y = 3 * a - 2 * b
    print a "," b "," y > "'"$work"'/d.csv"; print y "," b ",7," a > "'"$work"'/swapped.csv"
    print "3e37," b "," y > "'"$work"'/huge.csv"
    print 1000 * a "," b "," y > "'"$work"'/scaled.csv"; if (i % 2) print a + 1 "," b "," y + 3 > "'"$work"'/new.csv" } }'
cat >"$work/c.yaml" <<'Y'
model: {input: [2], loss: mse, layers: [{dense: {units: 8, activation: relu, dropout: 0.1}}, {dense: {units: 1}}]}
data: {kind: csv, path: WORK/d.csv, target: y, validation: 0.25, normalize: true}
train: {batch: 30, epochs: 20, optimizer: {lr: 0.01}, checkpoint: {dir: WORK/run}}
parallel: {backend: cpu, threads: 1}
Y
sed -i "s#WORK#$work#g" "$work/c.yaml"
"$program" train "$work/c.yaml" --quiet --json >"$work/train.json" 2>"$work/err" || fail "train: $(cat "$work/err")"
loss=$(field "$work/train.json" val_loss)
evaluate() { "$program" eval "$work/c.yaml" --checkpoint "$work/run" --json "$@" >"$work/eval.json" 2>"$work/err" ||
  fail "eval $*: $(cat "$work/err")"; }
resume() { # on a copy, so that each change is one from the run above
  rm -rf "$work/copy"
  cp -R "$work/run" "$work/copy"
  "$program" train "$work/c.yaml" --resume --quiet --set train.checkpoint.dir="$work/copy" "$@" --json \
    >"$work/resume.json" 2>"$work/err"
}
refused() { # CODE PATTERN FLAGS..: on resume
  pattern=$1
  shift
  got=0
  resume "$@" || got=$?
  [ $got = 6 ] || fail "--resume $*: exit code $got: $(cat "$work/err")"
  grep -q -e "$pattern" "$work/err" || fail "--resume $*: no \"$pattern\": $(cat "$work/err")"
}
same_loss() { [ "$(field "$work/eval.json" loss)" = "$loss" ] || fail "$1: loss $(field "$work/eval.json" loss), not $loss"; }

echo "another architecture of the same shapes"
other='model.layers.0.dense.activation: checkpoint has relu, configuration has none'
expect 6 "$other" eval "$work/c.yaml" --checkpoint "$work/run" --set model.layers.0.dense.activation=none
refused "$other" --set model.layers.0.dense.activation=none
evaluate --set model.layers.0.dense.dropout=0.5
same_loss "dropout is no matter of evaluation"

echo "a new run with the weights is offered where they fit"
refused "begin a new run with its weights: --init" --set model.layers.0.dense.activation=none
refused 'model.layers.0.dense.units: checkpoint has 8, configuration has 9' --set model.layers.0.dense.units=9
! grep -q -e '--init' "$work/err" || fail "weights of other shapes are recommended: $(cat "$work/err")"

echo "columns by name"
sed '1s/a,/A,/' "$work/d.csv" >"$work/renamed.csv"
refused "renamed.csv: the checkpoint was trained on column 'a', the file has 'A'" --set data.path="$work/renamed.csv"
expect 6 "the checkpoint was trained on column 'a', the file has 'A'" eval "$work/c.yaml" --checkpoint "$work/run" \
  --set data.path="$work/renamed.csv"
sed '1s/a,/other,/' "$work/d.csv" >"$work/renamed.csv"
refused "the checkpoint was trained on column 'a', the file has: other, b, y" --set data.path="$work/renamed.csv"
refused 'data.columns: checkpoint has \["a", "b"\], configuration has \["b", "a"\]' --set 'data.columns=[b, a]'
expect 6 'data.columns: checkpoint has' eval "$work/c.yaml" --checkpoint "$work/run" --set 'data.columns=[b, a]'
evaluate --set data.path="$work/swapped.csv"
same_loss "columns in another order"
[ "$(field "$work/eval.json" new_data)" = false ] || fail "the same samples are not known again"
resume --set data.path="$work/swapped.csv" --set train.epochs=21 || fail "columns in another order: $(cat "$work/err")"

echo "evaluation never takes training samples for held out ones"
for change in train.seed=7 data.validation=0.5 data.validation=0; do
  evaluate --set $change
  same_loss "$change"
  [ "$(field "$work/eval.json" samples)" = 50 ] || fail "$change: $(field "$work/eval.json" samples) samples"
  [ ! -s "$work/err" ] || fail "$change: $(cat "$work/err")"
done
"$program" eval "$work/c.yaml" --checkpoint "$work/run" | grep -q 'samples  *50 (validation part)' || fail "which samples?"

echo "evaluation of new data takes all of them"
evaluate --set data.path="$work/new.csv"
[ "$(field "$work/eval.json" samples)" = 100 ] || fail "$(field "$work/eval.json" samples) of 100 new samples"
[ "$(field "$work/eval.json" new_data)" = true ] && [ "$(field "$work/eval.json" part)" = all ] || fail "new data"
"$program" eval "$work/c.yaml" --checkpoint "$work/run" --set data.path="$work/new.csv" |
  grep -q 'samples  *100 (all of other data; they may contain training samples)' || fail "new data: which samples?"
! grep -q 'will not repeat' "$work/err" || fail "evaluation speaks of interrupted runs"

echo "other data on --resume"
refused 'scaled.csv: these are not the data .* (as many samples (200), but other values); --allow-data-change' --set data.path="$work/scaled.csv" --set train.optimizer.lr=0.0001
! grep -q 'train.optimizer.lr' "$work/err" || fail "what may change is listed although the data are refused"
refused 'train.seed: checkpoint has 42, configuration has 7' --set train.seed=7
refused 'data.validation: checkpoint has 0.25, configuration has 0.5' --set data.validation=0.5
resume --set data.path="$work/scaled.csv" --set train.epochs=21 --allow-data-change || fail "allowed: $(cat "$work/err")"
grep -q 'not the data that the checkpoint was trained on' "$work/err" || fail "allowed, but not said"

[ "$(readlink "$work/copy/best")" = step-000000000105 ] || fail "the best of other data: $(readlink "$work/copy/best")"
grep -q "\"best\": $(field "$work/resume.json" val_loss)," "$work"/copy/step-000000000105/manifest.json || fail "patience compares losses of other data"

echo "what may change is listed"
resume --set train.optimizer.lr=0.0001 --set train.clip_norm=1 --set train.batch=50 --set train.epochs=21 \
  --set data.normalize=false --set train.schedule.name=cosine || fail "changes: $(cat "$work/err")"
for line in 'train.optimizer.lr: 0.01 -> 0.0001' 'train.clip_norm: 0 -> 1' 'train.batch: 30 -> 50' \
  'train.epochs: 20 -> 21' 'train.schedule.name: constant -> cosine' \
  'data.normalize: true is kept from the checkpoint, false is not used'; do
  grep -q -e "^  $line\$" "$work/err" || fail "no line \"$line\": $(cat "$work/err")"
done
[ "$(field "$work/resume.json" steps)" = 3 ] || fail "one epoch of 150 at 50: $(field "$work/resume.json" steps) steps"
echo "more than eight changes are listed to the last"
resume --set train.epochs=21 --set train.optimizer.lr=0.02 --set train.clip_norm=1 --set train.batch=50 \
  --set train.schedule.name=cosine --set train.schedule.warmup_steps=1 --set train.schedule.floor=0.01 \
  --set train.patience=5 --set train.max_skipped=7 --set train.optimizer.beta1=0.8 --set train.optimizer.beta2=0.9 \
  --set train.accumulate=2 || fail "changes: $(cat "$work/err")"
[ "$(grep -c ': .* -> ' "$work/err")" = 11 ] || fail "not 11 changes: $(cat "$work/err")"

echo "nothing to train, nothing saved"
rm -rf "$work/copy"
cp -R "$work/run" "$work/copy"
"$program" train "$work/c.yaml" --resume --quiet --set train.checkpoint.dir="$work/copy" --set train.epochs=19 \
  >"$work/out" 2>"$work/err" || fail "at the end already: $(cat "$work/err")"
grep -q 'nothing to train: 3000 samples done, train.epochs is 19 (2850 samples)' "$work/err" || fail "not said: $(cat "$work/err")"
grep -q "saved  *nothing: $work/copy/step-000000000100 is as it was" "$work/out" || fail "saved? $(cat "$work/out")"

echo "a run that skips every step saves nothing"
for every in 0 1; do
  got=0
  resume --set train.epochs=21 --set data.path="$work/huge.csv" --allow-data-change --set train.checkpoint.every_steps=$every &&
    fail "huge data were trained on" || got=$?
  [ $got = 8 ] || fail "every step skipped: exit code $got: $(cat "$work/err")"
  [ "$(ls -d "$work"/copy/step-* | wc -l)" = "$(ls -d "$work"/run/step-* | wc -l)" ] || fail "saved though every step was skipped"
done
echo "nor does it move an earlier run aside"
before=$(ls "$work/copy")
"$program" train "$work/c.yaml" --quiet --set train.checkpoint.dir="$work/copy" --set data.path="$work/huge.csv" --set data.normalize=false \
  --set train.checkpoint.every_steps=1 >"$work/out" 2>"$work/err" && fail "huge data were trained on" || got=$?
[ $got = 8 ] || fail "every step skipped: exit code $got: $(cat "$work/err")"
[ "$(ls "$work/copy")" = "$before" ] || fail "not as before: $(ls "$work/copy")"

echo "a new run with the weights of another one"
new_run() { "$program" train "$work/c.yaml" --quiet --set train.checkpoint.dir="$work/tuned" --json "$@" \
  >"$work/tuned.json" 2>"$work/err"; }
newest=$work/run/step-000000000100
for from in "$work/run" "$newest" "$newest/model.safetensors"; do
  new_run --init "$from" --set train.optimizer.name=sgd --set train.steps=1 --set train.epochs=0 || fail "--init $from: $(cat "$work/err")"
  [ "$(field "$work/tuned.json" resumed_from_step)" = null ] || fail "--init goes on with a run"
  [ "$(field "$work/tuned.json" val_loss_first)" = "$loss" ] || fail "--init $from begins elsewhere"
done
expect 6 "'layers.0.weight' is f32 (8, 2) in the checkpoint and f32 (9, 2) in the model" train "$work/c.yaml" \
  --init "$work/run" --set model.layers.0.dense.units=9
expect 6 'c.yaml: not a safetensors file' train "$work/c.yaml" --init "$work/c.yaml"
expect 2 'give one of the two' train "$work/c.yaml" --init "$work/run" --resume

echo "the evaluation at the end counts for patience, so a run that is made longer counts as one of that length"
epochs() { "$program" train "$work/c.yaml" --quiet --json --set train.checkpoint.dir="$work/$1" --set train.epochs=$2 $3 \
  >"$work/$1.json" 2>"$work/err" || fail "$*: $(cat "$work/err")"; }
counted() { sed -n '/"early_stopping"/,/}/p' "$work/$1"/step-00000000000$2/manifest.json; }
epochs longer 1 ""
counted longer 5 | grep -q "\"best\": $(field "$work/longer.json" val_loss)," || fail "the last evaluation: $(counted longer 5)"
epochs longer 2 --resume
epochs whole 2 ""
[ "$(counted longer 10)" = "$(counted whole 10)" ] || fail "longer: $(counted longer 10), whole: $(counted whole 10)"

echo "the best checkpoint has a name"
[ -e "$work/run/best/manifest.json" ] || fail "no link best: $(ls "$work/run")"
"$program" eval "$work/c.yaml" --checkpoint "$work/run" | grep -q "step-000000000100 (the run's newest)" || fail "newest?"
"$program" eval "$work/c.yaml" --checkpoint "$work/run" --best | grep -q "(the run's best)" || fail "best?"
[ "$(field "$work/eval.json" chosen)" = newest ] || fail "chosen: $(cat "$work/eval.json")"
evaluate --best
[ "$(field "$work/eval.json" chosen)" = best ] || fail "chosen: $(cat "$work/eval.json")"
same_loss "--best"
rm "$work/run/best"
expect 5 'no checkpoint is known to be the best' eval "$work/c.yaml" --checkpoint "$work/run" --best

echo "a validation file: the training samples know the run, the file's losses are compared within it"
head -41 "$work/new.csv" >"$work/held.csv"
sed 's/$/1/' "$work/held.csv" | sed '1s/1$//' >"$work/other.csv"
sed -i "s#validation: 0.25#validation_path: $work/held.csv#" "$work/c.yaml"
rm -r "$work/run"
"$program" train "$work/c.yaml" --quiet --json >"$work/train.json" 2>"$work/err" || fail "train: $(cat "$work/err")"
loss=$(field "$work/train.json" val_loss)
evaluate
same_loss "validation file"
[ "$(field "$work/eval.json" samples)" = 40 ] && [ "$(field "$work/eval.json" new_data)" = false ] || fail "validation file"
[ "$(field "$work/eval.json" validation_file)" = "$work/held.csv" ] || fail "which file? $(cat "$work/eval.json")"
"$program" eval "$work/c.yaml" --checkpoint "$work/run" | grep -q "samples  *40 (validation file $work/held.csv)" ||
  fail "which samples?"
evaluate --set data.path="$work/swapped.csv"
same_loss "training columns in another order"
evaluate --set data.validation_path="$work/new.csv"
[ "$(field "$work/eval.json" samples)" = 100 ] && [ "$(field "$work/eval.json" new_data)" = true ] || fail "another file"
resume --set train.epochs=21 --set data.path="$work/swapped.csv" || fail "resume: $(cat "$work/err")"
[ "$(field "$work/resume.json" val_loss_first)" = "$loss" ] || fail "resume: validation loss $(cat "$work/resume.json")"
refused 'other.csv: these are not the validation samples .* (40 now, 40 then, of other values)' \
  --set data.validation_path="$work/other.csv"
refused 'new.csv: these are not the validation samples .* (100 now, 40 then)' --set data.validation_path="$work/new.csv"
resume --set train.epochs=21 --set data.validation_path="$work/other.csv" --allow-data-change || fail "allowed: $(cat "$work/err")"
grep -q "other.csv: 40 samples of validation files; the checkpoint's run had 40" "$work/err" || fail "allowed, but not said"
sed "s#validation_path: [^,]*,#columns: [a, b],#" "$work/c.yaml" >"$work/without.yaml"
"$program" eval "$work/without.yaml" --checkpoint "$work/run" --json >"$work/eval.json" 2>"$work/err" || fail "$(cat "$work/err")"
grep -q 'had 40 samples in validation files, which this configuration does not name' "$work/err" || fail "file not named"
"$program" bench "$work/c.yaml" --set data.validation_path="$work/nowhere.csv" --steps 2 --repetitions 2 \
  --control 0 --ranks-list 1 --output "$work/bench.json" >"$work/out" 2>"$work/err" || fail "bench reads the validation file: $(cat "$work/err")"

echo "a checkpoint of an older version, whose manifest knows neither samples nor data"
cp -R "$source_dir/tests/program/older" "$work/older"
"$program" eval "$work/older/c.yaml" --checkpoint "$work/older" --json >"$work/eval.json" 2>"$work/err" ||
  fail "older: $(cat "$work/err")"
[ "$(field "$work/eval.json" samples)" = 12 ] && [ "$(field "$work/eval.json" part)" = validation ] || fail "older: part"
below "$(field "$work/eval.json" loss)" 2.5374 || fail "older: loss $(field "$work/eval.json" loss)"
older() { "$program" train "$work/older/c.yaml" --set train.checkpoint.dir="$work/older" --resume --quiet --json "$@" \
  >"$work/resume.json" 2>"$work/err"; }
got=0
older --set data.samples=61 || got=$?
[ $got = 6 ] || fail "older, other data: exit code $got"
older || fail "older: $(cat "$work/err")"
[ "$(field "$work/resume.json" params_xxh3)" = f1c5c2175a9edfda85f354223d43a06b ] || fail "older: other parameters"
older --set train.batch=20 --set train.epochs=4 || fail "older: $(cat "$work/err")"
[ "$(field "$work/resume.json" steps)" = 3 ] || fail "older: one epoch of 48 at 20 took $(field "$work/resume.json" steps) steps"
echo ok
