#!/bin/sh
# The planner as a user runs it: it remembers what it times, chooses, and every row's command runs; without a profile it has
# one measured. No times are checked.
set -eu
. "$2/tests/program/lib.sh"
with_profile
cat >"$work/small.yaml" <<'YAML'
model: {input: [20], loss: mse, layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400}
train: {batch: 40, steps: 30}
parallel: {strategy: auto, backend: cpu}
cost: {device_price: 800, power_w: 300, price_kwh: 0.3, engineer_hour: 100, trainings_per_month: 20}
YAML
config=$work/small.yaml

"$program" plan "$config" --json >"$work/first.json" || fail "plan"
[ "$(field "$work/first.json" label)" = predicted ] || fail "times are not labelled"
# A plan's time may end before everything is timed; the next ones go on from there.
remembered() {
  well_timed
  plan "$work/second.json" "$config" --json
  [ "$(field "$work/second.json" timed)" = 0 ]
}
wait_until "a plan that times nothing" remembered
[ "$(field "$work/second.json" choice)" = 0 ] || fail "no choice"
"$program" plan "$config" --json --fresh --devices 1 --set parallel.threads=1 --budget-ms $((500 * ${LOCKSTEP_TEST_TIME:-1})) \
  >"$work/fresh.json" || fail "plan --fresh"
[ "$(field "$work/fresh.json" timed)" -gt 0 ] || fail "--fresh timed nothing"
[ "$(grep -c '"threads_per_rank"' "$work/fresh.json")" = 1 ] || fail "--devices 1: more than one candidate"
"$program" plan "$config" --json --no-crossover >"$work/short.json" || fail "plan --no-crossover"
grep -q '"crossover_batch": {}' "$work/short.json" || fail "--no-crossover looked for it: $(cat "$work/short.json")"
got=0
"$program" plan "$config" --devices 1,999 >"$work/out" 2>"$work/err" || got=$?
[ "$got" = 2 ] && grep -q '999 devices were asked for' "$work/err" || fail "--devices 999: $got, $(cat "$work/err")"
"$program" plan "$config" >"$work/table" || fail "plan as a table"
grep -q "predicted" "$work/table" || fail "the table is not labelled"
grep -q "break-even" "$work/table" || [ "$(nproc)" -lt 2 ] || fail "no cost of ownership"

sed -n 's/^ *"command": "\(.* train .*\)"$/\1/p' "$work/second.json" >"$work/commands"
[ -s "$work/commands" ] || fail "rows without commands"
while read -r command; do
  sh -c "$command --json --quiet" >"$work/train.json" 2>"$work/train.err" </dev/null ||
    fail "$command: $(cat "$work/train.err")"
  [ "$(field "$work/train.json" steps)" = 30 ] || fail "$command did not train"
done <"$work/commands"

"$program" train "$config" --json --quiet >"$work/auto.json" 2>"$work/auto.err" || fail "strategy auto"
grep -q "predicted" "$work/auto.err" || fail "strategy auto does not say its choice"
[ "$(field "$work/auto.json" step_time_predicted_us)" != null ] || fail "predicted is not beside measured"
"$program" train "$config" --json --quiet --ranks 2 >"$work/auto.json" 2>"$work/auto.err" || fail "strategy auto, --ranks 2"
ranks=$(field "$work/auto.json" world_size)
[ "$ranks" = 2 ] || grep -q "strategy auto takes --ranks 2 as the most ranks that it may use, and uses $ranks;" "$work/auto.err" ||
  fail "strategy auto uses $ranks of --ranks 2 without a word: $(cat "$work/auto.err")"
# What starts the choice elsewhere. Without a directory of checkpoints nothing asks for a requeue.
emitted() {
  form=$1
  shift
  "$program" plan "$config" --emit "$form" "$@" >"$work/$form" || fail "--emit $form"
}
has() { # FORM PATTERN..
  form=$1
  shift
  for pattern in "$@"; do
    grep -Eq -e "$pattern" "$work/$form" || fail "--emit $form lacks $pattern: $(cat "$work/$form")"
  done
}
emitted mpirun
has mpirun '^(mpirun --bind-to none -np [0-9]+ )?[^ ]*lockstep train .*parallel.strategy='
sh -n "$work/mpirun" || fail "--emit mpirun is no command"
emitted sbatch
has sbatch '^#SBATCH --ntasks=[0-9]' '^# train.checkpoint.dir is not set' 'lockstep train [^&]*$'
grep -q requeue "$work/sbatch" && fail "--emit sbatch asks for a requeue of what saves nothing"
emitted sbatch --set "train.checkpoint.dir=$work/it's here" --devices 1
has sbatch '^#SBATCH --ntasks=1$' '^#SBATCH --requeue --signal=B:USR1@120$' ' --supervise --resume &$' '^#!/bin/bash$'
# what_is_no_refusal_is_tried_again: a job whose first process was killed (137) was over for good
sed -n '/^case/,/^esac/p' "$work/sbatch" >"$work/case"
while read -r code restarts requeues; do
  got=$(code=$code SLURM_RESTART_COUNT=$restarts SLURM_JOB_ID=5 sh -c "scontrol() { echo \"\$*\"; }; $(cat "$work/case")")
  [ "$got" = "$requeues" ] || fail "--emit sbatch: exit code $code after $restarts restarts: \"$got\", not \"$requeues\""
done <<R
0 0
3 0
130 0
75 9 requeue 5
137 2 requeue 5
7 0 requeue 5
137 3
R
sh -n "$work/sbatch" || fail "--emit sbatch is no script"
emitted k8s --set "train.checkpoint.dir=$work/it's here" --devices 1
has k8s '^kind: Job$' 'values: \[75\]' 'command: \["lockstep", "train", .*it.s here", .*"--supervise", "--resume"\]$' 'requests: \{cpu: [0-9]+\}'
if command -v python3 >/dev/null && python3 -c 'import yaml' 2>/dev/null; then
  python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]["containers"][0]["command"]' "$work/k8s" ||
    fail "--emit k8s is no YAML"
fi
# Several hosts: as many nodes as its ranks need, and none of its names in a job that is given others.
if [ "$(nproc)" -ge 2 ]; then
  hosts='parallel.hosts=[{name: a, slots: 2}, {name: "fd00::7", slots: 2}, {name: c}]'
  emitted sbatch --set "$hosts" --set parallel.ranks=4 --set train.checkpoint.dir=saved
  has sbatch '^#SBATCH --nodes=2$' '^#SBATCH --ntasks=4$' '^#SBATCH --ntasks-per-node=2$' 'parallel.ranks=4 ' '--set parallel.hosts= .*--supervise' '^# not predicted'
  emitted sbatch --set "$hosts"
  has sbatch '^#SBATCH --nodes=3$' '^#SBATCH --ntasks=5$'
  ! grep -q 'ntasks-per-node' "$work/sbatch" || fail "2, 2 and 1 tasks: $(cat "$work/sbatch")"
  emitted sbatch --set 'parallel.hosts=[{name: a, slots: 1}, {name: b, slots: 2}]'
  ! grep -q 'ntasks-per-node' "$work/sbatch" || fail "1 and 2 tasks: $(cat "$work/sbatch")"
  emitted sbatch --set 'parallel.hosts=[{name: a, slots: 8}]'
  has sbatch '^#SBATCH --nodes=1$' '^#SBATCH --ntasks=8$' '^# not predicted'
  emitted mpirun --set "$hosts" --set parallel.ranks=3
  has mpirun "^OMPI_MCA_plm_rsh_agent='/.* --shell ssh .* mpirun --bind-to none --host a:2,v6-fd00--7:1 -np 3 .*lockstep train"
  sh -n "$work/mpirun" || fail "--emit mpirun over hosts is no command"
  mkdir "$work/a b" && cp "$program" "$work/a b/"
  got=0
  "$work/a b/lockstep" plan "$config" --emit mpirun --set "$hosts" --set parallel.ranks=3 >"$work/out" 2>"$work/err" || got=$?
  [ $got = 7 ] && grep -q 'a path of this program without spaces' "$work/err" || fail "--emit mpirun from a path with a space: exit code $got: $(cat "$work/err")"
  ! "$program" plan "$config" --emit k8s --set "$hosts" >"$work/out" 2>"$work/err" && grep -q 'a pod on one node, and these ranks need 3' "$work/err" || fail "--emit k8s over hosts: $(cat "$work/out" "$work/err")"
fi
printf '${?saves}saved\nrun ${ranks} $HOME\n' >"$work/own.in"
[ "$("$program" plan "$config" --emit "$work/own.in" --devices 1)" = 'run 1 $HOME' ] || fail "--emit with a template of one's own"
"$program" plan "$config" --emit slurm 2>"$work/err" && fail "--emit slurm was taken"
grep -q "sbatch" "$work/err" || fail "--emit slurm: no remedy"
# Memory was predicted with an assumed figure: what is not measured is not predicted.
sed -e 's/"libraries cpu/"elsewhere cpu/' -e 's/"checksum"/"was"/' "$LOCKSTEP_PROFILE" >"$work/bare.json"
"$program" plan "$config" --machine "$work/bare.json" --json >"$work/bare.out" || fail "plan without libraries"
grep -q '"bytes_per_device": null' "$work/bare.out" || fail "bytes are predicted without libraries: $(cat "$work/bare.out")"
grep -q '"bytes_per_device_reason": "libraries: not measured here' "$work/bare.out" || fail "no reason for null"
! grep -q '"bytes_per_device": [0-9]' "$work/bare.out" || fail "an assumed figure stands as a prediction"
"$program" plan "$config" --machine "$work/bare.json" >"$work/out" || fail "plan without libraries, as a table"
grep -q 'bytes/dev. with a + are without libraries' "$work/out" || fail "the table hides that: $(cat "$work/out")"
# A plan from timings that other programs disturbed said so in its last line, or not at all.
sed -e 's/| busy"/| then busy"/' -e 's/| well timed"/| busy"/' -e 's/"checksum"/"was"/' "$LOCKSTEP_PROFILE" >"$work/busy.json"
"$program" plan "$config" --machine "$work/busy.json" >"$work/out" || fail "plan from busy timings"
head -1 "$work/out" | grep -q 'the machine was busy: other programs took 100 % of its processors' ||
  fail "busy, and the first line is: $(head -1 "$work/out")"
grep -q 'would be chosen: .*; measured while other programs took 100 % of the processors, so it is not kept' "$work/out" ||
  fail "a choice from busy timings stands as one: $(cat "$work/out")"
"$program" plan "$config" --machine "$work/busy.json" --json >"$work/out" 2>"$work/err" || fail "the same as JSON"
[ "$(field "$work/out" busy_share)" = 1.0 ] || fail "busy_share: $(field "$work/out" busy_share)"
grep -q 'warning: the machine was busy' "$work/err" || fail "no warning beside JSON"
# Nobody timed a side lane on a recorded GPU: what is on there is left out, and said.
gpus=$source_dir/tests/machine/recorded/nvlink_4xh200.profile.json
for side in on auto; do
  for form in --json "--emit sbatch" ''; do
    # shellcheck disable=SC2086 # words
    "$program" plan "$config" --machine "$gpus" --set parallel.backend=cuda --set parallel.side_lane=$side $form >"$work/out" 2>"$work/err" || fail "plan for recorded GPUs: $(cat "$work/err")"
    if grep -q 'left.out.*parallel.side_lane' "$work/out"; then said=on; else said=auto; fi
    [ $said = $side ] || fail "side_lane $side, $form: $(cat "$work/out")"
  done
done
echo tampered >>"$LOCKSTEP_PROFILE"
"$program" plan "$config" 2>"$work/err" && fail "a damaged profile was used"
grep -q "profile.json" "$work/err" || fail "the damaged profile is not named"

rest
export LOCKSTEP_PROFILE="$work/own.json"
"$program" plan "$config" --json >"$work/first.json" || fail "plan without a profile"
[ -s "$LOCKSTEP_PROFILE" ] || fail "no profile was kept"
# What products take is part of what is predicted: no less than what a network takes whose products are the library's.
# 2 % for what the system does by itself; a sanitizer's memory is not predicted.
cat >"$work/wide.yaml" <<'YAML'
model: {input: [784], loss: mse, layers: [{dense: {units: 1024, activation: relu}}, {dense: {units: 16}}]}
data: {kind: synthetic, samples: 600}
train: {batch: 512, steps: 3}
parallel: {backend: cpu}
YAML
"$program" plan "$work/wide.yaml" --ranks 1 --json >"$work/wide.json" 2>"$work/err" || fail "plan of large products: $(cat "$work/err")"
"$program" train "$work/wide.yaml" --json --quiet >"$work/train.json" || fail "a network of large products"
predicted=$(sed -n 's/^    "predicted": \([0-9]*\),$/\1/p' "$work/train.json")
measured=$(sed -n 's/^    "measured": \([0-9]*\),$/\1/p' "$work/train.json")
[ $((predicted * 102 / 100)) -ge "$measured" ] || [ "${LOCKSTEP_TEST_TIME:-1}" != 1 ] ||
  fail "$predicted bytes were predicted and $measured used"
grep -q "\"bytes_per_device\": $predicted,\$" "$work/wide.json" ||
  fail "a report predicts $predicted bytes, a plan not: $(grep bytes_per_device "$work/wide.json")"
# What planning took counted as the memory of the training that followed it in the same process.
measured_of() {
  "$program" train "$work/wide.yaml" --json --quiet --ranks 1 --set parallel.threads=1 --set "parallel.strategy=$1" \
    >"$work/train.json" 2>"$work/err" || fail "$1: $(cat "$work/err")"
  sed -n 's/^    "measured": \([0-9]*\),$/\1/p' "$work/train.json"
}
alone=$(measured_of single)
planned=$(measured_of auto)
[ "$planned" -le $((alone * 102 / 100)) ] || [ "${LOCKSTEP_TEST_TIME:-1}" != 1 ] ||
  fail "after a plan the same training takes $planned bytes instead of $alone"
if command -v python3 >/dev/null; then
  "$program" plan "$config" --policy thresholds --json >"$work/rules.json" || fail "--policy thresholds"
  [ "$(field "$work/rules.json" strategy)" = single_gpu ] || fail "the study's rules"
  "$program" plan "$config" --policy thresholds | grep -q "^  the study's rules say  *single_gpu$" || fail "the study's rules as a table"
fi
# Reproducible: the schedules of shards are priced, and the rows' commands end in the same bits.
all_priced() {
  plan "$work/bits.json" "$config" --set parallel.reproducible=true --set parallel.shards=4 --json
  ! grep -q '"priced": false' "$work/bits.json"
}
wait_until "the prices of reproducible steps" all_priced
! grep -q '"shards": 0' "$work/bits.json" || fail "candidates without shards"
sed -n 's/^ *"command": "\(.* train .*\)"$/\1/p' "$work/bits.json" >"$work/commands"
[ -s "$work/commands" ] || fail "reproducible rows without commands"
while read -r command; do
  sh -c "$command --json --quiet" >"$work/train.json" 2>"$work/train.err" </dev/null ||
    fail "$command: $(cat "$work/train.err")"
  field "$work/train.json" params_xxh3
done <"$work/commands" >"$work/hashes"
[ "$(sort -u "$work/hashes" | wc -l)" = 1 ] || fail "candidates differ: $(cat "$work/commands" "$work/hashes")"
echo ok
