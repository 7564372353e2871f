// The dashboard in headless Chromium, controlled over its debugging pipe. Needs only Node.js.
//
//   node page.cjs check CHROMIUM URL KEY CURRENT    for page.rs: prints the next fault to inject on stdout, and
//                                                   waits for a line on stdin after it
//   node page.cjs shot CHROMIUM URL FILE WIDTH HEIGHT SECONDS [KEY]    a picture, after SECONDS
'use strict';
const { spawn } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { tmpdir } = require('node:os');
const readline = require('node:readline');

const TEST_TIMEOUT = 60_000;
const [what, chromium, url, ...rest] = process.argv.slice(2);

const profile = mkdtempSync(join(tmpdir(), 'seqsvr-page-'));
const browser = spawn(chromium, [
  '--headless', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
  '--disable-background-networking', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let session;
let last = 0;
const waiting = new Map();
const requests = [];
const trouble = [];

function send(method, params = {}) {
  const id = ++last;
  const message = { id, method, params };
  if (session) message.sessionId = session;
  browser.stdio[3].write(`${JSON.stringify(message)}\0`);
  return new Promise((done, failed) => waiting.set(id, { done, failed, method }));
}

let read = '';
browser.stdio[4].setEncoding('utf8').on('data', (bytes) => {
  read += bytes;
  const messages = read.split('\0');
  read = messages.pop();
  for (const text of messages) heard(JSON.parse(text));
});

function heard({ id, result, error, method, params }) {
  if (id) {
    const { done, failed, method } = waiting.get(id);
    waiting.delete(id);
    return error ? failed(new Error(`${method}: ${error.message}`)) : done(result);
  }
  if (method === 'Network.requestWillBeSent') requests.push(params.request.url);
  if (method === 'Runtime.exceptionThrown') trouble.push(params.exceptionDetails.exception.description);
  if (method === 'Runtime.consoleAPICalled' && params.type !== 'log') trouble.push(`${params.type}: ${JSON.stringify(params.args)}`);
  if (method === 'Log.entryAdded' && params.entry.level !== 'info') trouble.push(`${params.entry.text} ${params.entry.url || ''}`);
}

async function evaluate(expression) {
  const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
  return result.value;
}

async function until(why, expression) {
  const end = Date.now() + TEST_TIMEOUT;
  while (!(await evaluate(expression))) {
    if (Date.now() > end) throw new Error(`timed out: ${why}\n${await evaluate('document.body.innerText')}`);
    await new Promise((go) => setTimeout(go, 50));
  }
}

async function open(width, height, scale) {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await send(`${domain}.enable`);
  await size(width, height, scale);
  await send('Page.navigate', { url });
  await until('the page', `document.readyState === 'complete' && location.href === ${JSON.stringify(url)}`);
}

const size = (width, height, deviceScaleFactor) => send('Emulation.setDeviceMetricsOverride', {
  width, height, deviceScaleFactor, mobile: width < 700,
});

const press = async (key) => {
  for (const type of ['keyDown', 'keyUp']) await send('Input.dispatchKeyEvent', { type, key, code: key });
};

async function look(key) {
  await evaluate(`document.getElementById('look-key').focus(), document.getElementById('look-key').select()`);
  await send('Input.insertText', { text: key });
  await evaluate(`document.getElementById('look').requestSubmit()`);
}

// Text of the row that begins with a name, of an element, and of one field of the lookup.
const row = (table, name) => `([...document.querySelectorAll('#${table} tbody tr')].find((r) => r.querySelector('.owner').textContent === '${name}') || document.createElement('i')).textContent`;
const text = (id) => `document.getElementById('${id}').textContent`;
const fact = (name) => `([...document.querySelectorAll('#found > div')].find((d) => d.firstChild.textContent === '${name}') || document.createElement('i')).lastChild?.textContent`;

function same(actual, expected, why) {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error(`${why}: ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`);
}

async function check([key, current]) {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const injectFault = async (word) => { console.log(word); await lines.next(); };

  await open(1280, 900, 1);
  await until('both allocs', `/up/.test(${row('allocs', 'a1')}) && /up/.test(${row('allocs', 'a2')})`);
  await until('three stores', `document.querySelectorAll('#stores tbody tr').length === 3`);
  await until('one leader', `(${text('stores')}.match(/leader/g) || []).length === 1`);
  await until('a lease', `document.querySelectorAll('#allocs meter').length === 2 && [...document.querySelectorAll('#allocs meter')].every((m) => m.value > 0)`);
  await until('owners', `/a1 512/.test(${text('legend')}) && /a2 512/.test(${text('legend')})`);
  await until('a rate', `/numbers\\/s[1-9]/.test(${text('tiles')})`);
  await until('a hot section', `document.querySelectorAll('#hot tbody tr').length > 0`);
  same(await evaluate(`document.getElementById('problems').hidden`), true, 'nothing is wrong');
  const colours = await evaluate(`(() => {
    const c = document.getElementById('slots');
    const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    const counts = {};
    for (let i = 0; i < all.length; i += 4) { const k = all.slice(i, i + 4).join(); counts[k] = (counts[k] || 0) + 1; }
    return Object.entries(counts).filter(([k, n]) => k.endsWith(',255') && n > all.length / 20).length;
  })()`);
  same(colours, 2, 'colours of the slot map');

  await look(key);
  await until('what was looked up', `${fact('current')} === ${JSON.stringify(current)} && / at /.test(${fact('owner')})`);
  same(await evaluate(fact('requested')), key, 'text stays text');
  await look('x'.repeat(200));
  await evaluate(`document.getElementById('look-key').value = 'x'.repeat(129), document.getElementById('look').dispatchEvent(new Event('submit', { cancelable: true }))`);
  await until('why not', `/1 to 128/.test(${text('look-error')})`);
  // The browser reports what it rejected.
  trouble.splice(0, trouble.length, ...trouble.filter((line) => !/4(00|22) \(/.test(line)));
  await look(key);
  await until('it again', `document.getElementById('look-error').hidden`);
  await evaluate(`document.getElementById('slots').focus()`);
  await press('ArrowRight');
  await press('ArrowRight');
  await until('a slot by key', `/^slot 1: owner a[12] at .*, epoch [0-9]+$/.test(${text('slot')})`);

  for (const width of [360, 600, 768, 1280]) {
    await size(width, 740, 2);
    await new Promise((go) => setTimeout(go, 100));
    const wide = await evaluate(`[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && getComputedStyle(e.closest('thead') || e).position !== 'absolute').map((e) => e.tagName + '#' + e.id)`);
    same(wide, [], `too wide at ${width}`);
    same(await evaluate('document.documentElement.scrollWidth <= innerWidth'), true, `no sideways scroll at ${width}`);
  }

  await injectFault('kill a2');
  await until('a2 down', `/down.*refused/.test(${row('allocs', 'a2')}) && /AllocSvr a2 is down/.test(${text('problems')})`);
  await until('its slots elsewhere', `/a1 1,024/.test(${text('legend')}) && !/a2/.test(${text('legend')})`);
  same(await evaluate(`/down.*session ended/.test(${row('allocs', 'a2')})`), true, 'it is still shown');
  await until('the owner of what was looked up', `/^a1 at/.test(${fact('owner')})`);
  await injectFault('kill a store');
  await until('a store down', `/down/.test(${row('stores', '1')}) && /up/.test(${row('allocs', 'a1')})`);
  await injectFault('kill the stores');
  await until('no store', `/The store is not reachable/.test(${text('problems')}) && /a1 1,024/.test(${text('legend')})`);
  await until('no lease', `/no lease/.test(${row('allocs', 'a1')})`);

  same(trouble, [], 'errors');
  same(requests.filter((r) => !r.startsWith(url) && !r.startsWith('data:')), [], 'requests to elsewhere');
  if (requests.length < 10) throw new Error(`only ${requests.length} requests`);
  await injectFault('kill a1');
  await until('no answer', `/^no answer, as of/.test(${text('live')}) && /does not answer/.test(${text('problems')}) && /a1 1,024/.test(${text('legend')})`);
}

async function shot([file, width, height, seconds, key]) {
  await open(+width, +height, +width < 700 ? 2 : 1);
  if (key) await look(key);
  await new Promise((go) => setTimeout(go, seconds * 1000));
  await evaluate(`document.activeElement.blur()`);
  if (!+height) await size(+width, await evaluate('document.body.scrollHeight'), 1);
  const { data } = await send('Page.captureScreenshot', { format: 'png' });
  writeFileSync(file, Buffer.from(data, 'base64'));
}

(async () => {
  let failure = null;
  try {
    await { check, shot }[what](rest);
  } catch (error) {
    failure = error;
  }
  const ended = new Promise((go) => browser.once('exit', go));
  session = undefined;
  send('Browser.close').catch(() => {});
  const timer = setTimeout(() => browser.kill('SIGKILL'), 5000);
  await ended;
  clearTimeout(timer);
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  if (failure) console.error(failure.message);
  process.exit(failure ? 1 : 0);
})();
