// The values of the engine's stream: steps, sequences, rates. No document, no clock of its own.

export const KIND = {arrival: 0, request: 1, message: 2, again: 3, block: 4, fork: 5, wait: 6, admission: 7, preemption: 8, span: 9, end: 10};
// A sequence of a snapshot: whether it has memory and a place.
export const runs = (s) => s.state === 'prompt' || s.state === 'decoding' || s.state === 'paused';
export const REASONS = ['queue', 'priority', 'places', 'pages', 'window pages', 'common prefix', 'rows', 'unread answer'];
const MOST_STEPS = 4096;
const BUCKET_US = 5e6, MOST_BUCKETS = 180;  // 15 minutes

export class EngineState {
  constructor() {
    this.steps = [];             // the newest last
    this.sequences = new Map();  // by number
    this.lanes = [];             // whose lane it is, or null
    this.buckets = [];           // {at, in, out, hit, steps}
    this.funnel = {asked: 0, matched: 0, resumed: 0};
    this.first = [];             // times to the first token, us
    this.snapshot = null;
  }

  // One event `steps`: rows as docs/server.md says.
  addSteps(rows) {
    for (const row of rows) this.#add(row);
    if (this.steps.length > MOST_STEPS) {
      this.steps.splice(0, this.steps.length - MOST_STEPS);
      const oldest = this.steps[0].t0;
      for (const [number, s] of this.sequences) if (s.end !== null && s.end < oldest) this.sequences.delete(number);
    }
  }

  #sequence(number, at) {
    let s = this.sequences.get(number);
    if (!s) {
      s = {number, request: 0, choice: 0, prompt: 0, most: 0, arrival: at, admitted: null, end: null, reason: 'queue', lane: -1,
        waits: [], marks: [], first: null, cached: 0, generated: 0, gone: 0};
      this.sequences.set(number, s);
    }
    return s;
  }

  #takeLane(s) {
    if (s.lane >= 0) return;
    let lane = this.lanes.findIndex((x) => x === null);
    if (lane < 0) lane = this.lanes.length;
    this.lanes[lane] = s.number;
    s.lane = lane;
  }

  #add([number, t0, t1, rows, running, waiting, lu, lc, wu, wc, slots, swap, lost, items]) {
    const last = this.steps[this.steps.length - 1];
    if (last && number <= last.number) return;
    const step = {number, t0, t1, rows, running, waiting, lu, lc, wu, wc, slots, swap, lost, spans: [], in: 0, out: 0};
    let hits = 0;
    for (const [kind, flags, detail, who, a, b] of items) {
      const s = this.#sequence(who, t0);
      if (kind === KIND.arrival) Object.assign(s, {prompt: a, most: b, choice: detail, arrival: t0, waiting: t0});
      else if (kind === KIND.request) s.request = a;
      else if (kind === KIND.fork) {
        const parent = this.sequences.get(a);
        Object.assign(s, {prompt: parent?.prompt ?? b, request: parent?.request ?? 0, choice: detail, arrival: t1, admitted: t1, cached: b});
        this.#takeLane(s);
      } else if (kind === KIND.wait) s.reason = REASONS[a] ?? '';
      else if (kind === KIND.admission) {
        this.#takeLane(s);
        if (s.waiting !== undefined) s.waits.push([s.waiting, t0, s.reason]);
        s.waiting = undefined;
        s.admitted ??= t0;
        const swapped = (flags & 1) !== 0;
        s.marks.push([t0, swapped ? 'swapped in' : a > 0 ? 'cached' : 'admitted', a]);
        if (!swapped) {
          hits += a;
          s.cached = a;
          this.funnel.asked += Math.max(s.prompt, a);
          this.funnel.matched += b;
          this.funnel.resumed += a;
        }
      } else if (kind === KIND.preemption) {
        s.marks.push([t0, (flags & 1) !== 0 ? 'swapped out' : 'preempted', a]);
        s.waiting = t0;
        ++s.gone;
      } else if (kind === KIND.span) {
        this.#takeLane(s);
        const count = b & 0xffff, again = b >>> 16;
        step.spans.push({s, first: a, rows: count, again, drafts: detail});
        step.in += Math.max(0, Math.min(a + count, s.prompt) - a - again);
        // The tokens of its answer that are known now came out of the step before.
        step.out += this.#generated(s, a + count - detail - s.prompt);
        if ((flags & 1) !== 0 && s.first === null) {
          s.first = t1;
          this.first.push(t1 - s.arrival);
          if (this.first.length > 2000) this.first.splice(0, 1000);
        }
      } else if (kind === KIND.end) {
        if (s.waiting !== undefined) s.waits.push([s.waiting, t0, s.reason]);
        s.waiting = undefined;
        s.end = t1;
        step.out += this.#generated(s, a);
        if (s.lane >= 0) this.lanes[s.lane] = null;
      }
    }
    if (this.sequences.size > 6000) this.#forgetOldest();
    this.steps.push(step);
    this.#count(t1, step.in, step.out, hits);
  }

  #generated(s, count) {
    const more = Math.max(0, count - s.generated);
    // If it was there before the first record, its past is not known.
    const isNew = s.generated > 0 || s.prompt > 0;
    s.generated = Math.max(s.generated, count);
    return isNew ? more : 0;
  }

  #forgetOldest() {
    for (const [number, s] of this.sequences) {
      if (s.end === null) continue;
      this.sequences.delete(number);
      if (this.sequences.size < 5000) return;
    }
  }

  #count(at, prompts, out, hits) {
    const start = Math.floor(at / BUCKET_US) * BUCKET_US;
    let bucket = this.buckets[this.buckets.length - 1];
    if (!bucket || bucket.at < start) this.buckets.push(bucket = {at: start, in: 0, out: 0, hit: 0, steps: 0});
    if (this.buckets.length > MOST_BUCKETS) this.buckets.shift();
    bucket.in += prompts;
    bucket.out += out;
    bucket.hit += hits;
    ++bucket.steps;
  }

  // Tokens a second over the last `us`, before `now`.
  rate(now, us = 5e6) {
    let prompts = 0, out = 0, steps = 0;
    for (let i = this.steps.length - 1; i >= 0 && this.steps[i].t1 > now - us; --i) {
      ++steps;
      prompts += this.steps[i].in;
      out += this.steps[i].out;
    }
    return {in: prompts * 1e6 / us, out: out * 1e6 / us, steps: steps * 1e6 / us};
  }

  // Returns what a sequence of `tokens` tokens would take from the pools of the last snapshot.
  need(tokens) {
    const snapshot = this.snapshot;
    if (!snapshot) return null;
    const blocks = Math.ceil(tokens / 128);
    const pages = snapshot.latents.pages > 0 ? blocks : 0, windows = snapshot.windows.pages > 0 ? Math.min(blocks, 2) : 0;
    const bytes = pages * snapshot.latents.page_bytes + windows * snapshot.windows.page_bytes + snapshot.slot_bytes;
    const free = snapshot.latents.pages - snapshot.latents.used;
    const place = snapshot.slots - snapshot.slots_used > 0 && snapshot.sequences.filter(runs).length < snapshot.most_sequences;
    return {pages, windows, bytes, fits: pages <= free, place, longest: snapshot.most_tokens};
  }
}

export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (n < 1024 || unit === 'TiB') return (unit === 'B' ? n : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : n.toFixed(0)) + ' ' + unit;
    n /= 1024;
  }
}

export function duration(us) {
  if (us < 1000) return us.toFixed(0) + ' \u00b5s';
  if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 2 : us < 1e5 ? 1 : 0) + ' ms';
  return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + ' s';
}
