// What was measured: the day against its prediction, the advice through it, history, active tests

const points = history => history.points.map(p => ({ t: Date.parse(p.time), v: p.available_bps, low: p.low_bps, high: p.high_bps, n: p.samples }));
const greatest = (all, key) => Math.max(...all.map(p => p[key]));
const least = (all, key) => Math.min(...all.map(p => p[key]));
/** Mean by samples. */
const mean = all => all.reduce((sum, p) => sum + p.v * p.n, 0) / all.reduce((sum, p) => sum + p.n, 0);
/** A curve in a sentence. */
const told = (all, what) => all.length ? `${what} between ${between(least(all, 'v'), greatest(all, 'v'))}` : `nothing ${what}`;

function drawDay(measured, steps, threshold, from, to) {
  const known = steps.filter(s => s.v != null);
  for (const [of, there] of [['measured', measured.length], ['predicted', known.length], ['band', known.length], ['threshold', threshold]]) {
    document.querySelector(`#day-legend .${of}`).parentNode.hidden = !there;
  }
  const values = [...measured.map(p => p.v), ...known.map(s => s.high), threshold || 0];
  if (!measured.length && !known.length) return none($('day-chart'), 'Nothing was measured on this day, and nothing is predicted.');
  const limit = threshold ? `; threshold of congestion ${rate(threshold)}` : '';
  const f = frame($('day-chart'), { from, to, most: Math.max(...values, 1) * 1.05, height: 260,
    label: `Available bandwidth on ${date(from)}: ${told(measured, 'measured')}; ${told(known, 'predicted')}${limit}. The table below has the values.` });
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
  cursor($('day-chart'), f, measured.length ? measured : known, 'Values of the day', p => {
    const s = at(p.t), lines = [hm(p.t)];
    if (measured.length) lines.push(`measured\t${rate(p.v)}`);
    if (s) lines.push(`predicted\t${rate(s.v)}`, `\t${between(s.low, s.high)}`);
    return lines.join('\n');
  });
}

function drawStrip(steps, from, to) {
  const until = Math.min(to, Math.max(Date.now(), from));
  const past = steps.filter(s => s.t < until), width = (to - from) / steps.length;
  const shares = Object.keys(SWITCHES).map(k => [past.filter(s => kind(s) === k).length / past.length, k]).filter(([share]) => share > 0);
  const words = { off: 'may be off', on: 'on: congested', unknown: 'on: not known' };
  const f = frame($('strip'), { from, to, most: 0, height: 50,
    label: `Congestion control on ${date(from)}: ${shares.map(([share, k]) => `${words[k]} for ${Math.round(share * 100)} % of the time`).join('; ')}. The table below has the values.` });
  for (const s of past) {
    const x = f.x(s.t), w = f.x(Math.min(s.t + width, until)) - x;
    const h = { off: 24, on: 16, unknown: 8 }[kind(s)];
    f.root.append(svg('rect', { class: `f-${kind(s)}`, x: x + .5, y: 26 - h, width: Math.max(1, w - 1), height: h, rx: 2 }));
  }
  cursor($('strip'), f, past, 'Advice through the day', s => `${hm(s.t)}  ${REASONS[s.reason]}`);
}

/** The day's two charts in words: a row for each two hours. */
function drawDayTable(measured, steps) {
  const past = steps.filter(s => s.t < Date.now());
  const rows = steps.filter((s, i) => i % 4 === 0).map((s, i, all) => {
    const end = all[i + 1]?.t ?? Infinity, here = measured.filter(p => p.t >= s.t && p.t < end);
    const advised = [...new Set(past.filter(p => p.t >= s.t && p.t < end).map(p => REASONS[p.reason]))].join('; ');
    return row(hm(s.t), here.length ? rate(mean(here)) : '–', s.v == null ? '–' : rate(s.v), s.v == null ? '–' : between(s.low, s.high), advised || '–');
  });
  $('day-table').replaceChildren(heads('From', 'Measured, mean', 'Predicted', 'Where days like it lie', 'Congestion control'), el('tbody', {}, ...rows));
}

function drawHistory(all, from, to) {
  $('history-values').hidden = !all.length;
  if (!all.length) return none($('history-chart'), 'Nothing was measured in this time.');
  const f = frame($('history-chart'), { from, to, most: Math.max(greatest(all, 'high'), 1) * 1.05, height: 200,
    label: `Available bandwidth from ${date(from)} to ${date(to)}: ${told(all, 'measured')}, mean ${rate(mean(all))}. The table below has the values.` });
  for (const run of runs(all, Math.max(5 * (to - from) / 400, 36e5))) {
    drawBand(f, run, 's');
    drawLine(f, run, 'm');
  }
  cursor($('history-chart'), f, all, 'Values of the history', p => `${clock(p.t, WHEN)}\n${rate(p.v)}  (${between(p.low, p.high)})\n${count(p.n, 'sample')}`);
  // A year has a row a month.
  const length = to - from > 60 * DAY ? 7 : 10;
  const groups = Object.groupBy(all, p => date(p.t).slice(0, length));
  $('history-table').replaceChildren(heads(length === 7 ? 'Month' : 'Day', 'Mean', 'Least', 'Greatest', 'Samples'), el('tbody', {},
    ...Object.entries(groups).map(([day, of]) => row(day, rate(mean(of)), rate(least(of, 'low')), rate(greatest(of, 'high')), of.reduce((n, p) => n + p.n, 0)))));
}

function drawTests(tests, known) {
  $('tests').hidden = !known;
  $('tests-none').hidden = tests.length > 0;
  $('tests-scroll').hidden = !tests.length;
  // On a phone the last columns stand below the time, as there is no room for them.
  const timeOf = t => el('span', { textContent: clock(Date.parse(t.time), { ...WHEN, weekday: undefined }) }, el('small', { textContent: [t.source, count(t.samples, 'test')].filter(x => x).join(', ') }));
  $('tests-table').replaceChildren(heads('Time', 'RTT', 'Loss', 'Throughput', 'Tests', 'Source'), el('tbody', { id: 'tests-rows' }, ...tests.map(t =>
    row(timeOf(t), millis(t.rtt_us), percent(t.loss), rate(t.throughput_bps), t.samples, t.source || '–'))));
  $('tests-zone').textContent = `Times in ${zone()}. Where a row has several tests, it has their means.`;
}

const go = day => { if (day) { state.day = day; load(); } };
$('before').onclick = () => drawn && go(shift(drawn.day, -1));
$('after').onclick = () => drawn && go(shift(drawn.day, 1));
$('day').onchange = event => go(event.target.value);
$('range').onclick = event => {
  if (!event.target.dataset.days) return;
  state.days = +event.target.dataset.days;
  load();
};
