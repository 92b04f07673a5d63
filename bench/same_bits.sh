#!/usr/bin/env bash
# Trains the same runs with two builds of lockstep and compares the hashes of their parameters: refactoring must not
# change a bit. Usage: bench/same_bits.sh OLD NEW [BACKEND...]   (programs; backends cpu and ref by default)
# With backend cuda, runs use one and two GPUs, and NEW trains networks with and without a side lane
# (parallel.side_lane), which must give the same bits, too. Exits with 1 if a hash differs.
set -euo pipefail
refuse() {
  echo "$0: $*" >&2
  exit 2
}
[ $# -ge 2 ] || refuse "usage: OLD NEW [BACKEND...]"
for program in "$1" "$2"; do [ -x "$program" ] && [ ! -d "$program" ] || refuse "$program: no program"; done
old=$(realpath "$1") new=$(realpath "$2")
shift 2
backends=${*:-cpu ref}
for backend in $backends; do [[ $backend =~ ^(cpu|ref|cuda)$ ]] || refuse "$backend: no backend: cpu, ref or cuda"; done
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$root/examples/data
failed=0 runs=0

cat >"$work/preset.yaml" <<END
model: {preset: mlp-medium, loss: mse}
data: {kind: synthetic, samples: 512, validation: 0.1}
train: {batch: 32, steps: 12, seed: 3, optimizer: {name: adam, lr: 0.001}}
END
cat >"$work/mnist.yaml" <<END
model: {input: [28, 28], loss: cross-entropy, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 32, activation: tanh}}, {dense: {units: 10}}]}
data: {kind: idx, features: $data/mnist-2000-images-idx3-ubyte.gz, targets: $data/mnist-2000-labels-idx1-ubyte.gz, validation: 0.1}
train: {batch: 64, steps: 25, seed: 5, optimizer: {name: sgd, lr: 0.05, momentum: 0.9}}
END
cat >"$work/mixed.yaml" <<END
model: {input: [9], loss: mse, layers: [{dense: {units: 33}}, {layer_norm: {}}, {activation: {kind: gelu}}, {dense: {units: 17, activation: sigmoid, dropout: 0.3}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 300, normalize: true}
train: {batch: 31, steps: 20, seed: 9, optimizer: {name: adamw, lr: 0.003, weight_decay: 0.01}}
END

cat >"$work/net.yaml" <<END
model: {preset: lstm, loss: cross-entropy}
data: {kind: synthetic, samples: 256}
train: {batch: 32, steps: 6, seed: 3, clip_norm: 1, optimizer: {name: adamw, lr: 0.001}}
END

# train PROGRAM DIRECTORY FILE ARGUMENTS...: prints the hash, or the error
train() {
  local program=$1 dir=$2 file=$3
  shift 3
  "$program" train "$work/$file.yaml" --json --quiet --set train.checkpoint.dir="$dir" "$@" 2>"$work/err" |
    sed -n 's/.*"params_xxh3": "\([0-9a-f]*\)".*/\1/p' | grep . || { tail -n 2 "$work/err"; }
}

# equal NAME A B: two hashes
equal() {
  runs=$((runs + 1))
  if [ "$2" = "$3" ] && [[ $2 =~ ^[0-9a-f]{32}$ ]]; then
    printf '%-58s %s\n' "$1" "$2"
  else
    printf '%-58s DIFFERS: %s | %s\n' "$1" "$2" "$3"
    failed=$((failed + 1))
  fi
}

# compare NAME FILE ARGUMENTS...: OLD and NEW
compare() {
  local name=$1 file=$2
  shift 2
  equal "$name" "$(train "$old" "$work/old-$runs" "$file" "$@")" "$(train "$new" "$work/new-$runs" "$file" "$@")"
}

# same NAME FILE ARGUMENTS...: NEW with and without a side lane
same() {
  local name=$1 file=$2
  shift 2
  equal "$name" "$(train "$new" "$work/off-$runs" "$file" "$@" --set parallel.side_lane=off)" \
    "$(train "$new" "$work/on-$runs" "$file" "$@" --set parallel.side_lane=on)"
}

for backend in $backends; do
  use=(--set parallel.backend="$backend")
  most=3
  [ "$backend" = cuda ] && most=$(nvidia-smi -L 2>/dev/null | wc -l)
  for ranks in 1 2 3; do
    [ "$ranks" -le "$most" ] || continue
    r=("${use[@]}" --ranks "$ranks")
    compare "$backend, $ranks ranks: mlp-medium" preset "${r[@]}"
    compare "$backend, $ranks ranks: mnist, momentum" mnist "${r[@]}"
    compare "$backend, $ranks ranks: dropout, norms, uneven shares" mixed "${r[@]}"
    compare "$backend, $ranks ranks: accumulation, clipping" mixed "${r[@]}" --set train.accumulate=3 --set train.clip_norm=0.5
    compare "$backend, $ranks ranks: small buckets, data resident" mnist "${r[@]}" --set parallel.bucket_bytes=4096 --set data.resident=true
    if [ "$ranks" -ne 3 ]; then
      compare "$backend, $ranks ranks: reproducible" mixed "${r[@]}" --set train.batch=32 --set parallel.reproducible=true
      compare "$backend, $ranks ranks: reproducible, accumulation" mnist "${r[@]}" --set parallel.shards=16 --set parallel.reproducible=true
    fi
  done
  [ "$backend" != cuda ] || for ranks in 1 2; do
    [ "$ranks" -le "$most" ] || continue
    r=("${use[@]}" --ranks "$ranks")
    for precision in fp32 bf16; do
      p=("${r[@]}" --set train.precision=$precision)
      for preset in mlp-large lstm gru encoder gpt-char bert-small resnet18; do
        same "side lane, $ranks ranks, $precision: $preset" net "${p[@]}" --set model.preset=$preset
      done
      same "side lane, $ranks ranks, $precision: accumulation" net "${p[@]}" --set train.accumulate=2
      same "side lane, $ranks ranks, $precision: small buckets" net "${p[@]}" --set parallel.bucket_bytes=4096
    done
    same "side lane, $ranks ranks: reproducible" net "${r[@]}" --set parallel.reproducible=true
  done
  [ "$backend" = ref ] || for preset in mlp-large mlp-extreme; do
    compare "$backend: $preset" preset "${use[@]}" --ranks 1 --set model.preset=$preset --set train.steps=3
  done
done

# A checkpoint of the old program goes on in the new one as it does in the old.
for ranks in 1 2; do
  train "$old" "$work/half" mixed --ranks 1 --set train.steps=8 >/dev/null
  cp -r "$work/half" "$work/half-new"
  a=$(train "$old" "$work/half" mixed --ranks $ranks --resume)
  b=$(train "$new" "$work/half-new" mixed --ranks $ranks --resume)
  runs=$((runs + 1))
  [ "$a" = "$b" ] && [ ${#a} -eq 32 ] || { failed=$((failed + 1)); echo "an old checkpoint goes on on $ranks ranks: DIFFERS: $a | $b"; }
  rm -rf "$work/half" "$work/half-new"
done
echo "$runs runs, $failed differ"
[ "$failed" -eq 0 ]
