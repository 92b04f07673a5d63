#!/bin/sh
# Help, version, usage errors, and every command with and without --json.
set -eu
. "$(dirname "$0")/lib.sh"

cat >"$work/c.yaml" <<'Y'
model: {input: [12], loss: cross-entropy, layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400, validation: 0.25}
train: {batch: 20, epochs: 3, checkpoint: {dir: RUN, every_steps: 5}}
parallel: {strategy: ddp, ranks: 2, backend: cpu}
Y
sed -i "s#RUN#$work/run#" "$work/c.yaml"

"$program" --version | grep -q '^lockstep 0\.' || fail "--version"
"$program" --version --json >"$work/version.json"
commit=$(field "$work/version.json" commit)
[ "lockstep $(field "$work/version.json" lockstep) (commit $commit)" = "$("$program" --version | head -1)" ] || fail "--version --json"
if [ -e "$source_dir/.git" ] && git -c safe.directory=* -C "$source_dir" rev-parse >/dev/null 2>&1; then
  [ "${commit:-unknown}" != unknown ] || fail "--version does not know the commit of its checkout"
fi
grep -q '"cuda": {' "$work/version.json" || fail "--version --json: cuda"
"$program" --help | grep -q 'exit codes' || fail "--help"
"$program" help --help | grep -q 'exit codes' || fail "help --help"
for command in train eval inspect check; do
  "$program" $command --help | grep -q "usage: lockstep $command" || fail "$command --help"
  "$program" help $command | grep -q "usage: lockstep $command" || fail "help $command"
done

expect 2 'did you mean train' trian "$work/c.yaml"
expect 2 'did you mean --json' inspect "$work/c.yaml" --jsn
expect 2 'configuration file is missing' train
expect 2 'nothing but --json' --version --quiet
expect 2 'whole number' train "$work/c.yaml" --ranks two
expect 2 '--checkpoint DIR is missing' eval "$work/c.yaml"
expect 2 'help config takes no further word, not .nonsense.' help config nonsense
expect 2 '--set train.batch=3: it changes an option of CONFIG' simulate --workload x --machine h200 --set train.batch=3
expect 5 '--trace: .*/no/such/trace.json cannot be written' train "$work/c.yaml" --ranks 1 --trace "$work/no/such/trace.json"
[ ! -e "$work/run/step-000000000005" ] || fail "an unwritable trace was noticed after training"
expect 5 '--trace: .* is a folder' train "$work/c.yaml" --ranks 1 --trace "$work"
"$program" --complete simulate c.yaml --machine '' | grep -qx h200 || fail "completion of shipped machines"
"$program" --complete train c.yaml --set=train.ba | grep -q '^--set=train.batch=' || fail "completion of --set="
expect 5 'no-such-file.yaml' check "$work/no-such-file.yaml"

"$program" check "$work/c.yaml" | grep -q '300 training and 100 validation' || fail "check"
"$program" inspect "$work/c.yaml" | grep -q 'parameters' || fail "inspect"
fused='--set parallel.fuse=true --set parallel.backend="null"'
"$program" inspect "$work/c.yaml" | grep -q 'passes' && fail "inspect: a pass without leave"
"$program" inspect "$work/c.yaml" $fused | grep -qx 'passes and the places that they changed: fuse_activation 1' ||
  fail "inspect: passes"
"$program" inspect "$work/c.yaml" $fused --json | grep -q '^    "fuse_activation": 1$' || fail "inspect --json passes"
[ ! -e "$work/run" ] || fail "check or inspect wrote something"
# inspect_counts_samples_as_train_does: tokens of 1, 2 and 4 bytes, pictures of bytes, values of f32
printf 'hello world, this is a text of characters %.0s' 1 2 3 4 5 6 7 8 >"$work/t.txt"
{ echo a,b,c,d,y && for i in 0 1 2 3 4 5 6 7; do echo "$i,1,2,3,$((i % 4))"; done; } >"$work/t.csv"
tokens="layers: [{embedding: {size: 300, units: 8}}, global_pool, {dense: {units: 4}}], loss: cross-entropy"
while read -r model data; do
  printf 'model: {%s}\ndata: {%s}\ntrain: {batch: 4, steps: 1}\nparallel: {backend: cpu, threads: 1}\n' \
    "$(echo "$model" | tr '~' ' ')" "$data" >"$work/bytes.yaml"
  "$program" inspect "$work/bytes.yaml" --json >"$work/out" && "$program" train "$work/bytes.yaml" --json --quiet >"$work/train" || fail "$data"
  [ "$(field "$work/out" total)" = "$(field "$work/train" step)" ] ||
    fail "$data: inspect has $(field "$work/out" total) bytes, train $(field "$work/train" step)"
done <<M
$(echo "input: [4], $tokens" | tr ' ' '~') kind: synthetic, samples: 8
$(echo "input: [4], $tokens" | tr ' ' '~') kind: csv, path: t.csv, target: y
preset:~gpt-char,~width:~8,~depth:~1,~heads:~1,~context:~8 kind: text, path: t.txt
input:~[4],~layers:~[{dense:~{units:~4}}],~loss:~cross-entropy kind: csv, path: t.csv, target: y
M
"$program" inspect "$work/bytes.yaml" --set data.kind=text --set data.path=nothing --set data.target=null 2>&1 | grep -q 'cannot be read: with samples of f32' ||
  fail "inspect without its data says that it is exact"
"$program" inspect "$work/c.yaml" --json >"$work/inspect.json"
[ "$(field "$work/inspect.json" params)" = $((12 * 16 + 16 + 16 * 3 + 3)) ] || fail "inspect --json params"
tr -d ' \n' <"$work/inspect.json" | grep -q '"name":"layers.0","kind":"dense","output":"(16)","shapes":"(16,12)(16)","params":208' ||
  fail "inspect --json: layers"

"$program" train "$work/c.yaml" --json --trace "$work/trace.json" >"$work/train.json" 2>"$work/err" ||
  fail "train: $(cat "$work/err")"
[ "$(field "$work/train.json" world_size)" = 2 ] || fail "world_size: $(cat "$work/train.json")"
[ "$(field "$work/train.json" steps)" = 45 ] || fail "steps"
grep -q '"traceEvents"' "$work/trace.json" || fail "trace"

# A step of several micro-batches: each in turn in the trace, tasks with their own names.
"$program" train "$work/c.yaml" --json --ranks 1 --trace "$work/turns.json" --set train.accumulate=3 --set train.steps=2 \
  --set train.checkpoint.dir="$work/turns" >/dev/null 2>"$work/err" || fail "train in turns: $(cat "$work/err")"
[ "$(grep -o '"micro_batch":[0-9]*' "$work/turns.json" | sort -u | tr '\n' ' ')" = \
  '"micro_batch":0 "micro_batch":1 "micro_batch":2 ' ] || fail "trace: micro-batches"
grep -q '@' "$work/turns.json" && fail "trace: names of micro-batches"
[ "$(grep -o '"name":"update"' "$work/turns.json" | wc -l)" = 2 ] || fail "trace: updates"
"$program" inspect "$work/c.yaml" --set train.accumulate=1000 >"$work/inspect.txt"
grep -qx '"middle", 998 of 1000 micro-batches' "$work/inspect.txt" || fail "inspect: members"
"$program" inspect "$work/c.yaml" --set train.accumulate=1000 --json >"$work/inspect.json"
[ "$(grep -c '"times": 998' "$work/inspect.json")" -gt 5 ] || fail "inspect --json: members"
# the trace of a thousand micro-batches was 63 MB; and most of them hold no row, which nothing said
"$program" train "$work/c.yaml" --json --ranks 1 --trace "$work/turns.json" --set train.accumulate=1000 --set train.steps=2 \
  --set train.checkpoint.dir="$work/turns" >/dev/null 2>"$work/err" || fail "train in 1,000 turns: $(cat "$work/err")"
[ "$(grep -o '"micro_batch":[0-9]*' "$work/turns.json" | sort -u | wc -l)" = 16 ] || fail "trace: 1,000 micro-batches"
grep -q 'the first 8 and the last 8 micro-batches; 984 between them are left out$' "$work/err" || fail "trace: $(cat "$work/err")"
grep -q 'warning: train.accumulate is 1000: with 1 rank .* nothing but padding; lower train.accumulate to 20$' "$work/err" ||
  fail "padding: $(cat "$work/err")"
rm -rf "$work/turns"
# warned RANKS ACCUMULATE TEXT: what is said of micro-batches of 20 samples
warned() {
  "$program" train "$work/c.yaml" --ranks "$1" --set train.accumulate="$2" --set train.steps=1 --set train.checkpoint.dir="$work/turns" \
    >/dev/null 2>"$work/err" || fail "train, accumulate $2: $(cat "$work/err")"
  rm -rf "$work/turns"
  grep -q "warning: .*train.accumulate is $2: $3" "$work/err" || fail "accumulate $2: $(cat "$work/err")"
}
warned 1 11 'with 1 rank and a batch of 20 rows, 1 of a rank.s micro-batches .* padding; lower train.accumulate to 10$'
warned 2 7 '2 ranks share each micro-batch by itself, so rank 0 has 14 of the 20 samples .* to 5, or make train.batch a multiple of 14$'
rm -rf "$work/turns"
for key in params strategy backend global_batch samples_per_s train_loss val_loss val_accuracy skipped_steps \
  params_xxh3 checkpoint; do
  [ -n "$(field "$work/train.json" $key)" ] || fail "train --json lacks $key"
done
grep -q '"step_time_us": {' "$work/train.json" || fail "train --json lacks step_time_us"

"$program" eval "$work/c.yaml" --checkpoint "$work/run" --json >"$work/eval.json"
[ "$(field "$work/eval.json" accuracy)" = "$(field "$work/train.json" val_accuracy)" ] || fail "eval accuracy differs"
odd="$work/odd$(printf '\377')"
cp -R "$work/run" "$odd"
"$program" eval "$work/c.yaml" --checkpoint "$odd" --json >"$work/eval.json"
grep -q '"checkpoint": ".*/odd?/step-' "$work/eval.json" || fail "a path that is not UTF-8: $(cat "$work/eval.json")"
COLUMNS=2000000000 "$program" inspect "$work/c.yaml" >/dev/null 2>"$work/err" || fail "wide terminal"
[ ! -s "$work/err" ] || fail "wide terminal: $(cat "$work/err")"
# All ranks diverge at the same step: none may end the one that reports.
got=0
"$program" train "$work/c.yaml" --quiet --json --set model.loss=mse --set train.max_skipped=3 \
  --set 'train.optimizer={name: sgd, lr: 1000000, momentum: 0.99}' --set train.epochs=9 \
  --set train.checkpoint.dir="$work/diverged" >"$work/diverged.json" 2>"$work/err" || got=$?
[ "$got" = 8 ] || fail "diverging on two ranks: exit code $got: $(cat "$work/err")"
[ "$(field "$work/diverged.json" status)" = LS_ERR_NONFINITE ] || fail "diverging on two ranks: no report"
"$program" train "$work/run/config.json" --quiet --set train.checkpoint.dir="$work/again" --json >"$work/again.json"
[ "$(field "$work/again.json" params_xxh3)" = "$(field "$work/train.json" params_xxh3)" ] ||
  fail "the saved configuration does not repeat the run"
"$program" train "$work/c.yaml" --quiet 2>"$work/err" >/dev/null
grep -q 'moved to' "$work/err" || fail "an earlier run was not moved aside: $(cat "$work/err")"
[ -d "$work/run/previous-1" ] || fail "previous-1 is missing"
# Interrupted on two ranks.
start_training "$program" train "$work/c.yaml" --set train.checkpoint.dir="$work/stopped" --set train.epochs=1000000
kill -TERM $pid
got=0
wait $pid || got=$?
[ "$got" = 130 ] || fail "interrupted: exit code $got: $(cat "$work/err")"
grep -q 'interrupted after' "$work/err" || fail "interrupted, but no word of it: $(tail -3 "$work/err")"
ls -d "$work"/stopped/step-* >/dev/null || fail "interrupted, but nothing saved"
# Asked before there are ranks, or they listen: not lost. (143: before the program itself listened.)
for delay in 0.02 0.15 0.4; do
  begin "$program" train "$work/c.yaml" --quiet --set train.checkpoint.dir="$work/early" --set train.epochs=1000000
  sleep $delay
  kill -TERM $pid 2>/dev/null
  got=0
  wait $pid || got=$?
  [ "$got" = 130 ] || [ "$got" = 143 ] || fail "interrupted after $delay s: exit code $got: $(cat "$work/err")"
done
if [ -e /dev/full ]; then
  got=0
  "$program" train "$work/c.yaml" --quiet --json >/dev/full 2>"$work/err" || got=$?
  [ "$got" = 5 ] || fail "two ranks, output lost: exit code $got: $(cat "$work/err")"
fi
# too_little_address_space: ranks crashed in oneDNN (139). A sanitizer needs terabytes of it.
if [ "${LOCKSTEP_TEST_TIME:-1}" = 1 ]; then
  least=50000 # with which the program's libraries load: they differ between systems
  while ! (ulimit -v $least && exec "$program" help) >/dev/null 2>&1; do
    least=$((least + 5000))
  done
  for ranks in 1 2; do
    said='' got=10 limit=$least # of the limits that are too small, those that only oneDNN exceeds are told
    while [ $got != 0 ] && [ $limit -lt 1000000 ]; do
      limit=$((limit + 5000)) got=0
      (ulimit -v $limit && exec "$program" train "$work/c.yaml" --quiet --ranks $ranks) >"$work/out" 2>"$work/err" || got=$?
      if [ $got = 10 ] && grep -q "out of memory: oneDNN .*(ulimit -v $limit)" "$work/err"; then said=oneDNN; fi
    done
    [ "$got $said" = '0 oneDNN' ] || fail "$ranks ranks: exit code $got with ulimit -v $limit, $said: $(cat "$work/err")"
  done
fi
expect 3 'the global batch (20) is smaller than the number of ranks (65536)' train "$work/c.yaml" --ranks 65536
expect 2 'ranks are more than' train "$work/c.yaml" --ranks 65536 --set train.batch=65536
# Words like a node's name that are no IPv6 address reach the remote shell as they are.
said=$("$program" --shell echo -J v6-jump v6-node1 v6-fe80--1zeth-0zd100 v6-fd00--1)
[ "$said" = '-J v6-jump v6-node1 fe80::1%eth-0.100 v6-fd00--1' ] || fail "--shell rewrote a word: $said"
echo ok
