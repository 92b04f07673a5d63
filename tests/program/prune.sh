#!/bin/sh
# Pruning: the sparsity asked for, the same bits on any number of ranks and after a stop, masks that hold.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
cat >c.yaml <<'Y'
model:
  input: [16]
  loss: cross-entropy
  layers:
    - dense: {name: a, units: 40, activation: relu}
    - layer_norm: {name: n}
    - dense: {name: b, units: 3}
data: {kind: csv, path: x.csv, target: [class], validation: 0.25, normalize: true}
train:
  batch: 24
  steps: 90
  optimizer: {name: adam, lr: 0.005}
  prune: {sparsity: 0.75, begin: 20, end: 70, every: 10}
  checkpoint: {dir: run}
parallel: {backend: cpu, strategy: ddp, reproducible: true, shards: 2}
Y
awk 'BEGIN { srand(7); for (i = 0; i < 16; i++) printf "f%d,", i; print "class"
  for (r = 0; r < 400; r++) { for (i = 0; i < 16; i++) printf "%s,", rand() + (i % 3 == r % 3); print r % 3 } }' >x.csv
"$program" check c.yaml --ranks 2 >/dev/null 2>err || fail "check: $(cat err)"
"$program" train c.yaml --quiet --json --verbose >one.json 2>err || fail "train: $(cat err)"
grep -q 'step 70: 570 of 760 weights are pruned (75.0 %)' err || fail "no pruning: $(cat err)"
grep -q 'step 30: 277 of 760' err || fail "the schedule: $(cat err)"
below 0.9 "$(field one.json val_accuracy)" || fail "nothing was learned: $(cat one.json)"
# what was pruned at step 70 is 0 at step 90, biases and norms are not
"$program" export c.yaml --checkpoint run --output w.safetensors >/dev/null 2>err || fail "export: $(cat err)"
zeros=$(tail -c +4097 w.safetensors | od -An -v -t f4 -w4 | awk '$1 == 0 { n++ } END { print n + 0 }')
[ "$zeros" = 570 ] || fail "$zeros weights are 0"
# the moving mean loses them at once: the last step is a pruning here
sed 's/lr: 0.005}/lr: 0.005, ema: 0.9}/; s/steps: 90/steps: 70/; s/every: 10}/every: 25}/' c.yaml >mean.yaml
"$program" train mean.yaml --quiet --set train.checkpoint.dir=mean >/dev/null 2>err || fail "train with a mean: $(cat err)"
"$program" export mean.yaml --checkpoint mean --output m.safetensors >/dev/null 2>err || fail "export of a mean: $(cat err)"
zeros=$(tail -c +4097 m.safetensors | od -An -v -t f4 -w4 | awk '$1 == 0 { n++ } END { print n + 0 }')
[ "$zeros" = 570 ] || fail "$zeros weights of the mean are 0"

"$program" train c.yaml --ranks 2 --quiet --json --set train.checkpoint.dir=two >two.json 2>err || fail "two ranks: $(cat err)"
[ "$(field one.json params_xxh3)" = "$(field two.json params_xxh3)" ] || fail "two ranks give other bits"
for at in 45 60; do
  rm -rf half
  "$program" train c.yaml --quiet --set train.steps=$at --set train.checkpoint.dir=half >/dev/null 2>err || fail "a part: $(cat err)"
  "$program" train c.yaml --resume --quiet --json --set train.checkpoint.dir=half >rest.json 2>err || fail "resume: $(cat err)"
  [ "$(field one.json params_xxh3)" = "$(field rest.json params_xxh3)" ] || fail "a run resumed at $at gives other bits"
done
expect 3 'c.yaml:13:3: train.prune: end (10) must be a later step than begin (20)' check c.yaml --set train.prune.end=10
expect 3 'train.prune.sparsity' check c.yaml --set train.prune.sparsity=1

# before and after, of pruning and of integers, in one table
"$program" train c.yaml --quiet --set train.prune.sparsity=0 --set train.checkpoint.dir=whole >/dev/null 2>err || fail "unpruned: $(cat err)"
"$program" quantize c.yaml --checkpoint run --unpruned whole --output q.safetensors >table 2>err || fail "quantize: $(cat err)"
awk '{ print $1, $2 }' table | head -5 | tr '\n' ',' | grep -q '^weights kept,unpruned f32,unpruned int8,pruned f32,pruned int8,$' || fail "table: $(cat table)"
"$program" quantize c.yaml --checkpoint run --unpruned whole --output q.safetensors --json >q.json 2>err || fail "quantize: $(cat err)"
form() { # NUMBER NAME: of the forms in their order
  tr -d ' \n' <q.json | grep -o '{"form"[^}]*}' | sed -n "$1s/.*\"$2\":\([^,}]*\).*/\1/p"
}
[ "$(form 1 kept),$(form 3 kept)" = "1.0,0.25" ] || fail "kept: $(form 1 kept), $(form 3 kept)"
[ "$(form 1 bytes)" = "$(form 3 bytes)" ] && [ "$(form 4 bytes)" = "$(wc -c <q.safetensors)" ] || fail "bytes: $(cat q.json)"
gzip -c q.safetensors | wc -c | awk -v said="$(form 4 packed_bytes)" '{ d = $1 - said; exit !(d < 100 && d > -100) }' ||
  fail "packed: $(form 4 packed_bytes), not $(gzip -c q.safetensors | wc -c)"
awk -v whole="$(form 1 packed_bytes)" -v pruned="$(form 3 packed_bytes)" 'BEGIN { exit !(pruned < whole / 2) }' || fail "packed: $(cat q.json)"
i=1
for run in whole run; do
  "$program" eval c.yaml --checkpoint $run --json >eval.json 2>err || fail "eval: $(cat err)"
  for name in loss accuracy; do
    awk -v a="$(form $i $name)" -v b="$(field eval.json $name)" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }' ||
      fail "$run: $name $(form $i $name), eval says $(field eval.json $name)"
  done
  i=3
done
[ "$(form 2 loss)" != "$(form 1 loss)" ] && [ "$(form 4 loss)" != "$(form 3 loss)" ] || fail "integers lose nothing"
[ "$(form 2 checkpoint),$(form 4 checkpoint)" = '"whole","run"' ] || fail "checkpoints: $(cat q.json)"
expect 5 'gone' quantize c.yaml --checkpoint run --unpruned gone --output q.safetensors

# what is called unpruned has no more zeros than the other, and is another checkpoint; a failure leaves the old file
cp q.safetensors old.safetensors
newest=$(ls -d run/step-* | tail -1)
expect 2 "% of its weights are 0, but of --checkpoint .*whole/step-.* 0.0 %: exchange the two" \
  quantize c.yaml --checkpoint whole --unpruned run --output q.safetensors
expect 2 'is this checkpoint, too; name a run without pruning' quantize c.yaml --checkpoint run --unpruned "$newest" --output q.safetensors
expect 2 'is this checkpoint, too' quantize c.yaml --checkpoint run --unpruned ./run/ --output new.safetensors
expect 5 'gone' quantize c.yaml --checkpoint run --unpruned gone --output q.safetensors
cmp q.safetensors old.safetensors || fail "a failure has changed the file"
"$program" quantize c.yaml --checkpoint run --output q.safetensors --set data.path=gone.csv >/dev/null 2>err && fail "no data"
cmp q.safetensors old.safetensors && [ ! -e new.safetensors ] || fail "a failure has written a file"
ls q.safetensors.tmp* >/dev/null 2>&1 && fail "a failure leaves a file"

# frozen layers are not pruned, and do not count
"$program" train c.yaml --quiet --verbose --set 'model.freeze=[a.*]' --set train.checkpoint.dir=frozen >/dev/null 2>err || fail "frozen: $(cat err)"
grep -q 'step 70: 90 of 120 weights are pruned' err || fail "frozen: $(cat err)"
"$program" quantize c.yaml --checkpoint frozen --output q.safetensors --set 'model.freeze=[a.*]' --json >q.json 2>err || fail "quantize: $(cat err)"
[ "$(form 1 kept)" = 0.25 ] || fail "kept with a frozen layer: $(form 1 kept)"

# a pruning that the run's steps do not reach
"$program" check c.yaml --set train.steps=60 >/dev/null 2>err || fail "check: $(cat err)"
grep -q 'warning: train.prune.end (70) is after the last step (60)' err || fail "end: $(cat err)"
"$program" check c.yaml >/dev/null 2>err || fail "check: $(cat err)"
grep -q prune err && fail "a right pruning: $(cat err)"
:
