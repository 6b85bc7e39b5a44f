// Charts: time to the right, bit/s upwards

function svg(tag, attributes = {}, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text != null) e.textContent = text;
  return e;
}

function frame(box, { from, to, most, label, height }) {
  const width = Math.max(box.clientWidth, 260), left = 46, right = 6, bottom = 22, top = most ? 26 : 14;
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': label });
  const x = t => left + (t - from) / (to - from) * (width - left - right);
  const y = v => height - bottom - v / most * (height - bottom - top);
  if (most) {
    const raw = most / 5, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map(n => n * unit).find(n => n >= raw);
    root.append(svg('text', { x: left - 6, y: 11, 'text-anchor': 'end' }, 'bit/s'));
    for (let v = 0; v <= most; v += step) {
      root.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: y(v), y2: y(v) }),
        svg('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, rate(v, true)));
    }
  }
  const days = (to - from) / DAY;
  if (days < 2) {
    const every = width < 480 ? 6 : 3;
    for (let t = from; t <= to; t += 36e5) {
      const hour = +clock(t, { hour: '2-digit' });
      const last = t > to - 36e5;
      if (hour % every === 0 || last) root.append(svg('text', { x: x(t), y: height - 5,
        'text-anchor': last ? 'end' : 'middle' }, last ? '24:00' : hm(t)));
    }
  } else {
    const every = Math.ceil(days / Math.max(2, Math.floor(width / 90)));
    for (let day = date(from); midnight(day) < to; day = shift(day, every)) {
      const t = midnight(day), px = x(t);
      if (t < from) continue;
      root.append(svg('line', { class: 'grid', x1: px, x2: px, y1: height - bottom, y2: height - bottom + 5 }));
      if (px < width - 24) root.append(svg('text', { x: px, y: height - 5, 'text-anchor': 'middle' }, clock(t, { day: 'numeric', month: 'short' })));
    }
  }
  // The reader of values stays, and with it the focus, when the chart is drawn anew.
  for (const e of [...box.children]) if (!e.matches('input')) e.remove();
  box.prepend(root);
  return { root, x, y, width, left, right: width - right, height, bottom };
}

/** Runs of points without a gap. */
function runs(points, gap) {
  const all = [];
  points.forEach((p, i) => {
    if (i === 0 || p.t - points[i - 1].t > gap) all.push([]);
    all[all.length - 1].push(p);
  });
  return all;
}
const line = (f, points, key) => points.map((p, i) => `${i ? 'L' : 'M'}${f.x(p.t).toFixed(1)} ${f.y(p[key]).toFixed(1)}`).join('');
const area = (f, points, low, high) => `${line(f, points, high)}${[...points].reverse().map(p => `L${f.x(p.t).toFixed(1)} ${f.y(p[low]).toFixed(1)}`).join('')}Z`;

/** A run that is hardly longer than its stroke, or a single point, would not be seen as a line: its points are dots. */
const short = (f, run) => f.x(run[run.length - 1].t) - f.x(run[0].t) < 6;
function drawLine(f, run, kind) {
  if (short(f, run)) for (const p of run) f.root.append(svg('circle', { class: `${kind} dot`, cx: f.x(p.t), cy: f.y(p.v), r: 3 }));
  else f.root.append(svg('path', { class: kind, d: line(f, run, 'v') }));
}
function drawBand(f, run, kind) {
  const x = f.x(run[0].t), low = Math.min(...run.map(p => p.low)), high = Math.max(...run.map(p => p.high));
  f.root.append(short(f, run) ? svg('line', { class: `${kind} bar`, x1: x, x2: x, y1: f.y(low), y2: f.y(high) })
    : svg('path', { class: kind, d: area(f, run, 'low', 'high') }));
}

/** A cursor that follows the pointer. For keys and screen readers it is a slider over the points, whose value
 *  is the text of the point. */
function cursor(box, f, points, name, tell) {
  let slider = box.querySelector('input');
  if (!points.length) return slider?.remove();
  if (!slider) {
    slider = el('input', { type: 'range', min: 0, className: 'slider' });
    slider.max = slider.value = points.length - 1;
    box.append(slider);
  }
  slider.setAttribute('aria-label', name);
  const mark = svg('line', { class: 'cursor', y1: 0, y2: f.height - f.bottom, visibility: 'hidden' });
  const tip = el('div', { className: 'tip', hidden: true, ariaHidden: 'true' });
  f.root.append(mark);
  box.append(tip);
  const set = i => {
    slider.value = i;
    slider.setAttribute('aria-valuetext', tell(points[slider.value]).replaceAll(/\s+/g, ' '));
  };
  const show = i => {
    set(i);
    const point = points[slider.value], px = f.x(point.t);
    mark.setAttribute('x1', px); mark.setAttribute('x2', px); mark.setAttribute('visibility', 'visible');
    tip.textContent = tell(point);
    tip.hidden = false;
    const share = px / f.width * box.clientWidth;
    tip.style.left = `${Math.max(0, share > box.clientWidth / 2 ? share - tip.offsetWidth - 8 : share + 8)}px`;
  };
  const hide = () => { tip.hidden = true; mark.setAttribute('visibility', 'hidden'); };
  // Who has read to the end of a day goes on there when a new point comes.
  const stays = slider.value < slider.max ? +slider.value : points.length - 1;
  slider.max = points.length - 1;
  if (document.activeElement === slider) show(stays); else set(stays);
  f.root.onpointermove = f.root.onpointerdown = event => {
    const r = f.root.getBoundingClientRect(), px = (event.clientX - r.left) / r.width * f.width;
    let best = 0;
    points.forEach((p, i) => { if (Math.abs(f.x(p.t) - px) < Math.abs(f.x(points[best].t) - px)) best = i; });
    show(best);
  };
  f.root.onpointerleave = slider.onblur = hide;
  slider.onfocus = slider.oninput = () => show(+slider.value);
  slider.onkeydown = event => {
    const step = { PageUp: -12, PageDown: 12 }[event.key];
    if (step) { event.preventDefault(); show(Math.max(0, +slider.value + step)); } else if (event.key === 'Escape') hide();
  };
}
const none = (box, text) => box.replaceChildren(el('p', { className: 'none', textContent: text }));
