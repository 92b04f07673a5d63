#!/bin/sh
# Text labels of a CSV file are classes: the checkpoint keeps their numbers, eval and predict use them, and a label that only
# the held-out file has is named with its place.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
awk 'BEGIN { split("oak elm a,sh", k, " "); print "x,y,kind"
  for (i = 0; i < 150; i++) { c = i % 3; printf "%.2f,%.2f,\"%s\"\n", 3 * c + i % 7 / 9, i % 5 / 4 - 3 * c, k[c + 1] } }' >train.csv
(head -1 train.csv && tail -30 train.csv | tac) >held.csv
cat >c.yaml <<'Y'
model: {input: [2], loss: cross-entropy, layers: [{dense: {units: 3}}]}
data: {kind: csv, path: train.csv, target: [kind], validation_path: held.csv, normalize: true}
train: {batch: 15, epochs: 40, seed: 1, optimizer: {name: adam, lr: 5e-2}, checkpoint: {dir: run}}
parallel: {backend: cpu}
Y
"$program" train c.yaml --quiet --json >train.json 2>log || fail "$(cat log)"
[ "$(field train.json val_accuracy)" = 1.0 ] || fail "accuracy $(field train.json val_accuracy)"
# other data with fewer labels, in another order, keep the checkpoint's numbers
grep -v elm held.csv >part.csv
"$program" eval c.yaml --checkpoint run --set data.path=part.csv --set data.validation_path=null --json >eval.json 2>log ||
  fail "$(cat log)"
[ "$(field eval.json accuracy)" = 1.0 ] || fail "eval: $(cat eval.json)"
(head -1 held.csv && sed -n 2,4p train.csv) >in.csv
"$program" predict c.yaml --checkpoint run --input in.csv --output out.csv >summary 2>log || fail "$(cat log)"
[ "$(cut -d, -f1 out.csv | tr '\n' ' ')" = 'class oak elm "a ' ] || fail "predict: $(cat out.csv)"
# more_units_than_labels: the names of the classes that have one are kept
"$program" train c.yaml --quiet --set 'model.layers=[{dense: {units: 5}}]' --set train.epochs=2 --set train.checkpoint.dir=more >summary 2>log ||
  fail "$(cat log)"
grep -q "warning: .*train.csv: 3 labels, but the model's last layer has 5 units: classes from 3 on have no label and are shown as numbers; give the layer 3 units" log ||
  fail "more units: $(cat log)"
"$program" predict c.yaml --checkpoint more --set 'model.layers=[{dense: {units: 5}}]' --input in.csv >more.csv 2>log || fail "$(cat log)"
[ "$(head -1 more.csv)" = 'class,probability,"a,sh",elm,oak,3,4' ] || fail "more units: $(head -1 more.csv)"
# onnx_names_classes_and_columns, in the order of its output and of x
"$program" export c.yaml --checkpoint run --output run.onnx >summary 2>log || fail "$(cat log)"
grep -aqF 'classes' run.onnx && grep -aqF '["a,sh","elm","oak"]' run.onnx && grep -aqF 'columns' run.onnx && grep -aqF '["x","y"]' run.onnx ||
  fail "names in ONNX: $(strings run.onnx | tail -5)"
echo '1,2,pine' >>held.csv
expect 4 'held.csv:32:5: column .kind.: label .pine. is none of the 3 that the model was trained on' train c.yaml \
  --set train.checkpoint.dir=other
# weights of a network with other classes mean something else
sed 's/elm/fir/' train.csv >fir.csv
for weights in '--init run' '--set model.weights=run'; do
  # shellcheck disable=SC2086 # two words
  expect 6 'with other classes than .*fir.csv has: 3 and 3 of them; number 1 (from 0) is .elm. there and .fir. here' train c.yaml \
    --set data.path=fir.csv --set data.validation_path=null --set train.checkpoint.dir=fir $weights
done

# Names of classes and columns with control characters: what trains can be read again.
odd=$(printf 'lost\tor\n\033[31mfound')
printf '"x\r\ny",kind\n1,"%s"\n2,oak\n3,"%s"\n4,oak\n' "$odd" "$odd" >odd.csv
cat >odd.yaml <<'Y'
model: {input: [1], loss: cross-entropy, layers: [{dense: {units: 2}}]}
data: {kind: csv, path: odd.csv, target: [kind]}
train: {batch: 4, steps: 2, checkpoint: {dir: odd}}
parallel: {backend: cpu}
Y
"$program" train odd.yaml --quiet >told 2>log || fail "odd names: $(cat log)"
"$program" train odd.yaml --quiet --resume --set train.steps=3 >>told 2>>log || fail "odd names, --resume: $(cat log)"
"$program" eval odd.yaml --checkpoint odd >>told 2>>log || fail "odd names, eval: $(cat log)"
"$program" predict odd.yaml --checkpoint odd --input odd.csv --output odd-out.csv >>told 2>>log || fail "odd names, predict: $(cat log)"
head -2 odd-out.csv | tr '\n' ' ' | grep -qF "class,probability,\"$(printf %s "$odd" | tr '\n' ' ')\",oak " || fail "odd names: $(head -3 odd-out.csv)"
# other columns and classes are named in messages
sed 's/found/kept/' odd.csv >other.csv
expect 6 'is .lost.tor.n.x1b.31mfound. there' train odd.yaml --init odd --set data.path=other.csv --set train.checkpoint.dir=other
esc=$(printf '\033')
grep -q "$esc" told log err && fail "an escape sequence is printed: $(cat -v told log err)"
# a file and a pipe get the names as they are, a terminal escapes of them
grep -q "$esc" odd-out.csv || fail "odd-out.csv: $(cat -v odd-out.csv)"
if command -v script >/dev/null; then
  script -qefc "'$program' predict odd.yaml --checkpoint odd --input odd.csv" screen >/dev/null </dev/null || fail "predict on a terminal"
  grep -qF '\x1b[31mfound' screen || fail "no escaped name on a terminal: $(cat -v screen)"
  grep -q "$esc" screen && fail "an escape sequence on a terminal: $(cat -v screen)"
fi
true
