#!/bin/sh
# A data file that stays on disk and that somebody cuts while a run reads it: the run names it and ends with exit code 5, on one
# rank and on several, and the checkpoints are good. SIGBUS ended the run without a word.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
seq 1000 4000 | tr -d '\n' | head -c 12000 >values
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (3000, 4), }"
  cat values; } >x.npy
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (3000,), }"
  head -c 3000 /dev/zero; } >y.npy
cp values text.txt
cat >npy.yaml <<'Y'
model: {input: [4], loss: cross-entropy, layers: [{dense: {units: 2}}]}
data: {kind: npy, features: x.npy, targets: y.npy, mapped: true}
train: {batch: 600, steps: 100000000, evaluate_every: 0, checkpoint: {dir: run, every_steps: 5, keep: 1}}
parallel: {backend: cpu, threads: 1, strategy: ddp}
Y
cat >text.yaml <<'Y'
model: {input: [8], loss: cross-entropy, layers: [{embedding: {name: e, size: 256, units: 4}}, {dense: {units: 256, over: last}}]}
data: {kind: text, path: text.txt, tokens: bytes, context: 8}
train: {batch: 600, steps: 100000000, evaluate_every: 0, checkpoint: {dir: run, every_steps: 5, keep: 1}}
parallel: {backend: cpu, threads: 1, strategy: ddp}
Y
saved() { [ -n "$(ls -d run/step-* 2>/dev/null)" ]; }
# cut CONFIGURATION FILE ARGUMENT...: trains until there is a checkpoint, cuts the file, and looks at the end
cut() {
  config=$1 file=$2
  shift 2
  rm -rf run
  cp "$file" whole
  start_training "$program" train "$work/$config.yaml" "$@"
  wait_until "the first checkpoint" saved
  truncate -s 20 "$file"
  got=0
  wait $pid || got=$?
  [ $got = 5 ] || fail "$config $*: exit code $got: $(cat err)"
  grep -q "lockstep: error: .*$work/$file: became shorter while it was read, from $(wc -c <whole) to 20 bytes; a data file must not change" err ||
    fail "$config $*: $(cat err)"
  if grep 'lockstep: error' err | grep -v 'became shorter' | grep -qv 'rank [01] has failed'; then fail "$config $*: another cause: $(cat err)"; fi
  cp whole "$file"
  "$program" eval "$config.yaml" --checkpoint run >out 2>err || fail "$config $*: the checkpoint: $(cat err)"
}
cut npy x.npy
cut text text.txt
cut npy x.npy --ranks 2
cut text text.txt --ranks 2
# tokens KIND INPUT OPTION...: `tokenize` waits for the reader of its pipe, who cuts the input; zeros and what follows from them
# are no result
yes abcdefgh | head -c 1000000 >big.txt
printf '%s' '["\n","a","b","c","d","e","f","g","h"]' >chars.json
"$program" tokenize big.txt big.bin --bytes >out || fail "tokenize: $(cat out)"
mkfifo pipe
tokens() {
  kind=$1 input=$2
  shift 2
  cp "$input" whole
  "$program" tokenize "$input" - "$@" >pipe 2>err &
  pid=$!
  { head -c 1 && truncate -s 20 "$input" && cat; } <pipe >/dev/null
  got=0
  wait $pid || got=$?
  [ $got = 5 ] || fail "tokenize, $kind: exit code $got: $(cat err)"
  grep -q "lockstep: error: $input: became shorter while it was read, from $(wc -c <whole) to 20 bytes" err ||
    fail "tokenize, $kind: $(cat err)"
  [ "$(grep -c 'lockstep: error' err)" = 1 ] || fail "tokenize, $kind: another cause: $(cat err)"
  cp whole "$input"
}
tokens bytes big.txt --bytes
tokens characters big.txt --vocabulary chars.json
tokens decode big.bin --bytes --decode
# SIGBUS that is not a data file's still ends the program as the system does
start_training "$program" train npy.yaml --set train.checkpoint.dir=other
kill -BUS $pid
got=0
wait $pid || got=$?
[ $got = 135 ] || fail "SIGBUS from outside: exit code $got: $(cat err)"
echo ok
