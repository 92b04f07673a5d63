#!/bin/sh
# How ranks are started: on one host as children, without a launcher; on several by mpirun, whose versions are played by scripts on
# PATH: how they are called, and how their failures are told.
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
sed 's/^parallel: {/&hosts: [{name: localhost}, {name: elsewhere.invalid}], /' "$work/c.yaml" >"$work/hosts.yaml"
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

# ---- one host
# no_launcher_on_one_host: mpirun took half a second, and was needed
launcher 'mpirun (Open MPI) 4.1.4' 'exit 9'
"$program" train "$work/c.yaml" --quiet --json >"$work/two.json" 2>"$work/err" || fail "without mpirun: $(cat "$work/err")"
[ "$(field "$work/two.json" world_size)" = 2 ] || fail "not two ranks: $(cat "$work/two.json")"
"$program" train "$work/c.yaml" --quiet --json --set 'parallel.hosts=[{name: localhost, slots: 2}]' >"$work/named.json" || fail "one host by its name: exit code $?"
[ "$(field "$work/named.json" params_xxh3)" = "$(field "$work/two.json" params_xxh3)" ] || fail "one host by its name: $(cat "$work/named.json")"
[ ! -e "$work/called" ] || fail "mpirun was called on one host: $(cat "$work/called")"
# ended KIND CODE WORDS: a rank that ends so ends the run
ended() {
  LOCKSTEP_FAULT="$1 1 3 $work/$1.once" expect "$2" "$3" train "$work/c.yaml" --quiet
  [ -e "$work/$1.once" ] || fail "$1: did not come"
}
ended kill 137 'error: rank 1 was ended by signal 9 (Killed)'
ended abort 134 'error: rank 1 was ended by signal 6 (Aborted)'
ended exit 9 'error: rank 1 ended without having finished'
# the variable by which a rank knows itself, in a process that is none
LOCKSTEP_RANK="0 2 77" expect 9 'LOCKSTEP_RANK does not belong to this process' train "$work/c.yaml" --quiet
! ls /dev/shm | grep lockstep || fail "shared memory is left"

# ---- several hosts
# an mpirun that ignores SIGTERM is ended by force, five seconds after the second signal: meanwhile the test goes on
launcher 'mpirun (Open MPI) 4.1.4' "trap '' TERM; : >'$work/ignores'; sleep 300 & while :; do wait; done"
"$program" train "$work/hosts.yaml" >"$work/out" 2>"$work/ignored" &
ignored=$!
wait_until "the launcher" [ -e "$work/ignores" ]
kill -TERM $ignored
wait_until "the handler of the first signal" grep -q '^ShdPnd:[^1-9a-f]*$' /proc/$ignored/status
kill -INT $ignored # a second SIGTERM as soon as this is taken for an echo of the first
launcher 'mpirun (Open MPI) 4.1.4' 'echo the result'
[ "$("$program" train "$work/hosts.yaml")" = "the result" ] || fail "what ranks print does not arrive"
called '^--host localhost:1,elsewhere.invalid:1 .*--oversubscribe --bind-to none -np 2 .* train '
launcher 'mpirun (Open MPI) 5.0.7'
LOCKSTEP_MINE=1 "$program" train "$work/hosts.yaml"
called '-x LOCKSTEP_MINE .*--map-by :OVERSUBSCRIBE --bind-to none -np 2 '
# refused VERSION WORDS: an mpirun of this version does not start ranks
refused() {
  launcher "$1"
  expect 7 "$2.*put the mpirun of Open MPI first on PATH" train "$work/hosts.yaml"
}
refused 'HYDRA build details:' 'mpirun of MPICH (Hydra)'
refused 'Intel(R) MPI Library for Linux* OS, Version 2021.11' 'mpirun of Intel MPI'
refused 'slurm 22.05.8' "mpirun of Slurm's srun"
refused 'my launcher 1.0' 'does not know this mpirun, whose --version says my launcher 1.0'
# open_mpi_5_needs_a_home: without one it does not even say its version
launcher 'mpirun (Open MPI) 5.0.7'
sed -i '1a [ "${HOME:-}" ] || { echo "[x:1] Error: Unable to get the user home directory" >\&2; exit 1; }' "$work/bin/mpirun"
if [ "$(getent passwd "$(id -u)")" ]; then
  for home in -uHOME HOME=; do env $home "$program" train "$work/hosts.yaml" || fail "a user with a home directory, and $home"; done
fi
launcher '' # and nothing that a launcher would say
sed -i '1a echo "no such library: libprrte.so" >\&2; exit 127' "$work/bin/mpirun"
expect 7 'mpirun --version failed: no such library: libprrte\.so: put' train "$work/hosts.yaml"

# an exit code above 128 is a signal; what mpirun says stands on stderr
launcher 'mpirun (Open MPI) 4.1.4' 'exit 137'
expect 137 'error: a rank was ended by signal 9 (Killed)' train "$work/hosts.yaml"
launcher 'mpirun (Open MPI) 4.1.4' 'echo "No slots are left." >&2; exit 1'
expect 1 '^No slots are left\.$' train "$work/hosts.yaml"
if grep -q 'lockstep: error' "$work/err"; then fail "words beside mpirun's: $(cat "$work/err")"; fi
launcher 'mpirun (Open MPI) 4.1.4' 'echo "lockstep: error: rank 1: bad" >&2; exit 4'
expect 4 '^lockstep: error: rank 1: bad$' train "$work/hosts.yaml"
# ranks stuck inside MPI hear no request: one SIGTERM ends them all the same, after the deadline, even ranks that have lost mpirun
launcher 'mpirun (Open MPI) 4.1.4' "trap '' USR1; : >'$work/stuck'; sleep 300 & wait"
"$program" train "$work/hosts.yaml" --set parallel.deadline_s=1 >"$work/out" 2>"$work/err" &
pid=$!
wait_until "stuck ranks" test -e "$work/stuck"
kill -TERM $pid
got=0
wait $pid || got=$?
[ $got = 130 ] || fail "stuck ranks: exit code $got: $(cat "$work/err")"
grep -q 'warning: SIGTERM asked the ranks to end, and after 5 s they have not: they are ended without saving$' "$work/err" ||
  fail "stuck ranks: $(cat "$work/err")"
rm "$work/bin/mpirun"
# Where the ranks' window does not fit in /dev/shm, they exchange messages; Open MPI 4 would wait for it forever.
if command -v mpirun >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs -o size=64k none /dev/shm 2>/dev/null; then
  got=0
  unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && exec $0 -np 2 "$1" train "$2"' "$launcher" "$program" "$work/c.yaml" >"$work/out" 2>"$work/err" || got=$?
  [ $got = 0 ] || fail "a small /dev/shm: exit code $got: $(cat "$work/err")"
  grep -q 'no shared memory between the ranks of this host' "$work/err" || fail "a small /dev/shm: $(cat "$work/err")"
else
  echo "not run: a small /dev/shm (needs mpirun, root and mount)"
fi
got=0
wait $ignored || got=$?
[ $got = 130 ] || fail "an mpirun that ignores SIGTERM: exit code $got: $(cat "$work/ignored")"
! grep 'they have not' "$work/ignored" || fail "the second signal was not heard: the end of patience ended the ranks"
echo ok
