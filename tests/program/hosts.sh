#!/bin/sh
# lockstep train --supervise over several hosts: three network namespaces with processes, memory and an sshd of their own. A
# rank is killed on one of them, a host is cut off, another one dies: the run goes on with the hosts that are left, to the
# bits of an undisturbed run. Prints how soon each was noticed.
set -eu
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/spaces.sh"
command -v mpirun >/dev/null 2>&1 || skip "no mpirun"
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || skip "sshd is missing: apt-get install openssh-server"
for tool in ssh ssh-keygen bash; do
  command -v $tool >/dev/null 2>&1 || skip "$tool is missing: apt-get install openssh-client bash"
done
time=${LOCKSTEP_TEST_TIME:-1}
open_spaces
ssh-keygen -q -t ed25519 -N '' -f "$work/key" && ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
cat >"$work/sshd_config" <<S
Port 2222
HostKey $work/host_key
AuthorizedKeysFile $work/key.pub
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
PidFile none
MaxStartups 100
SetEnv ASAN_OPTIONS="${ASAN_OPTIONS:-}" LSAN_OPTIONS="${LSAN_OPTIONS:-}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-}" TSAN_OPTIONS="${TSAN_OPTIONS:-}"
S
cat >"$work/ssh_config" <<S
Host *
  Port 2222
  IdentityFile $work/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
  ConnectTimeout 5
S
for i in 1 2 3; do host $i "mkdir /run/sshd; exec '$sshd' -D -e -f '$work/sshd_config'"; done
answers() { on 1 ssh -F "$work/ssh_config" "10.99.0.$1" true 2>"$work/err"; }
for i in 1 2 3; do wait_until "host $i" answers $i; done

# ---- the runs
cat >"$work/c.yaml" <<Y
model: {input: [30], loss: mse, layers: [{dense: {units: 64, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000, validation: 0.1}
train: {batch: 64, steps: 4000, evaluate_every: 0, optimizer: {name: adam}, checkpoint: {every_steps: 200, beside: false}}
parallel:
  {strategy: ddp, reproducible: true, backend: cpu, threads: 1, deadline_s: 600, remote_shell: ssh -F $work/ssh_config,
  hosts: [{name: 10.99.0.2}, {name: 10.99.0.1, slots: 2}, {name: 10.99.0.3}]}
supervise: {hang_s: 600, host_s: $((2 * time)), port: 7007, ranks: {least: 1}, restarts: {backoff_s: 0.1}}
Y
"$program" train "$work/c.yaml" --quiet --json --ranks 1 --set parallel.hosts= >"$work/whole.json" 2>"$work/err" || fail "the undisturbed run: $(cat "$work/err")"
want=$(field "$work/whole.json" params_xxh3)
[ -n "$want" ] || fail "the undisturbed run reported no hash"
# supervised NAME [ARGUMENT...]: in the background on host 1; its exit code comes into $work/NAME.code
supervised() {
  run=$1
  shift
  (
    got=0
    on 1 "$program" train "$work/c.yaml" --supervise --quiet --json --set train.checkpoint.dir="$work/$run" "$@" \
      >"$work/$run.json" 2>"$work/err" || got=$?
    echo $got >"$work/code" && mv "$work/code" "$work/$run.code"
  ) &
}
saved() { [ -e "$work/$run/step-00000000$1" ]; }
said() { grep -q "$1" "$work/err"; }
over() { [ -e "$work/$run.code" ]; }
nobody_left() { ! grep -ls "$work/c[.]yaml" /proc/[0-9]*/cmdline >"$work/left" 2>/dev/null; }
same_bits() {
  wait_until "the end of $run" over
  [ "$(cat "$work/$run.code")" = 0 ] || fail "$run: exit code $(cat "$work/$run.code"): $(cat "$work/err")"
  [ "$(field "$work/$run.json" params_xxh3)" = "$want" ] || fail "$run: params_xxh3 $(field "$work/$run.json" params_xxh3), undisturbed $want"
  grep -q '"result": "finished"' "$work/$run/monitor/supervise.json" || fail "$run: $(cat "$work/$run/monitor/supervise.json")"
  [ ! -e "$work/$run/hosts.token" ] || fail "$run: the token is still there"
  cat "$work/$run/monitor/supervise.txt"
}

# a rank dies on another host, which says so; then a host is cut off, and ends its ranks by itself
export LOCKSTEP_FAULT="kill 3 300 $work/first.once"
supervised first
unset LOCKSTEP_FAULT
wait_until "the next life after a rank has died" saved 0600
# with Open MPI 5 the other ranks abort as soon as the connection closes, and mpirun mostly tells of them, not of the signal
died='was ended by signal 9'
! mpirun --version | grep -q '(Open MPI) 5' || died="\\($died\\|ended without having finished\\)"
said "rank 3 of 4 (process [0-9]*) $died" || fail "no word of the rank: $(cat "$work/err")"
[ "$(stat -c %a "$work/first/hosts.token")" = 600 ] || fail "others can read the token"
! grep -aqs "$(cat "$work/first/hosts.token")" /proc/[0-9]*/cmdline || fail "the token is on a command line"
# shellcheck disable=SC2016 # of the other shell
on 2 bash -c 'exec 3<>/dev/tcp/10.99.0.1/7007 && echo "00000000000000000000000000000000 hello 1 0" >&3 && ! read -r -t 10 <&3' || fail "a wrong token is answered"
for i in 1 2 3; do on 2 bash -c 'echo "0 x" >/dev/tcp/10.99.0.1/7007'; done
wait_until "a word of the wrong token" said 'a message without this run.s token.*(1 so far)'
[ "$(grep -c 'without this run.s token' "$work/err")" = 1 ] || fail "told of each: $(cat "$work/err")"
alone() { on 3 sh -c "! grep -ls '$work/c[.]yaml' /proc/[0-9]*/cmdline" >"$work/left" 2>/dev/null; }
! alone || fail "no rank is seen on host 3"
cut=$(date +%s.%N)
ip -netns "$space-0" link set host3 down # as if its cable were pulled
wait_until "the end of the ranks on a host that is cut off" alone
kill -KILL "$(cat "$work/3.pid")"
same_bits
grep -q '"host": "10.99.0.3"' "$work/first/monitor/supervise.json" || fail "first: no host in $(cat "$work/first/monitor/supervise.json")"
said 'host 10.99.0.3 is lost: nothing was heard of it for .* on 2 of 4 ranks, without host 10.99.0.3' || fail "first: $(cat "$work/err")"
[ "$(field "$work/first.json" world_size)" = 2 ] || fail "first: $(cat "$work/first.json")"
sed -n 's/.*"noticed_unix_s": \([0-9.]*\).*/\1/p' "$work/first/monitor/supervise.json" | awk -v cut="$cut" 'END { printf "a host cut off: noticed after %.2f s\n", $1 - cut }'

# by IPv6: a rank on another host is slow, and named; then it hangs: its collectives and threads are in the report
export LOCKSTEP_FAULT="slow 3 10 always"
supervised hung --set supervise.hang_s=$((5 * time)) --set supervise.restarts.most=0 --set train.steps=1000000 --set monitor.every_s=0.1 \
  --set 'parallel.hosts=[{name: "fd00::1", slots: 3}, {name: "[fd00::2]"}]'
unset LOCKSTEP_FAULT
named() { said 'straggler is 1, straggler_rank 3, '; }
wait_until "a word of the rank that is slow on another host" named
pid=$(on 2 sh -c "grep -als OMPI_COMM_WORLD_RANK=3 /proc/[0-9]*/environ" | sed 's|/proc/\([0-9]*\)/.*|\1|;q')
[ -n "$pid" ] || fail "hung: no rank 3 to stop: $(cat "$work/err")"
on 2 kill -STOP "$pid"
wait_until "the end of the run that hangs" over
for i in 1 2; do
  left=$(on $i ls /dev/shm) || fail "host $i does not show its /dev/shm"
  ! echo "$left" | grep -E '^(vader|sm)_segment|^osc_sm' || fail "shared memory of dead ranks stays on host $i"
done
said 'rank 3 of 4 (process [0-9]*) .*stopped' || fail "hung: $(cat "$work/err")"
for part in '  rank 3, newest first:$' '^    all-[a-z]* "[^"]*" #[0-9]* (.*), begun' '^  on host fd00::2$' '^  thread [0-9]* "[^"]*", state [Tt]'; do
  grep -q "$part" "$work/hung/monitor/supervise.txt" || fail "hung: no $part in $(cat "$work/hung/monitor/supervise.txt" "$work/err")"
done

# a host without the run's directory is refused; one on which everything dies is left out, here with the list in a file
mkdir "$work/unseen"
on 2 mount -t tmpfs none "$work/unseen"
printf '# two hosts\n10.99.0.1\n10.99.0.2 slots=1\n' >"$work/hosts"
supervised unseen --hosts "$work/hosts"
wait_until "the refusal" over
[ "$(cat "$work/unseen.code")" = 3 ] || fail "unseen: exit code $(cat "$work/unseen.code"): $(cat "$work/err")"
said 'host 10.99.0.2 cannot be used: .*hosts.token is not there; train.checkpoint.dir has to lie on storage that all hosts see' || fail "unseen: $(cat "$work/err")"
export LOCKSTEP_FAULT="host_lost 1 700 $work/second.once"
# a_host_that_returns: it answers again, and the run goes on with it without another failure
supervised second --hosts "$work/hosts" --set train.steps=100000000 --set supervise.ranks.return_s=0.2
unset LOCKSTEP_FAULT
wait_until "the return of a host" said 'host 10.99.0.2 answers again. The run goes on on all 2 ranks'
said 'host 10.99.0.2 is lost: .* on 1 of 2 ranks, without host 10.99.0.2' || fail "second: $(cat "$work/err")"
back=$(ls "$work/second" | tail -1)
saved_since() { [ "$(ls "$work/second" | tail -1)" != "$back" ]; }
wait_until "a save on all ranks" saved_since
# shellcheck disable=SC2016 # of the other shell
on 1 sh -c 'for p in $(grep -als -e "[-]-supervise" /proc/[0-9]*/cmdline | sed "s|/cmdline||"); do kill -TERM "${p#/proc/}"; done'
wait_until "the end of second" over
[ "$(cat "$work/second.code")" = 75 ] || fail "second: exit code $(cat "$work/second.code"): $(cat "$work/err")"
grep -q 'life 2: 1 rank, .*: host 10.99.0.2 answers again' "$work/second/monitor/supervise.txt" &&
  grep -q 'life 3: 2 ranks' "$work/second/monitor/supervise.txt" || fail "second: $(cat "$work/second/monitor/supervise.txt")"
sed -n 's/.*"noticed_unix_s": \([0-9.]*\).*/\1/p' "$work/second/monitor/supervise.json" | awk -v cut="$(cat "$work/second.once")" 'NR == 1 { printf "a host that died: noticed after %.2f s\n", $1 - cut }'
wait_until "the end of all processes" nobody_left
echo ok
