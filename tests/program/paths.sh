#!/bin/sh
# Paths in a configuration start at its folder, from wherever the program is started: also for its ranks, the ones that
# bench starts, and who loads a run's config.json. --data-root moves the data alone, --set starts at the current folder.
set -eu
. "$(dirname "$0")/lib.sh"
mkdir -p "$work/conf" "$work/data" "$work/moved" "$work/elsewhere"
i=0
while [ $i -lt 40 ]; do
  echo "$i,$((i * 3 % 7)),$((2 * i))"
  i=$((i + 1))
done >"$work/rows"
{
  echo 'a,b,y'
  cat "$work/rows"
} >"$work/data/d.csv"
cat >"$work/conf/c.yaml" <<'Y'
model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: csv, path: ../data/d.csv, target: [y]}
train: {batch: 10, epochs: 1, checkpoint: {dir: ../run}}
parallel: {backend: cpu, strategy: ddp}
Y
cd "$work/elsewhere"
config=../conf/c.yaml
"$program" check $config >/dev/null || fail "check from another folder"
"$program" train $config --ranks 2 --quiet --json >"$work/train.json"
[ "$(field "$work/train.json" checkpoint)" = ../run/step-000000000004 ] || fail "saved: $(cat "$work/train.json")"
"$program" bench $config --ranks-list 1 --repetitions 1 --steps 2 --quiet >/dev/null || fail "bench from another folder"
cd /
"$program" train "$work/run/config.json" --set train.epochs=2 --resume --quiet --json >"$work/train.json"
[ "$(field "$work/train.json" resumed_from_step)" = 4 ] || fail "config.json means another run: $(cat "$work/train.json")"
cd "$work/elsewhere"

expect 5 "^lockstep: error: $work/data/none.csv: No such file" check $config --data-root ../data --set data.path=../data/none.csv
mv "$work/data" "$work/moved/data"
expect 5 "^lockstep: error: $work/data/d.csv: No such file" check $config
"$program" check $config --data-root ../moved/any >/dev/null || fail "--data-root"
"$program" check $config --set data.path=../moved/data/d.csv >/dev/null || fail "--set data.path"
"$program" train $config --data-root ../moved/any --ranks 2 --resume --set train.epochs=3 --quiet --json >"$work/train.json" ||
  fail "--data-root with two ranks"
"$program" bench $config --data-root ../moved/any --ranks-list 1 --repetitions 1 --steps 2 --quiet >/dev/null ||
  fail "bench --data-root"
# The name of a folder may hold anything; on a terminal it is text.
escape=$(printf '\033')
mv "$work/moved/data/d.csv" "$work/moved/data/d$escape[31m.csv"
cat >"$work/conf/escapes.yaml" <<'Y'
model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: csv, path: "../moved/data/d\x1b[31m.csv", target: [y]}
train: {batch: 10, epochs: 1, checkpoint: {dir: "../red\x1b[31m"}}
parallel: {backend: cpu}
Y
for command in check train; do
  "$program" $command ../conf/escapes.yaml >"$work/out" 2>"$work/err" || fail "$command, escapes in names: $(cat "$work/err")"
  grep -q "$escape" "$work/out" "$work/err" && fail "$command: an escape from the name of a file reached the terminal"
  grep -q 'x1b\[31m' "$work/out" || fail "$command, escapes in names: $(cat "$work/out")"
done
# A line end in a name forged a message of its own.
end='
'
mv "$work/moved/data/d$escape[31m.csv" "$work/moved/data/d${end}lockstep: fine.csv"
sed 's/x1b\[31m/nlockstep: fine/' ../conf/escapes.yaml >../conf/ends.yaml
for command in check train; do
  "$program" $command ../conf/ends.yaml >"$work/out" 2>"$work/err" || fail "$command, line ends in names: $(cat "$work/err")"
  grep -q '^lockstep: fine' "$work/out" "$work/err" && fail "$command: a name forged a line: $(cat "$work/out" "$work/err")"
  grep -q 'nlockstep: fine' "$work/out" || fail "$command, line ends in names: $(cat "$work/out")"
done
expect 5 'x\\nlockstep: fine.*: No such file' check ../conf/ends.yaml --set "data.path=x${end}lockstep: fine"
! grep -q '^lockstep: fine' "$work/err" || fail "a name forged a line: $(cat "$work/err")"
[ -z "$(ls)" ] || fail "something was written to the current folder: $(ls)"
