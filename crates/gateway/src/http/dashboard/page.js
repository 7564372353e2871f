'use strict';
// Everything that a server sends is set as text, never as markup.

const POLL_INTERVAL = 1000; // ms between two requests
const RATES_MAX = 60; // rates that a line shows
const GONE_SHOWN_FOR = 10 * 60 * 1000; // ms for which an AllocSvr without a session is still shown
// Distinct with all kinds of color blindness (after Okabe and Ito); the ninth owner gets the first again, with a mark.
const COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a500', '#8a8f99'];

const $ = (id) => document.getElementById(id);
const owners = new Map(); // name -> its index among the colors
const gone = new Map(); // name -> { name, address, since, error }
const rates = new Map(); // address -> { at, counters, now, line }
const rows = new Map(); // table row by table and key
let now = null; // the last state of the cluster
let answered = 0; // time of that state
let failure = null; // error of the last request, if it failed
let slots = null; // { version, owners, owner_indexes, epochs }
let chosen = null; // selected slot
let found = null; // result of the last lookup

const whole = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
const number = (n) => (n == null || Number.isNaN(n) ? '–' : whole.format(n));
const rate = (n) => (n == null || Number.isNaN(n) ? '–' : n < 10000 ? whole.format(Math.round(n)) : short.format(n));
const span = (ms) => (ms == null ? '–' : ms < 1000 ? `${Math.round(ms)} ms` : ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60000)} min`);
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? '' : 's'}`;

function text(node, value) {
  const written = String(value);
  if (node.textContent !== written) node.textContent = written;
}

function make(tag, kind, value) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (value != null) node.textContent = value;
  return node;
}

// ---- requests

async function request(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(8000), cache: 'no-store' });
  const body = await answer.text();
  let json;
  try { json = JSON.parse(body); } catch { json = null; }
  if (!answer.ok) {
    const error = json && json.error;
    const why = (error && (error.message || error)) || body || `HTTP ${answer.status}`;
    throw Object.assign(new Error(String(why)), { status: answer.status });
  }
  return json;
}

async function poll() {
  try {
    const state = await request('v1/cluster');
    await update(state);
    failure = null;
  } catch (error) {
    failure = error.name === 'TimeoutError' ? 'no answer within 8 s' : error.message;
  }
  draw();
}

async function run() {
  for (;;) {
    if (!document.hidden) await poll();
    await new Promise((go) => {
      const seen = new AbortController();
      const end = () => { clearTimeout(timer); seen.abort(); go(); };
      const timer = setTimeout(end, POLL_INTERVAL);
      document.addEventListener('visibilitychange', end, { signal: seen.signal });
    });
  }
}

async function update(state) {
  const before = now;
  now = state;
  answered = Date.now();
  now.node = new Map(state.nodes.map((n) => [n.address, n]));
  now.changed = !before || before.at_ms !== state.at_ms;
  if (before) {
    const living = new Set(state.sessions.map((s) => s.name));
    for (const s of before.sessions) {
      const node = before.node.get(s.address);
      if (!living.has(s.name)) gone.set(s.name, { name: s.name, address: s.address, since: Date.now(), error: node && node.error });
    }
  }
  for (const [name, one] of gone) {
    if (state.sessions.some((s) => s.name === name) || Date.now() - one.since > GONE_SHOWN_FOR) gone.delete(name);
  }
  for (const name of state.sessions.map((s) => s.name).sort()) color(name);
  if (now.changed) measure(state);
  const own = now.node.get(state.served_by.address);
  const version = own && own.counters && own.counters.table_version;
  if (version && (!slots || slots.version !== version)) {
    slots = await request('v1/slots');
    for (const owner of slots.owners) color(owner.name);
    namespaces(slots.namespaces);
  }
}

// Rates are differences between two states; a restarted process counts from 0 again.
function measure(state) {
  const seen = new Set();
  for (const node of state.nodes) {
    seen.add(node.address);
    const last = rates.get(node.address) || { line: [], now: {} };
    const next = { at: state.at_ms, counters: node.counters, now: {}, line: last.line };
    const seconds = (state.at_ms - last.at) / 1000;
    if (node.counters && last.counters && seconds > 0) {
      for (const [name, n] of Object.entries(node.counters)) {
        const difference = n - (last.counters[name] || 0);
        if (difference >= 0) next.now[name] = difference / seconds;
      }
    }
    next.line.push(next.now.numbers_issued || 0);
    if (next.line.length > RATES_MAX) next.line.shift();
    rates.set(node.address, next);
  }
  for (const address of rates.keys()) if (!seen.has(address)) rates.delete(address);
}

const rateOf = (address, name) => { const r = rates.get(address); return r && r.now[name]; };

// ---- drawing

function draw() {
  const late = failure != null || !now;
  const live = $('live');
  const since = now ? `, as of ${span(Date.now() - answered)} ago` : '';
  text(live, failure ? `no answer${since}` : 'live');
  live.className = failure ? 'late' : '';
  document.body.className = late && now ? 'late' : '';
  problems();
  if (!now) return;
  text($('cluster'), now.cluster ? `cluster ${now.cluster.slice(0, 8)}, lease ${span(now.lease_ms)}` : 'no cluster yet');
  text($('source'), `Data from AllocSvr ${now.served_by.name} at ${now.served_by.address}.`);
  tiles();
  allocs();
  stores();
  map();
  hottest();
  describe();
  result();
}

function down(address) {
  const node = now.node.get(address);
  return node && node.error;
}

function problems() {
  const all = [];
  if (failure) all.push(`The AllocSvr of this page does not answer: ${failure}. ${now ? 'The data below is its last answer.' : ''}`);
  if (now) {
    if (now.store_error) {
      const ago = now.store_age_ms == null ? 'No store leader has answered since this page was first requested.' : `The last answer of a store leader is ${span(now.store_age_ms)} old.`;
      all.push(`The store is not reachable: ${now.store_error}. ${ago} The owners below are from the routing table of AllocSvr ${now.served_by.name}.`);
    }
    for (const s of now.stores) if (down(s.address)) all.push(`StoreSvr ${s.id} is down: ${down(s.address)}`);
    for (const s of now.sessions) if (down(s.address)) all.push(`AllocSvr ${s.name} is down: ${down(s.address)}. ${s.slots ? `Other AllocSvrs take over its ${plural(s.slots, 'slot')} when its session expires.` : ''}`);
    for (const one of gone.values()) if (one.error) all.push(`AllocSvr ${one.name} is down: ${one.error}. Its session has ended; other AllocSvrs own its slots.`);
    if (now.free_slots) all.push(`${plural(now.free_slots, 'slot')} ${now.free_slots === 1 ? 'has' : 'have'} no owner at the moment.`);
  }
  const list = $('problems');
  const shown = all.join('\n');
  if (list.dataset.shown !== shown) {
    list.dataset.shown = shown;
    list.replaceChildren(...all.map((one) => make('li', '', one.trim())));
  }
  list.hidden = !all.length;
}

function tiles() {
  const up = (list) => list.filter((one) => !down(one.address)).length;
  const total = now.sessions.reduce((sum, s) => sum + (rateOf(s.address, 'numbers_issued') || 0), 0);
  const raises = now.sessions.reduce((sum, s) => sum + (rateOf(s.address, 'raises') || 0), 0);
  const known = [...rates.values()].some((r) => r.now.numbers_issued != null);
  const all = [
    ['numbers/s', known ? rate(total) : '–', `${known ? rate(raises) : '–'} raises/s`],
    ['AllocSvrs', `${up(now.sessions)} of ${now.sessions.length + gone.size}`, 'answer'],
    ['StoreSvrs', now.stores.length ? `${up(now.stores)} of ${now.stores.length}` : '–', now.term ? `answer; term ${number(now.term)}` : 'unknown'],
    ['slots', number(now.slots), now.free_slots ? `${number(now.free_slots)} without owner` : now.moves_planned ? `${number(now.moves_planned)} planned to move` : 'all owned'],
    ['sections open', now.store_error ? '–' : number(now.sections_open), now.store_error ? '' : `of ${number(now.sections_known)} known`],
  ];
  const list = $('tiles');
  all.forEach(([name, value, more], i) => {
    const tile = list.children[i] || list.appendChild(make('div'));
    if (!tile.children.length) tile.append(make('dt'), make('dd'), make('dd', 'more'));
    [name, value, more].forEach((one, j) => text(tile.children[j], one));
  });
}

// Brings a table's rows in line with `wanted`: [key, cells]; a cell is a text, or a function that fills it.
function fill(id, wanted) {
  const body = $(id).tBodies[0];
  const labels = [...$(id).tHead.rows[0].cells];
  const keep = new Set(wanted.map(([key]) => `${id} ${key}`));
  for (const [key, row] of rows) {
    if (key.startsWith(`${id} `) && !keep.has(key)) { row.remove(); rows.delete(key); }
  }
  wanted.forEach(([key, cells], at) => {
    let row = rows.get(`${id} ${key}`);
    if (!row) {
      row = make('tr');
      for (const label of labels) {
        const cell = row.appendChild(make('td', label.className));
        cell.dataset.label = label.textContent;
      }
      rows.set(`${id} ${key}`, row);
    }
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
    cells.forEach((cell, i) => (typeof cell === 'function' ? cell(row.cells[i], row) : text(row.cells[i], cell)));
  });
}

function color(name) {
  if (!owners.has(name)) owners.set(name, owners.size);
  return owners.get(name);
}

function allocs() {
  const named = (name, address) => (cell) => {
    if (!cell.children.length) cell.append(swatch(name), make('span', 'owner'), make('small'));
    text(cell.children[1], name);
    text(cell.children[2], address);
  };
  const state = (kind, word, why) => (cell) => {
    if (!cell.children.length) cell.append(make('span'), make('small'));
    cell.className = why ? 'state wide' : 'state';
    cell.children[0].className = kind;
    text(cell.children[0], word);
    text(cell.children[1], why || '');
  };
  const living = now.sessions.map((s) => {
    const node = now.node.get(s.address);
    const counters = node && node.counters;
    const left = counters && counters.lease_remaining_ms;
    const how = !counters ? state('bad', 'down', (node && node.error) || 'no status')
      : !counters.lease_valid ? state('bad', 'no lease', 'no requests are served until the lease is renewed')
        : s.draining || counters.draining ? state('warn', 'draining', '')
          : state('good', 'up', '');
    return [s.name, [
      named(s.name, s.address), how, (cell) => lease(cell, left, s.last_renewal_age_ms), number(s.slots),
      rate(rateOf(s.address, 'numbers_issued')), (cell) => line(cell, s.address, s.name), rate(rateOf(s.address, 'raises')),
      number(counters && counters.sections_loaded),
    ]];
  });
  const over = [...gone.values()].map((one) => [one.name, [
    named(one.name, one.address),
    state(one.error ? 'bad' : 'quiet', one.error ? 'down' : 'stopped', `${one.error ? `${one.error}; its` : 'its'} session ended ${span(Date.now() - one.since)} ago`),
    (cell) => lease(cell, null, null), '0', '–', (cell) => line(cell, one.address, one.name), '–', '–',
  ]]);
  fill('allocs', [...living, ...over].sort((a, b) => a[0].localeCompare(b[0], 'en', { numeric: true })));
}

function lease(cell, left, renewed) {
  if (!cell.children.length) cell.append(make('meter'), make('span'), make('small'));
  const [meter, value, small] = cell.children;
  meter.hidden = left == null;
  if (left != null) {
    meter.max = Math.max(now.lease_ms, left, 1);
    meter.low = meter.max / 3;
    meter.value = left;
    meter.setAttribute('aria-label', 'lease remaining');
  }
  text(value, span(left));
  text(small, renewed == null ? '' : `renewed ${span(renewed)} ago`);
}

function stores() {
  const leader = now.stores.find((s) => s.leader);
  fill('stores', now.stores.map((s) => {
    const node = now.node.get(s.address);
    const counters = node && node.counters;
    const leads = s.leader || (now.store_error && counters && counters.raft_is_leader);
    const lag = leader && leader.match_index && s.match_index ? Math.max(0, leader.match_index - s.match_index) : null;
    return [String(s.id), [
      (cell) => {
        if (!cell.children.length) cell.append(make('span', 'owner'), make('small'));
        text(cell.children[0], s.id);
        text(cell.children[1], s.address);
      },
      (cell) => {
        if (!cell.children.length) cell.append(make('span'), make('small'));
        cell.className = counters ? 'state' : 'state wide';
        const role = leads ? 'leader' : s.voter ? 'voter' : 'learner';
        cell.children[0].className = counters ? (leads ? 'good' : '') : 'bad';
        text(cell.children[0], counters ? role : `${role}, down`);
        text(cell.children[1], counters ? '' : (node && node.error) || 'no status');
      },
      number(counters && counters.raft_term), number(lag), leads ? '–' : span(s.last_ack_age_ms),
      rate(rateOf(s.address, 'raft_entries')), rate(rateOf(s.address, 'raft_log_syncs')),
    ]];
  }));
}

function hottest() {
  const all = [];
  for (const node of now.nodes) for (const hot of node.hottest || []) all.push({ ...hot, owner: node.name });
  all.sort((a, b) => b.numbers_per_second - a.numbers_per_second);
  const top = all.slice(0, 10);
  fill('hot', top.map((hot) => [`${hot.namespace}/${hot.section}`, [
    (cell) => {
      if (!cell.children.length) cell.append(make('span', 'owner'));
      text(cell.children[0], `${hot.namespace || '?'} / ${hot.section}`);
    },
    hot.owner, number(hot.slot), rate(hot.numbers_per_second), number(hot.keys_in_memory), number(hot.window_remaining),
  ]]));
  $('hot').hidden = !top.length;
  $('hot-none').hidden = !!top.length;
}

// ---- canvases

function context(canvas, width, height) {
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

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// One cell in an owner's color: further owners with a mark, dead ones struck through.
function cell(c, x, y, size, place, dead) {
  c.fillStyle = COLORS[place % COLORS.length];
  c.fillRect(x, y, size, size);
  c.fillStyle = c.strokeStyle = style('--card');
  const turn = Math.floor(place / COLORS.length) % 4;
  if (turn) c.fillRect(x + size / 4, y + size / 4, turn === 2 ? size / 4 : size / 2, turn === 3 ? size / 4 : size / 2);
  if (dead) {
    c.lineWidth = Math.max(1.5, size / 6);
    c.beginPath();
    c.moveTo(x, y); c.lineTo(x + size, y + size); c.moveTo(x + size, y); c.lineTo(x, y + size);
    c.stroke();
  }
}

function swatch(name) {
  const canvas = make('canvas', 'mark');
  canvas.setAttribute('aria-hidden', 'true');
  cell(context(canvas, 12, 12), 0, 0, 12, color(name), false);
  return canvas;
}

function line(holder, address, name) {
  if (!holder.children.length) holder.append(make('canvas', 'line'));
  const canvas = holder.children[0];
  const kept = rates.get(address);
  const values = kept ? kept.line : [];
  const top = Math.max(1, ...values);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `numbers per second of ${name} in the last minute; maximum ${rate(top)}`);
  const c = context(canvas, 110, 20);
  c.strokeStyle = COLORS[color(name) % COLORS.length];
  c.lineWidth = 1.5;
  c.beginPath();
  values.forEach((value, i) => {
    const x = 110 - (values.length - 1 - i) * (110 / (RATES_MAX - 1));
    const y = 19 - (value / top) * 17;
    if (i) c.lineTo(x, y); else c.moveTo(x, y);
  });
  c.stroke();
}

// How many columns, and how large a cell is, for the width there is.
function grid(count) {
  const width = $('map').clientWidth || 320;
  const ideal = Math.max(4, Math.min(16, Math.floor(Math.sqrt((width * 260) / count))));
  let columns = Math.floor(width / ideal);
  if (columns > 16) columns -= columns % 16;
  return { columns, size: Math.max(3, Math.min(20, Math.floor(width / columns))) };
}

function map() {
  if (!slots) return;
  const count = slots.owner_indexes.length;
  const { columns, size } = grid(count);
  const height = Math.ceil(count / columns) * size;
  const canvas = $('slots');
  const c = context(canvas, columns * size, height);
  const gap = size > 6 ? 1 : 0;
  const dead = slots.owners.map((o) => !!down(o.address));
  const free = style('--free');
  slots.owner_indexes.forEach((ref, slot) => {
    const x = (slot % columns) * size;
    const y = Math.floor(slot / columns) * size;
    if (ref) return cell(c, x, y, size - gap, color(slots.owners[ref - 1].name), dead[ref - 1]);
    c.strokeStyle = free;
    c.lineWidth = 1;
    c.strokeRect(x + 0.5, y + 0.5, size - gap - 1, size - gap - 1);
  });
  const marked = [chosen, found && found.slot].filter((slot) => slot != null && slot < count);
  for (const slot of marked) {
    c.strokeStyle = style('--ink');
    c.lineWidth = 2;
    c.strokeRect((slot % columns) * size - 0.5, Math.floor(slot / columns) * size - 0.5, size, size);
  }
  const counts = slots.owners.map((o, i) => [o.name, slots.owner_indexes.filter((ref) => ref === i + 1).length, dead[i]]);
  const unowned = slots.owner_indexes.filter((ref) => !ref).length;
  const labels = counts.map(([name, n, is]) => `${name}: ${number(n)}${is ? ' (down)' : ''}`);
  if (unowned) labels.push(`no owner: ${number(unowned)}`);
  canvas.setAttribute('aria-label', `${number(count)} slots by owner. ${labels.join(', ')}`);
  const list = $('legend');
  if (list.dataset.shown !== labels.join()) {
    list.dataset.shown = labels.join();
    counts.sort((a, b) => a[0].localeCompare(b[0], 'en', { numeric: true }));
    list.replaceChildren(...counts.map(([name, n, is]) => {
      const item = make('li');
      item.append(swatch(name), make('span', 'owner', name), ` ${number(n)}${is ? ', down' : ''}`);
      return item;
    }));
    if (unowned) list.append(make('li', 'bad', `no owner ${number(unowned)}`));
  }
}

function describe() {
  if (!slots || chosen == null) return;
  const ref = slots.owner_indexes[chosen];
  const owner = ref ? slots.owners[ref - 1] : null;
  const who = owner ? `${owner.name} at ${owner.address}${down(owner.address) ? ' (down)' : ''}` : 'none at the moment';
  text($('slot'), `slot ${chosen}: owner ${who}, epoch ${slots.epochs[chosen]}`);
}

function choose(slot) {
  if (!slots || slot < 0 || slot >= slots.owner_indexes.length) return;
  chosen = slot;
  map();
  describe();
}

function pointed(event) {
  if (!slots) return;
  const box = $('slots').getBoundingClientRect();
  const { columns, size } = grid(slots.owner_indexes.length);
  const column = Math.floor((event.clientX - box.left) / size);
  if (column >= 0 && column < columns) choose(Math.floor((event.clientY - box.top) / size) * columns + column);
}

function key(event) {
  if (!slots) return;
  const { columns } = grid(slots.owner_indexes.length);
  const last = slots.owner_indexes.length - 1;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (step) choose(chosen == null ? 0 : chosen + step);
  else if (event.key === 'Home') choose(0);
  else if (event.key === 'End') choose(last);
  else return;
  event.preventDefault();
}

// ---- looking up

function namespaces(all) {
  const select = $('look-namespace');
  const names = all.map((n) => n.name).join();
  if (select.dataset.names === names) return;
  select.dataset.names = names;
  const value = select.value;
  while (select.options.length > 1) select.remove(1);
  for (const { name, kind } of all) select.add(new Option(`${name} (${kind})`, name));
  select.value = all.some((n) => n.name === value) ? value : '';
}

async function look(event) {
  event.preventDefault();
  const input = $('look-key').value;
  const namespace = $('look-namespace').value;
  const decimal = /^\d{1,20}$/.test(input) && String(BigInt(input)) === input && BigInt(input) < 2n ** 64n;
  const query = new URLSearchParams(namespace ? { namespace } : {});
  query.set(decimal ? 'uid' : 'key', input);
  const error = $('look-error');
  try {
    const [route, current] = await Promise.all([
      request(`v1/route?${query}`),
      request(`v1/current?${query}&format=string`).catch((e) => ({ error: e.status === 404 ? 'not available' : e.message })),
    ]);
    found = { ...route, input, current };
    error.hidden = true;
  } catch (e) {
    found = null;
    text(error, e.message);
    error.hidden = false;
  }
  result();
  map();
}

// Owner and epoch are those of now, not of the time of the request.
function result() {
  const list = $('found');
  list.hidden = !found;
  if (!found) return;
  const ref = slots && slots.owner_indexes[found.slot];
  const owner = slots ? (ref ? slots.owners[ref - 1] : null) : found.owner;
  const { kind, value, error } = found.current;
  const words = { exact: value, never: 'never issued', at_most: `at most ${value}` };
  const facts = [
    ['current', error || words[kind] || value],
    ['owner', owner ? `${owner.name} at ${owner.address}${down(owner.address) ? ' (down)' : ''}` : 'none at the moment'],
    ['slot', found.slot], ['epoch', slots ? slots.epochs[found.slot] : found.epoch],
    ['section', found.section], ['namespace', found.namespace], ['requested', found.input],
  ];
  facts.forEach(([name, said], i) => {
    const fact = list.children[i] || list.appendChild(make('div'));
    if (!fact.children.length) fact.append(make('dt'), make('dd'));
    text(fact.children[0], name);
    text(fact.children[1], said);
  });
}

$('look').addEventListener('submit', look);
$('slots').addEventListener('pointermove', (event) => { if (event.pointerType === 'mouse') pointed(event); });
$('slots').addEventListener('pointerdown', pointed);
$('slots').addEventListener('keydown', key);
addEventListener('resize', map);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => now && draw());
run();
