// The engine view: timeline, memory, queue, rates, from one stream of events that runs only while the view is shown.
import {el, icon, clear, announce, download} from './dom.js';
import {ApiError, call, events} from './api.js';
import {EngineState, duration, bytes, runs as hasPlace} from './engine_state.js';
import {Timeline, colours, describe} from './timeline.js';
import {MemoryView} from './memory_view.js';
import {RatesView} from './rates_view.js';

const KINDS = [['k-prompt', 'prompt'], ['k-decode', 'decode'], ['k-cached', 'from the cache'], ['k-again', 'computed again'], ['k-gone', 'preempted'], ['k-swapped', 'swapped'], ['k-wait', 'waits']];
const WINDOWS = [[2e6, '2 s'], [10e6, '10 s'], [60e6, '1 min']];
const FRAME_MS = 66;  // pictures are drawn at most this often

function tile(label) {
  const value = el('b', {}, '\u2013'), note = el('span', {}, label);
  return {element: el('div', {class: 'tile'}, value, note), value, note};
}

function pill(label, iconName, onclick, props = {}) {
  return el('button', {type: 'button', class: 'pill', onclick, ...props}, icon(iconName), label);
}

export class EngineView {
  constructor(server) {
    this.server = server;
    this.paused = false;
    this.visible = false;
    this.tiles = {out: tile('tokens / s'), in: tile('prompt tokens / s'), running: tile('run'), waiting: tile('wait'), pages: tile('of the cache used'), step: tile('a step')};
    this.stepText = el('div', {class: 'step-text', 'aria-live': 'off'});
    this.pauseButton = pill('Pause', 'pause', () => this.pause(!this.paused), {'aria-pressed': 'false'});
    this.backButton = pill('Back', 'back', () => this.move(-1), {disabled: true});
    this.nextButton = pill('Forward', 'next', () => this.move(1), {disabled: true});
    this.zoom = el('select', {'aria-label': 'Time shown', class: 'pill', onchange: () => { this.timeline.window = Number(this.zoom.value); this.draw(); }}, WINDOWS.map(([v, l]) => el('option', {value: v}, l)));
    this.zoom.value = String(10e6);
    this.queue = el('div', {class: 'queue', tabindex: '0', role: 'region', 'aria-label': 'Sequences'});
    this.body = el('div', {class: 'engine-in'});
    this.notice = el('div', {class: 'card closed', role: 'alert', hidden: true});
    this.element = el('div', {class: 'engine view', hidden: true}, this.notice, this.body);
    this.reset();
    this.element.addEventListener('keydown', (e) => {
      if (e.target.closest('input, select')) return;
      if (e.key === ' ' && e.target === this.timeline.canvas) { e.preventDefault(); this.pause(!this.paused); }
      if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') { e.preventDefault(); this.move(e.key === 'ArrowLeft' ? -1 : 1); }
    });
    addEventListener('resize', () => this.restyle());
    document.addEventListener('visibilitychange', () => this.connect());
  }

  reset() {
    this.state = new EngineState();
    this.offset = null;  // the server's clock less ours, us
    this.timeline = new Timeline(this.state, (step) => { this.pause(true); this.pick(step); });
    this.timeline.window = Number(this.zoom.value);
    this.memory = new MemoryView(this.state);
    this.rates = new RatesView(this.state);
    clear(this.body).append(
      el('h1', {class: 'offscreen'}, 'Engine'),
      el('div', {class: 'tiles'}, Object.values(this.tiles).map((t) => t.element)),
      el('section', {class: 'card', 'aria-label': 'Timeline'}, el('header', {}, el('h2', {}, 'Timeline'), el('span', {class: 'spring'}), this.zoom, this.backButton, this.nextButton, this.pauseButton,
        pill('Trace', 'save', () => this.save('trace'), {title: 'For sluice simulate --trace'}), pill('Perfetto', 'save', () => this.save('perfetto'), {title: 'For ui.perfetto.dev'})),
        this.timeline.element, this.stepText, el('div', {class: 'legend kinds'}, KINDS.map(([k, l]) => el('span', {}, el('i', {class: k}), l)))),
      el('div', {class: 'two'}, this.memory.element, el('section', {class: 'card', 'aria-label': 'Queue'}, el('header', {}, el('h2', {}, 'Sequences')), this.queue)), this.rates.element);
  }

  show() { this.element.hidden = false; this.visible = true; this.connect(); this.restyle(); }
  hide() { this.element.hidden = true; this.visible = false; this.connect(); }
  restyle() { this.c = this.snapshotDrawn = this.ratesDrawn = null; this.draw(); }

  // The stream runs while the view is seen.
  connect() {
    const wanted = this.visible && !document.hidden;
    if (wanted && !this.abort) this.run();
    if (!wanted && this.abort) { this.abort.abort(); this.abort = null; }
  }

  async run() {
    const abort = this.abort = new AbortController();
    while (!abort.signal.aborted) {
      try {
        const response = await call('/debug/engine/stream', {signal: abort.signal});
        this.notice.hidden = true;
        for await (const {event, data} of events(response)) this.take(event, data);
      } catch (error) {
        if (abort.signal.aborted) return;
        this.notice.hidden = false;
        this.notice.textContent = error.message;
        if (error instanceof ApiError && [401, 403].includes(error.status)) {
          // An admin's key opens it, where the server has one.
          const again = () => { this.abort = null; this.connect(); };
          this.notice.append(' ', el('button', {type: 'button', class: 'pill', onclick: () => this.server.askForKey(again)}, 'Use another key'));
          return;
        }
      }
      if (!abort.signal.aborted) await new Promise((resolve) => { setTimeout(resolve, 2000); });
    }
  }

  take(event, data) {
    const value = JSON.parse(data);
    if (event === 'snapshot') {
      const offset = value.now - performance.now() * 1000;
      // A server that was started anew has another clock.
      if (this.offset !== null && Math.abs(offset - this.offset) > 60e6) this.reset();
      this.offset = this.offset === null ? offset : Math.min(this.offset, offset) + 1;
      this.state.snapshot = value;
    } else if (event === 'steps') {
      const last = this.state.steps[this.state.steps.length - 1];
      if (last && value.length > 0 && value[value.length - 1][0] < last.number) this.reset();
      this.state.addSteps(value);
    }
    this.schedule();
  }

  schedule() {
    if (this.scheduled || this.paused) return;
    this.scheduled = true;
    setTimeout(() => requestAnimationFrame(() => { this.scheduled = false; if (!this.paused) this.draw(); }), FRAME_MS);
  }

  now() {
    const last = this.state.steps[this.state.steps.length - 1];
    return this.offset === null ? last?.t1 ?? 0 : performance.now() * 1000 + this.offset;
  }

  draw() {
    if (!this.visible) return;
    const began = performance.now();
    this.c ??= cached(colours());
    const now = this.paused ? this.timeline.end : this.now();
    this.timeline.draw(now, this.c);
    if (this.state.snapshot !== this.snapshotDrawn || this.paused) this.memory.draw(this.c);
    this.snapshotDrawn = this.state.snapshot;
    if (began > (this.ratesDrawn ?? 0) + 500) { this.rates.draw(now, this.c); this.ratesDrawn = began; }
    this.drawTiles(now);
    this.drawQueue(now);
    this.longest = Math.max(this.longest ?? 0, performance.now() - began);
  }

  drawTiles(now) {
    const {steps, snapshot} = this.state, rate = this.state.rate(now), last = steps[steps.length - 1];
    const set = (name, value, note) => { this.tiles[name].value.textContent = value; if (note) this.tiles[name].note.textContent = note; };
    set('out', rate.out.toFixed(rate.out < 10 ? 1 : 0));
    set('in', rate.in.toFixed(rate.in < 10 ? 1 : 0));
    const run = snapshot?.sequences.filter(hasPlace).length ?? last?.running ?? 0;
    set('running', run, snapshot ? `of ${snapshot.most_sequences} run` : 'run');
    set('waiting', snapshot ? snapshot.sequences.length - run : last?.waiting ?? 0);
    if (snapshot) set('pages', (100 * snapshot.latents.used / Math.max(1, snapshot.latents.pages)).toFixed(1) + ' %', `of ${bytes(snapshot.latents.pages * snapshot.latents.page_bytes)} used`);
    if (last) set('step', duration(last.t1 - last.t0), `the last step, ${last.rows} rows`);
  }

  drawQueue(now) {
    if (this.queue.contains(document.activeElement) && document.activeElement !== this.queue && now < (this.queueDrawn ?? 0) + 2e6) return;
    if (now < (this.queueDrawn ?? 0) + 450e3 && now >= (this.queueDrawn ?? 0)) return;
    this.queueDrawn = now;
    const sequences = this.state.snapshot?.sequences ?? [];
    if (sequences.length === 0) { clear(this.queue).append(el('p', {class: 'dim'}, 'Nothing runs and nothing waits.')); return; }
    let place = 0;
    const rows = sequences.slice(0, 200).map((s) => {
      const seen = this.state.sequences.get(s.sequence);
      const runs = hasPlace(s);
      const waits = runs ? seen?.waits.reduce((sum, [from, to]) => sum + to - from, 0) ?? 0 : now - (seen?.waiting ?? seen?.arrival ?? now);
      return el('tr', {tabindex: '0', onpointerenter: () => this.mark(s), onpointerleave: () => this.mark(null), onfocus: () => this.mark(s), onblur: () => this.mark(null)},
        el('td', {}, runs ? '\u2013' : String(++place)), el('td', {}, String(s.sequence)), el('td', {}, el('span', {class: 'tag'}, runs ? s.state : `${s.state}: ${s.reason}`)),
        el('td', {}, `${s.computed} / ${s.tokens}`), el('td', {}, String(s.cached_tokens)), el('td', {}, String(s.pages)), el('td', {}, duration(Math.max(0, waits))));
    });
    clear(this.queue).append(el('table', {}, el('thead', {}, el('tr', {}, ['Place', 'Seq.', 'State', 'Computed', 'Cached', 'Pages', 'Waited'].map((h) => el('th', {scope: 'col'}, h)))), el('tbody', {}, rows)));
  }

  mark(sequence) {
    this.memory.mark(sequence);
    if (this.c) this.memory.draw(this.c);
  }

  pause(paused) {
    if (paused === this.paused) return;
    this.paused = paused;
    this.timeline.end = paused ? this.now() : null;
    if (!paused) { this.timeline.cursor = null; this.stepText.textContent = ''; }
    this.pauseButton.setAttribute('aria-pressed', String(paused));
    this.pauseButton.replaceChildren(icon(paused ? 'play' : 'pause'), paused ? 'Go on' : 'Pause');
    this.backButton.disabled = this.nextButton.disabled = !paused;
    announce(paused ? 'Paused' : 'Live');
    this.draw();
  }

  move(by) {
    if (!this.paused) return;
    const {steps} = this.state;
    if (steps.length === 0) return;
    let at = this.timeline.cursor ? steps.indexOf(this.timeline.cursor) : steps.findLastIndex((s) => s.t0 < this.timeline.end) + (by < 0 ? 1 : 0);
    at = Math.max(0, Math.min(steps.length - 1, at + by));
    this.pick(steps[at]);
  }

  pick(step) {
    this.timeline.cursor = step;
    if (step.t0 < this.timeline.end - this.timeline.window || step.t1 > this.timeline.end) this.timeline.end = step.t1 + this.timeline.window / 4;
    this.stepText.textContent = describe(step, this.state.snapshot?.most_rows);
    announce(this.stepText.textContent);
    this.draw();
  }

  async save(kind) {
    try {
      const text = await (await call('/debug/engine/' + kind)).text();
      download(kind === 'trace' ? 'sluice-trace.jsonl' : 'sluice-perfetto.json', 'application/octet-stream', text);
      announce('Saved');
    } catch (error) { announce(error.message); this.notice.hidden = false; this.notice.textContent = error.message; }
  }
}

function cached(look) {
  const found = new Map();
  return (name) => {
    if (!found.has(name)) found.set(name, look(name));
    return found.get(name);
  };
}
