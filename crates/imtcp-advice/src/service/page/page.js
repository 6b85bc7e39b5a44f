// The page: requests, what is shown when, and how it stays up to date

/** Without a day, the newest is shown; without a hop, the one that the prediction is of. */
const state = { dst: null, path: null, day: null, hop: null, days: 7, round: 0, failing: '', fresh: null };
/** Milliseconds: the service gives up a request after 15 s. */
const PATIENCE = 20e3;
const EVERY_MINUTE = 60e3, EVERY_FEW_SECONDS = 5e3;
let drawn = null, width = 0;

async function get(url, params = {}) {
  const token = sessionStorage.getItem('token'), headers = token ? { Authorization: `Bearer ${token}` } : {};
  const query = new URLSearchParams(params), give_up = new AbortController();
  const patience = setTimeout(() => give_up.abort(), PATIENCE);
  try {
    // Relative: the page may be served below another address than the root.
    const answer = await fetch(`${url}?${query}`, { headers, signal: give_up.signal });
    // A proxy in between answers without JSON.
    const body = await answer.json().catch(() => null);
    if (answer.status === 401) {
      askForToken(token);
      throw Object.assign(new Error(token ? 'This token is not taken' : 'A token is needed'), { status: 401 });
    }
    if (answer.ok && body) return body;
    const problem = new Error(body?.detail || `the answer is ${answer.status} ${answer.statusText}`.trim());
    throw Object.assign(problem, { status: answer.status, detail: body?.detail });
  } finally { clearTimeout(patience); }
}

function askForToken(refused) {
  if (refused) sessionStorage.removeItem('token');
  if (!$('token').hidden) return;
  show('token');
  $('nav').hidden = true;
  $('token').querySelector('input').focus();
}

/** What is shown stays, and is marked as old until the service answers again. */
function fail(e) {
  if (!$('token').hidden) return put('state', e.message);
  const why = e.status ? `The service answers with an error: ${e.message}.` : 'The service does not answer.';
  // Seconds, and the zone: the reader compares this with a clock of their own.
  const at = state.fresh && clock(state.fresh, { hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' });
  if (state.failing !== why) {
    state.failing = why;
    put('state', [why, at ? `Shown data is from ${at}.` : '', 'The page asks again every few seconds.'].filter(x => x).join(' '));
  }
  document.body.classList.toggle('old', true);
  if (drawn) drawAdvice(drawn.advice);
  follow(EVERY_FEW_SECONDS);
}
function answers() {
  if (state.failing && state.fresh) put('said', 'The service answers again. Shown data is up to date.');
  state.failing = '';
  state.fresh = Date.now();
  put('state', '');
  document.body.classList.toggle('old', false);
}

/** Shows one of what the main part can hold, or nothing. */
function show(id) {
  for (const part of ['token', 'empty', 'unknown', 'path']) $(part).hidden = part !== id;
  document.title = state.dst ? `${state.dst} – imtcp advice` : 'imtcp advice';
}

function draw() {
  if (!drawn) return;
  width = $('main').clientWidth;
  const { advice, hop, from, to } = drawn, basis = advice.computed_from;
  const bandwidth = drawn.path.newest != null;
  $('day').value = drawn.day;
  for (const b of $('range').children) b.setAttribute('aria-pressed', +b.dataset.days === drawn.days);
  drawAdvice(advice);
  drawHops(drawn);
  // One hop's curve under another one's threshold, or beside its prediction, would mislead.
  const threshold = hop === decidingHop(basis) ? basis.threshold_bps : null;
  const steps = hop === (basis.hop ?? '') ? drawn.steps : drawn.steps.map(s => ({ ...s, v: null }));
  $('day-card').hidden = !bandwidth;
  if (bandwidth) {
    drawDay(drawn.measured, steps, threshold, from, to);
    drawStrip(drawn.steps, from, to);
    drawDayTable(drawn.measured, steps);
  }
  $('history-title').textContent = drawn.hops.length > 1 ? `History of ${hopName(hop)}` : 'History';
  $('history-legend').hidden = !drawn.history.length;
  if (bandwidth) drawHistory(drawn.history, drawn.begin, drawn.end);
  else {
    $('history-values').hidden = true;
    none($('history-chart'), 'Only active tests are known of this path. They tell no available bandwidth: there is nothing to draw or to predict.');
  }
  drawTests(drawn.tests, drawn.path.newest_test);
}

/** A destination without history: what that means, what to do, and the paths with similar names. */
async function drawUnknown(dst, mistyped) {
  $('unknown-title').textContent = mistyped ? `“${dst}” is no destination` : `There is no history of ${dst}`;
  $('unknown-words').textContent = mistyped ? 'A destination is an address, as 192.0.2.7, or a host’s name.'
    : 'Nothing was measured on the way to it. Its advice is the safe default: congestion control on, mode bg.';
  $('unknown-bring').hidden = mistyped;
  $('unknown-command').textContent = `imtcp-advice import --db DB --path ${dst} FILE`;
  // Ever less of the name, until some path has it.
  let similar = [];
  for (let part = dst.slice(0, -1); part.length > 2 && !similar.length; part = part.slice(0, -1 - part.length / 4)) {
    similar = withHistory((await get('v1/paths', { q: part, limit: 5 })).paths);
  }
  if (state.dst !== dst) return;
  $('similar').hidden = !similar.length;
  const names = similar.map(p => p.dst), shown = [...$('similar-paths').children].map(li => li.textContent);
  // Who has gone to one of them with the keys stays there.
  if (names.join() !== shown.join()) {
    $('similar-paths').replaceChildren(...names.map(to => el('li', {}, el('button', { textContent: to, onclick: () => choose(to) }))));
  }
  drawn = null;
  show('unknown');
  put('said', $('unknown-title').textContent);
}

async function load() {
  const round = ++state.round, { dst, days } = state;
  try {
    let path;
    try { path = await get(`v1/paths/${encodeURIComponent(dst)}`); } catch (e) {
      if (round !== state.round) return;
      // With a detail it is the service that says so, not a proxy.
      if (![400, 404].includes(e.status) || !e.detail) throw e;
      state.path = null;
      await drawUnknown(dst, e.status === 400);
      answers();
      return drawPaths();
    }
    if (round !== state.round) return;
    state.path = path;
    const now = Date.now(), [newest, tested] = [path.newest, path.newest_test].map(t => t ? Date.parse(t) : 0);
    // A path that has fallen silent is shown where it last spoke.
    const day = state.day || date(Math.min(newest || tested || now, now));
    const from = midnight(day), to = midnight(shift(day, 1));
    const end = Math.min(now, Math.max(newest + 1, tested + 1, to)), begin = end - days * DAY;
    const iso = t => new Date(t).toISOString(), n = transferBytes();
    const advice = await get('v1/advice', n == null ? { dst } : { dst, bytes: n });
    const hop = state.hop ?? advice.computed_from.hop ?? '';
    const past = { dst, from: iso(begin), to: iso(end), points: 400 };
    const [measured, line, history, whole] = await Promise.all([
      get('v1/history', { dst, hop, from: iso(from), to: iso(to), points: 288 }),
      get('v1/timeline', { dst, from: iso(from), to: iso(to), steps: 48 }),
      get('v1/history', { ...past, hop }),
      // Tests are of the path as a whole, whichever hop is drawn.
      hop && tested ? get('v1/history', past) : { tests: [] },
    ]);
    if (round !== state.round) return;
    const steps = line.steps.map(s => ({ ...s, t: Date.parse(s.at), v: s.available_bps, low: s.available_low_bps, high: s.available_high_bps }));
    const tests = [...history.tests, ...whole.tests].sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    const hops = [...new Set([...(history.hops || path.hops), hop])].sort();
    const before = drawn?.advice;
    drawn = { path, advice, day, days, hop, hops, from, to, begin, end, measured: points(measured), steps, history: points(history), tests };
    answers();
    show('path');
    draw();
    drawPaths();
    reveal();
    // A screen reader is told of another path and of another advice, not of each minute's numbers.
    if (before?.dst !== dst || before.reason !== advice.reason) {
      put('said', `${dst}: mode ${advice.mode}. ${SWITCHES[kind(advice)].title}. Predicted ${rate(advice.available_bps)}.`);
    }
  } catch (e) { if (round === state.round) fail(e); }
}

function choose(dst) {
  Object.assign(state, { dst, day: null, hop: null });
  history.replaceState(null, '', `#${encodeURIComponent(dst)}`);
  drawPaths();
  return load();
}

/** The destination that the address names, percent signs or not. */
function named() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return location.hash.slice(1); }
}

/** Asks for the list, and for what is shown. */
async function refresh() {
  try {
    await search();
    if (state.dst) return load();
    const first = named() || list.paths[0]?.dst;
    if (first) return choose(first);
    answers();
    if (!list.wanted) show('empty');
  } catch (e) { fail(e); }
}

let due;
/** Every minute; until there is a path to show, and while the service is away, every few seconds. */
function follow(ms) {
  clearTimeout(due);
  due = setTimeout(async () => {
    follow(EVERY_MINUTE);
    if (document.hidden || !$('token').hidden) return;
    await refresh();
    if (!state.failing) follow(state.path ? EVERY_MINUTE : EVERY_FEW_SECONDS);
  }, ms);
}
document.onvisibilitychange = () => { if (!document.hidden && Date.now() - state.fresh > EVERY_MINUTE) follow(0); };

$('skip').onclick = event => { event.preventDefault(); $('main').focus(); };
onhashchange = () => { if (named() && named() !== state.dst) choose(named()); };
$('token').onsubmit = event => {
  event.preventDefault();
  sessionStorage.setItem('token', event.target.querySelector('input').value.trim());
  $('token').hidden = true;
  refresh();
};
let resized;
new ResizeObserver(() => {
  // Drawing anew takes away what the cursor tells.
  if ($('main').clientWidth === width) return;
  clearTimeout(resized);
  resized = setTimeout(draw, 100);
}).observe($('main'));
follow(0);
