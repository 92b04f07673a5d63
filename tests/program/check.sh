#!/bin/sh
# What train refuses before its first step, check refuses too, with the same exit code and the same words.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
cat >c.yaml <<'Y'
model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: synthetic, samples: 40}
train:
  batch: 10
  steps: 1
  checkpoint: {dir: run}
parallel: {backend: cpu, threads: 1}
Y
echo mine >file
ln -s nowhere dangling
part=$(printf '%0250d' 0)
# both CODE PATTERN ARGUMENT...: train and check
both() {
  expect "$1" "$2" train c.yaml --quiet --set "$3"
  cp err train.err
  expect "$1" "$2" check c.yaml --set "$3"
  cmp -s err train.err || fail "check says $(cat err), train $(cat train.err)"
}
dir() { both "$1" "--set:1:22: train.checkpoint.dir.*$2" "train.checkpoint.dir=$3"; }
dir 3 'is empty' "''"
dir 5 'file is not a directory' file
dir 5 'file is not a directory' file/below
dir 5 'a name of 300 bytes is too long' "new/$(printf '%0300d' 0)"
dir 5 'is too long: 4[0-9]* bytes' "$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part"
dir 5 'dangling is a link to what is not there' dangling/below
# Not even root makes folders in these file systems, whatever their permissions say.
for place in /proc /sys /dev/fd; do
  if [ -d $place ]; then dir 5 "cannot be written to: .* (--set train.checkpoint.dir=DIR names another)" $place/9/x; fi
done
# Permissions bind everyone but root, a read-only file system root too.
mkdir locked
chmod a-w locked
if ! : 2>/dev/null >locked/try; then
  dir 5 'locked cannot be written to: Permission denied (--set train.checkpoint.dir=DIR names another)' locked
  dir 5 'locked cannot be written to: Permission denied' locked/new/run
fi
chmod u+w locked
mkdir read-only
if [ "$(id -u)" = 0 ] && unshare -m sh -c 'mount -t tmpfs -o ro none read-only' 2>/dev/null; then
  for command in train check; do
    got=0
    unshare -m sh -c 'mount -t tmpfs -o ro none read-only && "$0" "$1" c.yaml --set train.checkpoint.dir=read-only/run' \
      "$program" $command >out 2>err || got=$?
    [ $got = 5 ] && grep -q 'read-only cannot be written to: Read-only file system' err || fail "$command: $got, $(cat err)"
  done
else
  echo "not run: a read-only file system (needs root and mount)"
fi
both 3 '--set:1:16: train.patience waits for a better validation loss: it needs data.validation' train.patience=2
# An option of which the backend has no use: both say so, once.
for lane in on auto; do
  for command in train check; do
    "$program" $command c.yaml --set train.checkpoint.dir=unused --set parallel.side_lane=$lane >out 2>err ||
      fail "$command: $(cat err)"
    said=$(cat out err | grep -c 'parallel.side_lane is on: without effect, because backend cpu') || true
    [ $lane$said = on1 ] || [ $lane$said = auto0 ] || fail "$command, side_lane: $lane: $(cat err)"
    rm -rf unused
  done
done
both 4 '40 training samples, fewer than the global batch' train.batch=50
# weights to begin with that are not there, or are none
both 5 'gone.safetensors: there is no checkpoint: no such file' model.weights=gone.safetensors
echo none >none.safetensors
both 6 'none.safetensors: 5 bytes are too few' model.weights=none.safetensors
[ ! -e run ] && [ ! -e new ] && ! ls -A | grep '^\.tmp' && [ "$(cat file)" = mine ] || fail "a refused command left something: $(ls)"

# A directory that another run has locked: train refuses, check warns, for the run may end.
"$program" train c.yaml --quiet --set train.steps=100000000 >/dev/null 2>&1 &
other=$!
i=0
while [ ! -e run/config.json ] && [ $i -lt 600 ]; do
  sleep 0.1
  i=$((i + 1))
done
expect 5 'run: another run works in this directory' train c.yaml --quiet
expect 0 "warning: .*run: another run works in this directory: process $other on " check c.yaml
kill -KILL $other
wait $other 2>/dev/null || true
"$program" check c.yaml >out 2>err || fail "check: $(cat err)"
[ ! -s err ] || fail "the lock of a killed run: $(cat err)"

# A stand-in for the CUDA module has one device, which check counts and does not open.
gpu() { LOCKSTEP_CUDA_MODULE=$LOCKSTEP_ONE_DEVICE "$program" check c.yaml --set parallel.backend=cuda --ranks $1 >out 2>err ||
  fail "check --ranks $1: $(cat err)"; }
gpu 2
grep -q 'warning: 2 ranks need as many cuda devices, and this node has 1: train refuses' err || fail "2 ranks, 1 device: $(cat err)"
gpu 1
[ ! -s err ] || fail "1 rank, 1 device: $(cat err)"
echo ok
