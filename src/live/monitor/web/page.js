// A run in the browser. `news` is the stream of what is new (server-sent events; after a break the browser says which
// message was the last, and gets what it has missed); `curves` gives the points of a rank, thinned to what fits the screen.
'use strict';
const $ = (id) => document.getElementById(id);
const PARTS = ['input', 'forward', 'backward', 'exposed_comm', 'optimizer', 'rest'];
const CAUSES = ['input', 'heat', 'clock', 'other load', 'own work', 'slower processor'];
const PHASES = ['input', 'forward', 'backward', 'communication', 'optimizer', 'rest'];
const state = { ranks: new Map(), columns: [], curves: new Map(), events: [], evaluations: [], now: {}, rank: 0, range: 0, log: false, paused: false, added: 0 };
const uplot = window.uPlot && !location.search.includes('plain');
$('plain').textContent = uplot ? '' : 'Curves are drawn plainly: this build has no uPlot.';

// ---- words ----
const digits = (x, n = 4) => (Number.isFinite(x) ? Number(x.toPrecision(n)).toLocaleString('en', { maximumSignificantDigits: n }) : '');
const whole = (x) => Math.round(x).toLocaleString('en');
const clock = (t) => new Date(1000 * t).toLocaleTimeString('en-GB');
const tick = (t, range) => (range > 86400 ? new Date(1000 * t).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }) : clock(t));
function size(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; bytes >= 1000 && i < units.length - 1; i++) bytes /= 1000;
  return Number.isFinite(bytes) ? `${digits(bytes, 3)} ${units[i]}` : '';
}
const micros = (us) => (us >= 1e6 ? `${digits(us / 1e6, 3)} s` : us >= 1e4 ? `${digits(us / 1e3, 3)} ms` : Number.isFinite(us) ? `${digits(us, 4)} us` : '');
function span(s) {
  if (!Number.isFinite(s)) return '';
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${Math.floor(s % 60)} s` : `${Math.floor(s)} s`;
}
function element(name, text, cls) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- curves ----
// Without uPlot: lines, the ends of both axes, names.
class Plain {
  constructor(box, lines, options) {
    this.box = box, this.lines = lines, this.options = options;
    this.canvas = element('canvas');
    this.keys = element('div');
    lines.forEach((line) => {
      const key = element('span', undefined, 'key'), mark = element('i');
      mark.style.background = line.stroke;
      key.append(mark, line.label);
      this.keys.append(key);
    });
    box.replaceChildren(this.canvas, this.keys);
  }
  setSize() { if (this.data) this.setData(this.data); }
  destroy() { this.box.replaceChildren(); }
  setData(data) {
    this.data = data;
    const ratio = devicePixelRatio || 1, width = this.box.clientWidth, height = 220, left = 52, bottom = 18;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.height = `${height}px`;
    const c = this.canvas.getContext('2d'), log = this.options.log;
    const scale = log ? (v) => (v > 0 ? Math.log10(v) : NaN) : (v) => (v === null ? NaN : v);
    const all = data.slice(1).flat().map(scale).filter(Number.isFinite);
    c.scale(ratio, ratio);
    if (all.length === 0) return;
    let low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
    if (this.options.zero && !log) low = Math.min(0, low);
    if (high === low) high = low + 1;
    const x0 = data[0][0], x1 = data[0][data[0].length - 1];
    const x = (t) => left + (t - x0) / (x1 - x0 || 1) * (width - left - 4);
    const y = (v) => 6 + (high - v) / (high - low) * (height - bottom - 12);
    c.font = '11px system-ui', c.fillStyle = colour('--faint'), c.strokeStyle = colour('--line');
    for (const v of [low, (low + high) / 2, high]) {
      c.fillText(digits(log ? 10 ** v : v, 3), 0, y(v) + 4);
      c.beginPath(), c.moveTo(left, y(v)), c.lineTo(width, y(v)), c.stroke();
    }
    c.fillText(tick(x0, x1 - x0), left, height - 4);
    c.textAlign = 'right';
    c.fillText(tick(x1, x1 - x0), width - 4, height - 4);
    this.lines.forEach((line, i) => {
      c.strokeStyle = c.fillStyle = line.stroke, c.lineWidth = line.measured ? 1 : 2, c.setLineDash(line.dash || []);
      c.beginPath();
      let down = false;
      data[0].forEach((t, k) => {
        const v = scale(data[i + 1][k]);
        if (!Number.isFinite(v)) return;
        if (down) c.lineTo(x(t), y(v)); else c.moveTo(x(t), y(v));
        down = true;
        if (line.measured) c.fillRect(x(t) - 3, y(v) - 3, 6, 6);
      });
      c.stroke();
    });
  }
}

// As wide as the longest number beside it.
const axisSize = (u, ticks) => 20 + 7.5 * Math.max(4, ...(ticks || []).map((text) => text.length));
function makeUplot(box, lines, options) {
  const axis = { stroke: colour('--faint'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 } };
  return new uPlot({
    width: box.clientWidth, height: 220, cursor: { sync: { key: 'run' } },
    scales: { y: { distr: options.log ? 3 : 1, range: options.zero && !options.log ? (u, low, high) => [Math.min(0, low), high > 0 ? 1.05 * high : 1] : undefined } },
    axes: [{ ...axis, space: 90, size: 34, values: (u, ticks) => ticks.map((t) => tick(t, u.scales.x.max - u.scales.x.min)) }, { ...axis, size: axisSize, values: (u, ticks) => ticks.map((v) => (v === null ? '' : digits(v, 3))) }],
    series: [{ value: (u, t) => (t === null ? '' : clock(t)) },
      ...lines.map((line) => ({ ...line, width: line.measured ? 1 : 2, spanGaps: true, points: { show: !!line.measured, size: 6, fill: line.stroke },
        value: (u, v, at, k) => { const known = v ?? (line.measured && k !== null ? u.data[at].findLast((w, j) => j <= k && w !== null) : null); return known == null ? '' : digits(known, 5); } }))],
  }, [[]], box);
}

// A chart: which columns of whose curves, and what they are called.
const charts = {
  loss: { rank: () => 0, lines: [['loss_mean', 'training'], ['val_loss', 'validation']], options: () => ({ log: state.log }) },
  parts: { rank: () => state.rank, lines: PARTS.map((part) => [`${part}_us`, part.replace('_comm', ' communication')]), options: () => ({ log: state.log, zero: true }) },
  time: { rank: () => state.rank, lines: [['step_time_us', 'measured'], ['predicted', 'predicted by the plan']], options: () => ({ log: state.log, zero: true }) },
  gpu: { rank: () => state.rank, lines: [['gpu_power_w', 'W'], ['gpu_temperature_c', 'C'], ['gpu_ratio', '% busy']], options: () => ({ log: state.log, zero: true }) },
};

function build(chart, id) {
  const lines = chart.lines.map(([name, label], i) => ({ name, label, measured: name === 'val_loss', stroke: colour(`--c${i}`), dash: name === 'predicted' ? [6, 4] : undefined }));
  if (chart.drawn) chart.drawn.destroy();
  $(id).replaceChildren();
  chart.drawn = uplot ? makeUplot($(id), lines, chart.options()) : new Plain($(id), lines, chart.options());
  $(id).setAttribute('role', 'img');
}

// Evaluations are points between the records, each at its own time: the last column.
function withEvaluations(t, columns, since) {
  const found = state.evaluations.filter((e) => e.t >= since && Number.isFinite(e.val_loss));
  const rows = [...t.map((at, i) => [at, i]), ...found.map((e) => [e.t, -1, e.val_loss])].sort((a, b) => a[0] - b[0]);
  return [rows.map(([at]) => at), ...columns.map((values) => rows.map(([, i]) => (i < 0 ? null : values[i]))), rows.map(([, , v]) => v ?? null)];
}

function fill(chart, id) {
  const curves = state.curves.get(chart.rank());
  if (!curves || !chart.drawn) return;
  const since = state.range > 0 && curves.t.length > 0 ? curves.t[curves.t.length - 1] - state.range : -Infinity;
  let from = curves.t.findIndex((t) => t >= since);
  if (from < 0) from = 0;
  const predicted = first().start?.predicted_us;
  const column = (name) => {
    if (name === 'predicted') return curves.t.slice(from).map(() => predicted ?? null);
    const values = curves.values[state.columns.indexOf(name)].slice(from);
    return name === 'gpu_ratio' ? values.map((v) => (v === null ? null : 100 * v)) : values;
  };
  const recorded = chart.lines.filter(([name]) => name !== 'val_loss').map(([name]) => column(name)), t = curves.t.slice(from);
  const data = recorded.length < chart.lines.length ? withEvaluations(t, recorded, since) : [t, ...recorded];
  if (state.log) for (let i = 1; i < data.length; i++) data[i] = data[i].map((v) => (v > 0 ? v : null));
  chart.drawn.setData(data);
  if (uplot && chart.drawn.cursor.idx == null) chart.drawn.setLegend({ idx: data[0].length - 1 }); // the newest values
  const newest = chart.lines.map(([, label], i) => [label, data[i + 1].findLast((v) => v !== null)]).filter(([, v]) => v !== undefined);
  $(id).setAttribute('aria-label', newest.map(([label, v]) => `${label} ${digits(v)}`).join(', ') || 'no points yet');
}

const points = () => Math.min(2000, Math.max(200, Math.round(innerWidth * 1.2)));
async function load(rank) {
  const answer = await fetch(`curves?rank=${rank}&points=${points()}${state.range > 0 ? `&from=${Date.now() / 1000 - state.range}` : ''}`);
  if (!answer.ok) return;
  const curves = await answer.json();
  state.columns = curves.columns;
  state.curves.set(rank, curves);
  state.added = 0;
  late.splice(0).forEach(addRow);
  drawCurves();
  if (!document.body.dataset.drawn && curves.t.length > 0) document.body.dataset.drawn = performance.now();
}
const reload = () => { state.curves.clear(); return Promise.all([...new Set([0, state.rank])].map(load)); };

function drawCurves() {
  if (state.paused) return;
  const curves = state.curves.get(state.rank);
  const known = curves && curves.values[state.columns.indexOf('gpu_power_w')];
  $('card-gpu').hidden = !known || !known.some((v) => v !== null);
  for (const [id, chart] of Object.entries(charts)) if (!$(`card-${id}`).hidden) {
    if (!chart.drawn) build(chart, id);
    fill(chart, id);
  }
}

const late = []; // rows that came while their curves were on the way
function addRow(row) {
  const [rank, t, ...values] = row, curves = state.curves.get(rank);
  if (!curves && (rank === 0 || rank === state.rank)) late.push(row);
  if (!curves || !(t > (curves.t[curves.t.length - 1] ?? -Infinity))) return false;
  curves.t.push(t);
  values.forEach((v, i) => curves.values[i].push(v));
  return true;
}

// ---- the rest of the page ----
const first = () => state.ranks.get(0) || {};
const shown = () => [...state.ranks.values()].filter((r) => r.rank < (first().start?.ranks ?? Infinity));
const own = (r) => (r.record && r.record.step_time_us !== undefined ? r.record.step_time_us - (r.record.exposed_comm_us ?? 0) : NaN);

function drawHead() {
  const { record = {}, start = {} } = first();
  $('dir').textContent = state.now.dir || 'lockstep';
  document.title = `${state.now.state || ''} ${state.now.dir || ''}`;
  $('state').textContent = state.now.state || '';
  $('state').className = /silent|ended \((?!ok)/.test(state.now.state) ? 'bad' : '';
  if (record.step !== undefined) {
    const left = (record.total_steps - record.step) * record.running_s / Math.max(1, record.step - (start.step ?? 0));
    $('steps').textContent = `step ${whole(record.step)} of ${whole(record.total_steps)}${left > 0 && /running/.test(state.now.state) ? `, about ${span(left)} left` : ''}`;
    $('progress').value = record.step / Math.max(1, record.total_steps);
  }
  const ratio = start.predicted_us > 0 && record.step_time_us > 0 ? ` (${digits(100 * record.step_time_us / start.predicted_us - 100, 3)} % over)`.replace('(-', '(').replace(/(\(\S+) % over/, (m, n) => (record.step_time_us < start.predicted_us ? `${n} % under` : m)) : '';
  const facts = [['loss', digits(record.loss_mean ?? record.loss, 5)], ['validation', record.val_loss === undefined ? '' : `${digits(record.val_loss, 5)}${record.val_accuracy === undefined ? '' : `, ${digits(100 * record.val_accuracy, 4)} %`}`],
    ['step', micros(record.step_time_us)], ['predicted step', start.predicted_us > 0 ? micros(start.predicted_us) + ratio : 'none'],
    ['samples/s', digits(record.samples_per_s)], ['gradient norm', digits(record.grad_norm)], ['learning rate', digits(record.lr)],
    ['memory', size(record.gpu_memory_bytes ?? record.memory_bytes)], ['computed, without libraries', size(start.need_bytes ?? NaN)],
    ['running', span(record.running_s)], ['ranks', start.ranks === undefined ? '' : `${start.ranks} (${start.strategy}, ${start.backend}, ${start.precision})`], ['device', start.device || ''],
    ['straggler', record.straggler > 0 ? `rank ${record.straggler_rank}, ${digits(record.straggler_ratio, 3)} x, ${CAUSES[record.straggler_cause] ?? 'cause not known'}` : ''], ['skipped steps', record.skipped_steps > 0 ? whole(record.skipped_steps) : '']];
  $('facts').replaceChildren(...facts.filter(([, words]) => words).map(([name, words]) => {
    const box = element('div');
    box.append(element('dt', name), element('dd', words));
    return box;
  }));
}

function drawRanks() {
  const list = shown(), fastest = list.map(own).filter(Number.isFinite).reduce((a, b) => Math.min(a, b), Infinity);
  const box = $('ranks');
  while (box.children.length > list.length) box.lastChild.remove();
  list.forEach((r, i) => {
    let button = box.children[i];
    if (!button) {
      button = element('button');
      button.append(element('span'), element('progress'), element('span'));
      button.onclick = () => chooseRank(Number(button.dataset.rank));
      box.append(button);
    }
    const speed = fastest / own(r), rec = r.record || {};
    button.dataset.rank = r.rank;
    button.setAttribute('aria-pressed', r.rank === state.rank);
    button.children[0].textContent = `rank ${r.rank}`;
    button.children[1].value = Number.isFinite(speed) ? speed : 0;
    button.children[1].setAttribute('aria-label', 'own speed');
    button.children[2].textContent = [micros(own(r)), rec.exposed_comm_us === undefined ? '' : `${digits(100 * rec.exposed_comm_us / rec.step_time_us, 2)} % waits`,
      size(rec.memory_bytes), r.end ? '' : state.now.phases?.[r.rank] || ''].filter(Boolean).join(', ');
  });
  document.querySelectorAll('.rank').forEach((at) => { at.textContent = state.rank; });
}

function drawGpus() {
  const list = shown().filter((r) => r.record && (r.record.gpu_ratio !== undefined || r.record.gpu_temperature_c !== undefined || r.record.gpu_memory_bytes !== undefined));
  const rows = [['rank', (r, g) => r.rank], ['busy', (r, g) => g.gpu_ratio === undefined ? '' : `${digits(100 * g.gpu_ratio, 3)} %`],
    ['memory', (r, g) => [size(g.gpu_memory_bytes), size(g.gpu_memory_size_bytes)].filter(Boolean).join(' of ')], ['C', (r, g) => digits(g.gpu_temperature_c)], ['margin', (r, g) => digits(g.gpu_margin_c)],
    ['W', (r, g) => [digits(g.gpu_power_w), digits(g.gpu_power_limit_w)].filter(Boolean).join(' of ')], ['MHz', (r, g) => digits(g.gpu_clock_mhz)],
    ['limited by', (r, g) => [['power', g.gpu_power_limited], ['heat', g.gpu_heat_limited], ['brake', g.gpu_brake_limited]].filter(([, v]) => v > 0).map(([n]) => n).join(' ')],
    ['ECC', (r, g) => g.gpu_ecc_uncorrected === undefined ? '' : `${whole(g.gpu_ecc_corrected ?? 0)} / ${whole(g.gpu_ecc_uncorrected)}`],
    ['XID', (r, g) => g.gpu_xid_errors > 0 ? `${g.gpu_xid} (${g.gpu_xid_errors})` : '']];
  $('card-gpus').hidden = list.length === 0;
  const known = rows.map(([name, of]) => [name, ...list.map((r) => of(r, r.record))]).filter(([, ...cells]) => cells.some((cell) => cell !== ''));
  const line = (cells, name) => { const tr = element('tr'); tr.append(...cells.map((text) => element(name, text))); return tr; };
  $('gpus').tHead.replaceChildren(line(known.map(([name]) => name), 'th'));
  $('gpus').tBodies[0].replaceChildren(...list.map((r, i) => line(known.map((column) => column[i + 1]), 'td')));
}

function words(event) {
  if (event.summary) return event.summary;
  const hidden = ['kind', 't', 'rank', 'version', 'pid', 'params', 'batch', 'every_s', 'precision', 'status'];
  return `rank ${event.rank} ${event.kind} ${Object.entries(event).filter(([k, v]) => !hidden.includes(k) && v !== null && typeof v !== 'object')
    .map(([k, v]) => `${k} ${Number.isInteger(v) ? whole(v) : typeof v === 'number' ? digits(v, 6) : v}`).join('  ')}`;
}
function drawEvents() {
  $('events').replaceChildren(...state.events.slice(-200).reverse().map((event) => {
    const item = element('li', undefined, event.status === 'raised' || event.kind === 'alert_failed' ? 'raised' : '');
    item.append(element('time', clock(event.t)), words(event));
    return item;
  }));
}

// The tasks of the last traced step of the chosen rank: a row per lane, a colour per phase.
let boxes = [];
function drawTimeline() {
  const line = (state.ranks.get(state.rank) || {}).timeline, canvas = $('timeline');
  $('card-timeline').hidden = !line;
  if (!line) return;
  const lanes = [...new Set(line.tasks.map((task) => task[1]))].sort(), total = line.step_time_us || 1;
  const row = Math.min(34, 110 / Math.max(1, lanes.length)), height = 20 + row * lanes.length;
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, left = 90, c = canvas.getContext('2d');
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  canvas.style.height = `${height}px`;
  c.scale(ratio, ratio);
  c.font = '11px system-ui';
  boxes = line.tasks.map(([name, lane, phase, start, took]) => ({ name, phase, took, x: left + start / total * (width - left), w: Math.max(1, took / total * (width - left)), y: lanes.indexOf(lane) * row + 2, h: row - 6 }));
  boxes.forEach((b) => { c.fillStyle = colour(`--c${b.phase}`), c.fillRect(b.x, b.y, b.w, b.h); });
  c.fillStyle = colour('--faint');
  lanes.forEach((lane, i) => c.fillText(line.lanes[lane], 0, i * row + row / 2 + 2));
  c.fillText('0', left, height - 4);
  c.textAlign = 'right';
  c.fillText(micros(total), width - 2, height - 4);
  $('timeline-of').textContent = `rank ${state.rank}, step ${whole(line.step)}, ${clock(line.t)}`;
  const sums = PHASES.map((name, i) => [name, line.tasks.filter((task) => task[2] === i).reduce((sum, task) => sum + task[4], 0)]).filter(([, sum]) => sum > 0);
  canvas.setAttribute('aria-label', `tasks of step ${line.step}: ${sums.map(([name, sum]) => `${name} ${micros(sum)}`).join(', ')}`);
  const longest = [...line.tasks].sort((a, b) => b[4] - a[4]).slice(0, 3).map((task) => `${task[0]} ${micros(task[4])}`);
  const keys = sums.map(([name]) => {
    const key = element('span', undefined, 'key'), mark = element('i');
    mark.style.background = colour(`--c${PHASES.indexOf(name)}`);
    key.append(mark, name);
    return key;
  });
  $('longest').replaceChildren(...keys, `longest: ${longest.join(', ')}`);
}
$('timeline').onpointermove = (event) => {
  const hit = boxes.find((b) => event.offsetX >= b.x && event.offsetX <= b.x + b.w && event.offsetY >= b.y && event.offsetY <= b.y + b.h);
  $('task').textContent = hit ? `${hit.name}: ${micros(hit.took)}, ${PHASES[hit.phase]}` : '';
};

// ---- what comes in ----
function take(news) {
  if (news.fresh) state.ranks.clear(), state.events = [], state.evaluations = [];
  if (news.columns) state.columns = news.columns;
  if (news.now) state.now = news.now;
  let again = news.fresh && state.curves.size > 0;
  for (const r of news.ranks) {
    const known = state.ranks.get(r.rank) || { rank: r.rank };
    if ('start' in r && !news.fresh) {
      if (r.start.resumed_from === null && r.rank === 0) state.evaluations = [];
      if (r.start.resumed_from === null) state.curves.delete(r.rank), delete known.record, delete known.timeline, again = true;
      delete known.end;
    }
    if (r.record && known.record && !('start' in r)) r.record = { ...known.record, ...r.record }; // nothing new: the last is still true
    state.ranks.set(r.rank, Object.assign(known, r));
  }
  state.evaluations.push(...news.evaluations);
  state.events.push(...news.events);
  state.events.sort((a, b) => a.t - b.t).splice(0, state.events.length - 200);
  if (again) return reload();
  const added = (news.rows || []).map(addRow).filter(Boolean).length;
  state.added += added;
  if (state.added > points()) return reload(); // the screen holds no more: thin it again
  if (added || news.evaluations.length > 0) drawCurves();
}
function draw() { drawHead(), drawRanks(), drawGpus(), drawEvents(), drawTimeline(); }

function chooseRank(rank) {
  state.rank = rank;
  draw();
  reload();
}
function chooseRange(button) {
  state.range = Number(button.dataset.range);
  document.querySelectorAll('[data-range]').forEach((b) => b.setAttribute('aria-pressed', b === button));
  reload();
}
function toggle(id) {
  state[id === 'log' ? 'log' : 'paused'] = $(id).getAttribute('aria-pressed') !== 'true';
  $(id).setAttribute('aria-pressed', $(id).getAttribute('aria-pressed') !== 'true');
  if (id === 'log') rebuild();
  drawCurves();
}
function rebuild() {
  for (const [id, chart] of Object.entries(charts)) if (chart.drawn) build(chart, id);
  drawCurves(), drawTimeline();
}
document.querySelectorAll('[data-range]').forEach((b) => { b.onclick = () => chooseRange(b); });
for (const id of ['log', 'pause']) $(id).onclick = () => toggle(id);
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const ranges = document.querySelectorAll('[data-range]');
  if (event.key >= '1' && event.key <= '4') ranges[event.key - 1].click();
  else if (event.key === 'l') toggle('log');
  else if (event.key === ' ' && document.activeElement.tagName !== 'BUTTON') toggle('pause'), event.preventDefault();
  else if (event.key === 'r') { const list = shown().map((r) => r.rank); if (list.length) chooseRank(list[(list.indexOf(state.rank) + 1) % list.length]); }
});
new ResizeObserver(() => {
  for (const [id, chart] of Object.entries(charts)) if (chart.drawn) chart.drawn.setSize({ width: $(id).clientWidth, height: 220 });
  drawTimeline();
}).observe(document.body);
matchMedia('(prefers-color-scheme: dark)').onchange = rebuild;

reload();
const stream = new EventSource('news');
let pending = 0;
stream.onmessage = (message) => {
  take(JSON.parse(message.data));
  if (!pending) pending = requestAnimationFrame(() => { pending = 0; draw(); });
};
stream.onerror = () => { $('state').textContent = 'connection lost, trying again'; $('state').className = 'bad'; };
stream.onopen = () => drawHead();
