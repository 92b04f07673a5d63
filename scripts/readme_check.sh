#!/bin/sh
# Runs the README's commands word for word, in its order and in one shell, from the folder of a fresh clone: every line
# of an indented block that begins with make, lockstep, export, cc or ./.
#   EXCEPT=PATTERN   leaves out lines that match (an extended regular expression)
set -eu
cd "$(dirname "$0")/.."
script=$(mktemp)
trap 'rm -f "$script"' EXIT
sed -n -E 's/^    ((make|lockstep|export|cc|\.\/)[ a-zA-Z].*)$/\1/p' README.md | sed -E 's/ +(#|\/\/) .*//' |
  grep -v -E "${EXCEPT:-^$}" >"$script.lines"
mv "$script.lines" "$script"
count=$(grep -c . "$script") || { echo "readme_check: the README has no commands" && exit 1; }
echo "readme_check: $count commands as $(id -un), HOME=$HOME"
done=0
while IFS= read -r line; do
  echo "$ $line"
  eval "$line" </dev/null || { code=$? && echo "readme_check: exit code $code from: $line" && exit $code; }
  done=$((done + 1))
done <"$script"
echo "readme_check: $done of $count commands ended with exit code 0"
