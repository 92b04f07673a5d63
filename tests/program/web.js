// The page in Chromium. node web.js STEP URL [WORK]; prints what it measured, and fails with what is not so.
'use strict';
const assert = require('assert');
const fs = require('fs');
const { open } = require('./chromium.js');
const [, , step, url, work] = process.argv;

// Where a colour stands in a picture of an element: the mean height of its pixels in each column, from 0 (top) to 1.
async function heights(page, selector, colour) {
  const clip = await page.value(`(() => { const b = document.querySelector('${selector}'); b.scrollIntoView({ block: 'center' }); const r = b.getBoundingClientRect();
    return { x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1 }; })()`);
  const { data } = await page.tell('Page.captureScreenshot', { format: 'png', clip });
  return page.value(`(async () => {
    const bytes = Uint8Array.from(atob('${data}'), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(image.width, image.height), c = canvas.getContext('2d');
    c.drawImage(image, 0, 0);
    const wanted = '${colour}'.match(/[0-9a-f]{2}/g).map((h) => parseInt(h, 16)), found = [];
    const pixels = c.getImageData(0, 0, image.width, image.height).data;
    for (let x = 0; x < image.width; x++) {
      let sum = 0, count = 0;
      for (let y = 0; y < image.height; y++) {
        const at = 4 * (y * image.width + x);
        if (wanted.every((v, i) => Math.abs(pixels[at + i] - v) < 24)) sum += y, count++;
      }
      if (count) found.push([x, sum / count / image.height]);
    }
    return found;
  })()`);
}
// What the page has of rank 0's curves. A page that is loading them again has none meanwhile.
const curve = (page, what) => page.value(`(async () => {
  while (!state.curves.has(0)) await new Promise((done) => { setTimeout(done, 20); });
  return state.curves.get(0).${what};
})()`);
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

// A day of records: the loss falls by steps from 4 to 1, and one record of 86,400 is 8.
async function day(browser, plain, options) {
  const page = await browser.page(options);
  const began = Date.now();
  await page.go(url + (plain ? '?plain' : ''));
  await page.until('document.body.dataset.drawn');
  console.log(`${plain ? 'plain' : 'usual'} ${JSON.stringify(options)}: loaded after ${await page.value('Math.round(performance.timing.loadEventEnd - performance.timing.navigationStart)')} ms, ` +
    `drawn after ${await page.value('Math.round(document.body.dataset.drawn)')} ms (${Date.now() - began} ms from outside)`);
  await page.until('document.getElementById("steps").textContent.includes("86,400 of 100,000")');
  const points = await curve(page, 't.length');
  assert(points > 200 && points <= 2002, `${points} points of 86,400`);
  assert.strictEqual(await curve(page, 'values[state.columns.indexOf("loss_mean")].reduce((a, b) => Math.max(a, b))'), 8);
  // an evaluation is one point at its own time, with nothing before the first, between them and behind the last
  await page.until('charts.loss.drawn && charts.loss.drawn.data[2] && charts.loss.drawn.data[2].some((v) => v !== null)');
  assert.deepStrictEqual(await page.value('charts.loss.drawn.data[2].map((v, i) => [charts.loss.drawn.data[0][i] - 1700000000, v]).filter(([, v]) => v !== null)'),
    [[20000.5, 5], [40000.5, 4], [60000.5, 3], [80000.5, 2]]);
  const redraw = await page.value('(() => { const t = performance.now(); for (let i = 0; i < 10; i++) drawCurves(); return (performance.now() - t) / 10; })()');
  console.log(`  ${points} points, all curves drawn again in ${redraw.toFixed(1)} ms`);
  // the picture: plateaus at 4, 3, 2, 1 of an axis that ends at 8, each below the one before by the same height
  const found = await heights(page, '#loss canvas', options.dark ? '#6ea8fe' : '#1f66c1');
  assert(found.length > 100, `the curve is in ${found.length} columns`);
  const left = found[0][0], width = found[found.length - 1][0] - left;
  const level = [0.05, 0.32, 0.6, 0.9].map((part) => median(found.filter(([x]) => Math.abs((x - left) / width - part) < 0.04).map(([, y]) => y)));
  const falls = [level[1] - level[0], level[2] - level[1], level[3] - level[2]];
  assert(falls.every((f) => f > 0.03 && Math.abs(f - falls[0]) < 0.03), `the curve's plateaus are at ${level}`);
  // seen on a screen of its width; every button has a name; nothing was refused by the page's own rules
  assert(await page.value('document.documentElement.scrollWidth <= innerWidth'), 'wider than the screen');
  assert(await page.value('document.querySelector("#ranks progress").clientWidth') > 100, "a rank's bar is hidden by its words");
  assert(await page.value('(() => { const c = document.createElement("canvas").getContext("2d"); c.font = "12px system-ui"; return c.measureText("300,000").width + 15 <= axisSize(null, ["300,000"]); })()'), 'a number of an axis is cut');
  assert(await page.value('[...document.querySelectorAll("button")].every((b) => b.textContent.trim())'), 'a button without a name');
  const ground = await page.value('getComputedStyle(document.body).backgroundColor');
  assert.strictEqual(ground, options.dark ? 'rgb(18, 22, 29)' : 'rgb(255, 255, 255)');
  await page.key('4');
  await page.until('state.range === 60 && document.querySelector("[data-range=\\"60\\"]").getAttribute("aria-pressed") === "true"');
  await page.key('l');
  await page.until('state.log && document.getElementById("log").getAttribute("aria-pressed") === "true"');
  assert.deepStrictEqual(page.faults, []);
}

// A run that goes on while its page is open: new steps, its end, its second life, a server that comes again, a new run.
async function live(browser) {
  const page = await browser.page();
  const say = (word) => fs.writeFileSync(`${work}/${word}`, '');
  const step = 'Number(document.getElementById("steps").textContent.replace(/,/g, "").match(/step (\\d+)/)?.[1])';
  const state = 'document.getElementById("state").textContent';
  await page.go(url);
  await page.until(`document.body.dataset.drawn && ${state} === "running"`);
  const first = await page.value(step);
  await page.until(`${step} > ${first}`);
  await page.until('document.querySelectorAll("#ranks button").length === 1 && !document.getElementById("card-timeline").hidden');
  assert.match(await page.value('document.getElementById("timeline").getAttribute("aria-label")'), /forward .*, backward/);
  await page.until('/predicted step70 us \\(\\d/.test(document.getElementById("facts").textContent)');
  assert.match(await page.value('document.getElementById("facts").textContent'), /computed, without libraries\d/);
  await page.until('!document.getElementById("card-gpus").hidden && !document.getElementById("card-gpu").hidden');
  assert.match(await page.value('document.querySelector("#gpus tbody").textContent'), /82.*-2.*420.*400.*heat.*79 \(1\)/);
  assert(await page.value('document.querySelector("#gpus").scrollWidth <= document.querySelector("#gpus").parentElement.clientWidth'), 'columns of GPUs are out of sight');
  say('stop');
  await page.until(`${state} === "ended (interrupted)"`);
  const ended = await page.value(step), last = await curve(page, 't.at(-1)');
  say('resume');
  await page.until(`${state} === "running" && ${step} > ${ended}`);
  assert(await curve(page, 't[0]') < last, 'the first life is gone');
  assert.match(await page.value('document.getElementById("events").textContent'), /start .*resumed_from/);
  say('server');
  await page.until(`/lost/.test(${state})`);
  await page.until(`${state} === "running"`);
  const again = await page.value(step);
  await page.until(`${step} > ${again}`);
  assert(await curve(page, 't[0]') < last, 'the new server has not read from the beginning');
  say('anew');
  await page.until(`state.curves.get(0)?.t[0] > ${last}`);
  await page.until(`${state} === "running" && ${step} > 0`);
  const t = await curve(page, 't');
  assert(t.every((at, i) => i === 0 || at > t[i - 1]), 'points are not in order');
  assert.deepStrictEqual(page.faults, []);
  say('end');
}

(async () => {
  const browser = await open();
  try {
    if (step === 'day') {
      await day(browser, false, { width: 1280, height: 900 });
      await day(browser, true, { width: 390, height: 800, dark: true });
    } else await live(browser);
  } finally { await browser.close(); }
})().catch((error) => { console.error(error.message); process.exit(1); });
