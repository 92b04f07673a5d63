#!/bin/sh
# The program: recorded machines are shown without measuring, a quick measurement leaves a profile that loads again, and
# what cannot work says so with its exit code.
set -u
. "$2/tests/program/lib.sh"
source=$source_dir folder=$work
failed=0
unset NCCL_NTHREADS NCCL_P2P_DISABLE OMP_NUM_THREADS

# expect CODE TEXT COMMAND...: exit code, and a text in stdout or stderr
expect() {
  code=$1
  text=$2
  shift 2
  "$@" >"$folder/out" 2>&1
  got=$?
  if [ $got -ne "$code" ] || ! grep -qF -- "$text" "$folder/out"; then
    echo "FAILED: $*"
    echo "  exit code $got (expected $code), expected text: $text"
    sed 's/^/  | /' "$folder/out"
    failed=1
  fi
}

recorded=$source/tests/machine/recorded
expect 0 "BRIDGE!" "$program" probe --machine "$recorded/bridge_2x4070ti_super.json"
expect 0 "pcie-width: GPU 1" "$program" probe --machine "$recorded/bridge_2x4070ti_super.json"
expect 0 "NV18" "$program" probe --machine "$recorded/nvlink_4xh200.json"
expect 0 "blas-old-core" "$program" probe --machine "$recorded/cpu_only.json"
expect 0 "gpus-unread" "$program" probe --machine "$recorded/half_refused.json"
expect 0 '"not_measured": []' "$program" probe --json --machine "$recorded/half_refused.json"
expect 0 '"id": "gpus-unread"' "$program" probe --json --machine "$recorded/half_refused.json"
# This machine's settings say nothing about a recorded one.
NCCL_NTHREADS=16 expect 0 "doctor" "$program" probe --machine "$recorded/nvlink_4xh200.json"
if grep -q nccl-nthreads "$folder/out"; then echo "FAILED: settings were held against a recording"; failed=1; fi

# Products in TF32 have a column of their own, beside those in full precision.
sed 's/"op cuda t1 linear f32 (128, 1024)/"op cuda tf32 t1 linear f32 (128, 1024)/' \
  "$recorded/nvlink_4xh200.profile.json" >"$folder/tf32.profile.json"
expect 0 "cuda tf32 t1" "$program" probe --machine "$folder/tf32.profile.json"
expect 0 "37054.8" "$program" probe --machine "$folder/tf32.profile.json"

# The answer is a recording itself.
"$program" probe --json --machine "$recorded/nvlink_4xh200.json" >"$folder/again.json"
expect 0 "NV18" "$program" probe --machine "$folder/again.json"

expect 5 "none.json" "$program" probe --machine "$folder/none.json"
echo '{"cores": -4}' >"$folder/bad.json"
expect 3 "bad.json: machine: cores: a whole number" "$program" probe --machine "$folder/bad.json"
echo '{"cores": 4' >"$folder/bad.json"
expect 3 "bad.json:" "$program" probe --machine "$folder/bad.json"
with_profile
mv "$LOCKSTEP_PROFILE" "$folder/profile.json"
unset LOCKSTEP_PROFILE
expect 2 "unexpected argument" "$program" probe something
expect 2 "did you mean --quick?" "$program" probe --quik
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 expect 2 "run it without mpirun" "$program" probe

# What a quick measurement leaves. Several ranks need more than one CPU.
for key in '"memory cpu t1"' '"launch cpu t1"' '"hand-over cpu t1"' '"op cpu t1 linear f32 (128, 512)'; do
  if ! grep -qF "$key" "$folder/profile.json"; then echo "FAILED: the profile has no $key"; failed=1; fi
done
if [ "$(nproc)" -ge 2 ]; then
  for key in '"all-reduce mpi 2"' '"reduce-scatter mpi 2"' '"all-gather mpi 2"' '"broadcast mpi 2"' '"contention cpu 2x' '"libraries cpu w2"'; do
    if ! grep -qF "$key" "$folder/profile.json"; then
      echo "FAILED: the profile has no $key"
      failed=1
    fi
  done
fi
expect 0 "matrix products" "$program" probe --machine "$folder/profile.json"
# What plan has added outlives a further probe of the same machine, unless it is told to begin afresh.
printf 'model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}\ndata: {kind: synthetic, samples: 64}\n%s\n' \
  'train: {batch: 16, steps: 2}' >"$folder/plan.yaml"
export LOCKSTEP_PROFILE="$folder/profile.json"
if grep -q '"step cpu' "$LOCKSTEP_PROFILE"; then echo "FAILED: probe makes up steps"; failed=1; fi
kept() { # a busy machine may give the first plan no time
  expect 0 "all times predicted" "$program" plan "$folder/plan.yaml" --ranks 1 --budget-ms 1000
  grep '"step cpu' "$LOCKSTEP_PROFILE" >"$folder/steps"
}
wait_until "a step that plan has kept" kept
unset LOCKSTEP_PROFILE
# Where profiles cannot be kept, plan goes on from memory, and warns once.
only_warns() {
  if grep -q 'error:' "$folder/out"; then echo "FAILED: an error that is none:" && cat "$folder/out" && failed=1; fi
  if [ "$(grep -c 'is not remembered' "$folder/out")" -ne 1 ]; then
    echo "FAILED: not one warning:" && cat "$folder/out" && failed=1
  fi
}
# read_only COMMAND...: $folder/kept can be read, but not be written
read_only() {
  if [ "$(id -u)" = 0 ]; then
    unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"' "$folder/kept" "$@"
  else
    chmod a-w "$folder/kept" && "$@"
  fi
}
mkdir "$folder/kept" && cp "$folder/profile.json" "$folder/kept/profile.json"
if [ "$(id -u)" != 0 ] || unshare -m true 2>/dev/null; then
  LOCKSTEP_PROFILE="$folder/kept/profile.json" expect 0 "is not remembered" read_only "$program" plan "$folder/plan.yaml" --ranks 1 \
    --budget-ms 1000
  only_warns
  chmod u+w "$folder/kept"
fi

sed 's/"cores": [0-9]*/"cores": 77/' "$folder/profile.json" >"$folder/altered.json"
expect 6 "was altered" "$program" probe --machine "$folder/altered.json"
head -c 500 "$folder/profile.json" >"$folder/torn.json"
expect 3 "torn.json:" "$program" probe --machine "$folder/torn.json"
# before anything is measured
expect 5 "output: $folder/none/p.json cannot be written: $folder/none: No such file" "$program" probe --output "$folder/none/p.json"
if [ -e "$folder/none" ]; then echo "FAILED: probe made a folder" && failed=1; fi
if grep -q measuring "$folder/out"; then echo "FAILED: measured for a file that cannot be made" && failed=1; fi

[ $failed -eq 0 ] || exit $failed

rest
# A real, short measurement. A profile measured beside busy loops said nothing of them. They take a quarter of the processors, or one.
loops=''
for loop in $(seq $((($(nproc) + 3) / 4))); do
  timeout 60 sh -c 'while :; do :; done' &
  loops="$loops $!"
done
expect 0 "measured-busy: other programs took" "$program" probe --quick
cp "$folder/out" "$folder/measured"
kill $loops

if [ "$(find "$folder/cache/lockstep" -name '*.json' | wc -l)" -ne 1 ]; then
  echo "FAILED: the profile is not in the user's cache"
  failed=1
fi
mv "$folder"/cache/lockstep/*.json "$folder/profile.json"
expect 0 "measured while other programs took" "$program" probe --machine "$folder/profile.json"
# What plan has added outlives a further probe, as above.
export LOCKSTEP_PROFILE="$folder/profile.json"
wait_until "a step that plan has kept" kept
expect 0 "what it held beyond" "$program" probe --quick
grep '"step cpu' "$LOCKSTEP_PROFILE" >"$folder/again"
if ! diff "$folder/steps" "$folder/again"; then echo "FAILED: probe lost what plan had timed"; failed=1; fi
expect 0 "profile of" "$program" probe --quick --fresh
if grep -q '"step cpu' "$LOCKSTEP_PROFILE"; then echo "FAILED: --fresh keeps steps"; failed=1; fi
unset LOCKSTEP_PROFILE
# And where its probe cannot measure several ranks, plan went without them and never said why.
(
  ulimit -f 1500
  XDG_CACHE_HOME=/proc/none expect 0 "is not remembered" "$program" plan "$folder/plan.yaml" --ranks 1 --budget-ms 1000
  exit $failed
) || failed=1
only_warns
if [ "$(nproc)" -ge 2 ] && ! grep -q 'warning: not measured: 2 ranks: no memory in which 2 ranks can meet: File too large; measure again: lockstep probe$' "$folder/out"; then
  echo "FAILED: no word of what was not measured:" && cat "$folder/out" && failed=1
fi
if ! grep -q 'profile: not kept (quick probe' "$folder/out"; then echo "FAILED: a file that is not there is named" && failed=1; fi
# marked: the processes of the run that is to be interrupted, by their environment
marked() { grep -lzsF -- "LOCKSTEP_TEST_MARK=$folder" /proc/[0-9]*/environ | sed 's/[^0-9]//g'; }
# runs TEXT: is there one with this among its arguments?
runs() {
  for process in $(marked); do
    { tr '\0' ' ' <"/proc/$process/cmdline"; } 2>/dev/null | grep -qF -- "$1" && return 0
  done
  return 1
}
# interrupt SIGNAL TEXT COMMAND...: the signal, as soon as a process with TEXT among its arguments is there; then exit code
# 130, and neither processes nor files may be left
interrupt() {
  number=$1
  text=$2
  shift 2
  rm -rf "$folder/tmp" && mkdir "$folder/tmp"
  begun=0
  while # a busy machine may give the part no time: the command then ends before, and is begun again
    env LOCKSTEP_TEST_MARK="$folder" TMPDIR="$folder/tmp" XDG_CACHE_HOME="$folder/none" "$@" >"$folder/out" 2>&1 &
    pid=$!
    until runs "$text" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    ! kill -0 $pid 2>/dev/null && [ $begun -lt 3 ]
  do
    begun=$((begun + 1))
    wait $pid
    rm -rf "$folder/none"
  done
  kill -"$number" $pid
  wait $pid
  code=$?
  if [ $code -ne 130 ]; then
    echo "FAILED: exit code $code, not 130, after SIG$number at $text: $*" && cat "$folder/out" && failed=1
  fi
  tries=0
  while [ -n "$(marked)" ] && [ $tries -lt 1200 ]; do tries=$((tries + 1)) && sleep 0.05; done
  if [ -n "$(marked)" ]; then echo "FAILED: left running after SIG$number at $text: $(marked)" && failed=1; fi
  if find "$folder/tmp" -name 'lockstep-*' | grep .; then echo "FAILED: files are left" && failed=1; fi
  if [ -e "$folder/none" ]; then echo "FAILED: an interrupted probe kept something" && failed=1; fi
}
interrupt INT --json "$program" probe --quick
if [ "$(nproc)" -ge 2 ]; then
  interrupt TERM --ranks-into "$program" probe --quick
  interrupt TERM --ranks-into "$program" plan "$folder/plan.yaml"
fi

[ $failed -eq 0 ] && echo "probe: ok"
exit $failed
