#!/bin/sh
# The program with rows that it has never heard of: a strategy, a kind of state, a transport, a command and an observer, each
# of one test file, are documented, checked, drawn, trained, saved and loaded, priced, simulated, swept and run like all others.
set -eu
. "$(dirname "$0")/../program/lib.sh"
LOCKSTEP_PROFILE=$work/profile.json
TMPDIR=$work
export LOCKSTEP_PROFILE TMPDIR
cat >"$work/c.yaml" <<'YAML'
model: {input: [12], loss: mse, layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400}
train: {batch: 30, steps: 12}
parallel: {strategy: toy, ranks: 2, backend: cpu, transport: relay}
YAML
config=$work/c.yaml

# documented
"$program" help config >"$work/help"
for line in '^  toy  *the whole gradient at the end, by parts' '^  relay  *every rank gets everything' '^## parallel.toy$' \
  '^  remember  *true | false'; do
  grep -q "$line" "$work/help" || fail "the reference lacks $line"
done
expect 3 'did you mean `remember`' check "$config" --set parallel.toy.remembr=false

# a command: listed, documented, completed, parsed and run
"$program" --help | grep -q '^  toy  *Says which strategy' || fail "the command is not listed"
"$program" help man toy | grep -q '^\*--times\* _N_$' || fail "no manual page of the command"
"$program" --complete toy --t | grep -q '^--times	' || fail "the command's flag is not completed"
[ "$("$program" toy "$config" --times 3 --ranks 4 | grep -c '^toy on 4 ranks$')" = 3 ] || fail "the command does not run"
expect 2 '--times takes a whole number from 1 to 9, not "10"' toy "$config" --times 10
expect 2 'did you mean --times' toy "$config" --tims 1

# a section of one file is documented, checked, shown and read
grep -q '^## greeting$' "$work/help" || fail "the reference lacks the section"
expect 3 'unknown option `wrod` in greeting; did you mean `word`' check "$config" --set greeting.wrod=hi
expect 3 'greeting.times: `4` must be in \[1, 3\]' check "$config" --set greeting.times=4
"$program" inspect "$config" --resolved --set greeting.word=hi >"$work/out" || fail "inspect --resolved"
grep -q '^greeting.word  *"hi"  *--set$' "$work/out" && grep -q '^greeting.times  *1  *default$' "$work/out" ||
  fail "inspect --resolved: $(cat "$work/out")"
[ "$("$program" greet "$config" --set greeting.times=2)" = "hello
hello" ] || fail "greet: $("$program" greet "$config" --set greeting.times=2)"

# checked and drawn, with its state counted
"$program" check "$config" --ranks 3 >"$work/out" || fail "check: $(cat "$work/out")"
"$program" inspect "$config" --ranks 3 >"$work/out" || fail "inspect"
grep -q 'toy on 3 ranks' "$work/out" || fail "inspect: $(cat "$work/out")"
"$program" inspect "$config" --ranks 3 --json >"$work/inspect.json"
grep -q '"toy scatter"' "$work/inspect.json" || fail "inspect --json: no collective of the strategy"
grep -q '"toy sums": [1-9]' "$work/inspect.json" || fail "inspect --json: the state is not counted"

# trained: the sums are made in rank order, as ddp's and mpi's are
train() { # FILE, arguments...
  file=$1
  shift
  "$program" train "$config" --json --quiet "$@" >"$file" 2>"$work/err" || fail "train $*: $(cat "$work/err")"
}
train "$work/toy.json"
train "$work/ddp.json" --set parallel.strategy=ddp --set parallel.transport=auto
[ "$(field "$work/toy.json" strategy)" = toy ] || fail "another strategy was used"
[ "$(field "$work/toy.json" params_xxh3)" = "$(field "$work/ddp.json" params_xxh3)" ] || fail "other bits than ddp's"

# in steps that differ: an average at the end of every fourth, 12 steps of two ranks; a trace names the members
train "$work/local.json" --set parallel.strategy=local --set train.accumulate=2 --trace "$work/trace.json"
[ "$(grep -o '"name":"toy average","cat":"communication"' "$work/trace.json" | wc -l)" = 6 ] || fail "not three averages of two ranks"
for member in first apart average; do
  grep -q "\"member\":\"$member\"" "$work/trace.json" || fail "the trace names no member '$member'"
done
"$program" check "$config" --ranks 3 --set parallel.strategy=local >"$work/out" || fail "check, local: $(cat "$work/out")"
"$program" inspect "$config" --ranks 2 --set parallel.strategy=local >"$work/out"
grep -q '"apart", 3 of 4 micro-batches' "$work/out" || fail "inspect, local: $(cat "$work/out")"

# saved and loaded: in two parts as in one, in another world, and refused where the state would be another
set -- --set "train.checkpoint.dir=$work/run"
train "$work/half.json" "$@" --set train.steps=6
find "$work/run" -name '*.safetensors' -exec grep -aq 'toy sums' {} + || fail "the state was not saved"
train "$work/whole.json" "$@" --resume
[ "$(field "$work/whole.json" params_xxh3)" = "$(field "$work/toy.json" params_xxh3)" ] || fail "resumed to other bits"
expect 6 'parallel.toy.remember' train "$config" "$@" --resume --set parallel.toy.remember=false --set train.steps=14
expect 6 'greeting.word: checkpoint has hello, configuration has bye' train "$config" "$@" --resume --set greeting.word=bye
train "$work/three.json" "$@" --resume --ranks 3 --set train.steps=14

# observed: by a row that counts, and asks for a save
TOY_OBSERVER=1 "$program" train "$config" --quiet --ranks 1 --set parallel.strategy=single --set parallel.transport=auto \
  --set data.validation=0.2 --set train.evaluate_every=0 --set "train.checkpoint.dir=$work/seen" >"$work/out" 2>"$work/err" || fail "the observed run"
grep -q 'toy: 12 steps, 2 evaluations, 2 saves; LS_OK$' "$work/err" || fail "the observer saw: $(cat "$work/err")"
[ -d "$work/seen/step-000000000005" ] || fail "the observer's save was not made"

"$program" simulate "$config" --machine "$source_dir/machines/h200.yaml" --ranks 1,2 >"$work/out" || fail "simulate"
[ "$(grep -c '^ *[12] ' "$work/out")" = 2 ] || fail "simulate: $(cat "$work/out")"

# swept
"$program" bench "$config" --strategies single,ddp,toy --ranks-list 1,2 --batches 30 --repetitions 1 --steps 6 --warmup 2 \
  --control 0 --json --quiet >"$work/bench.json" 2>"$work/err" || fail "bench: $(cat "$work/err")"
grep -q '"name": "batch 30, 2 x toy"' "$work/bench.json" || fail "bench swept no toy"

rest
# priced: by every transport that was measured, with and without the state
priced() {
  well_timed
  plan "$work/plan.json" "$config" --json --devices 1,2 --budget-ms 2500
  for strategy in single ddp toy local; do
    awk -v s="\"$strategy\"" '/"strategy":/ { own = index($0, s) } own && /"priced": true/ { found = 1 } END { exit !found }' \
      "$work/plan.json" || return 1
  done
}
"$program" probe --quick >"$work/out" 2>"$work/err" || fail "probe: $(cat "$work/err")"
wait_until "a price of every strategy" priced
grep -q 'parallel.strategy=toy .*parallel.transport=relay .*parallel.toy.remember=false' "$work/plan.json" ||
  fail "plan: no command with the rows' options: $(grep command "$work/plan.json")"
plan "$work/out" "$config" --devices 2 --set parallel.transport=auto --budget-ms 2500
grep -q 'toy, 2 devices x [0-9]* threads*, relay' "$work/out" || fail "plan, any transport: $(cat "$work/out")"
echo ok
