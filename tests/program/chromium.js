// A headless Chromium, driven by its DevTools protocol over a pipe: no package is needed.
'use strict';
const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

async function open(program = process.env.CHROMIUM || 'chromium') {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'lockstep-chromium-'));
  const browser = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${home}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  const waiting = new Map(), heard = [];
  let number = 0, rest = '';
  browser.stdio[4].on('data', (bytes) => {
    const texts = (rest + bytes).split('\0');
    rest = texts.pop();
    for (const text of texts) {
      const message = JSON.parse(text);
      if (message.id) {
        const { done, failed } = waiting.get(message.id);
        waiting.delete(message.id);
        if (message.error) failed(new Error(message.error.message)); else done(message.result);
      } else heard.forEach((hear) => hear(message));
    }
  });
  const end = () => waiting.forEach(({ failed }) => failed(new Error('Chromium has ended')));
  browser.on('exit', end);
  browser.on('error', end);
  browser.stdio[3].on('error', end);
  const say = (method, params = {}, sessionId = undefined) => new Promise((done, failed) => {
    waiting.set(++number, { done, failed });
    browser.stdio[3].write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
  });

  async function page(options = {}) {
    const { targetId } = await say('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await say('Target.attachToTarget', { targetId, flatten: true });
    const tell = (method, params) => say(method, params, sessionId), faults = [];
    heard.push((message) => {
      if (message.sessionId !== sessionId) return;
      if (message.method === 'Runtime.exceptionThrown') faults.push(message.params.exceptionDetails.exception?.description || message.params.exceptionDetails.text);
      if (message.method === 'Log.entryAdded' && /Content Security Policy/.test(message.params.entry.text)) faults.push(message.params.entry.text);
    });
    await tell('Page.enable');
    await tell('Runtime.enable');
    await tell('Log.enable');
    await tell('Emulation.setDeviceMetricsOverride', { width: options.width || 1280, height: options.height || 900, deviceScaleFactor: 1, mobile: false });
    if (options.dark) await tell('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'dark' }] });
    const value = async (text) => {
      const { result, exceptionDetails } = await tell('Runtime.evaluate', { expression: text, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(`${text}: ${exceptionDetails.exception?.description}`);
      return result.value;
    };
    // Until the expression is true; says what was waited for.
    const until = async (text, limit_s = 60) => {
      const limit = Date.now() + 1000 * limit_s;
      while (!(await value(text).catch(() => false))) { // false while a page is loaded
        if (Date.now() > limit) throw new Error(`did not come true: ${text}`);
        await new Promise((done) => { setTimeout(done, 20); });
      }
    };
    return { tell, value, until, faults,
      go: (url) => tell('Page.navigate', { url }),
      shot: async (file) => fs.writeFileSync(file, Buffer.from((await tell('Page.captureScreenshot', { format: 'png' })).data, 'base64')),
      key: async (key) => { for (const type of ['keyDown', 'keyUp']) await tell('Input.dispatchKeyEvent', { type, key, text: type === 'keyDown' ? key : undefined }); } };
  }
  const close = async () => {
    const gone = new Promise((done) => { browser.on('exit', done); });
    say('Browser.close').catch(() => {});
    await gone;
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  };
  return { page, close };
}
module.exports = { open };
