'use strict';
// Everything that a server sends is set as text, never as markup, and without characters that change how the text
// around them is shown.

const POLL_INTERVAL_MS = 1000; // between two requests
const RATES_MAX = 60; // in the line of an AllocSvr
const KEY_BYTES_MAX = 128; // of a key, as UTF-8
const LOAD_SHOWN_MS = 5 * 60 * 1000; // in the chart
const LOAD_GAP_MS = 5000; // between two samples: longer than two intervals
const TOKEN_ITEM = 'seqsvr-token'; // in the storage of this tab
const GONE_SHOWN_MS = 10 * 60 * 1000; // for an AllocSvr without a session
// Colors that people with any kind of color blindness can distinguish (after Okabe and Ito). The ninth owner has
// the first color again, with a mark.
const COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a500', '#8a8f99'];

const $ = (id) => document.getElementById(id);
const colorIndexes = new Map(); // name of an owner -> index of its color
const goneAllocs = new Map(); // name -> { name, address, since, error }
const rates = new Map(); // address -> { at, counters, perSecond, line }
const tableRows = new Map(); // `table key` -> row
let load = []; // points of the chart, oldest first: { at, numbers, p99 }; at: time of the server; null: unknown
let latest = null; // the last state of the cluster
let failure = null; // error of the last request, if it failed
let isSilent = false; // whether that request had no answer at all
let failureStatus = null; // HTTP status of its answer
let needsToken = false; // whether the server requires a token that this tab does not have
let slots = null; // { version, namespaces, owners, owner_indexes, epochs }
let chosenSlot = null; // slot that the user chose on the map
let lookup = null; // result of the last lookup

const fullFormat = new Intl.NumberFormat('en-US');
const shortFormat = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
const formatNumber = (n) => (n == null || Number.isNaN(n) ? '–' : fullFormat.format(n));
const formatRate = (n) => (n == null || Number.isNaN(n) ? '–' : n < 10000 ? fullFormat.format(Math.round(n)) : shortFormat.format(n));
const formatMicroseconds = (us) => (us == null ? '–' : us < 1000 ? `${Math.round(us)}\u00a0µs` : us < 1e6 ? `${shortFormat.format(us / 1000)}\u00a0ms` : `${shortFormat.format(us / 1e6)}\u00a0s`);
const formatDuration = (ms) => (ms == null ? '–' : ms < 1000 ? `${Math.round(ms)}\u00a0ms` : ms < 120000 ? `${(ms / 1000).toFixed(1)}\u00a0s` : `${Math.round(ms / 60000)}\u00a0min`);
// Control characters, halves of surrogate pairs, marks of the writing direction, line separators: as in printable.rs.
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029]/gu;
const escapeUnprintable = (s) => s.replace(UNPRINTABLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
const formatCount = (n, word) => `${formatNumber(n)} ${word}${n === 1 ? '' : 's'}`;

function setText(node, value) {
  const text = String(value);
  if (node.textContent !== text) node.textContent = text;
}

function makeElement(tag, className, value) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (value != null) node.textContent = value;
  return node;
}

// ---- requests

async function fetchJson(path) {
  let response, body, json;
  const token = sessionStorage.getItem(TOKEN_ITEM);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  try {
    response = await fetch(path, { headers, signal: AbortSignal.timeout(8000), cache: 'no-store' });
    body = await response.text();
  } catch (error) {
    const message = error.name === 'TimeoutError' ? 'no answer within 8 s' : 'no connection';
    throw Object.assign(new Error(message), { isSilent: true });
  }
  try { json = JSON.parse(body, (_, value) => (typeof value === 'string' ? escapeUnprintable(value) : value)); } catch { json = null; }
  if (response.status === 401) forgetToken(token);
  if (response.status === 401 && !token) throw Object.assign(new Error('enter a token below'), { status: 401 });
  if (!response.ok) {
    const error = json && json.error;
    const message = (error && (error.message || error)) || escapeUnprintable(body) || `HTTP ${response.status}`;
    throw Object.assign(new Error(String(message)), { status: response.status });
  }
  return json;
}

// Forgets a token that a server rejected, unless another one was entered after that request.
function forgetToken(token) {
  if (token === sessionStorage.getItem(TOKEN_ITEM)) sessionStorage.removeItem(TOKEN_ITEM);
  needsToken = !sessionStorage.getItem(TOKEN_ITEM);
  drawTokenForm();
}

function keepToken(event) {
  event.preventDefault();
  const input = $('token');
  sessionStorage.setItem(TOKEN_ITEM, input.value.trim());
  input.value = '';
  needsToken = false;
  poll();
}

async function poll() {
  try {
    const state = await fetchJson('v1/cluster');
    await update(state);
    [failure, failureStatus, isSilent] = [null, null, false];
  } catch (error) {
    [failure, failureStatus, isSilent] = [error.message, error.status || null, error.isSilent === true];
  }
  draw();
}

// Polls at each interval while the page is visible, and at once when it becomes visible.
async function runPollLoop() {
  for (;;) {
    if (!document.hidden && !needsToken) await poll();
    await new Promise((resolve) => {
      const listening = new AbortController();
      const endWait = () => { clearTimeout(timer); listening.abort(); resolve(); };
      const timer = setTimeout(endWait, POLL_INTERVAL_MS);
      document.addEventListener('visibilitychange', endWait, { signal: listening.signal });
    });
  }
}

async function update(state) {
  const previous = latest;
  state.receivedAt = Date.now();
  if (previous) followClock(state, previous);
  latest = state;
  latest.nodeByAddress = new Map(state.nodes.map((n) => [n.address, n]));
  latest.changed = !previous || previous.at_ms !== state.at_ms;
  if (previous) {
    const liveNames = new Set(state.sessions.map((s) => s.name));
    for (const s of previous.sessions) {
      const node = previous.nodeByAddress.get(s.address);
      if (!liveNames.has(s.name)) goneAllocs.set(s.name, { name: s.name, address: s.address, since: Date.now(), error: node && node.error });
    }
  }
  for (const [name, alloc] of goneAllocs) {
    if (state.sessions.some((s) => s.name === name) || Date.now() - alloc.since > GONE_SHOWN_MS) goneAllocs.delete(name);
  }
  for (const name of state.sessions.map((s) => s.name).sort()) assignColor(name);
  if (latest.changed) updateRates(state);
  updateLoad(state);
  const ownNode = latest.nodeByAddress.get(state.served_by.address);
  const version = ownNode && ownNode.counters && ownNode.counters.table_version;
  if (version && (!slots || slots.version !== version)) {
    slots = await fetchJson('v1/slots');
    for (const owner of slots.owners) assignColor(owner.name);
    fillNamespaces(slots.namespaces);
  }
}

// Rates are differences between two states; a restarted process counts from 0 again.
function updateRates(state) {
  const seen = new Set();
  for (const node of state.nodes) {
    seen.add(node.address);
    const last = rates.get(node.address) || { line: [], perSecond: {} };
    const next = { at: state.at_ms, counters: node.counters, perSecond: {}, line: last.line };
    const seconds = (state.at_ms - last.at) / 1000;
    if (node.counters && last.counters && seconds > 0) {
      for (const [name, n] of Object.entries(node.counters)) {
        const difference = n - (last.counters[name] || 0);
        if (difference >= 0) next.perSecond[name] = difference / seconds;
      }
    }
    next.line.push(next.perSecond.numbers_issued || 0);
    if (next.line.length > RATES_MAX) next.line.shift();
    rates.set(node.address, next);
  }
  for (const address of rates.keys()) if (!seen.has(address)) rates.delete(address);
}

// Moves what is shown to the time of the server, if its clock was not the same between two states: a restarted server
// counts from 0 again, and one that was suspended has missed time.
function followClock(state, previous) {
  const change = state.at_ms - previous.at_ms - (state.receivedAt - previous.receivedAt);
  if (Math.abs(change) < LOAD_GAP_MS) return;
  for (const entry of [...load, ...rates.values()]) entry.at += change;
}

// Adds the samples that are new. Those that were shown stay, also if a server that took part has died.
function updateLoad(state) {
  const recent = state.recent_load;
  if (recent) {
    for (let i = recent.numbers_per_second.length - 1; i >= 0; i--) {
      const at = state.at_ms - recent.age_ms - i * recent.interval_ms;
      const last = load[load.length - 1];
      if (!last || at > last.at + recent.interval_ms / 2) load.push({ at, numbers: recent.numbers_per_second[i], p99: recent.p99_us[i] });
    }
  }
  load = load.filter((point) => point.at > state.at_ms - LOAD_SHOWN_MS);
}

// Returns a rate; none while the page has no answer, because the last one is old.
const getRate = (address, name) => { const entry = rates.get(address); return entry && !failure ? entry.perSecond[name] : null; };

// ---- drawing

function draw() {
  const late = failure != null || !latest;
  const live = $('live');
  const since = latest ? `, as of ${formatDuration(Date.now() - latest.receivedAt)} ago` : '';
  const hasStore = latest && !latest.store_error;
  setText(live, needsToken ? `token required${since}` : failure ? `${isSilent ? 'no answer' : 'error'}${since}` : hasStore ? 'live' : 'live, no store leader');
  live.className = failure ? 'late' : hasStore ? '' : 'warn';
  document.body.className = late && latest ? 'late' : '';
  drawProblems();
  drawTokenForm();
  if (!latest) return;
  setText($('cluster'), latest.cluster ? `cluster ${latest.cluster.slice(0, 8)}, lease\u00a0${latest.lease_ms ? formatDuration(latest.lease_ms) : 'not known yet'}` : 'no cluster yet');
  setText($('source'), `Data from AllocSvr ${latest.served_by.name} at ${latest.served_by.address}.`);
  drawLoad();
  drawTiles();
  drawAllocs();
  drawStores();
  drawSlotMap();
  drawHottest();
  describeChosenSlot();
  drawLookup();
}

// Returns whether the server of this page does not answer and has this address.
const isSilentServer = (address) => isSilent && address === latest.served_by.address;

// Returns the error of the server at an address; none if it answered.
function findError(address) {
  return isSilentServer(address) ? failure : findNodeError(address);
}

// Returns the error of the server at an address, by the last answer.
function findNodeError(address) {
  const node = latest.nodeByAddress.get(address);
  return node && node.error;
}

// Returns whether the server at an address runs with --insecure.
function isInsecure(address) {
  const node = latest.nodeByAddress.get(address);
  return node && node.counters && node.counters.insecure;
}

// Shows the form for a token while the server requires one, or one with another right.
function drawTokenForm() {
  $('identity').hidden = !needsToken && failureStatus !== 403;
}

// Returns what the server of this page does instead of showing the cluster.
function describeFailure() {
  if (isSilent) return 'does not answer';
  return { 401: 'shows the cluster to known callers only', 403: 'does not show the cluster to this caller' }[failureStatus] || 'answered with an error';
}

function drawProblems() {
  const all = [];
  if (failure) all.push(`The AllocSvr of this page ${describeFailure()}: ${failure}. ${latest ? 'The data below is its last answer.' : ''}`);
  if (latest) {
    if (latest.store_error) {
      const storeAge = latest.store_age_ms == null ? 'No store leader has answered since this page was first requested.' : `The last answer of a store leader is ${formatDuration(latest.store_age_ms)} old.`;
      all.push(`The store is not reachable: ${latest.store_error}. ${storeAge} The owners below are from the routing table of AllocSvr ${latest.served_by.name}.`);
    }
    for (const s of latest.stores) if (findNodeError(s.address)) all.push(`StoreSvr ${s.id} is down: ${findNodeError(s.address)}`);
    for (const s of latest.sessions) if (findNodeError(s.address)) all.push(`AllocSvr ${s.name} is down: ${findNodeError(s.address)}. ${s.slots ? `Other AllocSvrs take over its ${formatCount(s.slots, 'slot')} when its session expires.` : ''}`);
    for (const alloc of goneAllocs.values()) if (alloc.error) all.push(`AllocSvr ${alloc.name} is down: ${alloc.error}. Its session has ended; other AllocSvrs own its slots.`);
    for (const s of latest.stores) if (isInsecure(s.address)) all.push(`StoreSvr ${s.id} runs with --insecure: any program that reaches it may do everything.`);
    for (const s of latest.sessions) if (isInsecure(s.address)) all.push(`AllocSvr ${s.name} runs with --insecure: any program that reaches it may do everything.`);
    if (latest.free_slots) all.push(`${formatCount(latest.free_slots, 'slot')} ${latest.free_slots === 1 ? 'has' : 'have'} no owner at the moment.`);
  }
  const list = $('problems');
  const links = isSilent && latest ? findOtherPages() : [];
  const shown = [...all, ...links.map(([, url]) => url)].join('\n');
  if (list.dataset.shown !== shown) {
    list.dataset.shown = shown;
    list.replaceChildren(...all.map((problem) => makeElement('li', '', problem.trim())));
    if (links.length) list.append(makeLinkLine(links));
  }
  list.hidden = !all.length;
}

const LOOPBACK = /^(127\.|\[::1\]|localhost\b)/;

// Returns the address of the page of an AllocSvr. None: it has none that this browser reaches.
function findPage(address) {
  const node = latest.nodeByAddress.get(address);
  const page = node && node.http_address;
  if (!page || !/^(\[[\da-f:.]+\]|[\w.-]+):\d+$/i.test(page)) return null;
  return LOOPBACK.test(page) && !LOOPBACK.test(location.hostname) ? null : `${location.protocol}//${page}/`;
}

// Returns names and pages of the other AllocSvrs that the last answer showed.
function findOtherPages() {
  const others = latest.sessions.filter((s) => !findError(s.address));
  return others.map((s) => [s.name, findPage(s.address)]).filter(([, url]) => url).sort();
}

function makeLink(name, url) {
  const link = makeElement('a', '', name);
  link.href = url;
  return link;
}

function makeLinkLine(links) {
  const line = makeElement('li', '', 'The same page on other AllocSvrs: ');
  links.forEach(([name, url], i) => line.append(i ? ', ' : '', makeLink(name, url)));
  return line;
}

function drawTiles() {
  const countUp = (list) => list.filter((server) => !findError(server.address)).length;
  const all = [
    ['AllocSvrs', `${countUp(latest.sessions)} of ${latest.sessions.length + goneAllocs.size}`, failure ? 'at the last answer' : 'reachable'],
    ['StoreSvrs', latest.stores.length ? `${countUp(latest.stores)} of ${latest.stores.length}` : '–', latest.term ? `${failure ? 'at the last answer' : 'reachable'}; term ${formatNumber(latest.term)}` : 'unknown'],
    ['slots', formatNumber(latest.slots), latest.store_error || failure ? 'owners not confirmed now' : latest.free_slots ? `${formatNumber(latest.free_slots)} without owner` : latest.moves_planned ? `${formatNumber(latest.moves_planned)} planned to move` : 'all owned'],
    ['sections open', latest.store_error ? '–' : formatNumber(latest.sections_open), latest.store_error ? '' : `of ${formatNumber(latest.sections_known)} known`],
  ];
  const list = $('tiles');
  all.forEach(([name, value, more], i) => {
    const tile = list.children[i] || list.appendChild(makeElement('div'));
    if (!tile.children.length) tile.append(makeElement('dt'), makeElement('dd'), makeElement('dd', 'more'));
    [name, value, more].forEach((text, j) => setText(tile.children[j], text));
  });
}

// Updates the rows of a table to `wanted`: [key, cells]. A cell is a text, or a function that fills it.
function fillTable(id, wanted) {
  const body = $(id).tBodies[0];
  const labels = [...$(id).tHead.rows[0].cells];
  const wantedKeys = new Set(wanted.map(([key]) => `${id} ${key}`));
  for (const [key, row] of tableRows) {
    if (key.startsWith(`${id} `) && !wantedKeys.has(key)) { row.remove(); tableRows.delete(key); }
  }
  wanted.forEach(([key, cells], at) => {
    let row = tableRows.get(`${id} ${key}`);
    if (!row) {
      row = makeElement('tr');
      for (const label of labels) {
        const cell = row.appendChild(makeElement('td', label.className));
        cell.dataset.label = label.textContent;
      }
      tableRows.set(`${id} ${key}`, row);
    }
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
    cells.forEach((cell, i) => (typeof cell === 'function' ? cell(row.cells[i], row) : setText(row.cells[i], cell)));
  });
}

// Returns the index of an owner's color. A new owner gets the next one.
function assignColor(name) {
  if (!colorIndexes.has(name)) colorIndexes.set(name, colorIndexes.size);
  return colorIndexes.get(name);
}

function drawAllocs() {
  const fillName = (name, address) => (cell) => {
    const page = findPage(address);
    const link = cell.querySelector('a');
    if (!cell.children.length || (link ? link.href : null) !== page) {
      const owner = makeElement('span', 'owner');
      if (page) owner.append(makeLink(name, page));
      cell.replaceChildren(makeSwatch(name), owner, makeElement('small'));
    }
    if (!page) setText(cell.children[1], name);
    setText(cell.children[2], address);
  };
  const fillState = (className, word, reason) => (cell) => {
    if (!cell.children.length) cell.append(makeElement('span'), makeElement('small'));
    cell.className = reason ? 'state wide' : 'state';
    cell.children[0].className = className;
    setText(cell.children[0], word);
    setText(cell.children[1], reason || '');
  };
  const liveRows = latest.sessions.map((s) => {
    const node = latest.nodeByAddress.get(s.address);
    const counters = node && node.counters;
    const leaseMs = counters && counters.lease_remaining_ms;
    const state = isSilentServer(s.address) ? fillState('bad', 'no answer', failure) : !counters ? fillState('bad', 'down', (node && node.error) || 'no status')
      : !counters.lease_valid ? fillState('bad', 'no lease', 'no requests are served until the lease is renewed')
        : s.draining || counters.draining ? fillState('warn', 'draining', '')
          : failure ? fillState('quiet', 'was up', '') : fillState('good', 'up', '');
    return [s.name, [
      fillName(s.name, s.address), state, (cell) => fillLease(cell, failure ? null : leaseMs, failure || latest.store_error ? null : s.last_renewal_age_ms), formatNumber(s.slots),
      formatRate(getRate(s.address, 'numbers_issued')), (cell) => drawRateLine(cell, s.address, s.name), formatRate(getRate(s.address, 'raises')),
      formatNumber(counters && counters.sections_loaded),
    ]];
  });
  const goneRows = [...goneAllocs.values()].map((alloc) => [alloc.name, [
    fillName(alloc.name, alloc.address),
    fillState(alloc.error ? 'bad' : 'quiet', alloc.error ? 'down' : 'stopped', `${alloc.error ? `${alloc.error}; its` : 'its'} session ended ${formatDuration(Date.now() - alloc.since)} ago`),
    (cell) => fillLease(cell, null, null), '0', '–', (cell) => drawRateLine(cell, alloc.address, alloc.name), '–', '–',
  ]]);
  fillTable('allocs', [...liveRows, ...goneRows].sort((a, b) => a[0].localeCompare(b[0], 'en', { numeric: true })));
}

function fillLease(cell, remainingMs, renewedAgeMs) {
  if (!cell.children.length) cell.append(makeElement('meter'), makeElement('span'), makeElement('small'));
  const [meter, value, small] = cell.children;
  meter.hidden = remainingMs == null;
  if (remainingMs != null) {
    meter.max = Math.max(latest.lease_ms, remainingMs, 1);
    meter.low = meter.max / 3;
    meter.value = remainingMs;
    meter.setAttribute('aria-label', 'lease remaining');
  }
  setText(value, formatDuration(remainingMs));
  setText(small, renewedAgeMs == null ? '' : `renewed ${formatDuration(renewedAgeMs)} ago`);
}

function drawStores() {
  $('stores').hidden = !latest.stores.length;
  $('stores-none').hidden = !!latest.stores.length;
  const leader = latest.stores.find((s) => s.leader);
  fillTable('stores', latest.stores.map((s) => {
    const node = latest.nodeByAddress.get(s.address);
    const counters = node && node.counters;
    const isLeader = s.leader || (latest.store_error && counters && counters.raft_is_leader);
    const lag = leader && leader.match_index && s.match_index ? Math.max(0, leader.match_index - s.match_index) : null;
    return [String(s.id), [
      (cell) => {
        if (!cell.children.length) cell.append(makeElement('span', 'owner'), makeElement('small'));
        setText(cell.children[0], s.id);
        setText(cell.children[1], s.address);
      },
      (cell) => {
        if (!cell.children.length) cell.append(makeElement('span'), makeElement('small'));
        cell.className = counters ? 'state' : 'state wide';
        const role = isLeader ? 'leader' : s.voter ? 'voter' : 'learner';
        cell.children[0].className = counters ? (isLeader && !failure ? 'good' : '') : 'bad';
        setText(cell.children[0], counters ? role : `${role}, down`);
        setText(cell.children[1], counters ? '' : (node && node.error) || 'no status');
      },
      formatNumber(counters && counters.raft_term), formatNumber(lag), isLeader || failure ? '–' : formatDuration(s.last_ack_age_ms),
      formatRate(getRate(s.address, 'raft_entries')), formatRate(getRate(s.address, 'raft_log_syncs')),
    ]];
  }));
}

function drawHottest() {
  const all = [];
  for (const node of latest.nodes) for (const hot of node.hottest || []) all.push({ ...hot, owner: node.name });
  all.sort((a, b) => b.numbers_per_second - a.numbers_per_second);
  const top = all.slice(0, 10);
  fillTable('hot', top.map((hot) => [`${hot.namespace}/${hot.section}`, [
    (cell) => {
      if (!cell.children.length) cell.append(makeElement('span', 'owner'));
      setText(cell.children[0], `${hot.namespace || '?'} / ${hot.section}`);
    },
    hot.owner, formatNumber(hot.slot), formatRate(hot.numbers_per_second), formatNumber(hot.keys_in_memory), formatNumber(hot.window_remaining),
  ]]));
  $('hot').hidden = !top.length;
  $('hot-none').hidden = !!top.length;
}

// ---- canvases

function prepareCanvas(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 3);
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const c = canvas.getContext('2d');
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

const readStyle = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Draws one cell in an owner's color: with a mark from the ninth owner on, struck through if the owner is down.
function drawCell(c, x, y, size, colorIndex, isDown) {
  c.fillStyle = COLORS[colorIndex % COLORS.length];
  c.fillRect(x, y, size, size);
  c.fillStyle = c.strokeStyle = readStyle('--card');
  const mark = Math.floor(colorIndex / COLORS.length) % 4;
  if (mark) c.fillRect(x + size / 4, y + size / 4, mark === 2 ? size / 4 : size / 2, mark === 3 ? size / 4 : size / 2);
  if (isDown) {
    c.lineWidth = Math.max(1.5, size / 6);
    c.beginPath();
    c.moveTo(x, y); c.lineTo(x + size, y + size); c.moveTo(x + size, y); c.lineTo(x, y + size);
    c.stroke();
  }
}

function makeSwatch(name) {
  const canvas = makeElement('canvas', 'mark');
  canvas.setAttribute('aria-hidden', 'true');
  drawCell(prepareCanvas(canvas, 12, 12), 0, 0, 12, assignColor(name), false);
  return canvas;
}

function drawRateLine(holder, address, name) {
  if (!holder.children.length) holder.append(makeElement('canvas', 'line'));
  const canvas = holder.children[0];
  const entry = rates.get(address);
  const values = entry ? entry.line : [];
  const top = Math.max(1, ...values);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `numbers per second of ${name} in the last minute; maximum ${formatRate(top)}`);
  const c = prepareCanvas(canvas, 110, 20);
  c.strokeStyle = COLORS[assignColor(name) % COLORS.length];
  c.lineWidth = 1.5;
  c.beginPath();
  values.forEach((value, i) => {
    const x = 110 - (values.length - 1 - i) * (110 / (RATES_MAX - 1));
    const y = 19 - (value / top) * 17;
    if (i) c.lineTo(x, y); else c.moveTo(x, y);
  });
  c.stroke();
}

function drawLoad() {
  if (!latest) return;
  const newest = load[load.length - 1] || {};
  const isCurrent = !failure && newest.at > latest.at_ms - LOAD_GAP_MS;
  setText($('load-numbers-now'), formatRate(isCurrent ? newest.numbers : null));
  setText($('load-p99-now'), formatMicroseconds(isCurrent ? newest.p99 : null));
  drawChart($('load-numbers'), 'Numbers per second', 'numbers', (n) => shortFormat.format(n), '--focus', makeLinearScale);
  drawChart($('load-p99'), 'p99 latency', 'p99', formatMicroseconds, '--chart-2', makeLogScale);
}

// Returns the least of 1, 2 and 5 times a power of ten that is not below a value.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value);
}

// Returns the lines of a chart from 0 to a value, and where a value is between the first and the last one.
function makeLinearScale(lowest, highest) {
  const step = Math.max(1, roundUp(Math.max(1, highest) / 3));
  const count = Math.max(1, Math.ceil(highest / step));
  const ticks = Array.from({ length: count + 1 }, (_, i) => i * step);
  return { ticks, toShare: (value) => value / ticks[count] };
}

// Returns the lines of a chart in which equal factors have equal heights, so that it shows a change of a few
// microseconds beside a peak of seconds.
function makeLogScale(lowest, highest) {
  const end = Math.max(2, highest, lowest + 1);
  const chooseTicks = (steps) => {
    const all = Array.from({ length: 20 }, (_, power) => steps.map((n) => n * 10 ** power)).flat();
    return all.filter((_, i) => !(all[i + 1] <= lowest) && !(all[i - 1] >= end));
  };
  const fine = chooseTicks([1, 2, 5]);
  const ticks = fine.length <= 5 ? fine : chooseTicks([1]);
  const [first, last] = [ticks[0], ticks[ticks.length - 1]];
  return { ticks, toShare: (value) => Math.log(Math.max(value, first) / first) / Math.log(last / first) };
}

// Draws one value of the load over the last five minutes; a gap where the server has no value.
function drawChart(canvas, name, field, format, color, makeScale) {
  const width = canvas.parentNode.clientWidth;
  const [height, top, bottom] = [130, 8, 20];
  const c = prepareCanvas(canvas, width, height);
  const end = latest.at_ms + Date.now() - latest.receivedAt;
  const points = load.filter((point) => point.at > end - LOAD_SHOWN_MS);
  const known = points.filter((point) => point[field] != null);
  const values = known.map((point) => point[field]);
  const [lowest, highest] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
  const { ticks, toShare } = makeScale(lowest, highest);
  c.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const left = Math.ceil(Math.max(16, ...ticks.map((value) => c.measureText(format(value)).width))) + 8;
  const toX = (at) => width - 1 - ((end - at) / LOAD_SHOWN_MS) * (width - 1 - left);
  const toY = (value) => height - bottom - toShare(value) * (height - bottom - top);
  c.fillStyle = readStyle('--quiet');
  c.strokeStyle = readStyle('--line');
  c.lineWidth = 1;
  c.textBaseline = 'middle';
  c.textAlign = 'right';
  for (const value of ticks) {
    const y = Math.round(toY(value)) + 0.5;
    c.beginPath(); c.moveTo(left, y); c.lineTo(width, y); c.stroke();
    c.fillText(format(value), left - 6, y);
  }
  c.textBaseline = 'bottom';
  for (const minutes of [5, 4, 3, 2, 1, 0]) {
    c.textAlign = minutes ? 'center' : 'right';
    c.fillText(minutes ? `${minutes} min` : 'now', toX(end - minutes * 60000), height);
  }
  c.strokeStyle = c.fillStyle = readStyle(color);
  c.lineWidth = 2;
  c.lineJoin = 'round';
  for (const run of splitAtGaps(points, field)) {
    const draw = () => run.forEach((point, i) => c[i ? 'lineTo' : 'moveTo'](toX(point.at), toY(point[field])));
    c.beginPath(); draw(); c.stroke();
    if (run.length === 1) c.fillRect(toX(run[0].at) - 1, toY(run[0][field]) - 1, 2, 2);
    // Below a logarithmic line an area means nothing.
    if (ticks[0]) continue;
    c.globalAlpha = 0.15;
    c.beginPath(); draw();
    c.lineTo(toX(run[run.length - 1].at), toY(0)); c.lineTo(toX(run[0].at), toY(0)); c.fill();
    c.globalAlpha = 1;
  }
  const seconds = known.length ? Math.round((end - known[0].at) / 1000) : 0;
  canvas.setAttribute('aria-label', known.length ? `${name} in the last ${seconds} seconds: ${format(lowest)} to ${format(highest)}` : `${name}: no data yet`);
}

// Returns the runs of points without an unknown value and without a time in which there is no point.
function splitAtGaps(points, field) {
  const runs = [];
  let run = null;
  for (const point of points) {
    const isKnown = point[field] != null;
    if (isKnown && (!run || point.at - run[run.length - 1].at > LOAD_GAP_MS)) runs.push(run = []);
    if (isKnown) run.push(point);
    else run = null;
  }
  return runs;
}

// Returns the number of columns and the size of a cell that fit the width of the page.
function computeGrid(count) {
  const width = $('map').clientWidth || 320;
  const ideal = Math.max(4, Math.min(16, Math.floor(Math.sqrt((width * 260) / count))));
  const columns = Math.floor(width / ideal);
  return { columns, width, size: width / columns };
}

function drawSlotMap() {
  if (!slots) return;
  const count = slots.owner_indexes.length;
  const { columns, width, size } = computeGrid(count);
  const height = Math.ceil(Math.ceil(count / columns) * size);
  const canvas = $('slots');
  const c = prepareCanvas(canvas, width, height);
  const gap = size > 6 ? 1 : 0;
  const isDown = slots.owners.map((o) => !!findError(o.address));
  const free = readStyle('--free');
  slots.owner_indexes.forEach((ownerRef, slot) => {
    const x = Math.round((slot % columns) * size);
    const y = Math.round(Math.floor(slot / columns) * size);
    const cell = Math.floor(size) - gap;
    if (ownerRef) return drawCell(c, x, y, cell, assignColor(slots.owners[ownerRef - 1].name), isDown[ownerRef - 1]);
    c.strokeStyle = free;
    c.lineWidth = 1;
    c.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
  });
  const marked = [chosenSlot, lookup && lookup.slot].filter((slot) => slot != null && slot < count);
  for (const slot of marked) {
    c.strokeStyle = readStyle('--ink');
    c.lineWidth = 2;
    c.strokeRect((slot % columns) * size - 0.5, Math.floor(slot / columns) * size - 0.5, size, size);
  }
  const counts = slots.owners.map((o, i) => [o.name, slots.owner_indexes.filter((ownerRef) => ownerRef === i + 1).length, isDown[i]]);
  const unowned = slots.owner_indexes.filter((ownerRef) => !ownerRef).length;
  const labels = counts.map(([name, n, down]) => `${name}: ${formatNumber(n)}${down ? ' (down)' : ''}`);
  if (unowned) labels.push(`no owner: ${formatNumber(unowned)}`);
  canvas.setAttribute('aria-label', `${formatNumber(count)} slots by owner. ${labels.join(', ')}`);
  const list = $('legend');
  if (list.dataset.shown !== labels.join()) {
    list.dataset.shown = labels.join();
    counts.sort((a, b) => a[0].localeCompare(b[0], 'en', { numeric: true }));
    list.replaceChildren(...counts.map(([name, n, down]) => {
      const item = makeElement('li');
      item.append(makeSwatch(name), makeElement('span', 'owner', name), ` ${formatNumber(n)}${down ? ', down' : ''}`);
      return item;
    }));
    if (unowned) list.append(makeElement('li', 'bad', `no owner ${formatNumber(unowned)}`));
  }
}

function describeChosenSlot() {
  if (!slots || chosenSlot == null) return;
  const ownerRef = slots.owner_indexes[chosenSlot];
  const owner = ownerRef ? slots.owners[ownerRef - 1] : null;
  const ownerText = owner ? `${owner.name} at ${owner.address}${findError(owner.address) ? ' (down)' : ''}` : 'none at the moment';
  setText($('slot'), `slot ${chosenSlot}: owner ${ownerText}, epoch ${slots.epochs[chosenSlot]}`);
}

function chooseSlot(slot) {
  if (!slots || slot < 0 || slot >= slots.owner_indexes.length) return;
  chosenSlot = slot;
  drawSlotMap();
  describeChosenSlot();
}

function choosePointedSlot(event) {
  if (!slots) return;
  const box = $('slots').getBoundingClientRect();
  const { columns, size } = computeGrid(slots.owner_indexes.length);
  const column = Math.floor((event.clientX - box.left) / size);
  if (column >= 0 && column < columns) chooseSlot(Math.floor((event.clientY - box.top) / size) * columns + column);
}

function moveChosenSlot(event) {
  if (!slots) return;
  const { columns } = computeGrid(slots.owner_indexes.length);
  const last = slots.owner_indexes.length - 1;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (step) chooseSlot(chosenSlot == null ? 0 : chosenSlot + step);
  else if (event.key === 'Home') chooseSlot(0);
  else if (event.key === 'End') chooseSlot(last);
  else return;
  event.preventDefault();
}

// ---- looking up

function fillNamespaces(all) {
  const select = $('look-namespace');
  const names = all.map((n) => n.name).join();
  if (select.dataset.names === names) return;
  select.dataset.names = names;
  const value = select.value;
  while (select.options.length > 1) select.remove(1);
  for (const { name, kind } of all) select.add(new Option(`${name} (${kind})`, name));
  select.value = all.some((n) => n.name === value) ? value : '';
}

// Says why a key cannot be looked up, while it is entered. Returns whether it can.
function checkKey() {
  const length = new TextEncoder().encode($('look-key').value).length;
  const error = $('look-error');
  const isTooLong = length > KEY_BYTES_MAX;
  if (isTooLong) setText(error, `the key has ${formatNumber(length)} bytes: a key has at most ${KEY_BYTES_MAX}; shorten it`);
  if (isTooLong || error.textContent.startsWith('the key has ')) error.hidden = !isTooLong;
  return !isTooLong;
}

async function lookUp(event) {
  event.preventDefault();
  if (!checkKey()) {
    lookup = null;
    drawLookup();
    drawSlotMap();
    return;
  }
  const input = $('look-key').value;
  const namespace = $('look-namespace').value;
  const isUid = /^\d{1,20}$/.test(input) && String(BigInt(input)) === input && BigInt(input) < 2n ** 64n;
  const query = new URLSearchParams(namespace ? { namespace } : {});
  query.set(isUid ? 'uid' : 'key', input);
  const error = $('look-error');
  try {
    const [route, current] = await Promise.all([
      fetchJson(`v1/route?${query}`),
      fetchJson(`v1/current?${query}&format=string`).catch((e) => ({ error: e.status === 404 ? 'not available' : e.message })),
    ]);
    lookup = { ...route, input, current };
    error.hidden = true;
  } catch (e) {
    lookup = null;
    setText(error, e.message);
    error.hidden = false;
  }
  drawLookup();
  drawSlotMap();
}

// Draws the result of the last lookup. Owner and epoch are the current ones, not those at the time of the lookup.
function drawLookup() {
  const list = $('found');
  list.hidden = !lookup;
  if (!lookup) return;
  const ownerRef = slots && slots.owner_indexes[lookup.slot];
  const owner = slots ? (ownerRef ? slots.owners[ownerRef - 1] : null) : lookup.owner;
  const { kind, value, error } = lookup.current;
  const kindTexts = { exact: value, never: 'never issued', at_most: `at most ${value}` };
  const facts = [
    ['current', error || kindTexts[kind] || value],
    ['owner', owner ? `${owner.name} at ${owner.address}${findError(owner.address) ? ' (down)' : ''}` : 'none at the moment'],
    ['slot', lookup.slot], ['epoch', slots ? slots.epochs[lookup.slot] : lookup.epoch],
    ['section', lookup.section], ['namespace', lookup.namespace], ['requested', lookup.input],
  ];
  facts.forEach(([name, text], i) => {
    const fact = list.children[i] || list.appendChild(makeElement('div'));
    if (!fact.children.length) fact.append(makeElement('dt'), makeElement('dd'));
    fact.className = error && text === error ? 'wide' : '';
    setText(fact.children[0], name);
    setText(fact.children[1], text);
  });
}

$('identify').addEventListener('submit', keepToken);
$('look').addEventListener('submit', lookUp);
$('look-key').addEventListener('input', checkKey);
$('slots').addEventListener('pointermove', (event) => { if (event.pointerType === 'mouse') choosePointedSlot(event); });
$('slots').addEventListener('pointerdown', choosePointedSlot);
$('slots').addEventListener('keydown', moveChosenSlot);
addEventListener('resize', () => { drawLoad(); drawSlotMap(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => latest && draw());
runPollLoop();
