#!/bin/sh
# lockstep bench and compare end to end on a tiny network: keys of the JSON, the reports, verdicts, failures.
set -eu
. "$(dirname "$0")/../program/lib.sh"
command -v python3 >/dev/null || { echo "SKIPPED: no python3, which reports need" && exit 77; }

cat >"$work/c.yaml" <<'Y'
model: {input: [12], loss: mse, layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 400, validation: 0.25}
train: {batch: 16, epochs: 1, checkpoint: {dir: NEVER}}
parallel: {strategy: ddp, ranks: 2, backend: cpu}
Y
sed -i "s#NEVER#$work/never#" "$work/c.yaml"
TMPDIR=$work
export TMPDIR

"$program" bench "$work/c.yaml" --batches 8,16 --repetitions 2 --steps 6 --warmup 2 --control 1 --control-repetitions 2 \
  --validate --json --quiet --html "$work/r.html" --markdown "$work/r.md" --output "$work/r.json" >"$work/out.json" ||
  fail "bench"
[ ! -e "$work/never" ] || fail "bench saved a checkpoint"
for left in "$work"/lockstep-bench-*; do [ ! -e "$left" ] || fail "left behind: $left"; done
for key in step_time_us step_time_us_without_outliers step_time_median_us samples_per_s step_parts_us exposed_comm \
  bytes_per_device grad_norm loss speedup efficiency welch_p equivalence_p verdict false_alarm_rate void limits \
  same_network bootstrap_low params_xxh3 machine_fingerprint warmup_steps bus_bw_bytes_per_s command_line created seed \
  load_before load_after curves timeline; do
  grep -q "\"$key\":" "$work/out.json" || fail "--json lacks $key"
done
[ "$(grep -c '"params_xxh3"' "$work/out.json")" = 8 ] || fail "not 4 variants of 2 repetitions"
[ "$(grep -c '"same_network": true' "$work/out.json")" = 2 ] || fail "validation: $(cat "$work/r.md")"
[ "$(grep -c '"identical_parameters": true' "$work/out.json")" = 4 ] || fail "repetitions differ in their parameters"
grep -q '^| [a-z]* | batch 16, 2 x ddp | ' "$work/r.md" || fail "Markdown: $(cat "$work/r.md")"
grep -q '<svg' "$work/r.html" || fail "HTML without plots"
! grep -qE 'https?:|src=|href=|<script' "$work/r.html" || fail "HTML is not self-contained"

# A stored document gives the same reports again; what only measuring would use is refused.
"$program" bench --from "$work/r.json" --html "$work/again.html" --markdown "$work/again.md" --output "$work/again.json" >"$work/out" ||
  fail "bench --from"
for kind in md json; do cmp "$work/r.$kind" "$work/again.$kind" || fail "bench --from: another $kind"; done
grep -q '<svg' "$work/again.html" || fail "bench --from: HTML without plots"
grep -q 'lockstep [0-9.]* (commit [0-9a-z-]*)' "$work/r.md" || fail "the report does not name version and commit: $(cat "$work/r.md")"
for member in method control machine limits run answers; do # damaged ones were taken without a word
  sed "s/^ \"$member\": [[{].*/ \"$member\": 3, \"was_$member\": &/; s/\"was_$member\":  \"$member\": /\"was_$member\": /" "$work/r.json" >"$work/damaged.json"
  expect 4 "damaged.json: damaged: $member is not " bench --from "$work/damaged.json"
done
expect 2 '--from measures nothing: leave .*c.yaml out' bench "$work/c.yaml" --from "$work/r.json"
expect 2 '--from measures nothing: leave --steps out' bench --from "$work/r.json" --steps 3
expect 4 'c.yaml:1' bench --from "$work/c.yaml"

# Reproducible: one rank and two end in the same bits.
"$program" bench "$work/c.yaml" --set parallel.reproducible=true --batches 20 --repetitions 1 --steps 8 --warmup 2 \
  --control 0 --validate --markdown "$work/p.md" --output "$work/p.json" --quiet >"$work/p.txt" || fail "bench, reproducible"
[ "$(grep -c '"identical": true' "$work/p.json")" = 1 ] || fail "not identical across ranks: $(cat "$work/p.md")"
grep -q '^| identical across ranks | .*| yes |' "$work/p.md" || fail "Markdown: $(cat "$work/p.md")"
grep -q 'identical across ranks' "$work/p.txt" || fail "table: $(cat "$work/p.txt")"

"$program" compare "$work/r.json" "$work/r.json" >"$work/compare"
[ "$(grep -c 'A - B: +0.00 us' "$work/compare")" = 4 ] || fail "compare with itself: $(cat "$work/compare")"
"$program" compare "$work/r.json" "$work/r.json" --variant-a "batch 8, 1 x single" --variant-b "batch 16, 1 x single" \
  --json >"$work/compare.json" 2>"$work/err"
grep -q '"verdict"' "$work/compare.json" || fail "compare --json"
grep -q 'differ in global_batch: 8 and 16' "$work/err" || fail "compare of other batches without a warning"

made() { # FILE, five step times
  file=$1
  shift
  {
    printf '{"command": "bench", "version": 1, "variants": [{"name": "v", "repetitions": ['
    comma=
    for us in "$@"; do
      printf '%s{"step_time_us": {"mean": %s}}' "$comma" "$us"
      comma=,
    done
    printf ']}]}'
  } >"$file"
}
made "$work/a.json" 100 101 99 100.5 99.5
made "$work/b.json" 120 121 119 120.5 119.5
made "$work/c.json" 60 180 95 140 70
verdict() { "$program" compare "$1" "$2" | sed -n 's/^  verdict: //p'; }
[ "$(verdict "$work/a.json" "$work/b.json")" = "A is faster" ] || fail "faster"
[ "$(verdict "$work/b.json" "$work/a.json")" = "A is slower" ] || fail "slower"
[ "$(verdict "$work/a.json" "$work/a.json")" = "equivalent" ] || fail "equivalent"
case $(verdict "$work/a.json" "$work/c.json") in undecided*) ;; *) fail "undecided" ;; esac

expect 2 'needs A B' compare "$work/a.json"
expect 4 'not a document' compare "$work/a.json" "$work/compare.json"
expect 5 'no variant "w"; there are: "v"' compare "$work/a.json" "$work/b.json" --variant-a w
expect 2 'is there twice' bench "$work/c.yaml" --batches 8,8
expect 2 'whole number' bench "$work/c.yaml" --batches 8,x
expect 2 'from 1 to 100000' bench "$work/c.yaml" --repetitions 0
expect 2 'between 0 and 100' bench "$work/c.yaml" --margin 0
expect 3 'smaller than the number of ranks' bench "$work/c.yaml" --batches 1 --ranks-list 2
expect 3 '--strategies: .ring. is not one of ' bench "$work/c.yaml" --strategies ring
expect 2 'did you mean --batches' bench "$work/c.yaml" --batchs 8
# More samples than there are: that variant is reported as failed, the other is measured, and the exit code says it.
expect 7 '1 of 2 variants failed during the measurement; the first: batch 100000' bench "$work/c.yaml" \
  --batches 8,100000 --ranks-list 1 --repetitions 1 --steps 2 --warmup 0 --control 0
grep -q 'not measured: .*fewer than the global batch' "$work/out" || fail "no reason: $(cat "$work/out")"
grep -q 'batch 8, 1 x single  *[0-9]' "$work/out" || fail "one failing variant ended the others: $(cat "$work/out")"
! grep -q nan "$work/out" || fail "one repetition has no interval: $(cat "$work/out")"
# A size of one is said in the singular.
"$program" bench "$work/c.yaml" --batches 8 --ranks-list 1 --repetitions 1 --steps 2 --warmup 0 --control 0 >"$work/out" 2>"$work/err"
grep -q '^1 variant, 1 repetition of 2 steps each: 1 round of 1 process$' "$work/err" || fail "not the singular: $(cat "$work/err")"
# A precision that the configuration refuses is that variant's failure; so are more GPUs than there are.
"$program" bench "$work/c.yaml" --precisions fp32,fp7 --ranks-list 1 --repetitions 1 --steps 2 --warmup 0 --control 0 \
  >"$work/out" 2>"$work/err" || fail "a refused precision ended the others: $(cat "$work/err")"
grep -q '1 x single fp7 *not measured: .*fp7' "$work/out" || fail "no reason: $(cat "$work/out")"
# The error named --set, which nobody had written.
expect 3 'no variant can be measured: --precisions: .fp7. is not one of fp32, ' bench "$work/c.yaml" --precisions fp7
# So is a batch smaller than the ranks, and ranks that the shards do not divide into.
"$program" bench "$work/c.yaml" --batches 1,8 --ranks-list 1,2 --repetitions 1 --steps 2 --warmup 0 --control 0 \
  >"$work/out" 2>"$work/err" || fail "a batch of one sample ended the others: $(cat "$work/err")"
grep -q 'batch 1, 2 x ddp *not measured: .*smaller than the number of ranks' "$work/out" || fail "no reason: $(cat "$work/out")"
"$program" bench "$work/c.yaml" --set parallel.reproducible=true --batches 24 --ranks-list 1,3 --repetitions 1 --steps 2 \
  --warmup 0 --control 0 >"$work/out" 2>"$work/err" || fail "3 reproducible ranks ended the others: $(cat "$work/err")"
grep -q '3 x ddp *not measured: ' "$work/out" || fail "no reason: $(cat "$work/out")"
# A rank that dies: several ranks are not measured, one is, and the exit code says it.
LOCKSTEP_FAULT='kill 1 0 always' expect 7 '1 of 2 variants failed' bench "$work/c.yaml" --repetitions 1 --steps 2 --warmup 0 --control 0
grep -q '2 x ddp *not measured' "$work/out" || fail "2 ranks, of which one dies: $(cat "$work/out")"
# Outputs that cannot be made and plans that cannot be read are found before anything is measured.
for flag in --output --markdown --html; do
  expect 5 'no/such' bench "$work/c.yaml" $flag "$work/no/such"
  ! grep -q 'repetitions of' "$work/err" || fail "$flag was found out after measuring: $(cat "$work/err")"
done
expect 5 'a folder' bench "$work/c.yaml" --html "$work"
expect 4 'not a plan' bench "$work/c.yaml" --plan "$work/a.json"
! grep -q 'repetitions of' "$work/err" || fail "--plan was read after measuring: $(cat "$work/err")"
expect 2 'on, off or both' bench "$work/c.yaml" --peer of
expect 2 'the configuration file is missing' bench
expect 2 'leave --weak out' bench --study --weak
expect 3 'did you mean .mlp-large' bench --study --models mlp-huge=8
expect 2 'its families --study families' bench --study family

rest
# A repetition that takes too long is its variant's failure.
expect 7 'no variant could be measured: measuring .* took more than 1 s (--limit' bench "$work/c.yaml" --ranks-list 1 --limit 1 \
  --steps 1000000 --repetitions 1 --control 0
# Ended in the second round or later: the complete rounds are published, marked, and the exit code says it.
mkfifo "$work/said"
interrupt() { # SIGNAL: into $got the exit code, outputs i.json and i.md
  "$program" bench "$work/c.yaml" --repetitions 1000 --steps 2 --warmup 0 --control 0 --output "$work/i.json" \
    --markdown "$work/i.md" >"$work/out" 2>"$work/said" &
  pid=$!
  exec 3<"$work/said"
  while read -r line <&3; do
    case $line in "round 2:"*) kill "-$1" $pid && break ;; esac
  done
  cat <&3 >"$work/err"
  exec 3<&-
  got=0
  wait $pid || got=$?
}
interrupt KILL
grep -q '"incomplete": "[1-9][0-9]* of 1000 rounds so far"' "$work/i.json" || fail "killed in round 2 or later, round 1 is lost"
interrupt TERM
[ "$got" = 130 ] || fail "interrupted, exit code $got: $(cat "$work/err")"
grep -q '"incomplete": "interrupted' "$work/i.json" || fail "not marked incomplete: $(cat "$work/err")"
grep -q 'Incomplete' "$work/i.md" && grep -q '^  Incomplete: ' "$work/out" || fail "reports do not say that they are incomplete"
repetitions=$(sed -n 's/^ *"repetitions": \([0-9]*\),/\1/p' "$work/i.json")
[ "$((2 * repetitions))" = "$(grep -c params_xxh3 "$work/i.json")" ] || fail "2 variants, $repetitions complete rounds?"

# A budget that the first round uses up: one round, and the document says how many repetitions there are.
"$program" bench "$work/c.yaml" --ranks-list 1 --repetitions 90 --per-process 3 --steps 2 --warmup 0 --control 0 --budget 1 \
  --json >"$work/out" 2>"$work/err" || fail "budget: $(cat "$work/err")"
repetitions=$(sed -n 's/^ *"repetitions": \([0-9]*\),/\1/p' "$work/out")
[ "$repetitions" = "$(grep -c params_xxh3 "$work/out")" ] || fail "$repetitions repetitions are not what was measured"

with_profile
# The study without a configuration, a corner of it: tables with its figures beside, conclusions, no peer access on a CPU.
"$program" bench --study --models mlp-medium=8/16 --set parallel.backend=cpu --repetitions 3 --steps 3 --warmup 1 \
  --control 0 --json --markdown "$work/s.md" --html "$work/s.html" >"$work/s.json" 2>"$work/err" ||
  fail "--study: $(cat "$work/err")"
grep -q 'peer access is no choice' "$work/err" || fail "--study on a CPU did not say what it leaves out"
grep -q '3 rounds of 4 processes' "$work/err" || fail "--study did not say its size"
grep -q 'about .* left' "$work/err" || fail "--study did not say how long it takes"
[ "$(grep -c '"one_samples_per_s": 1234' "$work/s.json")" = 1 ] || fail "the published figures are missing"
grep -q '^| 8 | here | [0-9.]*x ' "$work/s.md" && grep -q '^| 8 | the study | 0.82x | 1,234 ± 45 |' "$work/s.md" || fail "no table: $(cat "$work/s.md")"
grep -q "Where the study's conclusions hold" "$work/s.html" || fail "no conclusions in the HTML file"
# From which batch on two ranks pay, found between the ends of the lists; a time limit that is up leaves a named gap.
small="--set parallel.backend=cpu --set model.width=8 --set model.context=4"
# shellcheck disable=SC2086
"$program" bench --study families --models lstm=4 $small --repetitions 3 --steps 3 --warmup 1 --json >"$work/f.json" 2>"$work/err" ||
  fail "--study families: $(cat "$work/err")"
grep -q '^lstm: 2 ranks pay \(from batch 4 on\|at no batch up to 4\) (.*predict' "$work/err" || fail "no answer at once: $(cat "$work/err")"
grep -q '"text": "lstm: 2 ranks pay ' "$work/f.json" || fail "no answer in the document"
grep -q 'pays at no batch up to 4\|pays from batch 4' "$work/f.json" || fail "no batch from which two ranks pay: $(cat "$work/f.json")"
# The first round ran whole, however long it took: 110 s were not enough for one answer.
# shellcheck disable=SC2086
"$program" bench --study families --models lstm=2/64,gru=2/64 $small --budget 1 >"$work/out" 2>"$work/err" ||
  fail "--study families --budget 1: $(cat "$work/err")"
[ "$(grep -c '^\(lstm\|gru\): not measured: the time limit of 1 s (--budget); ' "$work/err")" = 2 ] || fail "no gap named: $(cat "$work/err")"
# Each network was once planned for a second when the time was up.
if grep -q 'planning gru' "$work/err"; then fail "planned when the time was up: $(cat "$work/err")"; fi
grep -q '^  lstm: not measured' "$work/out" || fail "the table does not name the gap: $(cat "$work/out")"
echo ok
