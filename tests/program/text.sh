#!/bin/sh
# Text as people have it: a run over its characters goes on to the bit and evaluates other text in its own vocabulary,
# ranks change nothing, and token files made of the same text give the same network.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$work"
awk 'BEGIN { for (i = 0; i < 900; i++) printf "the %s fox jumps over %d dogs\n", i % 3 ? "quick" : "lazy", i * 7 % 10 }' >fox.txt
cat >c.yaml <<'EOF'
model:
  input: [12]
  loss: cross-entropy
  layers:
    - embedding: {name: wte, size: 64, units: 16}
    - attention: {name: attn, heads: 2, causal: true}
    - dense: {units: 64, over: last, bias: false, share: wte}
data: {kind: text, path: fox.txt, context: 12, validation: 0.1}
train: {batch: 16, steps: 40, optimizer: {name: adamw, lr: 0.03}, checkpoint: {dir: run, every_steps: 20}}
parallel: {backend: cpu, threads: 1, strategy: ddp, reproducible: true, shards: 2}
EOF
hash() { field "$1" params_xxh3; }
"$program" check c.yaml >check
grep -q 'ok: 2,137 training and 237 validation samples' check || fail "check: $(cat check)"
"$program" train c.yaml --quiet --json >one.json
below "$(field one.json val_loss)" 2.6 || fail "it has not learnt: $(field one.json val_loss)"
"$program" train c.yaml --ranks 2 --quiet --json --set train.checkpoint.dir=two >two.json 2>err || fail "two ranks: $(cat err)"
[ "$(hash one.json)" = "$(hash two.json)" ] || fail "two ranks give other bits"
"$program" train c.yaml --quiet --json --set train.steps=20 --set train.checkpoint.dir=half >half.json
"$program" train c.yaml --resume --quiet --json --set train.checkpoint.dir=half >rest.json
[ "$(hash one.json)" = "$(hash rest.json)" ] || fail "a resumed run gives other bits"
# another split of the same text is the same text
"$program" eval c.yaml --checkpoint run --json >eval.json
[ "$(field eval.json loss)" = "$(field one.json val_loss)" ] || fail "eval: $(cat eval.json)"

# other text, in the vocabulary of the checkpoint
echo 'the dogs jump over the lazy fox 1 2 3, dogs' | tr -d , >other.txt
"$program" eval c.yaml --checkpoint run --set data.path=other.txt --set data.validation=0 --json >eval.json 2>err || fail "$(cat err)"
echo 'The dogs, and a fox' >strange.txt
expect 6 "strange.txt:1:1: character 'T' (U+0054) is none of the 35 in the vocabulary of the checkpoint" \
  eval c.yaml --checkpoint run --set data.path=strange.txt --set data.validation=0

# tokens of characters in a file are the same tokens, so they train the same network
"$program" tokenize fox.txt fox.bin --characters >/dev/null
[ "$(wc -c <fox.bin)" = $((2 * $(wc -c <fox.txt))) ] || fail "the token file's size"
"$program" tokenize fox.txt fox.llmc --vocabulary fox.bin.vocabulary.json --header --json >header.json
for file in fox.bin fox.llmc; do
  "$program" train c.yaml --quiet --json --set data.path=$file --set train.checkpoint.dir=run-$file >tokens.json
  [ "$(hash tokens.json)" = "$(hash one.json)" ] || fail "$file trains another network"
  "$program" tokenize $file - --vocabulary fox.bin.vocabulary.json --decode | cmp - fox.txt || fail "$file is not its text"
done
"$program" tokenize fox.txt bytes.bin --bytes --type i32 >/dev/null
# with more tokens than 16 bits count, both ways take i32 by themselves
awk 'BEGIN { printf "["; for (i = 32; i < 65534; i++) if (i < 55296 || i > 57343) printf "\"\\u%04x\",", i
  for (i = 0; i < 4096; i++) printf "\"\\ud8%02x\\udc%02x\",", 64 + int(i / 256), i % 256; print "\"\\n\"]" }' >wide.json
"$program" tokenize fox.txt wide.bin --vocabulary wide.json >out
grep -q '(i32)' out || fail "tokens of a large vocabulary: $(cat out)"
grep -q 'data: {kind: text, path: wide.bin, tokens: i32}' out || fail "the section to write: $(cat out)"
expect 4 'wide.bin: it has no header .*: set data.tokens, or --type, to i32' check c.yaml --set data.path=wide.bin
expect 4 'bytes.bin: it has no header .*: set data.tokens, or --type, to i32' tokenize bytes.bin - --bytes --decode
"$program" tokenize wide.bin - --vocabulary wide.json --decode | cmp - fox.txt || fail "i32 tokens are read as u16"
# words of characters: a blank goes in front of the text, and decoding takes it away; bytes stand for a character without a token
cat >pieces.json <<'J'
{"model": {"type": "BPE", "byte_fallback": true, "vocab": {"<0x0A>": 0, "<0xC3>": 1, "<0xA4>": 2, "▁": 3, "a": 4, "b": 5, "▁a": 6},
           "merges": [["▁", "a"]]}, "normalizer": null,
 "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
 "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
             {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
J
printf 'ab  aä\n' >pieces.txt
"$program" tokenize pieces.txt pieces.bin --vocabulary pieces.json >/dev/null
[ "$(od -An -tu2 pieces.bin | tr -s ' \n' ' ')" = ' 6 5 3 6 1 2 0 ' ] || fail "pieces: $(od -An -tu2 pieces.bin)"
"$program" tokenize pieces.bin - --vocabulary pieces.json --decode | cmp - pieces.txt || fail "pieces are not their text"
# words taken apart (BERT): no letter has a case or an accent, [CLS] and [SEP] are not added, and decoding puts blanks between words
cat >bert.json <<'J'
{"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
           "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "fox": 4, "##es": 5, "jump": 6, ".": 7}},
 "added_tokens": [{"id": 1, "content": "[CLS]"}, {"id": 2, "content": "[SEP]"}],
 "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
 "pre_tokenizer": {"type": "BertPreTokenizer"},
 "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
 "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}}
J
printf '[CLS]The  FOXES\njump cats.[SEP]' >bert.txt
"$program" tokenize bert.txt bert.bin --vocabulary bert.json >/dev/null
[ "$(od -An -tu2 bert.bin | tr -s ' \n' ' ')" = ' 1 3 4 5 6 0 7 2 ' ] || fail "bert: $(od -An -tu2 bert.bin)"
[ "$("$program" tokenize bert.bin - --vocabulary bert.json --decode)" = '[CLS] the foxes jump [UNK]. [SEP]' ] || fail "bert's text"
expect 4 'set data.tokens, or --type, to u16' tokenize fox.llmc - --vocabulary fox.bin.vocabulary.json --decode --type i32
# files of the command line: the name as it was given, the reason, and no rule for paths of configurations
for way in '--bytes none.txt' '--characters none.txt' '--bytes none*.txt' '--decode --bytes none.bin' '--vocabulary none.json fox.txt'; do
  # shellcheck disable=SC2086
  expect 5 '^lockstep: error: none[a-z.*]*: \(cannot be opened: No such file or directory\|no file has such a name\)$' tokenize $way x.bin
done
expect 2 'INPUT cannot be stdin' tokenize --bytes - x.bin
expect 5 '^lockstep: error: none/x.bin: cannot be created: No such file or directory$' tokenize --bytes fox.txt none/x.bin
expect 4 'bytes.bin: token 0 (from 0; byte offset 0) is 116, but the model.s embedding has 64' \
  check c.yaml --set data.path=bytes.bin --set data.tokens=i32 --set model.layers.2.dense.units=200 --set model.layers.2.dense.share=

# a file larger than the memory that the run may take is mapped
truncate -s 600M big.bin
(
  [ "${LOCKSTEP_TEST_TIME:-1}" != 1 ] || ulimit -d 250000 # a sanitizer's own memory is larger
  "$program" train c.yaml --quiet --json --set data.path=big.bin --set data.validation=1e-6 --set train.steps=2 --set train.checkpoint.dir=big >big.json
) || fail "600 MB of tokens within 250 MB"
[ "$(tr -d ' \n' <big.json | sed 's/.*"samples":\([0-9]*\).*/\1/')" = 0 ] || fail "mapped tokens count as memory: $(cat big.json)"
