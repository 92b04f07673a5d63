#!/bin/sh
# Fails on an include that points upward (or sideways where that is not allowed), on strategies that include each
# other, and on printing or exiting outside cli/. The table is the one of HACKING.md.
set -eu
cd "$1/src"

# folder: what it may include (itself is always allowed)
allowed() {
  case $1 in
  base) echo "" ;;
  stat) echo "base" ;;
  machine) echo "base stat" ;;
  data | device) echo "base device" ;;
  graph | comm) echo "base device" ;;
  model | state) echo "base device graph" ;;
  optim) echo "base device graph state" ;;
  ckpt) echo "base device graph comm state" ;;
  schedule) echo "base device graph comm state" ;;
  strategy) echo "base device graph comm state schedule optim" ;;
  monitor) echo "base stat machine" ;;
  supervise) echo "base device comm monitor" ;;
  config) echo "base data device graph comm model state schedule optim strategy engine monitor supervise" ;;
  engine) echo "base device graph comm state schedule optim strategy" ;;
  train) echo "base config monitor supervise stat machine data device graph comm model state schedule optim ckpt strategy engine" ;;
  infer) echo "base config data device graph comm model state schedule optim ckpt strategy engine train" ;;
  chaos) echo "base stat config monitor supervise" ;;
  probe) echo "base stat machine device graph comm model state schedule optim strategy" ;;
  stress) echo "base stat machine device graph comm model train probe" ;; # as chaos, a tool over whole runs
  bench) echo "base stat machine graph model train" ;;
  plan) echo "base config monitor supervise stat machine data device graph comm model state schedule optim ckpt strategy engine train probe" ;;
  cli) echo "base config monitor supervise stat machine data device graph comm model state schedule optim ckpt strategy engine train infer probe stress chaos bench plan" ;;
  *) echo "unknown" ;;
  esac
}

upward() {
  for path in core/*/ learn/*/ foresee/*/ live/*/ config/ cli/; do
    path=${path%/} folder=$(basename "$path")
    list=$(allowed "$folder")
    if [ "$list" = unknown ]; then echo "src/$path is not in the table of tests/layers/check_layers.sh"; fi
    grep -rnoE --include='*.[ch]' --include='*.cu' --include='*.cuh' '^ *# *include "[a-z_]+/' "$path" |
      while IFS=: read -r file line include; do
        target=${include##*\"}
        target=${target%/}
        case " $folder $list " in
        *" $target "*) ;;
        *) echo "src/$file:$line: src/$path may not include $target/" ;;
        esac
      done
  done
}

# Whoever watches a run is an observer of its trainer.
wings() {
  grep -rnE '^ *# *include "(monitor|supervise)/' core learn | grep -v '^learn/train/observers/' |
    sed 's|^\([^:]*:[0-9]*\):.*|src/\1: only train/observers/ may include live/|' || true
}

sideways() {
  # a training knows what watches it by its observers alone, and those by their list
  grep -rnE --include='*.[ch]' 'include "(monitor|supervise|stress|chaos)/' learn | grep -v '^learn/train/observers/' || true
  grep -rnE --include='*.[ch]' 'include "train/observers/' . | grep -vE '^\./learn/train/observers(/|\.c:)' || true
  grep -rnE 'include "data/(picture|text)/' learn/data/table || true
  grep -rnE 'include "data/(picture|table)/' learn/data/text || true
  grep -rnE 'include "data/text/' learn/data/picture || true
  for strategy in core/strategy/*/; do
    grep -rnE "include \"strategy/[a-z_]+/" "$strategy" | grep -v "\"${strategy#core/}" || true
  done
}

loud() {
  grep -rnE --include='*.c' '(^|[^a-z_])((printf|puts|putchar|perror|exit|_exit|abort)\(|(fprintf|fputs|fputc|putc)\([^;]*(stdout|stderr))' . |
    grep -vE '^\./cli/|^\./core/comm/shm/shm\.c.*_exit\(exit_code\)|^\./core/base/child\.c.*_exit\(1\)|snprintf|//|\* ' || true
}

# Rows describe themselves: a quoted name stands in its own files alone. A machine records versions of libraries by name.
named() {
  while read -r name own; do
    grep -rn --include='*.[ch]' --include='*.cu' --include='*.cuh' -e "\"$name\"" . | grep -vE "^\./($own)" |
      sed "s|^\./\([^:]*:[0-9]*\):.*|src/\1: \"$name\" is known outside its own files|"
  done <<'LIST'
ddp core/strategy/ddp/
single core/strategy/single/
sharded foresee/plan/sharded\.c:
mpi core/comm/mpi/|foresee/machine/machine\.c:
nccl core/comm/nccl/|foresee/machine/machine\.c:
linear core/graph/ops/linear\.c:|core/device/cpu/linear\.c:|core/device/cuda/linear\.c:
LIST
  grep -rnE --include='*.[ch]' 'ls_(strategy_(ddp|single)|transport_(mpi|nccl))\>' . |
    grep -vE '^\./core/(strategy/(ddp/|single/|strategy\.[ch]:)|comm/(mpi/|nccl/|transport\.c:))' |
    sed 's|^\./\([^:]*:[0-9]*\):.*|src/\1: a row is known by its symbol|' || true
}

# What is planted has to be found.
planted() {
  folder=$(mktemp -d)
  mkdir -p "$folder/plan"
  for name in ddp single sharded mpi nccl linear; do echo "const char *${name}_name = \"$name\";"; done >"$folder/plan/plan.c"
  echo 'const void *row = &ls_strategy_ddp;' >>"$folder/plan/plan.c"
  found=$(cd "$folder" && named | wc -l)
  rm -r "$folder"
  [ "$found" = 7 ] || echo "tests/layers finds $found of 7 planted names"
}

faults=$(upward; wings; sideways; loud; named; planted)
if [ -n "$faults" ]; then
  echo "$faults"
  exit 1
fi
echo "layers: ok"
