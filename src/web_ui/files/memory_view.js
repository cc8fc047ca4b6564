// The pools as maps, and the texts next to them.
import {el} from './dom.js';
import {bytes} from './engine_state.js';
import {fitted} from './timeline.js';

// A cell of a map is three levels of 0 to 15, as hexadecimal digits: used by one, shared, cached.
export function cellAt(cells, i) {
  return {used: parseInt(cells[3 * i], 16), shared: parseInt(cells[3 * i + 1], 16), cached: parseInt(cells[3 * i + 2], 16)};
}

class PoolMap {
  constructor(name) {
    this.title = el('h3', {}, name, this.numbers = el('span'));
    this.canvas = el('canvas', {role: 'img', 'aria-label': `Map of ${name.toLowerCase()}`});
    this.element = el('div', {class: 'map'}, this.title, this.canvas);
    this.marked = new Set();
  }

  draw(pool, c) {
    this.element.hidden = pool.pages === 0;
    if (pool.pages === 0) return;
    this.numbers.textContent = `${pool.used} used \u00b7 ${pool.cached} cached \u00b7 ${pool.pages - pool.used - pool.cached} vacant \u00b7 ${bytes(pool.page_bytes)} each`;
    const count = pool.cells.length / 3;
    const width = this.canvas.clientWidth || 300;
    const across = Math.max(1, Math.min(count, Math.floor(width / Math.max(7, Math.min(22, Math.sqrt(width * 110 / count))))));
    const size = this.size = width / across, down = Math.ceil(count / across);
    const {draw} = fitted(this.canvas, Math.ceil(down * Math.min(size, 22)));
    const tall = Math.min(size, 22);
    this.canvas.setAttribute('aria-label', `${this.title.firstChild.textContent}: ${this.numbers.textContent}`);
    for (let i = 0; i < count; ++i) {
      const cell = cellAt(pool.cells, i);
      const left = (i % across) * size, top = Math.floor(i / across) * tall;
      draw.globalAlpha = 1;
      draw.fillStyle = c('c-vacant');
      draw.fillRect(left, top, size - 1, tall - 1);
      const [level, colour] = cell.shared > 0 ? [cell.shared + cell.used, 'c-shared'] : cell.used > 0 ? [cell.used, 'c-used'] : [cell.cached, 'c-cached'];
      if (level > 0) {
        draw.globalAlpha = 0.35 + 0.65 * Math.min(1, level / 15);
        draw.fillStyle = c(colour);
        draw.fillRect(left, top, size - 1, tall - 1);
        // Not by colour alone: what is cached is hollow, what is shared has a dot.
        if (colour !== 'c-used') {
          const rim = colour === 'c-cached' ? Math.max(2, tall / 4) : tall / 2 - Math.max(1.5, tall / 7);
          draw.globalAlpha = 1;
          draw.fillStyle = c(colour === 'c-cached' ? 'c-vacant' : 'panel');
          draw.fillRect(left + rim, top + rim, size - 1 - 2 * rim, tall - 1 - 2 * rim);
        }
      }
      if (this.marked.has(i)) {
        draw.globalAlpha = 1;
        draw.strokeStyle = c('text');
        draw.lineWidth = 2;
        draw.strokeRect(left + 1, top + 1, size - 3, tall - 3);
      }
    }
    draw.globalAlpha = 1;
  }
}

function meterRow(name) {
  const numbers = el('span'), fill = el('i', {class: 'k-used'});
  return {element: el('div', {class: 'map'}, el('h3', {}, name, numbers), el('div', {class: 'bar'}, fill)), set(part, whole, text) {
    numbers.textContent = text;
    fill.style.width = (whole > 0 ? 100 * part / whole : 0) + '%';
  }};
}

export class MemoryView {
  constructor(state) {
    this.state = state;
    this.latents = new PoolMap('Latent pages');
    this.windows = new PoolMap('Window pages');
    this.slots = meterRow('State slots');
    this.swap = meterRow('Swap space');
    this.tokens = el('input', {type: 'number', min: 1, step: 128, value: 4096, 'aria-label': 'Tokens of one more sequence', oninput: () => this.drawNeed()});
    this.answer = el('span', {role: 'status'});
    this.element = el('section', {class: 'card', 'aria-label': 'Memory'}, el('header', {}, el('h2', {}, 'Memory')), this.latents.element, this.windows.element,
      el('div', {class: 'legend cells'}, [['k-used', 'used'], ['k-shared', 'shared'], ['k-cached', 'cached'], ['k-vacant', 'vacant']].map(([k, l]) => el('span', {}, el('i', {class: k}), l))),
      this.slots.element, this.swap.element, el('p', {class: 'need'}, 'One more sequence of', this.tokens, 'tokens ', this.answer));
  }

  mark(sequence) {
    this.latents.marked = new Set(sequence?.cells ?? []);
  }

  draw(c) {
    const snapshot = this.state.snapshot;
    if (!snapshot) return;
    this.latents.draw(snapshot.latents, c);
    this.windows.draw(snapshot.windows, c);
    this.slots.set(snapshot.slots_used, snapshot.slots, `${snapshot.slots_used} of ${snapshot.slots} \u00b7 ${bytes(snapshot.slot_bytes)} each`);
    this.swap.element.hidden = snapshot.swap_bytes === 0;
    this.swap.set(snapshot.swap_bytes_used, snapshot.swap_bytes, `${bytes(snapshot.swap_bytes_used)} of ${bytes(snapshot.swap_bytes)}`);
    this.drawNeed();
  }

  drawNeed() {
    const tokens = Number(this.tokens.value), need = this.state.need(tokens);
    if (!need || !(tokens > 0)) { this.answer.textContent = ''; return; }
    const verdict = tokens > need.longest ? `is longer than a sequence may be (${need.longest}).`
      : !need.fits ? 'would have to wait for pages.' : !need.place ? 'would have to wait for a place.' : 'fits now.';
    this.answer.textContent = `needs ${need.pages} latent pages${need.windows > 0 ? `, ${need.windows} window pages` : ''} and a state: ${bytes(need.bytes)}. It ${verdict}`;
  }
}
