#!/bin/sh
# A model that has learned a rhyme goes on with it; what is drawn depends on the seed alone.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
awk 'BEGIN { for (i = 0; i < 400; i++) printf "Käse ißt\nman " }' >text.txt
cat >c.yaml <<'Y'
model:
  input: [12]
  loss: cross-entropy
  layers:
    - embedding: {name: wte, size: 12, units: 24}
    - positions: {name: wpe}
    - attention: {name: attn, heads: 3, causal: true}
    - add: {from: [wpe, attn]}
    - dense: {units: 48, over: last, activation: gelu}
    - dense: {units: 12, over: last}
data: {kind: text, path: text.txt, context: 12}
train: {batch: 16, steps: 150, optimizer: {name: adam, lr: 0.01}, checkpoint: {dir: run}}
parallel: {backend: cpu}
Y
"$program" train c.yaml --quiet --json >train.json 2>err || fail "train: $(cat err)"
below "$(field train.json train_loss)" 1.2 || fail "nothing was learned: $(cat train.json)"
rm text.txt # what a checkpoint's vocabulary holds, a line end among it, is all that is needed
generate() {
  "$program" generate c.yaml --checkpoint run "$@" 2>err || fail "generate $*: $(cat err)" >&2
}
generate --prompt 'Käse ißt' --temperature 0 --tokens 30 >out
printf 'Käse ißt\nman %.0s' 1 2 3 4 | head -c "$(($(wc -c <out) - 1))" >want
head -c -1 out | cmp - want || fail "no rhyme: $(cat out)"
[ "$(tr -d '\n' <out | wc -m)" -ge 10 ] || fail "too short: $(cat out)"

# drawn: the same with the same seed, another with another; one of one is the most probable
generate --temperature 8 --seed 4 --tokens 60 >a
generate --temperature 8 --seed 4 --tokens 60 >b
generate --temperature 8 --seed 5 --tokens 60 >c
cmp a b || fail "the same seed"
cmp -s a c && fail "another seed"
generate --temperature 8 --top-k 1 --tokens 30 --prompt 'Käse ißt' >d
cmp out d || fail "--top-k 1"
generate --temperature 0 --tokens 30 >a
generate --temperature 0 --tokens 30 --prompt '' >b
cmp a b || fail "an empty prompt is not the default: $(cat b)"
generate --temperature 0 --tokens 5 --prompt 'man' --json >json
[ "$(field json prompt_tokens)" = 3 ] && [ "$(field json text)" = 'man Käse' ] || fail "--json: $(cat json)"

# byte-pair tokens: "ab" is 2, "ba" 3, "abab" 4 of a model with more classes than the vocabulary has tokens
cat >tokenizer.json <<'Y'
{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ba": 3, "abab": 4, "Ċ": 5}, "merges": ["a b", "b a", "ab ab"]},
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}}
Y
awk 'BEGIN { for (i = 0; i < 300; i++) print "ababba" }' >ab.txt
"$program" tokenize ab.txt ab.bin --vocabulary tokenizer.json >/dev/null 2>err || fail "tokenize: $(cat err)"
sed 's/path: text.txt/path: ab.bin, tokens: u16/; s/dir: run/dir: pairs/' c.yaml >p.yaml
"$program" train p.yaml --quiet >/dev/null 2>err || fail "train on pairs: $(cat err)"
pairs() {
  "$program" generate p.yaml --checkpoint pairs --vocabulary tokenizer.json --tokens 7 "$@" 2>err || fail "generate $*: $(cat err)" >&2
}
[ "$(pairs --prompt "abab" --temperature 0)" = "$(printf 'ababba\nababba\nababba')" ] || fail "pairs: $(pairs --prompt abab --temperature 0)"
pairs --temperature 0 --json >json
[ "$(field json prompt_tokens)" = 1 ] && [ "$(field json text)" = '\nababba\nababba\nabab' ] || fail "pairs: $(cat json)"
pairs --temperature 100 --tokens 60 >out # 6 to 11 have no text: they are not drawn
grep -q '[0-9]' out && fail "a token without text was drawn: $(cat out)"
# words of characters: the blank that goes in front of the prompt is not written
cat >pieces.json <<'Y'
{"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0, "b": 1, "▁": 2, "ab": 3, "<0x0A>": 4}, "merges": [["a", "b"]]},
 "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
 "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}}
Y
"$program" generate p.yaml --checkpoint pairs --vocabulary pieces.json --tokens 1 --prompt "ab a" --json >json 2>err || fail "$(cat err)"
[ "$(field json prompt_tokens)" = 4 ] && field json text | grep -q '^ab a' || fail "pieces: $(cat json)"
expect 4 'prompt:1:1: byte 0x63 has no token' generate p.yaml --checkpoint pairs --vocabulary tokenizer.json --prompt c
expect 2 "are the characters of its checkpoint" generate c.yaml --checkpoint run --vocabulary tokenizer.json
expect 5 'no-such.json' generate p.yaml --checkpoint pairs --vocabulary no-such.json

# a network alike on numbers
sed 's/kind: text, path: text.txt, context: 12/kind: synthetic, samples: 100/; s/dir: run/dir: numbers/; s/steps: 150/steps: 5/' c.yaml >n.yaml
"$program" train n.yaml --quiet >/dev/null 2>err || fail "train on numbers: $(cat err)"
"$program" generate n.yaml --checkpoint numbers --prompt '3 11 0' --tokens 4 >numbers.out 2>err || fail "numbers: $(cat err)"
grep -Eqx '3 11 0( [0-9]+){4} ' numbers.out || fail "numbers: $(cat numbers.out)"

expect 6 "prompt:1:1: character 'Z' (U+005A) is none of the 12 in the vocabulary of the checkpoint" generate c.yaml --checkpoint run --prompt Zebra
expect 4 'token 12, but the model has 0 to 11' generate n.yaml --checkpoint numbers --prompt '1 12'
expect 2 'tokens are numbers.*--vocabulary FILE names the tokenizer.json' generate n.yaml --checkpoint numbers --prompt 'x'
expect 2 '--temperature takes' generate c.yaml --checkpoint run --temperature warm
expect 2 '--top-k takes a whole number' generate c.yaml --checkpoint run --top-k 0
expect 2 'a value is missing after' generate c.yaml --checkpoint run --prompt
cat >m.yaml <<'Y'
model: {input: [6], loss: cross-entropy, layers: [{dense: {units: 3}}]}
data: {kind: synthetic, samples: 40}
train: {batch: 10, epochs: 1, checkpoint: {dir: classes}}
parallel: {backend: cpu}
Y
"$program" train m.yaml --quiet >/dev/null 2>err || fail "train m.yaml: $(cat err)"
expect 3 'a class for every position' generate m.yaml --checkpoint classes
