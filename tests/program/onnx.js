// Runs an ONNX file in onnxruntime-node on the samples of a CSV file and compares with predictions in JSON lines.
// node onnx.js MODEL X.csv PREDICTIONS.jsonl DIMS..  (of one sample); prints the largest difference
const [, , model, samples, predictions, ...dims] = process.argv;
const fs = require('fs');
const ort = require(require.resolve('onnxruntime-node', { paths: (process.env.NODE_PATH || '').split(':').concat('.') }));
const rows = fs.readFileSync(samples, 'utf8').trim().split('\n').slice(1).map((line) => line.split(',').map(Number));
const expected = fs.readFileSync(predictions, 'utf8').trim().split('\n').map((line) => {
  const row = JSON.parse(line);
  return row.probabilities || row.values;
});
const each = expected.length / rows.length;
(async () => {
  const session = await ort.InferenceSession.create(model);
  let largest = 0;
  for (const count of [1, rows.length]) { // any number of samples
    const x = new ort.Tensor('float32', Float32Array.from(rows.slice(0, count).flat()), [count, ...dims.map(Number)]);
    const y = (await session.run({ x }))[session.outputNames[0]];
    const want = expected.slice(0, count * each).flat(); // a line for every position of a sample
    if (y.data.length !== want.length) throw new Error(`${y.data.length} results, not ${want.length}`);
    want.forEach((value, i) => {
      const difference = Math.abs(y.data[i] - value) / (1 + Math.abs(value));
      if (!(difference <= largest)) largest = difference;
    });
  }
  console.log(largest);
})().catch((error) => { console.error(error.message); process.exit(1); });
