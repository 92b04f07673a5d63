// Runs ONNX files in onnxruntime-node on the samples of CSV files and compares with predictions in JSON lines.
// node onnx.js LIST: each line has NAME BOUND DIMS.. (of one sample) for NAME.onnx, NAME.x.csv and NAME.y.jsonl.
// Prints the largest difference of each; exits with 1 if one is not below its bound.
const fs = require('fs');
const ort = require('onnxruntime-node'); // beside this file (scripts/setup.sh --all), or by NODE_PATH
const lines = (file) => fs.readFileSync(file, 'utf8').trim().split('\n');

async function difference(name, dims) {
  const rows = lines(`${name}.x.csv`).slice(1).map((line) => line.split(',').map(Number));
  const expected = lines(`${name}.y.jsonl`).map((line) => {
    const row = JSON.parse(line);
    return row.probabilities || row.values;
  });
  const each = expected.length / rows.length; // a line for every position of a sample
  const session = await ort.InferenceSession.create(`${name}.onnx`);
  let largest = 0;
  for (const count of [1, rows.length]) { // any number of samples
    const x = new ort.Tensor('float32', Float32Array.from(rows.slice(0, count).flat()), [count, ...dims]);
    const y = (await session.run({ x }))[session.outputNames[0]];
    const want = expected.slice(0, count * each).flat();
    if (y.data.length !== want.length) throw new Error(`${name}: ${y.data.length} results, not ${want.length}`);
    want.forEach((value, i) => {
      const one = Math.abs(y.data[i] - value) / (1 + Math.abs(value));
      if (!(one <= largest)) largest = one;
    });
  }
  return largest;
}

(async () => {
  for (const line of lines(process.argv[2])) {
    const [name, bound, ...dims] = line.split(' ');
    const largest = await difference(name, dims.map(Number));
    console.log(`${name}: differs by ${largest}`);
    if (!(largest < Number(bound))) process.exitCode = 1;
  }
})().catch((error) => { console.error(error.message); process.exit(1); });
