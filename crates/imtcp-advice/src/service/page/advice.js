// The advice of the chosen path: what to do, how long a transfer takes, and what both were computed from

const MODES = {
  bg: 'take only bandwidth that nobody else wants',
  measure: 'share the path with others, as usual',
};
/** Signs and words of the switch: colour is never alone. Off is a permission with a risk, not good news. */
const SWITCHES = {
  off: { sign: '⚠', title: 'Congestion control may be off, at a risk',
    words: 'A sender without it does not slow down when the path fills, and takes from everybody on it. imtcp run leaves it on.' },
  on: { sign: '■', title: 'Congestion control stays on: the path is congested', words: '' },
  unknown: { sign: '?', title: 'Congestion control stays on: too little is known', words: '' },
  over: { sign: '?', title: 'Congestion control stays on: this advice is over', words: '' },
};
/** Past its end a permission is none: the page shows old advice where the service does not answer. */
const isOver = advice => Date.now() > Date.parse(advice.valid_until);
const kind = step => step.congestion_control === 'off' ? 'off' : step.reason === 'congested' ? 'on' : 'unknown';
/** Advice in a few words, of each reason. */
const REASONS = { free: 'may be off, at a risk', congested: 'on: congested', stale: 'on: no fresh measurement', no_history: 'on: no history',
  too_few_days: 'on: too few days', no_capacity: 'on: capacity not known' };

/** The hop that decides on congestion control; undefined where the answer comes from a service that does not tell. */
const decidingHop = from => from.deciding_hop ?? (from.hops > 1 ? undefined : from.hop ?? '');

function drawAdvice(advice) {
  const shown = kind(advice) === 'off' && isOver(advice) ? 'over' : kind(advice);
  const is = SWITCHES[shown], bandwidth = state.path.newest != null;
  $('name').textContent = advice.dst;
  $('zone').textContent = advice.computed_from.local_time.endsWith(` ${advice.computed_from.zone}`) ? advice.computed_from.local_time
    : `${advice.computed_from.local_time} · ${advice.computed_from.zone}`;
  $('mode').replaceChildren(el('strong', { textContent: `Mode ${advice.mode}:` }), ` ${MODES[advice.mode]}`);
  $('because').textContent = sentence(`${bandwidth ? advice.because : 'active tests alone are known, which tell no available bandwidth'}.`);
  const ends = shown === 'off' ? `The permission ends at ${hm(Date.parse(advice.valid_until))}.` : '';
  $('switch').className = `switch ${shown === 'over' ? 'unknown' : shown}`;
  $('switch').replaceChildren(el('span', { className: 'sign', ariaHidden: 'true', textContent: is.sign }),
    el('span', {}, el('strong', { textContent: is.title }), ...(is.words ? [el('small', { textContent: `${is.words} ${ends}` })] : [])));
  drawFacts(advice);
  drawTransfer(advice);
  drawBasis(advice.computed_from);
}

function drawFacts(advice) {
  const from = advice.computed_from, at = Date.parse(advice.at), deciding = decidingHop(from);
  // Of a path with hops, each value is told with the hop that it is of.
  const of = hop => from.hops > 1 ? hop == null ? 'of the hop that decides' : `of ${hopName(hop)}` : '';
  const join = (...parts) => parts.filter(p => p).join(', ');
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
}

/** The size in the form, in bytes; null where there is none. */
function transferBytes() {
  const n = Math.round(+$('amount').value * +$('unit').value);
  return $('amount').value.trim() && n > 0 && n <= Number.MAX_SAFE_INTEGER ? n : null;
}

function drawTransfer(advice) {
  const n = transferBytes(), s = advice.transfer_s;
  $('amount').setAttribute('aria-invalid', n == null);
  if (n == null) return put('takes', 'Give a size above 0.');
  if (s == null) return put('takes', 'takes an unknown time: no bandwidth is predicted.');
  // The interval's greatest bandwidth makes the shortest time.
  const of = bps => bps ? span(n * 8 / bps) : 'no end in sight';
  const [soonest, latest] = [of(advice.available_high_bps), of(advice.available_low_bps)];
  put('takes', `takes ${span(s)} at the predicted bandwidth${soonest === latest ? '' : ` (${soonest} to ${latest})`}.`);
}
let asked;
$('amount').oninput = $('unit').onchange = () => {
  clearTimeout(asked);
  asked = setTimeout(async () => {
    const dst = state.dst, n = transferBytes();
    try {
      const advice = n == null ? drawn?.advice : await get('v1/advice', { dst, bytes: n });
      if (advice && dst === state.dst && n === transferBytes()) drawTransfer(advice);
    } catch (e) { fail(e); }
  }, 150);
};

function drawBasis(from) {
  const z = from.z, value = (sign, name, text, words) => row(el('span', {}, sign, el('small', { textContent: name })), text, words);
  $('values').replaceChildren(heads('Value', 'Now', 'What it is'), el('tbody', {},
    value('B̂0', 'bandwidth', rate(from.b0_hat_bps), 'The mean of the past days’ lines at this time of day. It is the prediction.'),
    value('σ', 'spread of the trends', trend(from.sigma_bps_per_s), 'The standard deviation of the past days’ trends. It says how much the days differ.'),
    value('S', 'fastest change', trend(from.s_bps_per_s), `The mean trend ± ${z} σ, whichever is the faster. The bandwidth is not expected to change faster.`),
    value('ε', 'change allowed', rate(from.epsilon_bps), 'The bandwidth may change so much before the advice is too old.'),
    value('τ', 'time until then', from.tau_s == null ? '–' : span(from.tau_s), 'ε divided by S. The advice is to be asked for again after this time.')));
  $('days').hidden = !from.days.length;
  $('days').replaceChildren(el('caption', { textContent: `The lines through ${from.days.length} of the ${from.days_used} past days that count, from this time of day on` }),
    heads('Day', 'Samples', 'Bandwidth B0', 'Trend B1', 'Fit R²'),
    el('tbody', {}, ...from.days.map(d => row(d.date, d.samples, rate(d.b0_bps), trend(d.b1_bps_per_s), d.r2 == null ? '–' : d.r2.toFixed(2)))));
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
$('hop').onchange = event => { state.hop = event.target.value; load(); };
