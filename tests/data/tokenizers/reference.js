// Fills in the tokens of reference.json with the library of Hugging Face, whose files lockstep reads:
//   npm install --prefix FOLDER @anush008/tokenizers && NODE_PATH=FOLDER/node_modules node reference.js
// A case is a tokenizer.json but for its vocabulary and merges, which several share; a new one needs no tokens. `back` is what
// they give back, where that is not the text. Models of `texts_of` have texts of their own.
const fs = require("fs");
const path = require("path");
const { Tokenizer } = require("@anush008/tokenizers");

(async () => {
  const file = path.join(__dirname, "reference.json");
  const all = JSON.parse(fs.readFileSync(file, "utf8"));
  for (const one of all.cases) {
    const { name, model, options, tokens, back, ...rest } = one;
    const json = { version: "1.0", added_tokens: [], normalizer: null, decoder: null, post_processor: null, ...rest,
      model: { type: "BPE", ...all.models[model], ...options } };
    const tokenizer = Tokenizer.fromString(JSON.stringify(json));
    const ids = [];
    for (const text of all.texts_of[model] || all.texts) ids.push((await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds());
    one.tokens = ids.map((list) => list.join(" "));
    if (model !== "bytes") one.back = await Promise.all(ids.map((list) => tokenizer.decode(list, false)));
  }
  const lines = (list, of) => list.map((one) => "\n" + of(one)).join(",");
  fs.writeFileSync(file, `{"made_by": ${JSON.stringify(all.made_by)},\n"models": {${lines(Object.keys(all.models),
    (name) => `${JSON.stringify(name)}: ${JSON.stringify(all.models[name])}`)}},\n"texts": [${lines(all.texts, (text) => JSON.stringify(text))}],
"texts_of": {${lines(Object.keys(all.texts_of), (name) => `${JSON.stringify(name)}: [${lines(all.texts_of[name], (text) => JSON.stringify(text))}]`)}},
"cases": [${lines(all.cases, (one) => JSON.stringify(one))}]}\n`);
})();
