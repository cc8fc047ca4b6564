// The timeline: time to the right, a lane for each sequence, a column for each step as wide as its time. Above them are
// the rows of each step, as a part of what it may have.
import {el} from './dom.js';
import {duration} from './engine_state.js';

const LANE = 17, GAP = 3, TOP = 46, AXIS = 20, MOST_LANES = 24;
// No mark depends on its colour alone: decodes are lower than prompts, rows that are computed again are hatched, and
// each mark has a shape. The legend shows the same (style.css).
const DIAMOND = 'M0-8L6 0L0 8L-6 0Z';
const MARKS = {cached: ['c-cached', 'M-4-7L6 0L-4 7Z'], preempted: ['c-gone', 'M-6-4L-4-6L0-2L4-6L6-4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0Z'],
  'swapped out': ['c-swapped', DIAMOND], 'swapped in': ['c-swapped', DIAMOND]};

export function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue('--' + name).trim();
}

// A canvas as wide as its place, in the pixels of the screen.
export function fitted(canvas, height) {
  const width = canvas.clientWidth || canvas.parentElement.clientWidth, scale = devicePixelRatio || 1;
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; canvas.style.height = height + 'px'; }
  const draw = canvas.getContext('2d');
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  return {draw, width};
}

export class Timeline {
  constructor(state, onPick) {
    this.state = state;
    this.onPick = onPick;
    this.window = 10e6;  // us that are shown
    this.end = null;     // the end of what is shown; null: now
    this.cursor = null;  // a step
    this.canvas = el('canvas', {tabindex: '0', role: 'img', 'aria-label': 'Timeline of steps; left and right arrows go from step to step while paused'});
    this.tip = el('div', {class: 'float', hidden: true});
    this.element = el('div', {class: 'timeline'}, this.canvas, this.tip);
    this.canvas.addEventListener('pointermove', (e) => this.#hover(e));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('click', (e) => {
      const step = this.#stepAt(this.#time(e.offsetX));
      if (step) this.onPick(step);
    });
  }

  #time(x) { return this.t0 + x / this.width * this.window; }

  #stepAt(time) {
    const steps = this.state.steps;
    let low = 0, high = steps.length;
    while (low < high) { const mid = (low + high) >> 1; if (steps[mid].t1 < time) low = mid + 1; else high = mid; }
    return steps[low] && steps[low].t0 <= time ? steps[low] : null;
  }

  draw(now, c) {
    const {steps, lanes} = this.state;
    const shown = Math.min(MOST_LANES, Math.max(4, lanes.length));
    const {draw, width} = fitted(this.canvas, TOP + shown * (LANE + GAP) + AXIS);
    this.width = width;
    this.t0 = (this.end ?? now) - this.window;
    const t0 = this.t0, x = (t) => (t - t0) / this.window * width;
    const bottom = TOP + shown * (LANE + GAP);
    const budget = this.state.snapshot?.most_rows || Math.max(1, ...steps.map((s) => s.rows));
    draw.fillStyle = c('sunken');
    draw.fillRect(0, 0, width, TOP - 8);
    for (let lane = 0; lane < shown; ++lane) draw.fillRect(0, TOP + lane * (LANE + GAP), width, LANE);
    this.#axis(draw, width, bottom, c);
    const laneY = (s) => TOP + s.lane * (LANE + GAP);
    // Waits behind the spans, marks before them.
    for (const s of this.state.sequences.values()) {
      if (s.lane < 0 || s.lane >= shown || (s.end !== null && s.end < t0)) continue;
      draw.fillStyle = c('c-wait');
      for (const [from, to] of s.waits) if (to > t0) draw.fillRect(x(from), laneY(s) + LANE / 2 - 1, Math.max(1, x(to) - x(from)), 2);
    }
    let i = steps.length;
    while (i > 0 && steps[i - 1].t1 > t0) --i;
    // Narrow neighbours of one colour are drawn as one.
    const runs = Array(shown).fill(null);
    const flush = (lane) => {
      const run = runs[lane];
      if (run) this.#span(draw, run, TOP + lane * (LANE + GAP), c);
      runs[lane] = null;
    };
    for (; i < steps.length; ++i) {
      const step = steps[i], left = x(step.t0), w = Math.max(1, x(step.t1) - left), right = left + w - (w > 4 ? 1 : 0);
      const height = (TOP - 10) * Math.min(1, step.rows / budget);
      draw.fillStyle = c('accent');
      draw.fillRect(left, TOP - 8 - height, right - left, Math.max(1, height));
      for (const {s, first, again} of step.spans) {
        if (s.lane >= shown || s.lane < 0) continue;
        const colour = again > 0 ? 'c-again' : first < s.prompt ? 'c-prompt' : 'c-decode', run = runs[s.lane];
        if (run && run.colour === colour && w <= 4 && left - run.right < 0.7) { run.right = right; continue; }
        flush(s.lane);
        runs[s.lane] = {colour, left, right};
      }
    }
    for (let lane = 0; lane < shown; ++lane) flush(lane);
    for (const s of this.state.sequences.values()) {
      if (s.lane < 0 || s.lane >= shown) continue;
      for (const [at, what] of s.marks) {
        if (at < t0 || !MARKS[what]) continue;
        const [colour, shape] = MARKS[what];
        this.#mark(draw, x(at), laneY(s) + LANE / 2, c(colour), shape, c('panel'));
      }
    }
    if (this.cursor) {
      draw.strokeStyle = c('text');
      draw.lineWidth = 1.5;
      draw.strokeRect(x(this.cursor.t0) - 1, 1, Math.max(3, x(this.cursor.t1) - x(this.cursor.t0) + 1), bottom - 2);
    }
    if (lanes.length > shown) {
      draw.fillStyle = c('dim');
      draw.fillText(`${lanes.length - shown} more lanes`, width - 92, bottom + 14);
    }
  }

  #span(draw, {colour, left, right}, top, c) {
    const low = colour === 'c-decode' ? 3 : 0;
    draw.fillStyle = c(colour);
    draw.fillRect(left, top + low, right - left, LANE - 2 * low);
    if (colour !== 'c-again') return;
    draw.save();
    draw.beginPath();
    draw.rect(left, top, right - left, LANE);
    draw.clip();
    draw.strokeStyle = c('panel');
    draw.lineWidth = 1.5;
    draw.beginPath();
    for (let at = left - LANE; at < right; at += 5) { draw.moveTo(at, top + LANE); draw.lineTo(at + LANE, top); }
    draw.stroke();
    draw.restore();
  }

  // With a rim, as it may lie on a span of any colour.
  #mark(draw, x, y, colour, shape, rim) {
    this.shapes ??= new Map();
    if (!this.shapes.has(shape)) this.shapes.set(shape, new Path2D(shape));
    const path = this.shapes.get(shape);
    draw.save();
    draw.translate(x, y);
    draw.strokeStyle = rim;
    draw.lineWidth = 3;
    draw.stroke(path);
    draw.fillStyle = colour;
    draw.fill(path);
    draw.restore();
  }

  #axis(draw, width, bottom, c) {
    draw.font = '11px ' + c('sans');
    draw.fillStyle = c('dim');
    const step = [1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7].find((s) => s / this.window * width > 70) ?? 6e7;
    for (let back = 0; back < this.window; back += step) {
      const at = width - back / this.window * width;
      draw.fillRect(at - 1, bottom, 1, 4);
      if (back > 0 && at > width - 80) continue;  // the last label's place
      const label = back === 0 ? (this.end === null ? 'now' : 'paused') : '\u2212' + (back / 1e6).toFixed(1).replace('.0', '') + ' s';
      draw.fillText(label, Math.min(at + 3, width) - (back === 0 ? 40 : 0), bottom + 14);
    }
  }

  #hover(event) {
    const time = this.#time(event.offsetX), lane = Math.floor((event.offsetY - TOP) / (LANE + GAP));
    const step = this.#stepAt(time);
    let text = '';
    const span = step?.spans.find((s) => s.s.lane === lane);
    const s = span?.s ?? [...this.state.sequences.values()].find((q) => q.lane === lane && q.arrival <= time && (q.end === null || q.end >= time));
    if (event.offsetY < TOP - 6 && step) text = describe(step, this.state.snapshot?.most_rows);
    else if (s) text = this.#sequenceText(s, span, time, step);
    this.tip.hidden = text === '';
    if (text === '') return;
    this.tip.textContent = text;
    const right = event.offsetX > this.width - 300;
    this.tip.style.left = (right ? event.offsetX - this.tip.offsetWidth : event.offsetX + 24) + 'px';
    this.tip.style.top = Math.max(0, event.offsetY + 14) + 'px';
  }

  #sequenceText(s, span, time, step) {
    const lines = [`Sequence ${s.number} \u00b7 request ${s.request}${s.choice > 0 ? ` \u00b7 choice ${s.choice}` : ''}`, `prompt of ${s.prompt} tokens, ${s.cached} from the cache`];
    if (span) {
      const kind = span.again > 0 ? `${span.again} computed again` : span.first < s.prompt ? 'prompt' : 'decode';
      lines.push(`positions ${span.first}\u2013${span.first + span.rows - 1} (${kind}), ${Math.ceil((span.first + span.rows) / 128)} pages`);
      if (span.drafts > 0) lines.push(`${span.drafts} drafts`);
      lines.push(`step ${step.number}: ${duration(step.t1 - step.t0)}`);
    }
    const wait = s.waits.find(([from, to]) => from <= time && time <= to);
    const waited = s.waits.reduce((sum, [from, to]) => sum + to - from, 0);
    if (wait) lines.push(`waited ${duration(wait[1] - wait[0])}: ${wait[2]}`);
    else if (waited > 0) lines.push(`waited ${duration(waited)} in all${s.waits.length > 0 ? ` (${s.waits[s.waits.length - 1][2]})` : ''}`);
    if (s.gone > 0) lines.push(`preempted ${s.gone} times`);
    return lines.join('\n');
  }
}

export function describe(step, budget) {
  const prompts = step.spans.filter((s) => s.first < s.s.prompt).length;
  return `Step ${step.number}: ${duration(step.t1 - step.t0)}, ${step.rows}${budget ? ` of ${budget}` : ''} rows; ${prompts} prompts, ` +
    `${step.spans.length - prompts} decodes; ${step.running} run, ${step.waiting} wait; ${step.lu} pages used, ${step.lc} cached`;
}
