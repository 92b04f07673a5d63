#!/bin/sh
# Predictions of a checkpoint: each input and output format, streams, files of many batches, places of faults.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"

# Three classes by two columns of very different size; `note` is nobody's feature.
awk 'BEGIN { srand(3); print "far,near,class"
  for (i = 0; i < 600; i++) { k = i % 3; printf "%.3f,%.5f,%d\n", 1600000000 + 50000 * k + 9000 * rand(), k - 1 + rand() / 4, k } }' >train.csv
awk -F, 'NR == 1 { print "near,class,far" } NR > 1 { print $2 "," $3 "," $1 }' train.csv >turned.csv
cat >c.yaml <<'Y'
model: {input: [2], loss: cross-entropy, layers: [{dense: {units: 8, activation: tanh}}, {dense: {units: 3}}]}
data: {kind: csv, path: train.csv, target: [class], normalize: true}
train: {batch: 20, epochs: 3, optimizer: {name: adam, lr: 0.02}, checkpoint: {dir: run}}

parallel: {backend: cpu}
Y
"$program" train c.yaml --quiet --json >train.json 2>err || fail "train: $(cat err)"
predict() {
  "$program" predict c.yaml --checkpoint run "$@" 2>err || fail "predict $*: $(cat err)" >&2
}

# the columns of the checkpoint by name, in whatever order they stand; the rest is ignored
predict --input train.csv --output a.csv >table
grep -q 'samples  *600' table || fail "no table: $(cat table)"
predict --input turned.csv --output b.csv --json >b.json
[ "$(field b.json samples)" = 600 ] || fail "predict --json"
cmp a.csv b.csv || fail "columns are not taken by name"
[ "$(head -1 a.csv)" = class,probability,0,1,2 ] || fail "header: $(head -1 a.csv)"
ls | grep -q "\.tmp\." && fail "a partial file is left"

# as many are right as eval says
"$program" eval c.yaml --checkpoint run --json >eval.json 2>err || fail "eval: $(cat err)"
right=$(paste -d, train.csv a.csv | awk -F, 'NR > 1 && $3 == $4 { n++ } END { printf "%.6f", n / (NR - 1) }')
[ "$right" = "$(printf '%.6f' "$(field eval.json accuracy)")" ] || fail "accuracy $right, eval: $(cat eval.json)"
awk -F, 'NR > 1 { s = $3 + $4 + $5; if (s < 0.99999 || s > 1.00001 || $2 < $3 || $2 < $4 || $2 < $5) exit 1 }' a.csv ||
  fail "probabilities: $(head -3 a.csv)"

# stdin, gzip and stdout are the same samples; --output may be left out
predict --input - <train.csv >c.csv
cmp a.csv c.csv || fail "stdin, stdout"
gzip -k train.csv
predict --input train.csv.gz --output - >c.csv
cmp a.csv c.csv || fail "gzip"
gzip -c train.csv | predict --input - --output /dev/stdout | cat >c.csv
cmp a.csv c.csv || fail "gzip from a pipe, or a report behind the predictions"
predict --input train.csv --output /dev/stdout >c.csv
cmp a.csv c.csv || fail "a file that is stdout"

# JSON lines hold the same numbers
predict --input train.csv --output a.jsonl >/dev/null
sed 's/{"class": \([0-9]*\), "probability": \([^,]*\), "probabilities": \[\([^]]*\)\]}/\1,\2,\3/; s/ //g' a.jsonl >lines
tail -n +2 a.csv | cmp - lines || fail "JSON lines: $(head -2 a.jsonl)"

# .npy: 128 bytes of header, then floats; read again it is an input
predict --input train.csv --output a.npy >/dev/null
[ "$(wc -c <a.npy)" = $((128 + 600 * 3 * 4)) ] || fail "a.npy has $(wc -c <a.npy) bytes"
head -c 128 a.npy | grep -aq "'shape': (600, 3)" || fail "header of a.npy"
od -An -v -tf4 -w12 -j128 a.npy >floats
tail -n +2 a.csv | tr , ' ' | paste -d' ' - floats |
  awk '{ for (i = 3; i <= 5; i++) if ($i - $(i + 3) > 1e-7 || $(i + 3) - $i > 1e-7) exit 1 }' || fail "a.npy and a.csv differ"
cat >square.yaml <<'Y'
model: {input: [3], loss: mse, layers: [{dense: {units: 2}}]}
data: {kind: npy, features: a.npy, targets: a.npy}
train: {batch: 20, epochs: 1, checkpoint: {dir: square}}
parallel: {backend: cpu}
Y
sed -i 's/units: 2/units: 3/' square.yaml
"$program" train square.yaml --quiet >/dev/null 2>err || fail "train on predictions: $(cat err)"
"$program" predict square.yaml --checkpoint square --input a.npy >d.csv 2>err || fail "predict npy: $(cat err)"
[ "$(head -1 d.csv)" = 0,1,2 ] && [ "$(wc -l <d.csv)" = 601 ] || fail "values of .npy: $(head -2 d.csv)"
"$program" predict square.yaml --checkpoint square --input a.npy --format npy >e.npy 2>err || fail "npy to stdout: $(cat err)"
"$program" predict square.yaml --checkpoint square --input a.npy --output f.npy >/dev/null 2>err || fail "npy: $(cat err)"
cmp e.npy f.npy || fail "npy to stdout"
expect 2 'only the end of this input tells' predict c.yaml --checkpoint run --input - --format npy <train.csv

# images_with_channels_first: an array in another order than the model's input was taken as if it were in that order
array() {
  printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }" >"$1"
  head -c "$3" /dev/zero >>"$1"
}
array good.npy '2, 4, 5, 3' 480
array first.npy '2, 3, 4, 5' 480
array flat.npy '2, 60' 480
array one.npy '2, 1, 4, 5, 3' 480
array y.npy '2, 1' 8
sed 's/input: \[3\]/input: [4, 5, 3]/; s/units: 3/units: 1/; s/features: a.npy, targets: a.npy/features: good.npy, targets: y.npy/; s/batch: 20/batch: 2/; s/dir: square/dir: image/' \
  square.yaml >image.yaml
"$program" train image.yaml --quiet >/dev/null 2>err || fail "an image: $(cat err)"
wrong='first.npy: samples are (3, 4, 5), but the model.s input is (4, 5, 3): bring the dimensions into this order'
expect 4 "$wrong" train image.yaml --set data.features=first.npy
expect 4 "$wrong" train image.yaml --set data.features=first.npy --set data.mapped=true
expect 4 "$wrong" predict image.yaml --checkpoint image --input first.npy
for file in good flat one; do
  "$program" predict image.yaml --checkpoint image --input $file.npy >$file.csv 2>err || fail "$file: $(cat err)"
  cmp good.csv $file.csv || fail "$file.npy is another image"
done

# many batches, with line ends between quotes; a fault far down has its own line
awk 'BEGIN { srand(4); print "note,\"near\",far"
  for (i = 0; i < 60000; i++) printf "\"a\nb, %d\",%.5f,%.3f\n", i, rand() * 2 - 1, 1600000000 + 90000 * rand() }' >long.csv
predict --input long.csv --output long-out.csv >/dev/null
[ "$(wc -l <long-out.csv)" = 60001 ] || fail "$(wc -l <long-out.csv) lines of 60000 samples"
(head -1 long.csv; tail -n +100002 long.csv | head -20) >part.csv
predict --input part.csv >part.out
(head -1 long-out.csv; tail -n +50002 long-out.csv | head -10) | cmp - part.out || fail "samples of later batches"
sed '110001s/.*/b,nine,1600000000/' long.csv >bad.csv
expect 4 'bad.csv:110000:1: text follows the closing quote' predict c.yaml --checkpoint run --input bad.csv --output bad-out.csv
awk 'NR == 110001 { sub(/",[^,]*,/, "\",nine,") } { print }' long.csv >bad.csv
expect 4 "bad.csv:110001:.*column 'near': 'nine' is not" predict c.yaml --checkpoint run --input bad.csv --output bad-out.csv
[ ! -e bad-out.csv ] || fail "a faulty input leaves an output"
ls | grep -q "\.tmp\." && fail "a faulty input leaves a partial file"
head -c 3000 a.npy >cut.npy
expect 4 'promises 600 rows, the file ends after 239' predict square.yaml --checkpoint square --input cut.npy
(cat a.npy; echo x) >more.npy
expect 4 'bytes follow the data' predict square.yaml --checkpoint square --input more.npy
head -c 4000 train.csv.gz >cut.csv.gz
expect 4 'gzip data' predict c.yaml --checkpoint run --input cut.csv.gz

# what is refused
sed 's/near/nearly/' train.csv >other.csv
expect 6 "trained on column 'near'" predict c.yaml --checkpoint run --input other.csv
[ ! -s out ] || fail "a bad input leaves a header on stdout: $(cat out)"
expect 4 'has 3 features per sample' predict c.yaml --checkpoint run --input a.npy
expect 2 '--input FILE is missing' predict c.yaml --checkpoint run
expect 2 'there is no model to use' predict c.yaml --input train.csv
expect 2 'not one of csv, npy' predict c.yaml --checkpoint run --input train.csv --format xml
expect 2 'x.parquet: "parquet" is not one of csv, npy, jsonl: give the file another ending, or choose with --format' predict c.yaml \
  --checkpoint run --input train.csv --output x.parquet
expect 2 '"gz" is not one of' predict c.yaml --checkpoint run --input train.csv --output x.csv.gz
[ ! -e x.parquet ] && [ ! -e x.csv.gz ] || fail "a refused ending leaves a file"
predict --input train.csv --output x.parquet --format npy >/dev/null
predict --input train.csv --output A.NPY >/dev/null
cmp x.parquet A.NPY || fail "endings in capitals"
cp train.csv train.parquet # the first bytes tell, not the name
mkdir v1.2
predict --input train.parquet --output v1.2/x >/dev/null
cmp a.csv v1.2/x || fail "a name without an ending is CSV"
expect 2 'both come from stdin' predict - --checkpoint run --input - </dev/null
expect 5 'nowhere.csv' predict c.yaml --checkpoint run --input nowhere.csv
expect 5 'no-such' predict c.yaml --checkpoint run --input train.csv --output no-such/a.csv
expect 4 'is empty' predict c.yaml --checkpoint run --input /dev/null
expect 6 'units' predict c.yaml --checkpoint run --input train.csv --set 'model.layers=[{dense: {units: 3}}]'

# the training data are not needed any more
rm train.csv
predict --input turned.csv >c.csv
cmp a.csv c.csv || fail "without the training data"

# missing values: the mean of the training run's column stands for them, and indicators follow the columns
awk 'BEGIN { srand(5); print "a,b,class"
  for (i = 0; i < 400; i++) { k = i % 2; a = k + rand() / 2; printf "%s,%.4f,%d\n", i % 5 ? sprintf("%.4f", a) : "NA", rand() - k, k } }' >gaps.csv
mean=$(awk -F, 'NR > 1 && $1 != "NA" { s += $1; n++ } END { printf "%.17g", s / n }' gaps.csv)
sed "s/^NA,/$mean,/" gaps.csv >full.csv
sed 's/input: \[2\]/input: [3]/; s/units: 3/units: 2/; s/train.csv/gaps.csv/; s/normalize/missing: indicator, normalize/; s/dir: run/dir: marked/' \
  c.yaml >marked.yaml
sed 's/input: \[3\]/input: [2]/; s/indicator/mean/; s/dir: marked/dir: mean/' marked.yaml >mean.yaml
for kind in mean marked; do
  "$program" train $kind.yaml --quiet >/dev/null 2>err || fail "train with missing values: $(cat err)"
  "$program" predict $kind.yaml --checkpoint $kind --input - <gaps.csv >$kind.csv 2>err || fail "missing: $kind: $(cat err)"
  "$program" eval $kind.yaml --checkpoint $kind --json >eval.json 2>err || fail "eval: $(cat err)"
  paste -d, gaps.csv $kind.csv | awk -F, -v loss="$(field eval.json loss)" 'NR > 1 { s -= log($($3 ? 7 : 6)) }
    END { d = s / (NR - 1) - loss; exit d * d > 1e-10 }' || fail "missing: $kind: predictions do not have the loss of eval"
done
"$program" export marked.yaml --checkpoint marked --output marked.onnx >/dev/null 2>err || fail "export: $(cat err)"
grep -aqF '["a","b","a.missing"]' marked.onnx || fail "columns in ONNX"
cut -d, -f1,2 gaps.csv | sed -n '1p;3,6p' >whole.csv # without a gap, with the checkpoint's indicator
"$program" predict marked.yaml --checkpoint marked --input whole.csv >whole.out 2>err || fail "no gap: $(cat err)"
"$program" predict mean.yaml --checkpoint mean --input full.csv >full.out 2>err || fail "missing: $(cat err)"
paste -d, mean.csv full.out | awk -F, 'NR > 1 { d = $3 - $7; if (d * d > 1e-10) exit 1 }' || fail "a missing value is not the mean"
head -2 gaps.csv | cut -d, -f2- >short.csv
expect 6 "trained on column 'a'" predict mean.yaml --checkpoint mean --input short.csv

# a token that the embedding does not have, or that is no whole number, is refused with its place, not embedded as NaN
cat >tokens.yaml <<'Y'
model: {input: [3], loss: mse, layers: [{embedding: {size: 10, units: 4}}, {global_pool: {kind: mean}}, {dense: {units: 1}}]}
data: {kind: csv, path: tokens.csv, target: [y]}
train: {batch: 2, epochs: 1, checkpoint: {dir: tokens}}
parallel: {backend: cpu}
Y
printf 'a,b,c,y\n0,4,9,1\n1,2,3,0\n' >tokens.csv
"$program" train tokens.yaml --quiet >/dev/null 2>err || fail "train on tokens: $(cat err)"
"$program" predict tokens.yaml --checkpoint tokens --input tokens.csv >/dev/null 2>err || fail "tokens: $(cat err)"
for token in 10 -1 3.5 1099511627776; do
  printf 'a,b,c\n0,4,9\n1,%s,3\n' $token >in.csv
  expect 4 "in.csv: row 1, column 1 (from 0): $token is no row of the model's embedding, which has 10: 0 to 9" \
    predict tokens.yaml --checkpoint tokens --input in.csv
done

# a result is not written over the configuration
expect 2 'tokens.yaml is what is read' predict tokens.yaml --checkpoint tokens --input tokens.csv --output tokens.yaml
expect 2 'tokens.yaml is what is read' export tokens.yaml --checkpoint tokens --output tokens.yaml
expect 2 'tokens.yaml is what is read' quantize tokens.yaml --checkpoint tokens --output tokens.yaml
