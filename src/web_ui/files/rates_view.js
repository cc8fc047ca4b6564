// Tokens a second, the hit funnel, how long steps and first tokens take.
import {el, clear} from './dom.js';
import {duration} from './engine_state.js';
import {fitted} from './timeline.js';

function panel(title) {
  const note = el('span'), canvas = el('canvas', {role: 'img', 'aria-label': title});
  return {element: el('div', {class: 'rate'}, el('h3', {}, title, note), canvas), canvas, note};
}

// Counts in buckets that double: [2^k, 2^(k+1)) of `unit`.
export function histogram(values, unit) {
  const counts = [];
  for (const v of values) {
    const k = Math.max(0, Math.floor(Math.log2(Math.max(1, v / unit))));
    counts[k] = (counts[k] ?? 0) + 1;
  }
  let first = counts.findIndex((n) => n > 0);
  if (first < 0) first = 0;
  return {first, counts: Array.from(counts.slice(first), (n) => n ?? 0)};
}

function quantile(values, part) {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

export class RatesView {
  constructor(state) {
    this.state = state;
    this.out = panel('Generated');
    this.in = panel('Prompts');
    this.step = panel('Steps');
    this.first = panel('First token');
    this.funnel = el('div', {class: 'funnel'});
    this.element = el('section', {class: 'card', 'aria-label': 'Rates'}, el('header', {}, el('h2', {}, 'Rates'), el('span', {class: 'dim'}, 'the last 15 minutes')), el('div', {class: 'rates'},
      this.out.element, this.in.element, this.step.element, this.first.element, el('div', {class: 'rate'}, el('h3', {}, 'Prompt tokens'), this.funnel)));
  }

  draw(now, c) {
    const {buckets, funnel, steps, first} = this.state;
    this.#line(this.out, buckets.map((b) => [b.at, b.out / 5]), now, c('c-decode'), c);
    this.#line(this.in, buckets.map((b) => [b.at, b.in / 5]), now, c('c-prompt'), c);
    this.#bars(this.step, steps.slice(-1000).map((s) => s.t1 - s.t0), 16, c('accent'), c);
    this.#bars(this.first, first.slice(-1000), 1000, c('c-swapped'), c);
    clear(this.funnel).append(...[['Asked', funnel.asked, 'k-wait'], ['Matched', funnel.matched, 'k-shared'], ['From cache', funnel.resumed, 'k-cached']].map(([name, value, kind]) => {
      const part = funnel.asked > 0 ? 100 * value / funnel.asked : 0;
      const fill = el('i', {class: kind});
      fill.style.width = part + '%';
      return el('div', {}, el('span', {}, name), el('div', {class: 'bar'}, fill), el('span', {}, `${value} \u00b7 ${part.toFixed(0)} %`));
    }));
  }

  #line(to, points, now, colour, c) {
    const {draw, width} = fitted(to.canvas, 64);
    const most = Math.max(1, ...points.map((p) => p[1]));
    to.note.textContent = points.length > 0 ? `${points[points.length - 1][1].toFixed(0)} tok/s \u00b7 peak ${most.toFixed(0)}` : '';
    draw.fillStyle = c('sunken');
    draw.fillRect(0, 0, width, 64);
    draw.fillStyle = colour;
    const bar = width / 180;
    for (const [at, value] of points) {
      const x = width - (now - at) / 900e6 * width, height = 60 * value / most;
      draw.fillRect(x, 64 - height, Math.max(1, bar - 0.5), height);
    }
  }

  #bars(to, values, unit, colour, c) {
    const {draw, width} = fitted(to.canvas, 64);
    draw.fillStyle = c('sunken');
    draw.fillRect(0, 0, width, 64);
    if (values.length === 0) { to.note.textContent = ''; return; }
    to.note.textContent = `p50 ${duration(quantile(values, 0.5))} \u00b7 p99 ${duration(quantile(values, 0.99))}`;
    const {first, counts} = histogram(values, unit);
    const most = Math.max(...counts), w = Math.min(60, width / counts.length);
    draw.font = '10px ' + c('sans');
    counts.forEach((n, i) => {
      draw.fillStyle = colour;
      const height = 46 * n / most;
      draw.fillRect(i * w + 1, 50 - height, w - 2, Math.max(n > 0 ? 1 : 0, height));
      if (w < 40 && i % 2 === 1) return;
      draw.fillStyle = c('dim');
      draw.fillText(duration(unit * 2 ** (first + i)).replace(/\.\d+/, ''), i * w + 1, 61);
    });
  }
}
