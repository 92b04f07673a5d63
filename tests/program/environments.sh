#!/bin/sh
# A base, an environment and --set: each value of inspect --resolved has the place that gave it, ranks that are started
# have the same values, and a data path of a base starts at the base's folder.
set -eu
. "$(dirname "$0")/lib.sh"
mkdir "$work/common"
cat >"$work/common/base.yaml" <<'Y'
model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: csv, path: d.csv, target: [y]}
train: {batch: 10, steps: 2}
parallel: {backend: cpu, threads: 1}
Y
cat >"$work/c.yaml" <<'Y'
base: common/base.yaml
train: {steps: 3}
env:
  two: {parallel: {ranks: 2}, train: {batch: 4}}
Y
i=0
{
  echo a,b,y
  while [ $i -lt 20 ]; do echo "$i,1,2"; i=$((i + 1)); done
} >"$work/common/d.csv"
cd "$work"
LOCKSTEP_ENV=two "$program" inspect c.yaml --set train.seed=7 --resolved >out || fail "inspect --resolved"
while read -r option value from; do
  [ "$(awk -v o="$option" '$1 == o { $1 = ""; print substr($0, 2) }' out)" = "$value $from" ] ||
    fail "$option: not $value from $from: $(grep "^$option " out)"
done <<Y
train.batch 4 c.yaml:4 (env two)
train.steps 3 c.yaml:2
train.seed 7 --set
train.clip_norm 0.0 default
parallel.ranks 2 c.yaml:4 (env two)
parallel.backend "cpu" common/base.yaml:4
model.layers.0.dense.units 1 common/base.yaml:1
data.path "$work/common/d.csv" common/base.yaml:2
Y
"$program" inspect c.yaml --env two --resolved --json >out.json || fail "inspect --resolved --json"
[ "$(field out.json env)" = two ] || fail "--json: $(cat out.json)"
"$program" train c.yaml --env two --quiet --json >out.json || fail "train --env"
[ "$(field out.json world_size)" = 2 ] || fail "the ranks of the environment: $(cat out.json)"
