#!/bin/sh
# What several ranks have to say: once where they share it, with its rank where one is alone.
set -eu
. "$(dirname "$0")/lib.sh"
command -v mpirun >/dev/null 2>&1 || { echo "skipped: no mpirun"; exit 77; }

cat >"$work/c.yaml" <<Y
model: {input: [1], loss: mse, layers: [{dense: {units: 1}}]}
data: {kind: csv, path: $work/good.csv, target: [y]}
train: {batch: 4, epochs: 1}
parallel: {strategy: ddp, ranks: 3, backend: cpu}
Y
sed 's/batch: 4/bacth: 4/' "$work/c.yaml" >"$work/bad.yaml"
printf 'day,a,y\n2000-01-01,1,3\n2000-01-02,2,3\n2000-01-03,3,4\n2000-01-04,4,4\n' >"$work/good.csv"
sed 's/,2,/,two,/' "$work/good.csv" >"$work/bad.csv"

says() { # exit code, then the command
  code=$1 got=0
  shift
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] || fail "exit code $got, not $code: $*: $(cat "$work/err")"
}
said() { # count, pattern on stderr
  count=$(grep -c -e "$2" "$work/err" || true)
  [ "$count" = "$1" ] || fail "\"$2\" was said $count times, not $1: $(cat "$work/err")"
}

says 0 "$program" train "$work/c.yaml" --quiet
said 1 'holds dates and is left out'
says 4 "$program" train "$work/c.yaml" --quiet --set data.path="$work/bad.csv"
said 1 "'two' is not a finite number"
# shellcheck disable=SC2086 # words
says 3 $launcher -np 3 "$program" train "$work/bad.yaml"
said 1 'did you mean .batch'
# shellcheck disable=SC2086
says 3 $launcher -np 3 "$program" eval "$work/bad.yaml" --checkpoint "$work"
said 1 'did you mean .batch'
# Rank 1 differs. (Not by several programs in one command line: Open MPI 5.0.7's mpirun crashes on that.)
cat >"$work/differs" <<'S'
#!/bin/sh
# program, arguments of rank 1, arguments of the others
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then arguments=$2; else arguments=$3; fi
# shellcheck disable=SC2086 # words
exec "$1" train $arguments
S
chmod +x "$work/differs"
# shellcheck disable=SC2086
says 3 $launcher -np 3 "$work/differs" "$program" "$work/c.yaml --set train.precision=tf32" "$work/c.yaml"
said 1 'rank 1: .*train.precision'
said 1 'rank 1 has failed'
# another_directory_on_a_rank: rank 1 would have saved beside the others
# shellcheck disable=SC2086
says 3 $launcher -np 3 "$work/differs" "$program" "$work/c.yaml --set train.checkpoint.dir=$work/other" "$work/c.yaml --set train.checkpoint.dir=$work/run"
said 1 'rank 1: .*train.checkpoint.dir: .*/other, rank 0 with .*/run: '
# another_build_on_a_rank: a program that differs in its build id alone
if objcopy --dump-section .note.gnu.build-id="$work/note" "$program" "$work/program" 2>/dev/null; then
  { head -c 32 "$work/note" && printf 'abcd'; } >"$work/other_note"
  objcopy --update-section .note.gnu.build-id="$work/other_note" "$work/program" "$work/other_program"
  sed 's/^exec "$1"/[ "$OMPI_COMM_WORLD_RANK" != 1 ] || set -- "${1%\/*}\/other_program" "$2" "$3"\n&/' "$work/differs" >"$work/builds"
  chmod +x "$work/builds"
  # shellcheck disable=SC2086
  says 3 $launcher -np 3 "$work/builds" "$work/program" "$work/c.yaml" "$work/c.yaml"
  said 1 "rank 1: .*with the program's build: [0-9a-f]*61626364, rank 0 with [0-9a-f]*: start all ranks with the same program"
else
  echo "not run: another build (needs objcopy and a build id)"
fi
# The first rank of a node reads for all: what it says stands alone.
# shellcheck disable=SC2086
says 4 $launcher -np 3 "$program" train "$work/c.yaml" --quiet --set data.path="$work/bad.csv"
said 1 "'two' is not a finite number"
said 0 'has failed'
# shellcheck disable=SC2086
says 3 $launcher -np 3 "$work/differs" "$program" "$work/bad.yaml" "$work/c.yaml"
said 1 'rank 1: .*did you mean .batch'
echo ok
