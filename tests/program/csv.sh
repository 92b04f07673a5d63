#!/bin/sh
# The S&P 500 file trains as it is: the date column is left out and said so, and the loss falls.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$source_dir"
"$program" train examples/03-csv.yaml --quiet --json >"$work/out.json" 2>"$work/err"
grep -q 'date' "$work/err" || fail "nothing said about the date column: $(cat "$work/err")"
below "$(field "$work/out.json" val_loss)" 0.01 || fail "validation loss $(field "$work/out.json" val_loss)"
echo "validation loss $(field "$work/out.json" val_loss_first) -> $(field "$work/out.json" val_loss)"
