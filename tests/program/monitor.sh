#!/bin/sh
# A watched training: the same bits, a log that goes on when it is resumed, files that the tools of others read, faults of the
# configuration by their place.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<Y
model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}
data: {kind: synthetic, samples: 64, validation: 0.25}
train: {batch: 16, steps: 200, metrics: [r2, mae], checkpoint: {dir: $work/run}}
parallel: {backend: cpu, threads: 1}
Y
seen="$work/seen"
watched="--set monitor.dir=$seen --set monitor.every_s=0.01 --set monitor.sinks=[tensorboard,csv,prometheus]"
"$program" train "$work/c.yaml" --quiet --json >"$work/plain.json" 2>"$work/err" || fail "$(cat "$work/err")"
# shellcheck disable=SC2086 # words
"$program" train "$work/c.yaml" --quiet --json $watched >"$work/watched.json" 2>"$work/err" || fail "$(cat "$work/err")"
[ "$(field "$work/plain.json" params_xxh3)" = "$(field "$work/watched.json" params_xxh3)" ] || fail "a watched run has other bits"
# shellcheck disable=SC2086 # words
"$program" train "$work/c.yaml" --quiet --resume --set train.steps=300 $watched >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
has_lines() { [ "$(grep -c running, "$work/lines")" -ge "$1" ]; }
# Records and alerts come when their time has passed, wherever the run is then: between all others, and after its end.
kinds() { sed -n 's/^{"kind":"\(start\|save\|end\)".*/\1/p' "$1" | uniq | tr '\n' ' '; }
last_record() { grep '^{"kind":"record"' "$1" | tail -1; }
[ "$(kinds "$seen/events.jsonl")" = "start save end start save end " ] || fail "kinds of lines: $(kinds "$seen/events.jsonl")"
# every figure of every evaluation, in the log and in the run's directory, is that of the step at which it was measured
grep -q '"kind":"evaluation",.*"step":300,.*"val_r2":.*"val_mae":.*"val_mae.2":' "$seen/events.jsonl" || fail "no figures: $(grep evaluation\" "$seen/events.jsonl" | tail -1)"
[ "$(grep -c . "$work/run/history.jsonl")" = 102 ] || fail "not before training, after each of 100 epochs and at step 200: $(cat "$work/run/history.jsonl")"
tail -1 "$work/run/history.jsonl" | grep -q '"step":300,"epoch":100.0,' || fail "$(tail -1 "$work/run/history.jsonl")"
head -1 "$seen/samples.csv" | grep -q ',val_step,.*,val_r2,val_mae,' || fail "samples.csv: $(head -1 "$seen/samples.csv")"
grep -q '^lockstep_validation_step{rank="0"} 300$' "$seen/metrics.prom" || fail "$(grep valid "$seen/metrics.prom")"
grep -q '"kind":"alert".*"alert":"restart","status":"raised"' "$seen/events.jsonl" || fail "a restart is no alert"
grep -q '^{"kind":"timeline",.*"step":9,.*"tasks":\[\["' "$seen/events.jsonl" || fail "no timeline: $(grep timeline "$seen/events.jsonl" | cut -c1-300)"
last_record "$seen/events.jsonl" | grep -q '"step":300,"total_steps":300,"loss":' || fail "the last record: $(tail -3 "$seen/events.jsonl")"
[ "$(ls "$seen" | grep -c tfevents)" -ge 1 ] || fail "no TensorBoard file"
[ "$(grep -c ^t,rank "$seen/samples.csv")" = 1 ] || fail "headers of samples.csv"
grep -q '^lockstep_train_step_total{rank="0"} 300$' "$seen/metrics.prom" || fail "$(cat "$seen/metrics.prom")"
[ ! -e "$seen/metrics.prom.tmp" ] || fail "a temporary file is left"

# Every rank writes a log of its own; what all have in common stands in rank 0's.
# shellcheck disable=SC2086 # words
"$program" train "$work/c.yaml" --quiet --ranks 2 $watched --set monitor.dir="$work/two" --set train.checkpoint.dir="$work/run2" \
  >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
last_record "$work/two/events-1.jsonl" | grep -q '"rank":1,"step":200,' || fail "rank 1: $(tail -3 "$work/two/events-1.jsonl")"
if grep -q '"loss"' "$work/two/events-1.jsonl"; then fail "rank 1 speaks for rank 0"; fi
grep -q '"exchanged_bytes":[1-9]' "$work/two/events-1.jsonl" || fail "no bytes were exchanged"

# What is there is shown once, as text and as a document; a folder without a log is refused. The report is one file.
"$program" monitor "$seen" --once >"$work/out" || fail "monitor --once"
grep -q "^$seen: ended (ok), step 300 of 300 (100 %), 1 rank, single, " "$work/out" || fail "monitor: $(cat "$work/out")"
grep -q '^rank 0   \[####################\] 100 %' "$work/out" || fail "no bar: $(cat "$work/out")"
grep -q ' rank 0 save  step 300  path ' "$work/out" || fail "no event: $(cat "$work/out")"
if grep -q "$(printf '\033')" "$work/out"; then fail "escapes where there is no terminal"; fi
# whole numbers of events were rounded to six digits
mkdir "$work/long"
sed 's/"total_steps":200/"total_steps":12345678/' "$seen/events.jsonl" | head -3 >"$work/long/events.jsonl"
"$program" monitor "$work/long" --once | grep -q ' rank 0 start .* total_steps 12345678 ' || fail "monitor rounds: $("$program" monitor "$work/long" --once)"
"$program" monitor "$seen" >"$work/followed" || fail "monitor of a run that has ended"
cmp -s "$work/out" "$work/followed" || fail "monitor of a run that has ended: $(cat "$work/followed")"
"$program" monitor "$seen" --json >"$work/out" || fail "monitor --json"
[ "$(field "$work/out" state)" = "ended (ok)" ] || fail "state: $(cat "$work/out")"
grep -q '"step": 300,$' "$work/out" || fail "no record: $(cat "$work/out")"
# a run that was killed goes silent, which a reader of lines was never told
"$program" train "$work/c.yaml" --quiet --set train.steps=100000000 --set monitor.dir="$work/killed" --set monitor.every_s=0.02 \
  >/dev/null 2>&1 &
pid=$!
wait_until "the event log of a run to kill" test -s "$work/killed/events.jsonl"
"$program" monitor "$work/killed" >"$work/lines" 2>"$work/err" &
reader=$!
wait_until "the first line" grep -qs running "$work/lines"
kill -KILL $pid
wait $pid 2>/dev/null || true
wait_until "the word that the run is silent" grep -q "^$work/killed: silent for " "$work/lines"
kill -INT $reader
wait $reader || fail "monitor of a silent run: exit code $?"
# an endless device in the place of a log was read without end
mkdir "$work/endless" && ln -s /dev/zero "$work/endless/events.jsonl"
expect 5 'events.jsonl: a special file, a regular file was expected' monitor "$work/endless" --once
expect 5 'events.jsonl: a special file, a regular file was expected' report "$work/endless"
mkdir "$work/bad" && echo garbage >"$work/bad/events.jsonl"
"$program" monitor "$work/bad" --once >"$work/out" || fail "monitor of a log that is none"
grep -q "^$work/bad: the log has no record that can be read" "$work/out" || fail "$(cat "$work/out")"
# a page that is none: said as an error, with exit code 0
mkdir "$work/paged" && cp "$seen/events.jsonl" "$work/paged" && echo none >"$work/paged/ranks.page"
"$program" monitor "$work/paged" --once >"$work/out" 2>"$work/err" || fail "monitor beside a page that is none"
grep -q "^lockstep: warning: $work/paged/ranks.page: is no page of a run's ranks" "$work/err" || fail "$(cat "$work/err")"
mkdir "$work/supervised" && ln -s "$seen" "$work/supervised/monitor"
"$program" monitor "$work/supervised" --once | grep -q 'step 300 of 300' || fail "a folder whose monitor.dir lies in it"
if command -v python3 >/dev/null 2>&1; then
  "$program" report "$seen" --output "$work/report.html" >"$work/out" 2>"$work/err" || fail "report: $(cat "$work/err")"
  grep -q "<title>lockstep run: $seen</title>" "$work/report.html" || fail "the report's title"
  grep -q '<dt>restarts</dt><dd>1</dd>' "$work/report.html" || fail "the report's restarts"
  grep -q '<dt>best evaluation</dt><dd>[0-9.]* at step' "$work/report.html" || fail "the report's best evaluation"
  for figure in r2 mae 'mae, 2'; do
    grep -q "<strong>Validation $figure</strong>" "$work/report.html" || fail "the report has no $figure"
  done
  # an evaluation is a point at its step: the curve stood still between two of them, and began at a later step
  [ "$(grep -c '<circle class="c1" cx=.*<title>step [0-9,]*: ' "$work/report.html")" -ge 100 ] || fail "the report has no points of evaluations"
  # it was exit code 7, and a message that named the report tool
  expect 4 "^lockstep: error: $work/bad: the event logs have no line of a training" report "$work/bad"
fi

# A run is followed from outside until its end: lines, as stdout is no terminal.
"$program" train "$work/c.yaml" --quiet --set train.steps=100000000 --set monitor.dir="$work/live" --set monitor.every_s=0.02 \
  --set train.checkpoint.dir="$work/liverun" >"$work/train.out" 2>"$work/err" &
pid=$!
wait_until "the event log" test -s "$work/live/events.jsonl"
"$program" monitor "$work/live" >"$work/lines" 2>&1 &
watcher=$!
screen=""
if has_terminal; then # the screen is drawn again, and is no longer or wider than it
  script -qefc "stty cols 60 rows 4; '$program' monitor '$work/live'" "$work/screen" >/dev/null </dev/null &
  screen=$!
fi
wait_until "ten records" has_lines 10
[ -z "$screen" ] || wait_until "the screen, drawn again" grep -qs "$(printf '\033')\[[0-9]*A" "$work/screen"
kill -TERM $pid
wait $pid || true
wait $watcher || fail "monitor: $(cat "$work/lines")"
if [ -n "$screen" ]; then
  wait $screen || fail "monitor on a terminal: $(cat "$work/screen")"
  ! grep -q "$(printf '\033')\[\([4-9]\|[1-9][0-9]\)A" "$work/screen" || fail "higher than the terminal"
  long=$(grep -v '^Script \|^loss ' "$work/screen" | sed "s/$(printf '\033')\[[0-9]*[AJ]//g; s/$(printf '\r')//g" | LC_ALL=C awk 'length($0) > 60')
  [ -z "$long" ] || fail "longer than the terminal: $long"
fi
grep -q 'running, step .* loss ' "$work/lines" || fail "no line of a record: $(cat "$work/lines")"
grep -q ' rank 0 end  text interrupted' "$work/lines" || fail "no end: $(tail -3 "$work/lines")"

# The configuration's faults; a port that is in use is refused before the first step.
expect 3 'monitor.sinks: `tensorbord` is not one of .*did you mean `tensorboard`' check "$work/c.yaml" --set 'monitor={dir: x, sinks: [tensorbord]}'
expect 3 'monitor.alerts.when: `los` is not measured; did you mean `loss`' check "$work/c.yaml" --set 'monitor={alerts: [{name: a, when: los > 1}]}'
expect 3 'monitor.alerts.clear: a condition is NAME OPERATOR NUMBER' check "$work/c.yaml" --set 'monitor={alerts: [{name: a, when: loss > 1, clear: loss}]}'
expect 3 'monitor.http_address: `::1` is no IPv4 address such as 127.0.0.1' check "$work/c.yaml" --set 'monitor={http_port: 9400, http_address: "::1"}'
expect 3 'monitor.alerts.name: `a` is the name of an alert above' check "$work/c.yaml" --set 'monitor={alerts: [{name: a, when: loss > 1}, {name: a, when: loss > 2}]}'
expect 3 'monitor.alerts.name: a name was expected' check "$work/c.yaml" --set 'monitor={alerts: [{name: "", when: loss > 1}]}'
# what would need monitor.dir was left out without a word
"$program" train "$work/c.yaml" --quiet --set train.steps=2 --set 'monitor={sinks: [csv]}' >"$work/out" 2>"$work/err" || fail "sinks without monitor.dir"
grep -q '^lockstep: warning: monitor.sinks: has no effect, because nothing is watched: set monitor.dir, or set train.checkpoint.dir and use lockstep train --supervise$' "$work/err" || fail "no word of sinks that get nothing: $(cat "$work/err")"
expect 3 'monitor.alerts.webhook: an address that begins with http:// or https:// was expected, or env:NAME' check "$work/c.yaml" --set 'monitor={alerts: [{name: a, when: loss > 1, webhook: "ftp://x"}]}'
expect 3 'monitor.alerts.mail: `a b` is no address' check "$work/c.yaml" --set 'monitor={alerts: [{name: a, when: loss > 1, mail: [a b]}]}'
expect 3 'monitor.alerts: a list of alerts was expected' check "$work/c.yaml" --set 'monitor={alerts: {name: a}}'
touch "$work/file"
expect 5 "$work/file" train "$work/c.yaml" --quiet --set monitor.dir="$work/file"

# An alert that holds is said once, on stderr and in the log.
# shellcheck disable=SC2086 # words
"$program" train "$work/c.yaml" --quiet $watched --set monitor.dir="$work/alert" --set 'monitor.alerts=[{name: learns, when: step >= 200}]' \
  >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
[ "$(grep -c 'warning: alert: learns raised on rank 0 of .*: step is 200' "$work/err")" = 1 ] || fail "alert: $(cat "$work/err")"
grep -q '"kind":"alert".*"alert":"learns","status":"raised"' "$work/alert/events.jsonl" || fail "no alert in the log"

# Secrets of a configuration stood in config.json, in checkpoints and in what is printed.
hook='http://user:pw-SECRET@127.0.0.1:1/?token=SECRET'
sed "s#^parallel#monitor: {dir: $work/hidden, alerts: [{name: at, when: step >= 1, webhook: '$hook'}]}\nparallel#; s#$work/run#$work/hiddenrun#" "$work/c.yaml" >"$work/hook.yaml"
mkdir "$work/said"
"$program" train "$work/hook.yaml" --verbose >"$work/said/out" 2>"$work/said/err" || fail "$(cat "$work/said/err")"
[ "$(grep -c 'warning: monitor.alerts.webhook of at: the address stands in the configuration itself' "$work/said/err")" = 1 ] || fail "no warning: $(cat "$work/said/err")"
grep -q 'alert at could not be passed on: curl: (7)' "$work/said/err" || fail "not sent: $(cat "$work/said/err")"
for how in 'inspect --resolved' 'inspect --resolved --json' check 'train --quiet --json --resume' 'train --resume --set train.batch=8' 'eval --json --checkpoint hiddenrun'; do
  # shellcheck disable=SC2086 # words
  (cd "$work" && "$program" ${how%% *} hook.yaml ${how#"${how%% *}"} >"said/$(echo "$how" | tr ' /' __)" 2>&1) || [ "${how%=*}" != "$how" ] || fail "$how: $(cat "$work/said/"*)"
done
found=$(grep -rl SECRET "$work/hidden" "$work/hiddenrun" "$work/said") || true
[ -z "$found" ] || fail "a secret stands in $found"
grep -q '"webhook": "(hidden)"' "$work/hiddenrun/config.json" || fail "config.json: $(cat "$work/hiddenrun/config.json")"
# the saved configuration serves everything but sending; with the source of the secret in its place it trains
"$program" check "$work/hiddenrun/config.json" >"$work/out" 2>"$work/err" || fail "config.json: $(cat "$work/err")"
expect 3 'monitor.alerts.webhook of at: the value is hidden in this saved configuration: write env:NAME or file:PATH' train "$work/hiddenrun/config.json" --resume --set train.steps=250
printf '%s\n' "$hook" >"$work/secret"
"$program" train "$work/hiddenrun/config.json" --resume --set train.steps=250 --set monitor.alerts.0.webhook="file:$work/secret" >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
! grep -q SECRET "$work/err" || fail "a secret is said: $(cat "$work/err")"
grep -q "\"webhook\": \"file:$work/secret\"" "$work/hiddenrun/config.json" || fail "$(cat "$work/hiddenrun/config.json")"

# A recorded GPU in NVML's place, on any machine: its margin shrinks, and a limit of the run is told.
printf '%s\n' '{"t": 0, "gpu_temperature_c": 60, "gpu_margin_c": 20, "gpu_power_w": 300, "gpu_power_limit_w": 400}' \
  '{"t": 0.1, "gpu_temperature_c": 82, "gpu_margin_c": -2, "gpu_power_w": 420, "gpu_power_limit_w": 400, "gpu_heat_limited": 1}' >"$work/gpu"
LOCKSTEP_NVML="$work/gpu" "$program" train "$work/c.yaml" --quiet --set train.steps=100000000 --set monitor.dir="$work/hot" --set monitor.every_s=0.02 --set 'monitor.sinks=[prometheus]' \
  --set 'monitor.alerts=[{name: hot, when: gpu_margin_c <= 5, for_s: 0.05, tell: [gpu_temperature_c]}]' \
  --set train.checkpoint.dir="$work/hotrun" >"$work/train.out" 2>"$work/err" &
pid=$!
wait_until "the alert" grep -q 'alert: hot raised on rank 0 of .*: gpu_margin_c is -2, gpu_temperature_c 82' "$work/err"
kill $pid
wait $pid || true
"$program" monitor "$work/hot" --once >"$work/out"
grep -q '^gpu of rank 0 .* 82 C (margin -2)  420 W  T$' "$work/out" || fail "the GPU's line: $(cat "$work/out")"
LOCKSTEP_NVML="$work/gone"
export LOCKSTEP_NVML
expect 5 "$work/gone" train "$work/c.yaml" --quiet --set monitor.dir="$work/hot2"
unset LOCKSTEP_NVML

# What deploy/ asks for is measured.
for name in $(grep -oh 'lockstep_[a-z_]*' "$source_dir/deploy/prometheus-rules.yaml" "$source_dir/deploy/grafana.json" | sort -u); do
  grep -q "\"$name\"\|$name{" "$source_dir/src/live/monitor/record.h" "$source_dir/src/live/monitor/prometheus.c" || fail "deploy/: nothing measures $name"
done

# Readers of others, where they are installed.
if command -v promtool >/dev/null 2>&1; then
  for metrics in "$seen/metrics.prom" "$work/hot/metrics.prom"; do
    promtool check metrics <"$metrics" >"$work/out" 2>&1 || fail "promtool: $(cat "$work/out")"
  done
  promtool check rules "$source_dir/deploy/prometheus-rules.yaml" >"$work/out" 2>&1 || fail "promtool: $(cat "$work/out")"
else
  echo "promtool (package prometheus) is not installed: it did not read metrics.prom"
fi
if python3 -c 'import tensorboard' 2>/dev/null; then
  python3 - "$seen" <<'P' || fail "TensorBoard does not read the event files"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1]).Reload()
assert log.Scalars("train/loss")[-1].step == 300, log.Tags()
P
else
  echo "tensorboard (Python) is not installed: it did not read the event files"
fi
echo ok
