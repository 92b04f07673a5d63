#!/bin/sh
# A configuration from stdin or a pipe is read once, and reaches the ranks and the processes that bench starts.
set -eu
. "$(dirname "$0")/lib.sh"
cat >"$work/c.yaml" <<'Y'
model: {input: [4], loss: mse, layers: [{dense: {units: 2}}]}
data: {kind: synthetic, samples: 60}
train: {batch: 10, steps: 4, checkpoint: {dir: run}}
parallel: {backend: cpu, strategy: ddp}
Y
cd "$work"
"$program" check - <c.yaml >/dev/null || fail "check - from a file"
cat c.yaml | "$program" check - >/dev/null || fail "check - from a pipe"
cat c.yaml | "$program" check --config - >/dev/null || fail "check --config -"
"$program" check /dev/stdin <c.yaml >/dev/null || fail "check /dev/stdin"
got=0
$launcher -np 3 "$program" train - --quiet <c.yaml >out 2>err || got=$?
[ $got = 2 ] && [ "$(grep -c 'lockstep: error' err)" = 1 ] || fail "stdin of a launcher, $got: $(cat err)"
grep -q '^lockstep: error: -: a launcher gives its input to one rank only' err || fail "not rank 0 speaks: $(cat err)"
mkfifo pipe
cat c.yaml >pipe &
"$program" check pipe >/dev/null || fail "check of a pipe"
cat c.yaml | "$program" train - --ranks 2 --quiet --json >train.json || fail "train - with two ranks"
[ "$(field train.json world_size)" = 2 ] || fail "$(cat train.json)"
[ -f run/config.json ] || fail "paths do not start at the current folder"
cat c.yaml | "$program" bench - --ranks-list 1 --repetitions 1 --steps 2 --quiet >/dev/null || fail "bench -"
echo 'modle: {}' >bad.yaml
expect 3 '^lockstep: error: stdin:1:1: unknown option .modle' check - <bad.yaml
expect 3 'stdin:1:1: nothing is configured' check - </dev/null
head -c 2000000 /dev/zero | tr '\0' '#' >large
expect 3 'stdin: more than the limit of 1048576 bytes' check - <large
expect 3 'large: more than the limit of 1048576 bytes' check large
