'use strict';
// Numbers, times and elements as people read them

const DAY = 864e5;
const $ = id => document.getElementById(id);

function rate(bps, short) {
  if (bps == null) return '–';
  const units = ['', 'k', 'M', 'G', 'T'];
  let i = 0;
  while (bps >= 999.5 && i < 4) { bps /= 1000; i++; }
  const digits = bps === 0 || bps >= 99.5 ? 0 : bps >= 9.95 ? 1 : 2;
  const text = short ? String(+bps.toFixed(digits)) : bps.toFixed(digits);
  return short ? `${text}${units[i]}` : `${text} ${units[i]}bit/s`;
}
/** From one rate to another, with the unit once where it is the same. */
function between(low, high) {
  const [a, b] = [rate(low), rate(high)], unit = b.split(' ')[1];
  return `${a.endsWith(` ${unit}`) ? a.split(' ')[0] : a} – ${b}`;
}
const trend = bps_per_s => bps_per_s == null ? '–' : `${bps_per_s < 0 ? '−' : ''}${rate(Math.abs(bps_per_s * 60))} per minute`;
const bytes = n => n == null ? '–' : n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(0)} kB` : `${(n / 1e6).toFixed(1)} MB`;
const millis = us => us == null ? '–' : `${(us / 1e3).toPrecision(3)} ms`;
const percent = share => share == null ? '–' : `${+(share * 100).toFixed(1)} %`;
function span(s) {
  if (s < 90) return `${Math.max(0, s < 9.5 ? +s.toFixed(1) : Math.round(s))} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} days`;
}
const count = (n, one) => `${n.toLocaleString('en').replaceAll(',', ' ')} ${one}${n === 1 ? '' : 's'}`;
const sentence = text => text[0].toUpperCase() + text.slice(1);
const hopName = hop => hop ? `hop ${hop}` : 'the path as a whole';

/** The clocks of the shown path; before there is one, the reader's. */
const zone = () => state.path?.settings?.zone;
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

function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  Object.assign(e, props);
  e.append(...children);
  return e;
}
/** A table's row; its first cell heads it. */
const row = (first, ...cells) => el('tr', {}, el('th', { scope: 'row' }, first), ...cells.map(c => el('td', {}, c)));
const heads = (...cells) => el('thead', {}, el('tr', {}, ...cells.map(c => el('th', { scope: 'col' }, c))));
/** Text is replaced only where it differs: a screen reader reads each replacement. */
function put(id, text) { if ($(id).textContent !== text) $(id).textContent = text; }
