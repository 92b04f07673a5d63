#!/bin/sh
# A checkpoint written beside the training has the bits of one for which the run stood still; a run saves by itself as often
# as pays; a save that fails ends the run at its next agreement, on every rank.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<END
model: {input: [40], loss: mse, layers: [dense: {units: 64, activation: relu}, dense: {units: 8}]}
data: {kind: synthetic, samples: 512, validation: 0.2}
train: {batch: 32, steps: 90, optimizer: {name: adam, lr: 1e-3}, checkpoint: {every_steps: 30, keep: 9}}
parallel: {backend: cpu, ranks: 2}
END
for beside in true false; do
  "$program" train "$work/c.yaml" --quiet --set train.checkpoint.dir="$work/$beside" --set train.checkpoint.beside=$beside \
    >"$work/out" 2>&1 || fail "$beside: $(cat "$work/out")"
done
for step in 30 60 90; do
  at=step-0000000000$step
  for file in model optim; do
    cmp "$work/true/$at/$file.safetensors" "$work/false/$at/$file.safetensors" || fail "$file of step $step differs"
  done
done

# As often as pays: with a failure every 0.4 seconds that is about that often, for as long as the run lasts.
start_training "$program" train "$work/c.yaml" --set train.checkpoint.dir="$work/auto" --set train.checkpoint.every_steps=-1 \
  --set train.checkpoint.failure_hours=0.0001 --set train.steps=1000000000 --set parallel.ranks=1
saved_twice() {
  kill -0 $pid 2>/dev/null || fail "as often as pays: $(cat "$work/err")"
  [ "$(find "$work/auto" -maxdepth 1 -name 'step-*' | wc -l)" -ge 2 ]
}
wait_until "a second checkpoint" saved_twice
wait_until "the interval" grep -q "the next checkpoint is made in .*failure_hours: 0.0001" "$work/err"
kill -TERM $pid
wait $pid || true

# The disk is full when the second is written: the run does not go on to its end, and keeps the first.
mkdir "$work/full"
if mount -t tmpfs -o size=200k none "$work/full" 2>/dev/null; then
  trap 'umount "$work/full"; clean_up' EXIT
  got=0
  "$program" train "$work/c.yaml" --quiet --json --set train.checkpoint.dir="$work/full/run" --set train.steps=4000000 \
    --set train.checkpoint.every_steps=3000 >"$work/out" 2>"$work/err" || got=$?
  [ $got = 5 ] || fail "full disk: exit code $got: $(cat "$work/err")"
  # what is missing is known before the tensors are written, or when the last small file is
  grep -Eq 'it needs [0-9]* bytes and more, and [0-9]* are free|No space left on device' "$work/err" || fail "full disk: $(cat "$work/err")"
  ls -d "$work"/full/run/step-* >/dev/null || fail "full disk: no checkpoint was kept"
else
  echo "no full disk: only root can mount one"
fi
echo ok
