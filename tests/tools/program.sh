#!/bin/sh
# lockstep bench and the report tool: documents that an earlier program wrote, a machine without python3, an installation
# without the tool.
set -eu
. "$(dirname "$0")/../program/lib.sh"
recorded=$source_dir/tests/tools/recorded

# A document of an earlier program makes the report that was made of it then, word for word; with --study the study's.
"$program" bench --from "$recorded/sweep.json" --markdown "$work/sweep.md" --html "$work/sweep.html" >"$work/out" || fail "sweep"
diff "$recorded/sweep.md" "$work/sweep.md" || fail "another report of the recorded sweep"
"$program" bench --from "$recorded/study.json" --study --markdown "$work/study.md" --output "$work/study.json" >"$work/study.txt" ||
  fail "study"
diff "$recorded/study.md" "$work/study.md" || fail "another report of the recorded study"
grep -q '^    not decided     0.82x (0.58 to 1.40) at 8, 1.14x (0.95 to 1.41) at 64$' "$work/study.txt" ||
  fail "the study on a terminal: $(cat "$work/study.txt")"
grep -q '"interval_low": ' "$work/study.json" && grep -q '"answers": ' "$work/study.json" || fail "the document was not brought up to date"

# Without python3 reports are refused before anything is measured, with the remedy; all else works.
cat >"$work/c.yaml" <<'Y'
model: {input: [12], loss: mse, layers: [{dense: {units: 3}}]}
data: {kind: synthetic, samples: 400}
train: {batch: 16, epochs: 1}
parallel: {backend: cpu}
Y
mkdir "$work/none" "$work/broken"
bare() { # CODE PATTERN ARGUMENT...: as expect, with nothing on the PATH
  code=$1 pattern=$2 got=0
  shift 2
  PATH=$work/none "$program" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] || fail "exit code $got, not $code: $* $(cat "$work/err")"
  grep -q -e "$pattern" "$work/out" "$work/err" || fail "no \"$pattern\" from $*: $(cat "$work/out" "$work/err")"
}
for flag in --markdown --html --study; do
  what="$work/c.yaml $flag $work/report"
  [ $flag != --study ] || what="--study --set parallel.backend=cpu"
  # shellcheck disable=SC2086 # a list of arguments
  bare 7 "$flag needs python3 (3.8 or later): cannot be started: No such file" bench $what
  ! grep -q 'repetitions of' "$work/err" || fail "$flag was refused after measuring: $(cat "$work/err")"
  grep -q 'lockstep bench --from FILE' "$work/err" || fail "$flag: no remedy: $(cat "$work/err")"
done
bare 7 '--policy thresholds needs python3' plan "$work/c.yaml" --policy thresholds
bare 0 'samples/s' bench "$work/c.yaml" --ranks-list 1 --repetitions 2 --steps 3 --control 0 --output "$work/bare.json"
bare 0 'the study.s conclusions on this machine' bench --from "$work/study.json"
"$program" bench --from "$work/bare.json" --html "$work/later.html" >/dev/null || fail "a document of a machine without python3"
grep -q '<svg' "$work/later.html" || fail "no charts in $work/later.html"
printf '#!/bin/sh\necho "report: error: Python 3.8 is needed, this is 3.6.9" >&2\nexit 2\n' >"$work/broken/python3"
chmod +x "$work/broken/python3"
PATH=$work/broken:$PATH expect 7 'Python 3.8 is needed, this is 3.6.9' bench "$work/c.yaml" --html "$work/report"

# A folder of the user's own with the tool's name is not run.
mkdir -p "$work/own/report" && echo 'print("not ours")' >"$work/own/report/__main__.py"
(cd "$work/own" && "$program" bench --from "$recorded/sweep.json" --markdown "$work/own.md" >/dev/null) || fail "from another folder"
diff "$recorded/sweep.md" "$work/own.md" || fail "a tool of the current folder was run"
echo ok
