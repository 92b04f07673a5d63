#!/bin/sh
# Writes the program's own output as files to their usual places below OUT: completion for shells and, if scdoc is
# given, manual pages. Usage: pages.sh PROGRAM OUT [SCDOC]
set -eu
program=$1 out=$2 scdoc=${3:-}
rm -rf "$out"
mkdir -p "$out/bash-completion/completions" "$out/zsh/site-functions" "$out/fish/vendor_completions.d"
"$program" completion bash >"$out/bash-completion/completions/lockstep"
"$program" completion zsh >"$out/zsh/site-functions/_lockstep"
"$program" completion fish >"$out/fish/vendor_completions.d/lockstep.fish"
[ -n "$scdoc" ] || exit 0
# page FILE [NAME]
page() {
  "$program" help man ${2:+"$2"} >"$out/source"
  "$scdoc" <"$out/source" >"$out/man/$1"
  rm "$out/source"
}
mkdir -p "$out/man/man1" "$out/man/man5"
page man1/lockstep.1
page man5/lockstep-config.5 config
for command in $("$program" --help | awk '/^commands:/ { on = 1; next } !NF { on = 0 } on { print $1 }'); do
  page "man1/lockstep-$command.1" "$command"
done
