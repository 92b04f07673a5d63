#!/bin/sh
# Every example is proven on three ranks. One of each family, written as a list of layers, has the parameters that its
# comment says, and trains: its loss is finite and its checkpoint is read again. The preset that a comment proposes in place of
# the list fits the example's data.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$source_dir"
for config in examples/*.yaml; do
  case $config in
  */09-images.yaml) continue ;; # its images are made by examples/data/digits.py
  esac
  "$program" check "$config" --ranks 3 --set parallel.strategy=ddp --set train.batch=99 \
    --set parallel.backend=cpu >"$work/check" 2>"$work/err" || fail "$config: $(cat "$work/err")"
  grep -q "schedules .* ok: ddp, 3 ranks" "$work/check" || fail "$config: $(cat "$work/check")"
done
proposed=0
for config in examples/*.yaml; do
  preset=$(sed -n 's/^#.* model: {preset: \(.*\)}$/\1/p' "$config")
  [ -n "$preset" ] || continue
  proposed=$((proposed + 1))
  sed "/^model:/,/^data:/{/^data:/!d}; s|: data/|: $source_dir/examples/data/|" "$config" >"$work/preset.yaml"
  echo "model: {preset: $preset}" >>"$work/preset.yaml"
  "$program" check "$work/preset.yaml" --set parallel.backend=cpu >"$work/check" 2>"$work/err" || fail "$config, preset: $(cat "$work/err")"
done
[ $proposed = 3 ] || fail "$proposed presets are proposed in comments"
for config in examples/1?-*.yaml; do
  "$program" train "$config" --quiet --json --ranks 1 --set parallel.backend=cpu --set train.steps=3 --set train.schedule.warmup_steps=1 \
    --set train.checkpoint.dir="$work/run" >"$work/out.json" 2>"$work/err" || fail "$config: $(cat "$work/err")"
  count=$(field "$work/out.json" params | sed 's/\(...\)$/,\1/')
  grep -q "^#.* $count parameters" "$config" || fail "$config has $count parameters"
  below "$(field "$work/out.json" val_loss)" 20 || fail "$config: $(cat "$work/out.json")"
  "$program" eval "$config" --checkpoint "$work/run" --json --set parallel.backend=cpu >"$work/eval.json" 2>"$work/err" || fail "$config: $(cat "$work/err")"
  [ "$(field "$work/eval.json" loss)" = "$(field "$work/out.json" val_loss)" ] || fail "$config: eval says another loss"
  rm -r "$work/run"
done
