// The dashboard in headless Chromium, controlled over its debugging pipe. Needs only Node.js.
//
//   node page.cjs check CHROMIUM URL KEY CURRENT    for dashboard.rs: prints the next fault to inject on stdout, and
//                                                   waits for a line on stdin after it
//   node page.cjs identify CHROMIUM URL WRONG OTHER TOKEN    enters tokens: one that no server accepts, one without the
//                                                   right, and one that may read the status only
//   node page.cjs shot CHROMIUM URL FILE WIDTH HEIGHT SECONDS [KEY]    a screenshot, after SECONDS
'use strict';
const { spawn } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { tmpdir } = require('node:os');
const readline = require('node:readline');

const TEST_TIMEOUT = 60_000;
const [command, chromium, url, ...rest] = process.argv.slice(2);

const profile = mkdtempSync(join(tmpdir(), 'seqsvr-page-'));
const browser = spawn(chromium, [
  '--headless', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
  '--disable-background-networking', '--ignore-certificate-errors', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let session;
let lastId = 0;
const pendingCalls = new Map(); // id -> call of `send` without an answer
const requests = [];
const browserErrors = [];

function send(method, params = {}) {
  const id = ++lastId;
  const message = { id, method, params };
  if (session) message.sessionId = session;
  browser.stdio[3].write(`${JSON.stringify(message)}\0`);
  return new Promise((resolve, reject) => pendingCalls.set(id, { resolve, reject, method }));
}

let received = '';
browser.stdio[4].setEncoding('utf8').on('data', (bytes) => {
  received += bytes;
  const messages = received.split('\0');
  received = messages.pop();
  for (const text of messages) handleMessage(JSON.parse(text));
});

function handleMessage({ id, result, error, method, params }) {
  if (id) {
    const { resolve, reject, method } = pendingCalls.get(id);
    pendingCalls.delete(id);
    return error ? reject(new Error(`${method}: ${error.message}`)) : resolve(result);
  }
  if (method === 'Network.requestWillBeSent') requests.push(params.request.url);
  if (method === 'Runtime.exceptionThrown') browserErrors.push(params.exceptionDetails.exception.description);
  if (method === 'Runtime.consoleAPICalled' && params.type !== 'log') browserErrors.push(`${params.type}: ${JSON.stringify(params.args)}`);
  if (method === 'Log.entryAdded' && params.entry.level !== 'info') browserErrors.push(`${params.entry.text} ${params.entry.url || ''}`);
}

async function evaluate(expression) {
  const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
  return result.value;
}

async function waitUntil(why, expression) {
  const end = Date.now() + TEST_TIMEOUT;
  while (!(await evaluate(expression))) {
    if (Date.now() > end) throw new Error(`timed out: ${why}\n${await evaluate('document.body.innerText')}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function openPage(width, height, scale) {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await send(`${domain}.enable`);
  await resizePage(width, height, scale);
  await send('Page.navigate', { url });
  await waitUntil('the page', `document.readyState === 'complete' && location.href === ${JSON.stringify(url)}`);
}

const resizePage = (width, height, deviceScaleFactor) => send('Emulation.setDeviceMetricsOverride', {
  width, height, deviceScaleFactor, mobile: width < 700,
});

const pressKey = async (key) => {
  for (const type of ['keyDown', 'keyUp']) await send('Input.dispatchKeyEvent', { type, key, code: key });
};

async function lookUp(key) {
  await evaluate(`document.getElementById('look-key').focus(), document.getElementById('look-key').select()`);
  await send('Input.insertText', { text: key });
  await evaluate(`document.getElementById('look').requestSubmit()`);
}

// Text of the row that begins with a name, of an element, and of one field of the lookup.
const row = (table, name) => `([...document.querySelectorAll('#${table} tbody tr')].find((r) => r.querySelector('.owner').textContent === '${name}') || document.createElement('i')).textContent`;
const text = (id) => `document.getElementById('${id}').textContent`;
const fact = (name) => `([...document.querySelectorAll('#found > div')].find((d) => d.firstChild.textContent === '${name}') || document.createElement('i')).lastChild?.textContent`;

function assertEqual(actual, expected, why) {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error(`${why}: ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`);
}

// What the charts show of values that no load of this test makes.
async function checkCharts() {
  const labels = await evaluate(`[0, 1, 3, 7, 4999, 20900].map((n) => makeLinearScale(0, n).ticks.map((value) => shortFormat.format(value)).join(' '))`);
  assertEqual(labels, ['0 1', '0 1', '0 1 2 3', '0 5 10', '0 2K 4K 6K', '0 10K 20K 30K'], 'labels of numbers');
  const latencies = await evaluate(`[[0, 0], [40, 40], [90, 110], [20, 1000]].map(([lowest, highest]) => makeLogScale(lowest, highest).ticks.map(formatMicroseconds).join())`);
  assertEqual(latencies, ['1 µs,2 µs', '20 µs,50 µs', '50 µs,100 µs,200 µs', '10 µs,100 µs,1 ms'].map((line) => line.replaceAll(' ', '\u00a0')), 'labels of latencies');
  const rise = await evaluate(`(() => { const { toShare } = makeLogScale(20, 2e6); return [toShare(40) - toShare(20) > 0.04, toShare(2e6) > 0.8, toShare(2e6) <= 1]; })()`);
  assertEqual(rise, [true, true, true], 'a change of microseconds and a peak of seconds in one chart');
  const runs = await evaluate(`splitAtGaps([[0, 1], [2000, null], [4000, 2], [6000, 3], [12000, 4]].map(([at, numbers]) => ({ at, numbers })), 'numbers').map((run) => run.length)`);
  assertEqual(runs, [1, 2, 1], 'a gap where a value is unknown and where there is no sample');
  // The server was restarted 5 s after the first state: its clock has another beginning, at any later time.
  const age = await evaluate(`(() => {
    const [before, after] = [{ at_ms: 5000, receivedAt: 0 }, { at_ms: 10000, receivedAt: 65000 }];
    const shown = load;
    load = [{ at: 4000 }];
    followClock(after, before);
    const { at } = load[0];
    followClock(before, after);
    load = shown;
    return after.at_ms - at;
  })()`);
  assertEqual(age, 66000, 'age of a sample from before a restart of the server');
}

async function check([key, current]) {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const injectFault = async (word) => { console.log(word); await lines.next(); };

  await openPage(1280, 900, 1);
  await waitUntil('both allocs', `/up/.test(${row('allocs', 'a1')}) && /up/.test(${row('allocs', 'a2')})`);
  await waitUntil('three stores', `document.querySelectorAll('#stores tbody tr').length === 3`);
  await waitUntil('one leader', `(${text('stores')}.match(/leader/g) || []).length === 1`);
  await waitUntil('a lease', `document.querySelectorAll('#allocs meter').length === 2 && [...document.querySelectorAll('#allocs meter')].every((m) => m.value > 0)`);
  await waitUntil('owners', `/a1 512/.test(${text('legend')}) && /a2 512/.test(${text('legend')})`);
  await waitUntil('a rate', `/^[1-9]/.test(${text('load-numbers-now')})`);
  await waitUntil('a hot section', `document.querySelectorAll('#hot tbody tr').length > 0`);
  const label = (id) => `document.getElementById('${id}').getAttribute('aria-label')`;
  await waitUntil('a chart', `/seconds: .* to [1-9]/.test(${label('load-numbers')}) && /seconds: .* to .*s$/.test(${label('load-p99')})`);
  await waitUntil('a past of several samples', 'load.length > 3');
  // The old page answers for a moment more.
  await evaluate('window.isOld = true, location.reload()');
  await waitUntil('the page again', `!window.isOld && document.readyState === 'complete' && typeof load !== 'undefined' && load.length > 0 && /a2 512/.test(${text('legend')})`);
  assertEqual(await evaluate('load.length > 1'), true, 'the chart has the past at once');
  await checkCharts();
  assertEqual(await evaluate(`document.getElementById('problems').hidden`), true, 'no problem is shown');
  const pages = await evaluate(`[...document.querySelectorAll('#allocs a')].map((a) => [a.textContent, a.href])`);
  assertEqual(pages.length === 2 && pages.some(([, page]) => page === url), true, `the pages of both allocs: ${pages}`);
  const colors = await evaluate(`(() => {
    const c = document.getElementById('slots');
    const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    const counts = {};
    for (let i = 0; i < all.length; i += 4) { const k = all.slice(i, i + 4).join(); counts[k] = (counts[k] || 0) + 1; }
    return Object.entries(counts).filter(([k, n]) => k.endsWith(',255') && n > all.length / 20).length;
  })()`);
  assertEqual(colors, 2, 'colors of the slot map');

  await lookUp(key);
  await waitUntil('the result of the lookup', `${fact('current')} === ${JSON.stringify(current)} && / at /.test(${fact('owner')})`);
  assertEqual(await evaluate(fact('requested')), key, 'a key is shown as text');
  await lookUp('é'.repeat(65));
  await waitUntil('the error of the lookup', `/has 130 bytes: .* at most 128/.test(${text('look-error')}) && document.getElementById('found').hidden`);
  // The browser reports what it rejected.
  browserErrors.splice(0, browserErrors.length, ...browserErrors.filter((line) => !/4(00|22) \(/.test(line)));
  await lookUp(key);
  await waitUntil('the result of the next lookup', `document.getElementById('look-error').hidden`);
  await evaluate(`document.getElementById('slots').focus()`);
  await pressKey('ArrowRight');
  await pressKey('ArrowRight');
  await waitUntil('a slot chosen by arrow keys', `/^slot 1: owner a[12] at .*, epoch [0-9]+$/.test(${text('slot')})`);

  for (const width of [360, 390, 600, 701, 820, 1280, 1400]) {
    await resizePage(width, 740, 2);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const wide = await evaluate(`[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && getComputedStyle(e.closest('thead') || e).position !== 'absolute').map((e) => e.tagName + '#' + e.id)`);
    assertEqual(wide, [], `too wide at ${width}`);
    const unused = await evaluate(`document.getElementById('map').clientWidth - document.getElementById('slots').getBoundingClientRect().width`);
    assertEqual(Math.abs(unused) < 1, true, `the slot map reaches the edge at ${width}`);
    assertEqual(await evaluate('document.documentElement.scrollWidth <= innerWidth'), true, `no sideways scroll at ${width}`);
    const wrapped = await evaluate(`[...document.querySelectorAll('td.name small')].filter((e) => e.getBoundingClientRect().height > 20).map((e) => e.textContent)`);
    assertEqual(wrapped, [], `addresses in one line at ${width}`);
  }

  await injectFault('kill a2');
  await waitUntil('a2 down', `/down.*refused/.test(${row('allocs', 'a2')}) && /AllocSvr a2 is down/.test(${text('problems')})`);
  await waitUntil('the slots of a2 at a1', `/a1 1,024/.test(${text('legend')}) && !/a2/.test(${text('legend')})`);
  assertEqual(await evaluate(`/down.*session ended/.test(${row('allocs', 'a2')})`), true, 'a2 is still shown');
  await waitUntil('the owner of the lookup', `/^a1 at/.test(${fact('owner')})`);
  await injectFault('kill a store');
  await waitUntil('a store down', `/down/.test(${row('stores', '1')}) && /up/.test(${row('allocs', 'a1')})`);
  await injectFault('kill the stores');
  await waitUntil('no store', `/The store is not reachable/.test(${text('problems')}) && /a1 1,024/.test(${text('legend')})`);
  assertEqual(await evaluate(`/all owned/.test(${text('tiles')})`), false, 'owners are not confirmed');
  assertEqual(await evaluate(`document.getElementById('live').className`), 'warn', 'the page is not green');
  await waitUntil('no lease', `/no lease/.test(${row('allocs', 'a1')})`);

  assertEqual(browserErrors, [], 'errors of the browser');
  assertEqual(requests.filter((r) => !r.startsWith(url) && !r.startsWith('data:')), [], 'requests to other sites');
  if (requests.length < 10) throw new Error(`only ${requests.length} requests`);
  await injectFault('kill a1');
  await waitUntil('no answer', `/^no answer, as of/.test(${text('live')}) && /does not answer/.test(${text('problems')}) && /a1 1,024/.test(${text('legend')})`);
  assertEqual(await evaluate(`/a1.*no answer/.test(${row('allocs', 'a1')}) && !/ up/.test(${row('allocs', 'a1')})`), true, 'a1 does not look up');
  assertEqual(await evaluate(`[document.getElementById('problems'), document.querySelector('main')].every((e) => getComputedStyle(e).opacity === '1')`), true, 'the problems do not fade');
}

async function enterToken(token) {
  await evaluate(`document.getElementById('token').focus()`);
  await send('Input.insertText', { text: token });
  await evaluate(`document.getElementById('identify').requestSubmit()`);
}

// The field for a token, which the page has while the server requires another one.
async function identify([wrong, other, token]) {
  const kept = `sessionStorage.getItem('seqsvr-token')`;
  const isHidden = `document.getElementById('identity').hidden`;
  await openPage(1280, 900, 1);
  await waitUntil('the field', `!${isHidden} && /to known callers only: enter a token below/.test(${text('problems')}) && ${text('live')} === 'token required'`);
  assertEqual(await evaluate(`document.getElementById('token').type`), 'password', 'what the field shows');
  const countPolls = () => requests.filter((r) => r.endsWith('/v1/cluster')).length;
  const polls = countPolls();
  await new Promise((resolve) => setTimeout(resolve, 2500));
  assertEqual(countPolls(), polls, 'requests before there is a token');
  await enterToken('not a token');
  assertEqual(await evaluate(kept), null, 'a text that is no token');
  await evaluate(`document.getElementById('token').value = ''`);
  await enterToken(wrong);
  await waitUntil('a wrong token to be forgotten', `${kept} === null && !${isHidden} && /of no principal/.test(${text('problems')})`);
  await enterToken(` ${other} `);
  await waitUntil('the right that is missing', `!${isHidden} && /has not the right status on the cluster/.test(${text('problems')})`);
  assertEqual(await evaluate(kept), other, 'a token without the right is kept');
  await enterToken(token);
  await waitUntil('the cluster', `${isHidden} && document.getElementById('problems').hidden && /up/.test(${row('allocs', 'a1')})`);
  await lookUp('42');
  await waitUntil('the lookup', `/has not the right current on this namespace/.test(${fact('current')}) && / at /.test(${fact('owner')})`);
  await evaluate('window.isOld = true, location.reload()');
  await waitUntil('the page again', `!window.isOld && document.readyState === 'complete' && ${isHidden} && /up/.test(${row('allocs', 'a1')})`);
  const unexpected = browserErrors.filter((line) => !/40[13] \(/.test(line));
  assertEqual(unexpected, [], 'errors of the browser');
  assertEqual(requests.filter((r) => /sq_/.test(r) || !r.startsWith(url) && !r.startsWith('data:')), [], 'requests with a token or to other sites');
}

async function takeScreenshot([file, width, height, seconds, key]) {
  await openPage(+width, +height, +width < 700 ? 2 : 1);
  if (key) await lookUp(key);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  await evaluate(`document.activeElement.blur()`);
  if (!+height) await resizePage(+width, await evaluate('document.body.scrollHeight'), 1);
  const { data } = await send('Page.captureScreenshot', { format: 'png' });
  writeFileSync(file, Buffer.from(data, 'base64'));
}

(async () => {
  let failure = null;
  try {
    await { check, identify, shot: takeScreenshot }[command](rest);
  } catch (error) {
    failure = error;
  }
  const ended = new Promise((resolve) => browser.once('exit', resolve));
  session = undefined;
  send('Browser.close').catch(() => {});
  const timer = setTimeout(() => browser.kill('SIGKILL'), 5000);
  await ended;
  clearTimeout(timer);
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  if (failure) console.error(failure.message);
  process.exit(failure ? 1 : 0);
})();
