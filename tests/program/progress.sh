#!/bin/sh
# The progress line on a terminal, whose width it keeps, and elsewhere. What follows it begins on a line of its own.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/run.yaml" <<'EOF'
model: {input: [8], loss: mse, layers: [{dense: {units: 16, activation: tanh}}, {dense: {units: 1}}]}
data: {kind: synthetic, samples: 4000, inputs: 8, validation: 0.25}
train: {batch: 50, epochs: 4, optimizer: {name: adam, lr: 0.001}}
parallel: {backend: cpu, threads: 1}
EOF
export TERM=xterm

# elsewhere: a line for each epoch
"$program" train "$work/run.yaml" >/dev/null 2>"$work/err"
[ "$(grep -c ' step ' "$work/err")" = 4 ] || fail "no line per epoch: $(cat "$work/err")"

# a file had a line for each of a thousand epochs of a millisecond
"$program" train "$work/run.yaml" --set data.samples=100 --set data.validation=0 --set train.epochs=3000 >/dev/null 2>"$work/err"
lines=$(grep -c ' step ' "$work/err")
[ "$lines" -ge 20 ] && [ "$lines" -le 100 ] || fail "$lines lines of 3000 epochs"
tail -1 "$work/err" | grep -q '^100 %.*step 6000/6000' || fail "no last line: $(tail -1 "$work/err")"

has_terminal || { echo "skipped: a progress line on a terminal, because $no_terminal"; exit 77; }
# shown PATTERN: waits until the screen has it; types Ctrl-C at the deadline
shown() {
  until grep -q "$1" "$work/screen"; do
    if [ "$(date +%s)" -ge $deadline ]; then
      [ -e "$work/late" ] || echo "$1" >"$work/late"
      printf '\003'
      return
    fi
    sleep 0.1
  done
}
# on_terminal COLUMNS INTERRUPT ARGUMENT...: trains on a terminal; types Ctrl-C once the line stands. A training whose line or end
# does not come is ended, and the test fails.
on_terminal() {
  columns=$1 interrupt=$2 limit_s=$((60 * ${LOCKSTEP_TEST_TIME:-1}))
  shift 2
  deadline=$(($(date +%s) + limit_s))
  : >"$work/screen"
  {
    shown 'loss\|error'
    [ "$interrupt" = no ] || printf '\003'
    shown 'whole run\|error'
  } | timeout -s KILL $((limit_s + 30)) script -qefc "stty cols $columns; '$program' train '$work/run.yaml' $*" "$work/screen" >/dev/null || true
  [ ! -e "$work/late" ] ||
    fail "no \"$(cat "$work/late")\" on a terminal after $limit_s s with $*: $(head -c 300 "$work/screen" | cat -v) .. $(tail -c 600 "$work/screen" | cat -v)"
  tr '\r' '\n' <"$work/screen" | grep -a 'loss.*%\|%.*loss' | grep -a '^ *[0-9]* %  ' >"$work/lines" ||
    fail "no progress on a terminal: $(cat "$work/screen")"
}
esc=$(printf '\033')

# the line fits the width, with one rank and with two; on the screen the lines of epochs end, which stay, and no other
for ranks in 1 2; do
  on_terminal 50 no --ranks $ranks --set parallel.strategy=ddp
  awk -v esc="$esc" '{ sub(esc "\\[K.*", "") } length($0) > 50 { exit 1 }' "$work/lines" ||
    fail "wider than the terminal with $ranks ranks: $(cat -v "$work/lines")"
  [ "$(grep -ac "loss.*$esc\\[K.\$" "$work/screen")" = 4 ] || fail "not a line for each epoch with $ranks ranks: $(head -c 900 "$work/screen" | cat -v)"
  grep -q '^100 %' "$work/lines" || fail "no end with $ranks ranks: $(cat -v "$work/lines")"
done

# the interruption begins on a line of its own
for ranks in 1 2; do
  on_terminal 120 yes --ranks $ranks --set parallel.strategy=ddp --set train.epochs=1000000
  grep -aq 'error: .*interrupted after' "$work/screen" || fail "not interrupted: $(tail -c 600 "$work/screen" | cat -v)"
  sed "s/$esc\\[K//g" "$work/screen" | tr '\r' '\n' | grep -aq '^lockstep: error: .*interrupted after' ||
    fail "the message does not begin its line with $ranks ranks: $(tail -c 600 "$work/screen" | cat -v)"
done
