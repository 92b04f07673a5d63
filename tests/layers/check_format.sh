#!/bin/sh
# Fails on tracked C, header and CUDA files that clang-format would change. Versions format differently, so only the
# one that the tree is pinned to counts; where it is not installed the test is skipped (77).
set -eu
cd "$1"
pinned=$(sed -n 's/^# Pinned: clang-format \([0-9]*\)\..*/\1/p' .clang-format)
tool=""
for name in "clang-format-$pinned" clang-format; do
  if "$name" --version 2>/dev/null | grep -q "version $pinned\."; then
    tool=$name
    break
  fi
done
if [ -z "$tool" ]; then
  echo "skipped: clang-format $pinned is not installed"
  exit 77
fi
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: not a git checkout, so nothing says which files are ours"
  exit 77
fi
# a file that was deleted but not yet committed is still listed; none of our names has a space
files=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | while read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done)
[ -n "$files" ] || { echo "no files to check"; exit 1; }
faults=$(echo "$files" | xargs -n 32 -P 2 "$tool" --style=file -n 2>&1 |
  sed -n 's/^\([^:]*:[0-9]*\):.*\[-Wclang-format-violations\]$/\1/p' | sort -u)
if [ -n "$faults" ]; then
  echo "$faults"
  echo "not as clang-format $pinned has it: make format"
  exit 1
fi
echo "format: ok"
