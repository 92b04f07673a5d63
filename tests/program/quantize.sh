#!/bin/sh
# Weights as 8-bit integers: a quarter of the size, nearly the same predictions, and what is refused.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
cat >c.yaml <<'Y'
model:
  input: [8, 8]
  loss: cross-entropy
  layers:
    - conv2d: {filters: 16, bias: false}
    - batch_norm
    - activation: {name: a, kind: relu}
    - conv2d: {name: b, filters: 16, groups: 4}
    - add: {from: [a, b]}
    - conv2d: {filters: 24, stride: 2, activation: silu}
    - dense: {units: 96, activation: relu}
    - dense: {units: 3}
data: {kind: csv, path: x.csv, target: [class], validation: 0.25, normalize: true}
train: {batch: 20, epochs: 12, optimizer: {name: adam, lr: 0.003}, checkpoint: {dir: run}}
parallel: {backend: cpu}
Y
awk 'BEGIN { srand(7); for (i = 0; i < 64; i++) printf "f%d,", i; print "class"
  for (r = 0; r < 400; r++) { for (i = 0; i < 64; i++) printf "%s,", 5 + 3 * rand() + (i % 3 == r % 3); print r % 3 } }' >x.csv
"$program" train c.yaml --quiet >/dev/null 2>err || fail "train: $(cat err)"
"$program" quantize c.yaml --checkpoint run --output q.safetensors --samples 100 >table 2>err || fail "quantize: $(cat err)"
grep -q '^  int8 ' table || fail "table: $(cat table)"
"$program" quantize c.yaml --checkpoint run --output again.safetensors --samples 100 --json >q.json 2>err || fail "quantize: $(cat err)"
cmp q.safetensors again.safetensors || fail "another file"
# value FORM NAME
value() {
  tr -d ' \n' <q.json | sed "s/.*{\"form\":\"$1\"\([^}]*\)}.*/\1/; s/.*\"$2\":\([^,]*\).*/\1/"
}
awk -v a="$(value f32 bytes)" -v b="$(value int8 bytes)" 'BEGIN { exit !(a > 3 * b) }' || fail "size: $(cat q.json)"
awk -v a="$(value f32 accuracy)" -v b="$(value int8 accuracy)" 'BEGIN { exit !(a > 0.8 && b > a - 0.03) }' || fail "accuracy: $(cat q.json)"
awk -v a="$(value f32 loss)" -v b="$(value int8 loss)" 'BEGIN { d = a - b; exit !(d != 0 && d * d < 0.0025) }' || fail "loss: $(cat q.json)"

cut -d, -f-64 x.csv >in.csv
"$program" predict c.yaml --checkpoint run --input in.csv >f32.csv 2>err || fail "predict: $(cat err)"
"$program" predict c.yaml --checkpoint run --input in.csv --int8 q.safetensors >int8.csv 2>err || fail "predict --int8: $(cat err)"
cmp -s f32.csv int8.csv && fail "--int8 computes with floats"
paste -d, f32.csv int8.csv | awk -F, 'NR > 1 { d = $3 - $8; if (d < 0) d = -d; s += d } END { exit !(s / NR < 0.03) }' || fail "other probabilities"

mkfifo pipe && ln -s pipe link
for file in pipe link; do
  expect 5 "$file: a special file, a regular file was expected" quantize c.yaml --checkpoint run --output $file
  expect 5 "$file: a special file, a regular file was expected" export c.yaml --checkpoint run --output $file
done
[ -p pipe ] && [ -L link ] || fail "a file in the place of a pipe or a link"
ln -s real.csv link.csv
"$program" predict c.yaml --checkpoint run --input in.csv --output link.csv >out 2>err || fail "predict: $(cat err)"
[ -L link.csv ] && cmp -s f32.csv real.csv || fail "a file in the place of a link"
expect 2 '--output FILE is missing' quantize c.yaml --checkpoint run
expect 2 '--checkpoint DIR is missing' quantize c.yaml --output x
expect 2 '--int8 needs --checkpoint' predict c.yaml --input in.csv --int8 q.safetensors --set model.weights=q.safetensors
"$program" export c.yaml --checkpoint run --output f.safetensors >/dev/null 2>err || fail "export: $(cat err)"
expect 6 'f.safetensors: no weights of 8-bit integers' predict c.yaml --checkpoint run --input in.csv --int8 f.safetensors
sed 's/units: 96/units: 95/; s/dir: run/dir: other/; s/epochs: 12/epochs: 1/' c.yaml >o.yaml
"$program" train o.yaml --quiet >/dev/null 2>err || fail "train: $(cat err)"
expect 6 "q.safetensors: of another model: it has no tensor 'layers.7.weight.int8' of u8 (3, 95)" predict o.yaml --checkpoint other --input in.csv --int8 q.safetensors
head -c 5000 q.safetensors >cut.safetensors
expect 6 'cut.safetensors' predict c.yaml --checkpoint run --input in.csv --int8 cut.safetensors
# altered weights were used without a word
size=$(wc -c <q.safetensors)
drawn=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
at=$((4096 + drawn % (size - 4096)))
byte=$(od -An -j$at -N1 -tu1 q.safetensors | tr -d ' ')
flipped=$((byte ^ (1 << drawn / 65536 % 8)))
cp q.safetensors flipped.safetensors
# shellcheck disable=SC2059 # the format is the byte
printf "\\$(printf %03o $flipped)" | dd of=flipped.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
expect 6 'flipped.safetensors: .*altered' predict c.yaml --checkpoint run --input in.csv --int8 flipped.safetensors
sed 's/lockstep_xxh3_128/another_xxh3_128_/' q.safetensors >old.safetensors
expect 6 'old.safetensors: it has no hash.*write it again with lockstep quantize' predict c.yaml --checkpoint run --input in.csv --int8 old.safetensors
expect 5 'gone.safetensors' predict c.yaml --checkpoint run --input in.csv --int8 gone.safetensors

# no result takes the place of what its command reads, or of a checkpoint's file
set -- run/step-*
cp -r "$1" kept && cp x.csv x.kept && cp -r run run.kept
for file in model.safetensors manifest.json optim.safetensors; do
  expect 2 "$1/$file is a file of a checkpoint: name another file" quantize c.yaml --checkpoint run --output "$1/$file"
  expect 2 "$1/$file is a file of a checkpoint" export c.yaml --checkpoint run --output "$1/$file" --format safetensors
  expect 2 "$1/$file is a file of a checkpoint" predict c.yaml --checkpoint run --input in.csv --output "$1/$file" --format csv
  expect 2 "$1/$file is a file of a checkpoint" train c.yaml --trace "$1/$file"
done
ln -s "$1" to_run && ln -s "$PWD/$1/model.safetensors" to_model
expect 2 'to_model is a file of a checkpoint' quantize c.yaml --checkpoint run --output to_model
expect 2 'to_run/manifest.json is a file of a checkpoint' quantize c.yaml --checkpoint run --output to_run/manifest.json
expect 2 'q.safetensors is what is read (--int8)' predict c.yaml --checkpoint run --input in.csv --int8 q.safetensors --output ./q.safetensors --format csv
expect 2 'x.csv is what is read (data.path)' quantize c.yaml --checkpoint run --output x.csv
expect 2 'x.csv is what is read (data.path)' train c.yaml --trace x.csv
expect 2 'x.csv is what is read (data.path)' bench c.yaml --output x.csv
# trying the place of a document took the name of a file of the user
echo mine >doc.json.tmp
expect 5 'none.json' bench c.yaml --output doc.json --plan none.json
[ "$(cat doc.json.tmp)" = mine ] || fail "bench has taken doc.json.tmp"
[ "$(echo doc.json*)" = doc.json.tmp ] || fail "bench has left $(echo doc.json*)"
printf before >open_file
expect 5 'none.json' bench c.yaml --output /dev/fd/3 --plan none.json 3>>open_file
[ "$(cat open_file)" = before ] || fail "bench has emptied an open file before it measured: $(cat open_file)"
expect 5 'nowhere/doc.json' bench c.yaml --output nowhere/doc.json --plan none.json
expect 2 'f.safetensors is what is read (model.weights)' export c.yaml --set model.weights=f.safetensors --output f.safetensors
expect 2 'f.safetensors is what is read (--init)' train c.yaml --init f.safetensors --trace f.safetensors
sed '/^parallel/d' c.yaml >base.yaml
printf 'base: base.yaml\nparallel: {backend: cpu}\n' >over.yaml
expect 2 'base.yaml is what is read (the configuration)' export over.yaml --checkpoint run --output base.yaml --format safetensors
diff -r "$1" kept >diff || fail "the checkpoint has changed: $(cat diff)"
diff -r run run.kept >diff || fail "the run has changed: $(cat diff)"
cmp x.csv x.kept && cmp q.safetensors again.safetensors || fail "what was read has changed"
