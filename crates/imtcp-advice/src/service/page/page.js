'use strict';
const $ = id => document.getElementById(id);
/** Without a day, the newest is shown; without a hop, the one that the prediction is of. */
const state = { paths: [], dst: null, path: null, day: null, hop: null, days: 7, round: 0 };
const DAY = 864e5;

// Requests

async function get(url, params = {}) {
  const token = sessionStorage.getItem('token');
  const query = new URLSearchParams(params);
  const answer = await fetch(`${url}?${query}`, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  if (answer.status === 401) { askForToken(token); throw new Error(token ? 'This token is not taken' : 'A token is needed'); }
  // A proxy in between answers without JSON.
  const body = await answer.json().catch(() => null);
  if (!answer.ok || !body) throw new Error(body?.detail || `the answer is ${answer.status} ${answer.statusText}`);
  return body;
}
const fail = e => { $('state').textContent = $('token').hidden ? `Not up to date: ${e.message}` : e.message; };
function askForToken(refused) {
  if (refused) sessionStorage.removeItem('token');
  const opened = $('token').hidden;
  $('token').hidden = false;
  $('layout').hidden = true;
  if (opened) $('token').querySelector('input').focus();
}

// Numbers and times as people read them

function rate(bps, short) {
  if (bps == null) return '–';
  const units = ['', 'k', 'M', 'G', 'T'];
  let i = 0;
  while (bps >= 999.5 && i < 4) { bps /= 1000; i++; }
  const digits = bps === 0 || bps >= 99.5 ? 0 : bps >= 9.95 ? 1 : 2;
  const text = short ? String(+bps.toFixed(digits)) : bps.toFixed(digits);
  return short ? `${text}${units[i]}` : `${text} ${units[i]}bit/s`;
}
/** From one to another, with the unit once where it is the same. */
function between(low, high) {
  const [a, b] = [rate(low), rate(high)], unit = b.split(' ')[1];
  return `${a.endsWith(` ${unit}`) ? a.split(' ')[0] : a} – ${b}`;
}
const bytes = n => n == null ? '–' : n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(0)} kB` : `${(n / 1e6).toFixed(1)} MB`;
const millis = us => us == null ? '–' : `${(us / 1e3).toPrecision(3)} ms`;
const span = s => s < 0 ? '0 s' : s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${Math.round(s / 60)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} days`;
const count = (n, one) => `${n} ${one}${n === 1 ? '' : 's'}`;
const sentence = text => text[0].toUpperCase() + text.slice(1);
const hopName = hop => hop ? `hop ${hop}` : 'the path as a whole';
const zone = () => state.path.settings?.zone ?? 'UTC';
function clock(t, options) {
  return new Intl.DateTimeFormat('en-GB', { timeZone: zone(), hourCycle: 'h23', ...options }).format(t);
}
const WHEN = { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' };
const hm = t => clock(t, { hour: '2-digit', minute: '2-digit' });
const date = t => new Intl.DateTimeFormat('sv-SE', { timeZone: zone() }).format(t);

/** The moment when the zone's clocks show midnight of a date, right when clocks change too. */
function midnight(day) {
  const wanted = Date.parse(`${day}T00:00:00Z`);
  let t = wanted;
  for (let i = 0; i < 3; i++) {
    const shown = new Intl.DateTimeFormat('sv-SE', { timeZone: zone(), dateStyle: 'short', timeStyle: 'medium' }).format(t);
    t += wanted - Date.parse(shown.replace(' ', 'T') + 'Z');
  }
  return t;
}
const shift = (day, n) => new Date(Date.parse(`${day}T00:00:00Z`) + n * DAY).toISOString().slice(0, 10);

// Elements

function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  Object.assign(e, props);
  e.append(...children);
  return e;
}

const points = history => history.points.map(p => ({ t: Date.parse(p.time), v: p.available_bps, low: p.low_bps, high: p.high_bps, n: p.samples }));

// The parts of the page

function drawPaths() {
  const wanted = $('find').value.trim().toLowerCase();
  const shown = state.paths.filter(p => p.dst.toLowerCase().includes(wanted));
  const list = $('paths'), top = list.scrollTop, focused = document.activeElement.dataset.dst;
  list.replaceChildren(...shown.map(p => {
    const at = p.newest || p.newest_test, ago = span((Date.now() - Date.parse(at)) / 1e3);
    const button = el('button', { onclick: () => choose(p.dst), tabIndex: -1 }, p.dst,
      el('small', { textContent: p.newest ? `newest ${ago} ago` : `tests alone, newest ${ago} ago` }));
    button.dataset.dst = p.dst;
    button.setAttribute('aria-current', p.dst === state.dst);
    return el('li', {}, button);
  }));
  // The list is one stop of the tab key, its arrow keys do the rest.
  const all = [...list.querySelectorAll('button')], of = dst => all.find(b => b.dataset.dst === dst);
  const stop = of(focused) || of(state.dst) || all[0];
  if (stop) stop.tabIndex = 0;
  list.scrollTop = top;
  if (focused) of(focused)?.focus({ preventScroll: true });
  $('found').textContent = wanted ? `${shown.length} of ${count(state.paths.length, 'path')}` : count(state.paths.length, 'path');
}
/** Brings the chosen path into the list's view, without moving the page. */
function reveal() {
  const list = $('paths'), chosen = list.querySelector('[aria-current=true]');
  if (!chosen) return;
  const above = chosen.getBoundingClientRect().top - list.getBoundingClientRect().top;
  if (above < 0 || above + chosen.offsetHeight > list.clientHeight) list.scrollTop += above - list.clientHeight / 3;
}

function kind(step) { return step.congestion_control === 'off' ? 'off' : step.reason === 'congested' ? 'on' : 'unknown'; }

/** The hop that decides on congestion control; undefined where the answer comes from a service that does not tell. */
const decidingHop = from => from.deciding_hop ?? (from.hops > 1 ? undefined : from.hop ?? '');

function drawAdvice(advice) {
  const from = advice.computed_from, at = Date.parse(advice.at), deciding = decidingHop(from);
  // Of a path with hops, each value is told with the hop that it is of.
  const of = hop => from.hops > 1 ? hop == null ? 'of the hop that decides' : `of ${hopName(hop)}` : '';
  const join = (...parts) => parts.filter(p => p).join(', ');
  $('name').textContent = advice.dst;
  $('zone').textContent = from.local_time.endsWith(` ${from.zone}`) ? from.local_time : `${from.local_time} · ${from.zone}`;
  $('verdict').replaceChildren(
    el('span', { className: `badge ${kind(advice)}`, textContent: `congestion control ${advice.congestion_control}` }),
    el('span', { textContent: state.path.newest ? advice.because : 'active tests alone are known, which tell no available bandwidth' }));
  const fact = (name, value, small) => el('div', {}, el('dt', { textContent: name }),
    el('dd', { textContent: value }, ...(small ? [el('small', { textContent: small })] : [])));
  const next = Math.min(Date.parse(advice.next_advice_at), Date.parse(advice.valid_until)), capacity = from.capacity_bps && `capacity ${rate(from.capacity_bps)}`;
  const days = { all: 'all days', week: 'the week before', weekday: 'same weekday' }[from.history];
  const facts = [
    ['Predicted for now', rate(advice.available_bps), advice.available_bps == null ? 'not known'
      : join(between(advice.available_low_bps, advice.available_high_bps), of(from.hop))],
    ['Newest measurement', rate(from.newest_bps), from.newest_at ? join(`${span((at - Date.parse(from.newest_at)) / 1e3)} ago`, of(deciding)) : 'not known'],
    ['Threshold', rate(from.threshold_bps), from.threshold_bps == null ? 'not known' : deciding === from.hop ? join(capacity, of(deciding)) : of(deciding)],
    ['Ask again', `in ${span((next - at) / 1e3)}`, `at ${hm(next)}${date(next) === date(at) ? '' : ` on ${clock(next, { weekday: 'long' })}`}`],
    ['RTT', millis(advice.rtt_us), advice.rtt_us == null ? 'not known' : ''],
    ['Buffer to use', bytes(advice.buffer_bytes), advice.buffer_bytes == null ? 'not known' : `RTT × ${capacity || 'available'}`],
    ['Based on', count(from.days_used, 'day'), join(count(advice.sample_count, 'sample'), days)],
  ];
  $('facts').replaceChildren(...facts.map(f => fact(...f)));
  $('basis').hidden = !from.days.length;
  const head = ['Day', 'Samples', 'B0', 'B1 per minute', 'R²'];
  const row = (tag, cells) => el('tr', {}, ...cells.map(c => el(tag, { textContent: c })));
  $('days').replaceChildren(row('th', head), ...from.days.map(d => row('td', [d.date, d.samples, rate(d.b0_bps),
    `${d.b1_bps_per_s < 0 ? '−' : '+'}${rate(Math.abs(d.b1_bps_per_s * 60))}`, d.r2 == null ? '–' : d.r2.toFixed(2)])));
}

/** A choice of hop where there are several, and in words what is drawn, what is not, and why. */
function drawHops({ advice, hop, hops }) {
  $('hops').hidden = hops.length < 2;
  if (hops.length < 2) return;
  $('hop').replaceChildren(...hops.map(h => el('option', { value: h, selected: h === hop, textContent: h || 'the path as a whole' })));
  const from = advice.computed_from, deciding = decidingHop(from), predicted = advice.available_bps != null;
  const threshold = from.threshold_bps == null ? '' : `threshold, ${rate(from.threshold_bps)}, is not drawn over another hop's measurements.`;
  const why = { congested: 'is congested', stale: 'has no fresh measurement', no_capacity: 'has no known capacity' }[advice.reason];
  const least = hop === from.hop && predicted ? ', which has the least bandwidth now' : '';
  const words = [`${sentence(hopName(hop))} is drawn${least}.`];
  if (predicted) words.push(least ? 'The prediction is of the hop that has the least at each time.'
    : `The prediction is not shown: it is of the hop with the least bandwidth, now ${hopName(from.hop)}.`);
  if (deciding == null) words.push('Which hop decides on congestion control is not told.', threshold && `Its ${threshold}`);
  else {
    // Where all are free, or past days are too few, no hop decides more than the others.
    if (why) words.push(`${sentence(hopName(deciding))} decides on congestion control, as it ${why}.`);
    else if (deciding !== hop) words.push(`Newest measurement and threshold above are those of ${hopName(deciding)}.`);
    if (deciding !== hop) words.push(threshold && `${why ? 'Its' : 'That'} ${threshold}`);
  }
  $('hop-note').textContent = words.join(' ');
}

function drawTests(tests, known) {
  $('tests').hidden = !known;
  $('tests-none').hidden = tests.length > 0;
  $('tests-scroll').hidden = !tests.length;
  const row = (tag, cells) => el('tr', {}, ...cells.map(c => el(tag, tag === 'th' ? { scope: 'col' } : {}, c)));
  $('tests-head').replaceChildren(row('th', ['Time', 'RTT', 'Loss', 'Throughput', 'Tests', 'Source']));
  // On a phone the last columns stand below the time, as there is no room for them.
  const timeOf = t => el('span', { textContent: clock(Date.parse(t.time), { ...WHEN, weekday: undefined }) }, el('small', { textContent: [t.source, count(t.samples, 'test')].filter(x => x).join(', ') }));
  const percent = share => share == null ? '–' : `${+(share * 100).toFixed(1)} %`;
  $('tests-rows').replaceChildren(...tests.map(t => row('td',
    [timeOf(t), millis(t.rtt_us), percent(t.loss), rate(t.throughput_bps), t.samples, t.source || '–'])));
  $('tests-zone').textContent = `Times in ${zone()}. Where a row has several tests, it has their means.`;
}

function drawDay(measured, steps, threshold, from, to) {
  const known = steps.filter(s => s.v != null);
  for (const [of, there] of [['measured', measured.length], ['predicted', known.length], ['band', known.length], ['threshold', threshold]]) {
    document.querySelector(`#day-legend .${of}`).parentNode.hidden = !there;
  }
  const values = [...measured.map(p => p.v), ...known.map(s => s.high), threshold || 0];
  if (!measured.length && !known.length) return none($('day-chart'), 'Nothing was measured on this day, and nothing is predicted.');
  const f = frame($('day-chart'), { from, to, most: Math.max(...values, 1) * 1.05, height: 260,
    label: `Available bandwidth on ${date(from)}, measured and predicted. Arrow keys read values.` });
  for (const run of runs(known, 2 * (to - from) / 48)) {
    drawBand(f, run, 'b');
    drawLine(f, run, 'p');
  }
  for (const run of runs(measured, 36e5)) drawLine(f, run, 'm');
  if (threshold) {
    f.root.append(svg('line', { class: 't', x1: f.left, x2: f.right, y1: f.y(threshold), y2: f.y(threshold) }),
      svg('text', { class: 'tl', x: f.right, y: f.y(threshold) - 5, 'text-anchor': 'end' }, rate(threshold)));
  }
  const now = Date.now();
  if (now > from && now < to) f.root.append(svg('line', { class: 'now', x1: f.x(now), x2: f.x(now), y1: 0, y2: f.height - f.bottom }));
  const at = t => known.reduce((best, s) => Math.abs(s.t - t) < Math.abs((best || s).t - t) ? s : best, known[0]);
  const told = measured.length ? measured : known;
  cursor($('day-chart'), f, told, p => {
    const s = at(p.t), lines = [hm(p.t)];
    if (measured.length) lines.push(`measured\t${rate(p.v)}`);
    if (s) lines.push(`predicted\t${rate(s.v)}`, `\t${between(s.low, s.high)}`);
    return lines.join('\n');
  });
}

function drawStrip(steps, from, to) {
  const f = frame($('strip'), { from, to, most: 0, height: 50, label: 'Advice through the day. Arrow keys read values.' });
  const until = Math.min(to, Math.max(Date.now(), from));
  const past = steps.filter(s => s.t < until), width = (to - from) / steps.length;
  for (const s of past) {
    const x = f.x(s.t), w = f.x(Math.min(s.t + width, until)) - x;
    const h = { off: 24, on: 16, unknown: 8 }[kind(s)];
    f.root.append(svg('rect', { class: `f-${kind(s)}`, x: x + .5, y: 26 - h, width: Math.max(1, w - 1), height: h, rx: 2 }));
  }
  const words = { free: 'may be off', congested: 'on: congested', stale: 'on: no fresh measurement', no_history: 'on: no history',
    too_few_days: 'on: too few days', no_capacity: 'on: capacity not known' };
  cursor($('strip'), f, past, s => `${hm(s.t)}  ${words[s.reason]}`);
}

function drawHistory(all, from, to) {
  if (!all.length) return none($('history-chart'), 'Nothing was measured in this time.');
  const f = frame($('history-chart'), { from, to, most: Math.max(...all.map(p => p.high), 1) * 1.05, height: 200,
    label: 'Available bandwidth measured. Arrow keys read values.' });
  for (const run of runs(all, Math.max(5 * (to - from) / 400, 36e5))) {
    drawBand(f, run, 's');
    drawLine(f, run, 'm');
  }
  cursor($('history-chart'), f, all, p => `${clock(p.t, WHEN)}\n${rate(p.v)}  (${between(p.low, p.high)})\n${count(p.n, 'sample')}`);
}

// What happens

let drawn = null, width = 0;
function draw() {
  if (!drawn) return;
  width = $('main').clientWidth;
  const { advice, hop, from, to } = drawn, basis = advice.computed_from;
  const bandwidth = drawn.path.newest != null;
  drawAdvice(advice);
  drawHops(drawn);
  // One hop's curve under another one's threshold, or beside its prediction, would mislead.
  const threshold = hop === decidingHop(basis) ? basis.threshold_bps : null;
  const steps = hop === (basis.hop ?? '') ? drawn.steps : drawn.steps.map(s => ({ ...s, v: null }));
  $('day-card').hidden = !bandwidth;
  if (bandwidth) {
    drawDay(drawn.measured, steps, threshold, from, to);
    drawStrip(drawn.steps, from, to);
  }
  $('history-title').textContent = drawn.hops.length > 1 ? `History of ${hopName(hop)}` : 'History';
  $('history-legend').hidden = !drawn.history.length;
  if (bandwidth) drawHistory(drawn.history, drawn.begin, drawn.end);
  else none($('history-chart'), 'Only active tests are known of this path. They tell no available bandwidth: there is nothing to draw or to predict.');
  drawTests(drawn.tests, drawn.path.newest_test);
}

async function load() {
  const round = ++state.round, dst = state.dst;
  try {
    const path = await get(`/v1/paths/${encodeURIComponent(dst)}`);
    if (round !== state.round) return;
    state.path = path;
    const now = Date.now(), [newest, tested] = [path.newest, path.newest_test].map(t => t ? Date.parse(t) : 0);
    // A path that has fallen silent is shown where it last spoke.
    const day = state.day || date(Math.min(newest || tested || now, now));
    const from = midnight(day), to = midnight(shift(day, 1));
    const end = Math.min(now, Math.max(newest + 1, tested + 1, to)), begin = end - state.days * DAY;
    const iso = t => new Date(t).toISOString();
    const advice = await get('/v1/advice', { dst });
    const hop = state.hop ?? advice.computed_from.hop ?? '';
    const past = { dst, from: iso(begin), to: iso(end), points: 400 };
    const [measured, line, history, whole] = await Promise.all([
      get('/v1/history', { dst, hop, from: iso(from), to: iso(to), points: 288 }),
      get('/v1/timeline', { dst, from: iso(from), to: iso(to), steps: 48 }),
      get('/v1/history', { ...past, hop }),
      // Tests are of the path as a whole, whichever hop is drawn.
      hop && tested ? get('/v1/history', past) : { tests: [] },
    ]);
    if (round !== state.round) return;
    const steps = line.steps.map(s => ({ ...s, t: Date.parse(s.at), v: s.available_bps, low: s.available_low_bps, high: s.available_high_bps }));
    const tests = [...history.tests, ...whole.tests].sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    const hops = [...new Set([...(history.hops || path.hops), hop])].sort();
    drawn = { path, advice, day, hop, hops, from, to, begin, end, measured: points(measured), steps, history: points(history), tests };
    $('main').hidden = false;
    $('day').value = day;
    $('state').textContent = '';
    draw();
  } catch (e) { if (round === state.round) fail(e); }
}

function choose(dst) {
  state.dst = dst;
  state.day = state.hop = null;
  history.replaceState(null, '', `#${encodeURIComponent(dst)}`);
  drawPaths();
  reveal();
  load();
}

async function start() {
  try {
    const all = [];
    for (let after = ''; after != null && all.length < 1e4;) {
      const page = await get('/v1/paths', { after, limit: 500 });
      all.push(...page.paths);
      after = page.next;
    }
    state.paths = all.filter(p => p.newest || p.newest_test);
    $('state').textContent = '';
    $('layout').hidden = false;
    $('empty').hidden = state.paths.length > 0;
    document.querySelector('nav').hidden = !state.paths.length;
    drawPaths();
    if (state.paths.length && !state.dst) choose((named() || state.paths[0]).dst);
  } catch (e) { fail(e); }
}
/** The path that the address names, percent signs or not. */
const named = () => state.paths.find(p => [p.dst, encodeURIComponent(p.dst)].includes(location.hash.slice(1)));

/** Every minute; until there is a path every few seconds, as somebody is about to bring one. */
async function follow() {
  if (!document.hidden && $('token').hidden) {
    const known = state.dst;
    await start();
    if (known) await load();
  }
  setTimeout(follow, state.dst ? 60e3 : 5e3);
}

$('find').oninput = drawPaths;
$('find').onkeydown = event => {
  const first = $('paths').querySelector('button');
  if (!first || !['ArrowDown', 'Enter'].includes(event.key)) return;
  event.preventDefault();
  if (event.key === 'Enter') first.click(); else first.focus();
};
$('paths').onkeydown = event => {
  const all = [...$('paths').querySelectorAll('button')], at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: all.length - 1 }[event.key];
  if (to == null || at < 0) return;
  event.preventDefault();
  if (to < 0 && event.key === 'ArrowUp') return $('find').focus();
  const next = all[Math.max(0, Math.min(all.length - 1, to))];
  all[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
};
onhashchange = () => { const path = named(); if (path && path.dst !== state.dst) choose(path.dst); };
$('hop').onchange = event => { state.hop = event.target.value; load(); };
const go = day => { if (day) { state.day = day; load(); } };
$('before').onclick = () => drawn && go(shift(drawn.day, -1));
$('after').onclick = () => drawn && go(shift(drawn.day, 1));
$('day').onchange = event => go(event.target.value);
$('range').onclick = event => {
  if (!event.target.dataset.days) return;
  state.days = +event.target.dataset.days;
  for (const b of $('range').children) b.setAttribute('aria-pressed', b === event.target);
  load();
};
$('token').onsubmit = event => {
  event.preventDefault();
  sessionStorage.setItem('token', event.target.querySelector('input').value.trim());
  $('token').hidden = true;
  if (state.dst) load();
  start();
};
let resized;
new ResizeObserver(() => {
  // Drawing anew takes away what the cursor tells.
  if ($('main').clientWidth === width) return;
  clearTimeout(resized);
  resized = setTimeout(draw, 100);
}).observe($('main'));
follow();
