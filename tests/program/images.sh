#!/bin/sh
# Images in folders: training, evaluation, predictions, plans; the same bits on any number of ranks, decoded once or for
# each batch, and after a pause; what is wrong with a file is said with its name.
set -eu
. "$(dirname "$0")/lib.sh"
"$LOCKSTEP_MAKE_IMAGES" "$work/train" 4 24 1
"$LOCKSTEP_MAKE_IMAGES" "$work/held" 4 8 2
cat >"$work/c.yaml" <<END
model:
  input: [24, 24, 3]
  layers:
    - conv2d: {filters: 8, kernel: 3, stride: 2, activation: relu}
    - conv2d: {filters: 8, kernel: 3, padding: same, activation: relu}
    - global_pool
    - dense: {units: 4}
  loss: cross-entropy
data: {kind: images, path: train, validation_path: held, resize: 26, crop: random, crop_area: 0.5, flip: false, normalize: true}
train: {batch: 16, epochs: 8, seed: 3, optimizer: {name: adam, lr: 1e-2}, checkpoint: {dir: run, every_steps: 12}}
parallel: {backend: cpu, threads: 1, reproducible: true, deadline_s: 60}
END
bits() {
  field "$work/$1.json" params_xxh3
}
train_as one
below "$(field "$work/one.json" val_loss)" 1.1 || fail "validation loss $(field "$work/one.json" val_loss)"
[ "$(wc -c <"$work/one/step-000000000048/manifest.json")" -lt 20000 ] || fail "a checkpoint has a mean for each pixel"
for ranks in 2 4; do
  train_as ranks$ranks --ranks $ranks
  [ "$(bits ranks$ranks)" = "$(bits one)" ] || fail "$ranks ranks have other bits"
done
train_as three --ranks 3 --set parallel.reproducible=false
awk -v a="$(field "$work/three.json" val_loss)" -v b="$(field "$work/one.json" val_loss)" \
  'BEGIN { d = a - b; exit !(d < 1e-3 && d > -1e-3) }' || fail "three ranks reach $(field "$work/three.json" val_loss)"

# a pause
train_as half --set train.steps=24
train_as half --set train.steps=48 --resume
[ "$(bits half)" = "$(bits one)" ] || fail "a resumed run has other bits"

# decoded once or each time, with shifts and flips
centre="--set data.crop=centre --set data.crop_area=0.08 --set data.padding=3 --set data.flip=true --set train.epochs=2"
# shellcheck disable=SC2086
train_as once $centre --set data.decode=once --ranks 2
# shellcheck disable=SC2086
train_as always $centre --set data.decode=always --set parallel.threads=2
[ "$(bits once)" = "$(bits always)" ] || fail "images decoded each time have other bits"

"$program" eval "$work/c.yaml" --checkpoint "$work/one" --json >"$work/eval.json"
[ "$(field "$work/eval.json" loss)" = "$(field "$work/one.json" val_loss)" ] || fail "eval says another loss"
"$program" eval "$work/c.yaml" --checkpoint "$work/one" >"$work/out" # a folder is no file
grep -q "samples  *32 (validation folder $work/held)" "$work/out" || fail "eval: $(cat "$work/out")"
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input "$work/held" --output "$work/y.csv"
[ "$(head -1 "$work/y.csv")" = "file,class,probability,across,along,falling,rising" ] || fail "predict: $(head -1 "$work/y.csv")"
[ "$(wc -l <"$work/y.csv")" = 33 ] || fail "predict: $(wc -l <"$work/y.csv") lines"
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input "$work/held/along/001.jpg" >"$work/y1.csv"
{ sed -n 2p "$work/y1.csv"; sed -n 11p "$work/y.csv"; } | cut -d, -f2- | # one image is a product of another size: its last digits may differ
  awk -F, 'NR == 1 { split($0, one) } END { for (k = 2; k <= NF; k++) far += ($k - one[k]) ^ 2 > 1e-10; exit NR != 2 || one[1] != $1 || far || NF != 6 }' ||
  fail "one image has another prediction: $(sed -n 2p "$work/y1.csv"), not $(sed -n 11p "$work/y.csv")"

# predict_names_each_file: every row has its file, and a file that is left out is named
(cd "$work/held" && printf '%s\n' */*) | sort >"$work/names"
tail -n +2 "$work/y.csv" | cut -d, -f1 | cmp - "$work/names" || fail "predict names other files: $(head -3 "$work/y.csv")"
mkdir "$work/mixed"
cp "$work/held/along/001.jpg" "$work/mixed/b.jpg" && cp "$work/held/along/002.jpg" "$work/mixed/d,1.jpg"
for other in a.webp c.txt; do echo text >"$work/mixed/$other"; done
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input "$work/mixed" >"$work/mixed.csv" 2>"$work/err" || fail "$(cat "$work/err")"
sed -n 2,3p "$work/mixed.csv" | cut -c 1-8 | tr '\n' ' ' | grep -q '^b.jpg,.* "d,1.jpg $' || fail "mixed: $(cat "$work/mixed.csv")"
grep -q 'mixed: 2 files are left out, not named like a picture (.png, .jpg, .jpeg): a.webp, c.txt$' "$work/err" || fail "$(cat "$work/err")"
# .. of a list of paths, too, and a class's probability has its name
printf 'id,file\n7,"d,1.jpg"\n8,b.jpg\n' >"$work/mixed/list.csv"
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input "$work/mixed/list.csv" --format jsonl >"$work/list.jsonl" 2>"$work/err" || fail "$(cat "$work/err")"
sed 's/: [0-9][0-9.e-]*/: N/g; s/"class": "[a-z]*"/"class": C/' "$work/list.jsonl" | tr '\n' ' ' >"$work/out"
printf '{"file": "%s", "class": C, "probability": N, "probabilities": {"across": N, "along": N, "falling": N, "rising": N}} ' d,1.jpg b.jpg |
  cmp - "$work/out" || fail "a list: $(cat "$work/list.jsonl")"
"$program" predict "$work/c.yaml" --checkpoint "$work/one" --input - <"$work/mixed/list.csv" >"$work/out" 2>"$work/err" && fail "a list starts elsewhere"
(cd "$work/mixed" && "$program" predict "$work/c.yaml" --checkpoint "$work/one" --input - --format npy <list.csv >"$work/out" 2>"$work/err") || fail "$(cat "$work/err")"
grep -q 'an array has no names: its rows follow' "$work/err" || fail "npy of files: $(cat "$work/err")"

# a class is called what its folder is
cp -r "$work/held" "$work/tab" && mv "$work/tab/along" "$work/tab/$(printf 'a\tlong')"
train_as odd --set "data.path=$work/tab" --set data.validation_path=null --set train.steps=1
"$program" eval "$work/c.yaml" --set "data.path=$work/tab" --set data.validation_path=null --checkpoint "$work/odd" >"$work/out" 2>"$work/err" ||
  fail "a folder with a tab: $(cat "$work/err")"

# weights alone: mean and std of the configuration are all of the normalisation, and what only a checkpoint has is asked for
"$program" export "$work/c.yaml" --checkpoint "$work/one" --output "$work/one.safetensors" >/dev/null
expect 2 'data.normalize: true: .* name the run with --checkpoint' predict "$work/c.yaml" --set "model.weights=$work/one.safetensors" --input "$work/held"
expect 2 'data.normalize: true: .* name the run with --checkpoint' export "$work/c.yaml" --set "model.weights=$work/one.safetensors" --output "$work/one.onnx"
train_as fixed --set data.normalize=false --set 'data.mean=[0.4, 0.5, 0.6]' --set data.std=0.25 --set train.epochs=1
"$program" export "$work/c.yaml" --checkpoint "$work/fixed" --set data.normalize=false --output "$work/fixed.safetensors" >/dev/null
set -- --set data.normalize=false --set 'data.mean=[0.4, 0.5, 0.6]' --set data.std=0.25 --input "$work/held"
"$program" predict "$work/c.yaml" --checkpoint "$work/fixed" "$@" >"$work/y2.csv" 2>"$work/err" || fail "predict: $(cat "$work/err")"
"$program" predict "$work/c.yaml" --set "model.weights=$work/fixed.safetensors" "$@" >"$work/y3.csv" 2>"$work/err" ||
  fail "predict by weights alone: $(cat "$work/err")"
# classes have their names in a checkpoint alone
awk -F, 'FNR == 1 { file++ } FNR > 1 { for (k = 4; k <= NF; k++) if (file == 1) y[FNR, k] = $k; else { n++; far += $k != y[FNR, k] } }
  END { exit far || n != 128 }' "$work/y2.csv" "$work/y3.csv" || fail "weights alone predict otherwise: $(sed -n 2p "$work/y2.csv"), $(sed -n 2p "$work/y3.csv")"

expect 4 'an image cannot come from stdin: name the file' predict "$work/c.yaml" --checkpoint "$work/one" --input - <"$work/held/along/001.jpg"
with_profile
plan "$work/plan.json" "$work/c.yaml" --budget-ms 1500 --json
grep -o '"input": [0-9.]*' "$work/plan.json" | awk '$2 > 0 { found = 1 } END { exit !found }' ||
  fail "plan does not price decoding"
plan "$work/plan" "$work/c.yaml" --budget-ms 500
grep -q 'input: a thread takes .* decoding' "$work/plan" || fail "plan does not say what decoding takes"
"$program" bench "$work/c.yaml" --repetitions 2 --control-repetitions 2 --steps 4 --warmup 1 --output "$work/bench.json" >"$work/bench.txt" 2>"$work/err" ||
  fail "bench: $(cat "$work/err")"
grep -o '"decode_us": [0-9.]*' "$work/bench.json" | awk '$2 > 0 { found = 1 } END { exit !found }' ||
  fail "bench has no decoding"

# the same images by a CSV file, held out by a part
(cd "$work/train" && printf 'label,file\n' && for f in */*; do printf '%s,"%s"\n' "${f%%/*}" "$f"; done) >"$work/train/list.csv"
train_as csv --set data.path="$work/train/list.csv" --set data.validation_path="$work/held" --set train.steps=24
train_as folder --set train.steps=24
[ "$(bits csv)" = "$(bits folder)" ] || fail "images named by a CSV file have other bits"

# pictures that a CSV file names anywhere, whatever they are called, stay what they are
mkdir "$work/elsewhere" "$work/lists"
cp "$work/train/along/001.jpg" "$work/elsewhere/one.jpg"
cp "$work/train/along/002.jpg" "$work/elsewhere/two"
printf 'label,file\nalong,../elsewhere/one.jpg\nalong,%s/elsewhere/two\n' "$work" >"$work/lists/list.csv"
echo text >"$work/elsewhere/three"
for picture in one.jpg two; do
  expect 2 "elsewhere/$picture is a picture: name another file" \
    export "$work/c.yaml" --checkpoint "$work/one" --set "data.path=$work/lists/list.csv" --output "$work/elsewhere/$picture" --format safetensors
done
cmp "$work/elsewhere/one.jpg" "$work/train/along/001.jpg" || fail "a listed picture has changed"
"$program" export "$work/c.yaml" --checkpoint "$work/one" --set "data.path=$work/lists/list.csv" --output "$work/elsewhere/three" --format safetensors >/dev/null ||
  fail "a file that is no picture is not replaced"

# a file that is cut, met in the middle of a run of two ranks
head -c 400 "$work/train/along/001.jpg" >"$work/cut" && mv "$work/cut" "$work/train/along/001.jpg"
if train_as cut --ranks 2 --set data.normalize=false 2>"$work/err"; then fail "a cut JPEG was trained on"; fi
grep -q "train/along/001.jpg: offset .* of 400: damaged or cut JPEG data" "$work/err" || fail "$(cat "$work/err")"
if "$program" check "$work/c.yaml" --set data.normalize=false 2>"$work/err"; then fail "check does not see a cut JPEG"; fi
grep -q "train/along/001.jpg: offset .* of 400" "$work/err" || fail "check: $(cat "$work/err")"
