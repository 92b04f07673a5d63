#!/bin/sh
# Completion and manual pages name every command, flag and option. Shells and tools that are not installed are left out.
set -eu
. "$(dirname "$0")/lib.sh"
commands=$("$program" --help | awk '/^commands:/ { on = 1; next } !NF { on = 0 } on { print $1 }')
options=$("$program" help config | awk '/^## / { section = $2 } section ~ /^model.layers/ { section = "" }
  section == "parallel.strategy" || section == "parallel.transport" || section == "The" { section = "" }
  /^  [a-z0-9_]+ / && section { print section "." $1 }')
[ "$(echo "$options" | wc -l)" -gt 40 ] || fail "the reference lists only: $options"
flags_of() {
  "$program" "$1" --help | awk '/^options:/ { on = 1 } on && $1 ~ /^--/ { print $1 }'
}

# the words that completion offers are all rows, and each shell can read its script
"$program" --complete '' >"$work/words"
for command in $commands; do
  grep -q "^$command$(printf '\t')." "$work/words" || fail "not offered: $command"
  "$program" --complete "$command" - >"$work/flags"
  for flag in $(flags_of "$command"); do
    grep -q "^$flag$(printf '\t')." "$work/flags" || fail "$command: not offered: $flag"
  done
done
"$program" --complete train c.yaml --set '' >"$work/options"
for option in $options; do
  grep -qF "$option=" "$work/options" || fail "not offered: $option"
done
for shell in bash zsh fish; do
  "$program" completion $shell >"$work/$shell" || fail "no completion for $shell"
  if command -v $shell >/dev/null; then
    $shell -n "$work/$shell" || fail "$shell cannot read its script"
  else
    echo "not checked: $shell is not installed"
  fi
done
expect 2 'knows bash, zsh and fish, not "tcsh"' completion tcsh
expect 2 'bash|zsh|fish' completion

# bash: completed EXPECTED WORD...: what the words are completed to, the last one being unfinished
mkdir "$work/here" "$work/here/runs"
touch "$work/here/net.yaml" "$work/here/net.txt"
mkdir "$work/bin"
ln -s "$program" "$work/bin/lockstep"
PATH=$work/bin:$PATH
completed() {
  expected=$1
  shift
  got=$(cd "$work/here" && bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; echo "${COMPREPLY[*]}"' \
    "$work/bash" "$@")
  [ "$got" = "$expected" ] || fail "bash completes \"$*\" to \"$got\", not to \"$expected\""
}
if command -v bash >/dev/null; then
  completed 'train' lockstep tr
  completed '--version' lockstep --v
  completed '--ranks --resume' lockstep train --r
  completed 'runs net.yaml' lockstep train ''
  completed 'runs' lockstep eval net.yaml --checkpoint ''
  completed 'net.txt net.yaml' lockstep train net.yaml --trace n
  completed 'train.precision=' lockstep train net.yaml --set train.prec
  completed 'fp32 tf32 bf16 fp16' lockstep train net.yaml --set train.precision = ''
  completed 'fp32 tf32 bf16 fp16' lockstep train net.yaml --set train.precision =
  completed 'true' lockstep train net.yaml --set parallel.reproducible = t
  completed '' lockstep train net.yaml --ranks ''
  completed 'zsh' lockstep completion z
  completed 'compare completion config' lockstep help co
  completed 'net.txt net.yaml' lockstep train --trace = n
  completed 'tf32' lockstep train --set = train.precision = t
fi
# fish says what it would complete a line to
if command -v fish >/dev/null; then
  offered() {
    got=$(cd "$work/here" && HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/fish" "$2" | cut -f1 | tr '\n' ' ')
    [ "$got" = "$1 " ] || fail "fish completes \"$2\" to \"$got\", not to \"$1\""
  }
  offered 'train' 'lockstep tr'
  offered '--ranks --resume' 'lockstep train --r'
  offered 'train.precision=bf16 train.precision=fp16 train.precision=fp32 train.precision=tf32' 'lockstep train net.yaml --set train.precision='
  offered 'runs/' 'lockstep eval net.yaml --checkpoint ru'
fi

# manual pages: each builds, is clean, and has every row
command -v scdoc >/dev/null || { echo "not checked: scdoc is not installed"; exit 0; }
sh "$source_dir/scripts/pages.sh" "$program" "$work/share" "$(command -v scdoc)" 2>"$work/err" ||
  fail "scdoc: $(cat "$work/err")"
{ command -v mandoc || command -v man; } >/dev/null || { echo "not checked: neither mandoc nor man is installed"; exit 0; }
# text PAGE: as a reader sees it, without line breaks
text() {
  if command -v mandoc >/dev/null; then mandoc -T ascii -O width=500 "$1" | sed 's/.\x08//g'
  else man -l "$1" | cat; fi
}
for command in $commands; do
  page=$work/share/man/man1/lockstep-$command.1
  text "$page" >"$work/text"
  for flag in $(flags_of "$command"); do
    grep -q "^ *$flag\b" "$work/text" || fail "$page: no $flag"
  done
  grep -q "lockstep-$command" "$work/share/man/man1/lockstep.1" || fail "lockstep.1: no $command"
done
text "$work/share/man/man5/lockstep-config.5" >"$work/text"
for option in $options; do
  grep -q "^ *${option##*.}\$" "$work/text" || fail "lockstep-config.5: no $option"
done
if command -v mandoc >/dev/null; then
  mandoc -T lint -W error "$work/share/man/"*/* >"$work/lint" || fail "mandoc: $(cat "$work/lint")"
fi
