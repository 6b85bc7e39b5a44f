// The list of paths and its search: the service searches, the list holds what was found first

const LISTED = 100;
/** What the list shows. `total` is how many paths there are, `matches` how many of them the search finds. */
const list = { wanted: '', paths: [], next: null, matches: 0, total: 0, round: 0 };
/** Paths for which something is set, but nothing was measured, are not listed. */
const withHistory = paths => paths.filter(p => p.newest || p.newest_test);

/** Searches for what the field has; as many are listed as before, where it has not changed. */
async function search() {
  const round = ++list.round, wanted = $('find').value.trim();
  const most = wanted === list.wanted ? Math.min(1000, Math.max(LISTED, list.paths.length)) : LISTED;
  const found = await get('v1/paths', { q: wanted, limit: most });
  if (round !== list.round) return;
  Object.assign(list, { wanted, paths: withHistory(found.paths), next: found.next, matches: found.matches });
  // Where all are here, those that are not listed do not count.
  if (!found.next) list.matches = list.paths.length;
  if (!wanted) list.total = list.matches;
  drawPaths();
}

async function more() {
  const round = ++list.round;
  const found = await get('v1/paths', { q: list.wanted, limit: LISTED, after: list.next });
  if (round !== list.round) return;
  const first = withHistory(found.paths)[0];
  Object.assign(list, { paths: [...list.paths, ...withHistory(found.paths)], next: found.next });
  if (!found.next) list.matches = list.paths.length;
  drawPaths();
  if (first) buttonOf(first.dst)?.focus();
}

const buttonOf = dst => [...$('paths').querySelectorAll('button')].find(b => b.dataset.dst === dst);

function drawPaths() {
  const box = $('paths'), top = box.scrollTop, focused = document.activeElement.dataset.dst;
  // The chosen path may lie beyond what is listed.
  const beyond = !list.wanted && state.path?.dst === state.dst && !list.paths.some(p => p.dst === state.dst);
  box.replaceChildren(...(beyond ? [state.path, ...list.paths] : list.paths).map(p => {
    const ago = span((Date.now() - Date.parse(p.newest || p.newest_test)) / 1e3);
    const button = el('button', { onclick: () => choose(p.dst), tabIndex: -1 }, p.dst,
      el('small', { textContent: p.newest ? `newest ${ago} ago` : `tests alone, newest ${ago} ago` }));
    button.dataset.dst = p.dst;
    if (p.dst === state.dst) button.setAttribute('aria-current', 'true');
    return el('li', {}, button);
  }));
  // The list is one stop of the tab key, its arrow keys do the rest.
  const stop = buttonOf(focused) || buttonOf(state.dst) || box.querySelector('button');
  if (stop) stop.tabIndex = 0;
  box.scrollTop = top;
  if (focused) buttonOf(focused)?.focus({ preventScroll: true });
  box.hidden = !box.children.length;
  $('more').hidden = !list.next;
  const all = list.wanted ? `${list.matches} of ${count(list.total, 'path')}` : count(list.total, 'path');
  const nothing = `No path's name contains “${list.wanted}”. Check the spelling.`;
  put('found', list.wanted && !list.matches ? nothing
    : list.matches > list.paths.length ? `${all}; the first ${list.paths.length} are listed` : all);
  $('nav').hidden = !list.total && !list.wanted;
}

/** Brings the chosen path into the list's view, without moving the page. */
function reveal() {
  const box = $('paths'), chosen = box.querySelector('[aria-current=true]');
  if (!chosen) return;
  const above = chosen.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (above < 0 || above + chosen.offsetHeight > box.clientHeight) box.scrollTop += above - box.clientHeight / 3;
}

let typed;
$('find').oninput = () => {
  clearTimeout(typed);
  // Each key would be a search.
  typed = setTimeout(() => search().catch(fail), 150);
};
$('find').onkeydown = async event => {
  if (!['ArrowDown', 'Enter'].includes(event.key)) return;
  event.preventDefault();
  clearTimeout(typed);
  const wanted = $('find').value.trim();
  try { if (wanted !== list.wanted) await search(); } catch (e) { return fail(e); }
  const first = $('paths').querySelector('button');
  if (event.key === 'ArrowDown') return first?.focus();
  // What is not found is shown as such, with what to do.
  if (list.paths.length) choose(list.paths[0].dst); else if (wanted) choose(wanted);
};
$('more').onclick = () => more().catch(fail);
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
