#!/bin/sh
# parallel.shard with real processes: however optimizer and gradients are split, a reproducible run ends in one hash. Each run is
# stopped and continued under another split: shards on four ranks, copies on two, shards on two, one rank.
set -eu
. "$(dirname "$0")/lib.sh"

# one_hash NAME MODEL OPTIONS..
one_hash() {
  name=$1 model=$2
  shift 2
  cat >"$work/$name.yaml" <<Y
model: $model
train: {batch: 16, steps: 24, evaluate_every: 0, clip_norm: 0.5, optimizer: {name: adam, lr: 1e-2}, checkpoint: {dir: $work/$name}}
parallel: {backend: cpu, threads: 1, deadline_s: 60, bucket_bytes: 4096, reproducible: true, shards: 8}
data: {kind: synthetic, samples: 64, validation: 0}
Y
  "$program" train "$work/$name.yaml" "$@" --set train.checkpoint.dir="$work/$name-whole" --quiet --json >"$work/r.json" 2>"$work/log" ||
    fail "$name, one rank: $(cat "$work/log")"
  want=$(field "$work/r.json" params_xxh3) ends=0
  for split in 4:optimizer 2:none 2:gradients 1:none; do
    ends=$((ends + 6))
    "$program" train "$work/$name.yaml" "$@" --ranks "${split%:*}" --set parallel.shard="${split#*:}" --set train.steps=$ends \
      $([ $ends = 6 ] || echo --resume) --quiet --json >"$work/r.json" 2>"$work/log" || fail "$name, $split: $(cat "$work/log")"
    [ $ends != 6 ] || [ -s "$work/$name/step-000000000006/optim-00003-of-00004.safetensors" ] || fail "$name: no file of rank 3's shard"
  done
  got=$(field "$work/r.json" params_xxh3)
  [ "$got" = "$want" ] || fail "$name: $got over four splits, $want on one rank"
  echo "$name: $got"
}

one_hash dense '{input: 20, loss: mse, layers: [{dense: {units: 33, activation: relu, dropout: 0.2}}, {dense: {units: 3}}]}' --set train.optimizer.ema=0.9
one_hash bf16 '{input: 20, loss: mse, layers: [{dense: {units: 33, activation: gelu}}, {dense: {units: 3}}]}' --set train.precision=bf16
one_hash gpt '{preset: gpt-char, width: 32, depth: 2, heads: 2, context: 8, dropout: 0.1}'
one_hash lstm '{preset: lstm, width: 16}' --set train.optimizer.name=sgd --set train.optimizer.momentum=0.9

# Without reproducible any number of ranks shares: a rank's slots and gradients are a third, and the loss is that of copies to
# rounding, under whatever split a run is continued. Groups change the order in which gradients are complete.
cat >"$work/free.yaml" <<Y
model: {input: 20, loss: mse, freeze: ["layers.0.*"], layers: [{dense: {units: 20}}, {dense: {units: 33, activation: relu, dropout: 0.2}}, {dense: {units: 17}}, {dense: {units: 3}}]}
train: {batch: 16, accumulate: 2, evaluate_every: 0, clip_norm: 0.5, precision: bf16, optimizer: {name: adamw, lr: 1e-2, ema: 0.9, groups: [{match: ["layers.3.*", "*.bias"], lr: 3e-3}]}}
parallel: {backend: cpu, threads: 1, deadline_s: 60, bucket_bytes: 512}
data: {kind: synthetic, samples: 64, validation: 0}
Y
for splits in 24:3:none 24:3:optimizer 24:3:gradients 8:3:none,16:2:none,24:2:none 8:3:gradients,16:2:optimizer,24:2:gradients; do
  free=$work/free-$splits
  for split in $(echo $splits | tr , ' '); do
    ranks=${split#*:} shard=${split##*:}
    "$program" train "$work/free.yaml" --ranks "${ranks%:*}" --set parallel.shard="$shard" \
      --set train.checkpoint.dir="$free" --set train.steps="${split%%:*}" $([ ! -d "$free" ] || echo --resume) \
      --quiet --json >"$free.json" 2>"$work/log" || fail "$splits, $split: $(cat "$work/log")"
  done
done
for shard in none optimizer gradients; do
  "$program" inspect "$work/free.yaml" --ranks 3 --set parallel.shard=$shard --json >"$work/memory-$shard.json"
done
python3 - "$work" <<'P' || fail "three ranks: $(cat "$work"/free-*.json "$work"/memory-*.json)"
import glob, json, sys
loss = {f: json.load(open(f))["train_loss"] for f in glob.glob(sys.argv[1] + "/free-*.json")}
for kind in (lambda f: "," in f), (lambda f: "," not in f):
    each = [loss[f] for f in loss if kind(f)]
    assert len(each) > 1 and max(each) - min(each) <= 1e-4 * (1 + max(each)), loss
head, f32 = 16, 4  # loss and correct count
held = {s: json.load(open(f"{sys.argv[1]}/memory-{s}.json"))["ranks"][2]["bytes"] for s in ("none", "optimizer", "gradients")}
whole = held["optimizer"]["gradients"]
assert held["gradients"]["gradients"] == head * f32 + (whole - head * f32) // 3, held
assert held["gradients"]["optimizer"] == held["optimizer"]["optimizer"] < held["none"]["optimizer"], held
P

# What contradicts itself is refused by name.
expect 3 'parallel.shard' check "$work/dense.yaml" --ranks 2 --set parallel.strategy=ddp --set parallel.shard=optimizer
expect 3 'parallel.shard' check "$work/dense.yaml" --ranks 2 --set parallel.strategy=fsdp --set parallel.shard=none

# a_fault_that_a_gather_hides: chaos counted runs as faulty in which the next gather had overwritten the changed parameter
for kind in nan flip; do
  expect 2 "kinds: $kind needs a copy of the parameters" chaos "$work/dense.yaml" --ranks 2 --kinds $kind --set parallel.shard=optimizer
done

# a_rank_that_fails_alone: it waited for the others to hash the parameters, until it was taken for hung; and a failed save was blamed
# on a rank that had only heard of it
"$program" chaos "$work/dense.yaml" --ranks 3 --kinds memory,nospace,fsync --seeds 2 --set parallel.shard=optimizer --set train.steps=200 \
  --set parallel.reproducible=false --set supervise.restarts.backoff_s=0.1 >"$work/out" 2>"$work/err" || fail "chaos: $(cat "$work/out" "$work/err")"
