#!/bin/sh
# Launchers of other versions, played by scripts on PATH: how they are called, and how their failures are told.
set -eu
. "$(dirname "$0")/lib.sh"
mkdir "$work/bin"
PATH=$work/bin:$PATH
cat >"$work/c.yaml" <<Y
model: {input: [1], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: synthetic, samples: 64}
train: {batch: 4, epochs: 1}
parallel: {strategy: ddp, ranks: 2, backend: cpu}
Y
# launcher VERSION-TEXT [SCRIPT]: an mpirun that says so, writes its arguments into the file "called" and goes on with the script
launcher() {
  rm -f "$work/bin/mpirun" # one that still runs keeps its own
  printf '#!/bin/sh\nif [ "$1" = --version ]; then\n  echo "%s"\n  exit 0\nfi\necho "$@" >"%s/called"\n%s\n' "$1" "$work" "${2:-exit 0}" \
    >"$work/bin/mpirun"
  chmod +x "$work/bin/mpirun"
}
called() {
  grep -q -e "$1" "$work/called" || fail "mpirun was called with: $(cat "$work/called"), not with $1"
}
# an mpirun that ignores SIGTERM is ended by force, five seconds after the second signal: meanwhile the test goes on
launcher 'mpirun (Open MPI) 4.1.4' "trap '' TERM; : >'$work/ignores'; sleep 300 & while :; do wait; done"
"$program" train "$work/c.yaml" >"$work/out" 2>"$work/ignored" &
ignored=$!
wait_until "the launcher" [ -e "$work/ignores" ]
kill -TERM $ignored
wait_until "the handler of the first signal" grep -q '^ShdPnd:[^1-9a-f]*$' /proc/$ignored/status
kill -INT $ignored # a second SIGTERM as soon as this is taken for an echo of the first
launcher 'mpirun (Open MPI) 4.1.4'
"$program" train "$work/c.yaml"
called '^--oversubscribe --bind-to none -np 2 '
launcher 'mpirun (Open MPI) 5.0.7'
"$program" train "$work/c.yaml"
called '^--map-by :OVERSUBSCRIBE --bind-to none -np 2 '
if grep -q -e ' -q ' "$work/called"; then fail "Open MPI 5 refuses -q"; fi
# one_host_is_reachable_without_shared_memory: Open MPI 5's ranks of one host found no way over TCP to each other
launcher 'mpirun (Open MPI) 5.0.7' '[ "$OMPI_MCA_reachable" = weighted ]'
"$program" train "$work/c.yaml" || fail "Open MPI 5 is not told how ranks of one host reach each other"
launcher 'HYDRA build details:'
expect 7 'mpirun is that of MPICH (Hydra).*put the mpirun of Open MPI first on PATH' train "$work/c.yaml"
launcher 'Intel(R) MPI Library for Linux* OS, Version 2021.11'
expect 7 'mpirun is that of Intel MPI' train "$work/c.yaml"
launcher 'slurm 22.05.8'
expect 7 "mpirun is that of Slurm's srun.*srun -n RANKS lockstep" train "$work/c.yaml"
launcher 'my launcher 1.0'
expect 7 'does not know (mpirun --version says "my launcher 1.0")' train "$work/c.yaml"

# open_mpi_5_needs_a_home: without one it does not even say its version
launcher 'mpirun (Open MPI) 5.0.7'
sed -i '1a [ "${HOME:-}" ] || { echo "[x:1] Error: Unable to get the user home directory" >\&2; exit 1; }' "$work/bin/mpirun"
rm "$work/called"
if [ "$(getent passwd "$(id -u)")" ]; then
  for home in -uHOME HOME=; do env $home "$program" train "$work/c.yaml" || fail "a user with a home directory, and $home"; done
  called '^--map-by :OVERSUBSCRIBE --bind-to none -np 2 '
else
  HOME= expect 7 'mpirun --version failed (exit code 1): \[x:1\] Error: Unable to get the user home directory; HOME is not set' train "$work/c.yaml"
fi
launcher '' # and nothing that a launcher would say
sed -i '1a echo "no such library: libprrte.so" >\&2; exit 127' "$work/bin/mpirun"
expect 7 'mpirun --version failed (exit code 127): no such library: libprrte\.so$' train "$work/c.yaml"
# a_version_that_fails: what it says then identifies nothing
launcher 'mpirun (Open MPI) 5.0.7'
sed -i 's/exit 0/exit 9/' "$work/bin/mpirun"
expect 7 'mpirun --version failed (exit code 9): mpirun (Open MPI) 5\.0\.7$' train "$work/c.yaml"

# an exit code above 128 is no signal where none is named
launcher 'mpirun (Open MPI) 5.0.7' 'printf -- "%s\nThe option -q is not\nknown here.\n%s\n" ------------------------- ------------------------- >&2; exit 213'
expect 9 'could not run the ranks, and none of them has said why; it says: The option -q is not known here\.$' train "$work/c.yaml"
if grep -q 'signal\|^---' "$work/err"; then fail "the launcher's own exit code: $(cat "$work/err")"; fi
# one_that_is_killed_at_its_start: mpirun may end with the signal's code and without a word
launcher 'mpirun (Open MPI) 4.1.4' 'exit 137'
expect 137 'error: a rank was ended by signal 9 (Killed)' train "$work/c.yaml"
launcher 'mpirun (Open MPI) 5.0.7' 'echo "prterun noticed that process rank 1 with PID 7 on node x exited on signal 11 (Segmentation fault)." >&2; exit 139'
expect 139 'error: rank 1 was ended by signal 11 (Segmentation fault)' train "$work/c.yaml"
# words_broken_over_lines: with a longer process number or host the same line is broken, after any word
launcher 'mpirun (Open MPI) 5.0.7' 'printf -- "%s\nprterun noticed that process\nrank 1 with PID 17785 on node x exited on\nsignal 9 (Killed).\n%s\n" ------------------------- ------------------------- >&2; exit 137'
expect 137 'error: rank 1 was ended by signal 9 (Killed)' train "$work/c.yaml"
launcher 'mpirun (Open MPI) 4.1.4' 'echo "[x:1] [[1,0],0] ORTE_ERROR_LOG: Out of resource in file a.c at line 3" >&2; exit 1'
expect 9 'it says: ORTE_ERROR_LOG: Out of resource' train "$work/c.yaml"
[ "$(grep -c '^\[x:1\] \[\[1,0\],0\] ORTE_ERROR_LOG' "$work/err")" = 1 ] || fail "not all that the launcher said: $(cat "$work/err")"
expect 9 '^\[x:1\] \[\[1,0\],0\] ORTE_ERROR_LOG' train "$work/c.yaml" --verbose
# a_launcher_that_always_fails: a supervised run tries again, but not without end, and shows what the launcher says
expect 9 'exit code 9. Not started again: as many restarts in a row' train "$work/c.yaml" --supervise --set train.checkpoint.dir="$work/run" \
  --set supervise.restarts.most=2 --set supervise.restarts.backoff_s=0.01
[ "$(grep -c '^\[x:1\] .*ORTE_ERROR_LOG: Out of resource' "$work/err")" = 3 ] || fail "not three lives: $(cat "$work/err")"
grep -q 'it said: mpirun (Open MPI 4) could not run the ranks.*Out of resource' "$work/run/monitor/supervise.txt" || fail "$(cat "$work/run/monitor/supervise.txt")"
launcher 'mpirun (Open MPI) 4.1.4' 'echo "[x:1] noise" >&2; echo "lockstep: error: rank 1: bad" >&2; exit 4'
expect 4 '^lockstep: error: rank 1: bad$' train "$work/c.yaml"
if grep -q noise "$work/err"; then fail "the launcher's lines beside a rank's error: $(cat "$work/err")"; fi
# a NUL after the launcher's lines does not hide the rank's error behind it
launcher 'mpirun (Open MPI) 5.0.7' 'printf "[x:1] noise\\n\\000lockstep: error: rank 1: bad\\n" >&2; exit 4'
expect 4 '^lockstep: error: rank 1: bad$' train "$work/c.yaml"

# mpirun was told to end, not the program: it answers 1, but all ranks have saved; an error beside that counts
launcher 'mpirun (Open MPI) 4.1.4' 'echo "lockstep: error: rank 0: interrupted after 7 of 9 steps; go on with --resume" >&2; exit 1'
expect 130 '^lockstep: error: rank 0: interrupted after 7 of 9 steps; go on with --resume$' train "$work/c.yaml"
launcher 'mpirun (Open MPI) 4.1.4' 'printf "lockstep: error: rank 1: bad\nlockstep: error: rank 0: interrupted after 7 of 9 steps\n" >&2; exit 1'
expect 1 'rank 1: bad$' train "$work/c.yaml"

# the launcher's words behind a progress line of a terminal are the launcher's all the same; the line end that ranks write is dropped
cat >"$work/words" <<'W'
[x:1] *** Process received signal ***
mpirun: Forwarding signal 10 to job
W
rule=--------------------------------------------------------------------------
printf '%s\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n' \
  $rule >"$work/block"
printf '%s\n%s\nmpirun noticed that process rank 1 with PID 7 on node x exited on signal 9 (Killed).\n%s\n' $rule $rule $rule >"$work/cause"
for end in '' '\n'; do
  launcher 'mpirun (Open MPI) 4.1.4' "line() { printf '\r %d %%  loss 1.2000  1:44 left\033[K$end' \$1 >&2; }
    line 10; cat '$work/words' >&2; line 20; cat '$work/block' >&2; line 30; cat '$work/cause' >&2; exit 137"
  expect 137 'error: rank 1 was ended by signal 9 (Killed)' train "$work/c.yaml"
  esc=$(printf '\033')
  printf '\r 10 %%  loss 1.2000  1:44 left%s[K\r 20 %%  loss 1.2000  1:44 left%s[K\r 30 %%  loss 1.2000  1:44 left%s[K%s\n' "$esc" "$esc" "$esc" \
    'lockstep: error: rank 1 was ended by signal 9 (Killed)' >"$work/screen"
  cmp -s "$work/screen" "$work/err" || fail "the launcher behind a progress line: $(cat -v "$work/err")"
done

# two ranks say at once that IPv6 does not connect them: the words of one stand behind the origins of both
launcher 'mpirun (Open MPI) 5.0.7' 'pairing="Unable to find reachable pairing between local and remote interfaces"; printf "%s\n" "[x][[1,1],1][btl_tcp_proc.c:266:graph] [x][[1,1],0][btl_tcp_proc.c:266:graph] $pairing" "$pairing" "" >&2; exit 0'
"$program" train "$work/c.yaml" 2>"$work/err"
[ ! -s "$work/err" ] || fail "Open MPI about interfaces: $(cat "$work/err")"
# what a launcher adds to every failure is not its cause
launcher 'mpirun (Open MPI) 4.1.4' 'printf -- "%s\nNo slots are left.\n%s\n[x:1] 1 more process has sent help message help-a.txt / b\n[x:1] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error messages\n%s\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n%s\n%s\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[1,1],1]\n  Exit code:    1\n%s\n" ------------------------- ------------------------- ------------------------- ------------------------- ------------------------- ------------------------- >&2; exit 1'
expect 9 'it says: No slots are left\.' train "$work/c.yaml"

# an mpirun that hangs, with a rank that has ended and that nobody waits for, is ended; not after 20 s where ranks wait for one
launcher 'mpirun (Open MPI) 4.1.4' 'true & exec sleep 300'
got=0
timeout -s KILL $((15 * ${LOCKSTEP_TEST_TIME:-1})) "$program" train "$work/c.yaml" --set parallel.deadline_s=1 2>"$work/err" || got=$?
[ $got = 9 ] && grep -q 'could not run the ranks' "$work/err" || fail "an mpirun that hangs: exit code $got: $(cat "$work/err")"
# ranks stuck inside MPI hear no request: one SIGTERM ends them all the same, after the deadline, even ranks that have lost mpirun
launcher 'mpirun (Open MPI) 4.1.4' "trap '' USR1; : >'$work/stuck'; sleep 300 & wait"
"$program" train "$work/c.yaml" --set parallel.deadline_s=1 >"$work/out" 2>"$work/err" &
pid=$!
wait_until "stuck ranks" test -e "$work/stuck"
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "stuck ranks: exit code $got: $(cat "$work/err")"
grep -q 'warning: SIGTERM asked the ranks to end, and after 5 s they have not: they are ended without saving$' "$work/err" ||
  fail "stuck ranks: $(cat "$work/err")"
mkdir "$work/gone"
got=0
(cd "$work/gone" && rmdir "$work/gone" && launcher 'mpirun (Open MPI) 4.1.4' 'exit 1' && exec "$program" train "$work/c.yaml") \
  2>"$work/err" || got=$?
[ $got = 7 ] || fail "in a deleted folder: exit code $got: $(cat "$work/err")"
grep -q 'the current folder has been deleted: change to one that exists' "$work/err" || fail "in a deleted folder: $(cat "$work/err")"
rm "$work/bin/mpirun"
# Where the ranks' window does not fit in /dev/shm, they exchange messages; Open MPI 4 would wait for it forever.
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs -o size=64k none /dev/shm 2>/dev/null; then
  got=0
  unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && exec "$0" train "$1"' "$program" "$work/c.yaml" >"$work/out" 2>"$work/err" || got=$?
  [ $got = 0 ] || fail "a small /dev/shm: exit code $got: $(cat "$work/err")"
  grep -q 'no shared memory between the ranks of this host' "$work/err" || fail "a small /dev/shm: $(cat "$work/err")"
else
  echo "not run: a small /dev/shm (needs root and mount)"
fi
got=0
wait $ignored || got=$?
[ $got = 130 ] || fail "an mpirun that ignores SIGTERM: exit code $got: $(cat "$work/ignored")"
! grep 'they have not' "$work/ignored" || fail "the second signal was not heard: the end of patience ended the ranks"
echo ok
