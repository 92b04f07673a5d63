#!/bin/sh
# run_gpu_tests.sh DIR [quick|full]: everything that needs a GPU, on what scripts/pack_gpu.sh packed into DIR. Uses as
# many ranks as there are GPUs. Prints a table last; logs and numbers go to $OUT (default DIR/out). Exit 1 when
# anything has failed. quick leaves out compute-sanitizer and the larger presets.
set -u
dir=$(cd "$1" && pwd)
mode=${2:-full}
out=${OUT:-$dir/out}
table=$out/table.txt
failed=0
mkdir -p "$out"
: >"$table"

# Libraries that travelled, and CUDA's wherever this machine keeps it.
LD_LIBRARY_PATH=$dir/lib:${LD_LIBRARY_PATH:-}
for name in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
  ldconfig -p | grep -q "$name" && continue
  found=$(find /usr/local /opt /usr/lib -name "$name" 2>/dev/null | head -1)
  [ -n "$found" ] && LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname "$found")
done
export LD_LIBRARY_PATH
export LOCKSTEP_CUDA_MODULE="$dir/lib/lockstep/lockstep_cuda.so"
export NCCL_NVLS_ENABLE=0
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)

row() { printf '%-34s %-6s %s\n' "$1" "$2" "$3" | tee -a "$table"; }
# case NAME SECONDS COMMAND...: runs it with a time limit; its last line goes into the table
case_() {
  name=$1 limit=$2
  shift 2
  log=$out/$(echo "$name" | tr ' /' '__').log
  if timeout "$limit" "$@" >"$log" 2>&1; then
    row "$name" ok "$(tail -1 "$log" | cut -c1-90)"
  else
    row "$name" FAILED "exit $?: $log"
    tail -25 "$log"
    failed=1
  fi
}

# train NAME RANKS BACKEND CONFIG [--set a=b ...]: the JSON document lands in $out/NAME.json
train() {
  name=$1 ranks=$2 backend=$3 config=$4
  shift 4
  if timeout 120 "$dir/bin/lockstep" train "$dir/$config" --json --quiet --ranks "$ranks" \
    --set parallel.backend="$backend" --set train.checkpoint.dir="$out/runs/$name" "$@" \
    >"$out/$name.json" 2>"$out/$name.err"; then
    return 0
  fi
  row "$name" FAILED "exit $?"
  tail -5 "$out/$name.err"
  failed=1
  return 1
}
# value NAME a.b: a number of that document
value() {
  python3 -c '
import json, sys
v = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    v = v[key]
print(v)' "$out/$1.json" "$2" 2>/dev/null
}
# near NAME OTHER KEY TOLERANCE: the same number within a relative tolerance
near() {
  a=$(value "$1" "$3") b=$(value "$2" "$3")
  if awk -v a="$a" -v b="$b" -v t="$4" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= t * (1 + b)) }'; then
    row "$1 vs $2: $3" ok "$a, $b"
  else
    row "$1 vs $2: $3" FAILED "$a, $b, tolerance $4"
    failed=1
  fi
}

echo "GPUs: $gpus; $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1)"
case_ "ops compare" 120 "$dir/bin/test_ops_compare" cuda
case_ "ops compare, tf32" 120 "$dir/bin/test_ops_compare" cuda 1 tf32
case_ "times of ops" 120 "$dir/bin/bench_ops" cuda
case_ "backend" 120 "$dir/bin/test_cuda_backend"
case_ "collectives, groups, messages" 120 "$dir/bin/test_schedule_collectives" cuda

# The same training on the reference, one GPU and all GPUs: early losses agree to rounding, later ones stay close.
mnist="--set data.features=$dir/data/images-idx3-ubyte.gz --set data.targets=$dir/data/labels-idx1-ubyte.gz"
if [ -f "$dir/data/images-idx3-ubyte.gz" ]; then
  for steps in 20 63; do
    # shellcheck disable=SC2086 # a list of options
    train "mnist-ref-$steps" 1 ref 02-mnist.yaml $mnist --set train.steps=$steps --set train.epochs=0
    for ranks in 1 2 4; do
      [ "$ranks" -le "$gpus" ] || continue
      # shellcheck disable=SC2086
      train "mnist-cuda$ranks-$steps" $ranks cuda 02-mnist.yaml $mnist --set train.steps=$steps \
        --set train.epochs=0 || continue
      near "mnist-cuda$ranks-$steps" "mnist-ref-$steps" train_loss 1e-3
      near "mnist-cuda$ranks-$steps" "mnist-ref-$steps" val_loss 1e-3
    done
  done
  for ranks in 1 2; do
    [ "$ranks" -le "$gpus" ] || continue
    # shellcheck disable=SC2086
    train "mnist-cuda$ranks" $ranks cuda 02-mnist.yaml $mnist
    # shellcheck disable=SC2086
    train "mnist-cuda$ranks-again" $ranks cuda 02-mnist.yaml $mnist
    row "mnist, $ranks GPU, 10 epochs" "" "accuracy $(value "mnist-cuda$ranks" val_accuracy), $(value "mnist-cuda$ranks" wall_s) s"
    if [ -n "$(value "mnist-cuda$ranks" params_xxh3)" ] &&
      [ "$(value "mnist-cuda$ranks" params_xxh3)" = "$(value "mnist-cuda$ranks-again" params_xxh3)" ]; then
      row "mnist, $ranks GPU, same bits twice" ok "$(value "mnist-cuda$ranks" params_xxh3)"
    else
      row "mnist, $ranks GPU, same bits twice" FAILED "$(value "mnist-cuda$ranks-again" params_xxh3)"
      failed=1
    fi
  done
fi

# One GPU twice: two ranks and NCCL all the same.
if [ "$gpus" = 1 ] && [ -f "$dir/data/images-idx3-ubyte.gz" ]; then
  ( # the caller's own settings stay
    export NCCL_SOCKET_IFNAME=lo LD_PRELOAD="$dir/lib/libranks_apart.so${LD_PRELOAD:+:$LD_PRELOAD}"
    # shellcheck disable=SC2086
    train mnist-shared 2 cuda 02-mnist.yaml $mnist --set train.steps=63 --set train.epochs=0
  ) || failed=1
  near mnist-shared mnist-ref-63 train_loss 1e-3
  near mnist-shared mnist-ref-63 val_loss 1e-3
fi

# TF32: losses stay near the reference's, and the same run gives the same bits.
if [ -f "$dir/data/images-idx3-ubyte.gz" ]; then
  for run in tf32 tf32-again; do
    # shellcheck disable=SC2086
    train "mnist-$run" 1 cuda 02-mnist.yaml $mnist --set train.steps=63 --set train.epochs=0 --set train.precision=tf32
  done
  near mnist-tf32 mnist-ref-63 val_loss 1e-2
  first=$(value mnist-tf32 params_xxh3) again=$(value mnist-tf32-again params_xxh3) full=$(value mnist-cuda1-63 params_xxh3)
  if [ -n "$first" ] && [ "$first" = "$again" ] && [ "$first" != "$full" ]; then
    row "mnist, tf32, same bits twice" ok "$first"
  else
    row "mnist, tf32, same bits twice" FAILED "$first, $again; fp32 has $full"
    failed=1
  fi
fi

# Step times of the presets.
steps_of() {
  preset=$1 batch=$2 samples=$3
  for ranks in 1 2 4; do
    [ "$ranks" -le "$gpus" ] || continue
    train "$preset-$batch-$ranks" $ranks cuda 01-demo.yaml --set model.preset="$preset" --set train.batch="$batch" \
      --set data.samples="$samples" --set data.validation=0 --set train.epochs=0 --set train.steps=300 || continue
    row "$preset batch $batch, $ranks GPU" "" \
      "step $(value "$preset-$batch-$ranks" step_time_us.median) us (p95 $(value "$preset-$batch-$ranks" step_time_us.p95))"
  done
}
for precision in fp32 tf32; do
  train "large-16384-$precision" 1 cuda 01-demo.yaml --set model.preset=mlp-large --set train.batch=16384 \
    --set data.samples=32768 --set data.validation=0 --set train.epochs=0 --set train.steps=60 \
    --set train.precision=$precision || continue
  row "large batch 16384, $precision" "" "step $(value "large-16384-$precision" step_time_us.median) us"
done
# Where a step's time goes: the median of every task, timed by events (so not captured), longest first.
tasks_of() {
  preset=$1 batch=$2
  train "tasks-$preset-$batch" 1 cuda 01-demo.yaml --set model.preset="$preset" --set train.batch="$batch" \
    --set data.validation=0 --set train.epochs=0 --set train.steps=100 --trace "$out/tasks-$preset-$batch.trace" || return
  python3 - "$out/tasks-$preset-$batch.trace" >"$out/tasks-$preset-$batch.txt" <<'END'
import json, statistics, sys
times = {}
for event in json.load(open(sys.argv[1]))["traceEvents"]:
    if event.get("ph") == "X":
        times.setdefault(event["name"], []).append(event["dur"])
median = {name: statistics.median(t) for name, t in times.items()}
for name in sorted(median, key=median.get, reverse=True):
    print(f"{median[name]:9.2f} us  {name}")
print(f"{sum(median.values()):9.2f} us  all {len(median)} tasks")
END
  row "tasks of $preset batch $batch" "" "$(tail -1 "$out/tasks-$preset-$batch.txt" 2>/dev/null)"
}
tasks_of mlp-medium 16
tasks_of mlp-large 64

for batch in 16 128 1024; do steps_of mlp-medium $batch 10000; done
for batch in 8 64 1024; do steps_of mlp-large $batch 10000; done
for preset in lstm gru encoder gpt-char bert-small resnet18 efficientnet-b0; do steps_of $preset 32 512; done
if [ "$mode" = full ]; then
  steps_of mlp-medium 16384 32768
  steps_of mlp-large 16384 32768
  for tool in memcheck racecheck; do
    case_ "compute-sanitizer $tool" 280 compute-sanitizer --tool $tool --error-exitcode 9 "$dir/bin/test_ops_compare" cuda
  done
fi

echo
echo "==== summary ===="
cat "$table"
[ $failed = 0 ] && echo "all passed" || echo "SOME FAILED"
exit $failed
