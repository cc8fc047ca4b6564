// One turn of a conversation as elements.
import {el, icon, button, clear, copyText} from './dom.js';
import {markdown, MarkdownView} from './markdown_view.js';
import {plain} from './markdown.js';

const percent = (logprob) => {
  const p = 100 * Math.exp(logprob);
  return p >= 99.95 ? '100 %' : p >= 10 ? p.toFixed(0) + ' %' : p >= 0.1 ? p.toFixed(1) + ' %' : '< 0.1 %';
};
const shown = (token) => plain(token).replace(/\n/g, '\u23ce').replace(/ /g, '\u2423');

// The answer's tokens, the less likely the stronger their shade; arrow keys go from one to the next.
export function tokenView(tokens) {
  const tip = el('div', {class: 'tip', role: 'status', hidden: true});
  const text = el('div', {class: 'tokens', role: 'group', 'aria-label': 'Tokens by probability; arrow keys move'});
  const nodes = tokens.map(([token, logprob], i) => {
    const level = Math.min(4, Math.floor(-logprob / Math.LN2 * 0.8));
    return el('span', {class: 'tok p' + level, tabindex: i === 0 ? '0' : '-1', 'data-at': i}, plain(token));
  });
  const show = (node) => {
    const [token, logprob, top] = tokens[Number(node.dataset.at)];
    clear(tip).append(el('div', {class: 'tip-head'}, el('code', {}, shown(token)), el('b', {}, percent(logprob))),
      ...top.map(([t, lp]) => el('div', {class: t === token ? 'alt chosen' : 'alt'}, el('code', {}, shown(t)),
        el('meter', {min: 0, max: 1, value: Math.exp(lp), 'aria-hidden': 'true'}), el('span', {}, percent(lp)))));
    tip.hidden = false;
    const box = node.getBoundingClientRect(), outer = text.parentElement.getBoundingClientRect();
    tip.style.left = Math.max(0, Math.min(box.left - outer.left, outer.width - 230)) + 'px';
    tip.style.top = box.bottom - outer.top + 4 + 'px';
  };
  text.append(...nodes);
  text.addEventListener('pointerover', (e) => { if (e.target.dataset?.at) show(e.target); });
  text.addEventListener('pointerleave', () => { tip.hidden = true; });
  text.addEventListener('focusin', (e) => { if (e.target.dataset?.at) show(e.target); });
  text.addEventListener('focusout', () => { tip.hidden = true; });
  text.addEventListener('keydown', (e) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    const next = step && nodes[Number(e.target.dataset?.at) + step];
    if (!next) return;
    e.preventDefault();
    e.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return el('div', {class: 'token-box'}, text, tip);
}

function callCard(call) {
  let text = call.arguments;
  try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it is */ }
  return el('div', {class: 'call'}, el('div', {class: 'call-head'}, icon('code'), el('b', {}, plain(call.name)), el('span', {class: 'dim'}, 'called')),
    el('pre', {tabindex: '0', 'aria-label': 'Arguments'}, el('code', {}, plain(text))));
}

function facts(turn, actions) {
  const out = [];
  const u = turn.usage;
  if (u) {
    const cached = u.prompt_tokens_details?.cached_tokens ?? 0;
    out.push(el('span', {title: 'Tokens of the prompt, and how many of them were not computed again'}, `${u.prompt_tokens} in`,
      cached > 0 ? el('span', {class: 'hit'}, ` \u00b7 ${cached} cached`) : null),
      el('span', {}, `${u.completion_tokens} out`));
    const seconds = (turn.ms - turn.first) / 1000;
    if (seconds > 0.05 && u.completion_tokens > 1) out.push(el('span', {}, `${((u.completion_tokens - 1) / seconds).toFixed(1)} tok/s`));
  }
  if (turn.seed !== null) out.push(el('button', {type: 'button', class: 'seed', title: 'Use this seed again', onclick: () => actions.pinSeed(turn.seed)}, `seed ${turn.seed}`));
  if (turn.finish === 'length') out.push(el('span', {class: 'warn'}, 'cut at max_tokens'));
  if (turn.finish === 'stopped') out.push(el('span', {class: 'warn'}, 'stopped'));
  return el('div', {class: 'facts'}, out);
}

// Without the end token, which has a probability and no text.
function textTokens(turn) {
  const last = turn.tokens[turn.tokens.length - 1][0];
  return turn.finish === 'stop' && !turn.content.endsWith(last) ? turn.tokens.slice(0, -1) : turn.tokens;
}

function thoughts(turn, open) {
  const body = el('div', {class: 'thought'});
  const label = el('summary', {}, el('span', {}, open ? 'Thinking\u2026' : 'Reasoning'));
  const box = el('details', {class: 'reasoning', hidden: !turn.reasoning && !open}, label, body);
  return {box, body, label};
}

// actions: edit(i, text), retry(i), request(i), pinSeed(seed), giveResults({call: text}).
export function turnView(turn, at, actions) {
  if (turn.role === 'user') return userView(turn, at, actions);
  if (turn.role === 'tool') {
    return el('article', {class: 'turn tool', 'aria-label': 'Tool result'}, el('div', {class: 'call-head'}, icon('check'), el('b', {}, 'Result')),
      el('pre', {tabindex: '0'}, el('code', {}, plain(turn.content))));
  }
  const parts = [];
  if (turn.reasoning) {
    const t = thoughts(turn, false);
    t.body.append(markdown(turn.reasoning));
    parts.push(t.box);
  }
  if (turn.tokens.length > 0) parts.push(tokenView(textTokens(turn)));
  else if (turn.content) parts.push(markdown(turn.content));
  parts.push(...turn.calls.map(callCard));
  if (turn.error) parts.push(el('p', {class: 'error', role: 'alert'}, turn.error));
  const tools = el('div', {class: 'actions'}, button('Copy answer', 'copy', (e) => copyText(turn.content, e.currentTarget)),
    button('Regenerate', 'retry', () => actions.retry(at)), button('The request as code', 'code', () => actions.request(at)));
  return el('article', {class: 'turn assistant', 'aria-label': 'Answer'}, parts, el('footer', {}, tools, facts(turn, actions)));
}

function userView(turn, at, actions) {
  const bubble = el('div', {class: 'bubble', dir: 'auto'}, plain(turn.content));
  const article = el('article', {class: 'turn user', 'aria-label': 'You'}, bubble,
    el('div', {class: 'actions'}, button('Copy', 'copy', (e) => copyText(turn.content, e.currentTarget)), button('Edit', 'edit', edit)));
  function edit() {
    const area = el('textarea', {class: 'edit', 'aria-label': 'Edit your message', rows: Math.min(12, turn.content.split('\n').length + 1), value: turn.content});
    const back = () => article.replaceWith(userView(turn, at, actions));
    area.addEventListener('keydown', (e) => {
      if (e.key === 'Escape') back();
      if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); actions.edit(at, area.value); }
    });
    clear(article).append(area, el('div', {class: 'edit-row'}, el('button', {type: 'button', class: 'quiet', onclick: back}, 'Cancel'),
      el('button', {type: 'button', class: 'primary', onclick: () => actions.edit(at, area.value)}, 'Send again')));
    area.focus();
  }
  return article;
}

// An answer while it comes.
export class LiveTurn {
  constructor(onDraw) {
    this.onDraw = onDraw;
    this.thought = thoughts({reasoning: ''}, true);
    this.thought.box.hidden = true;
    this.body = new MarkdownView(onDraw);
    this.calls = el('div');
    this.wait = el('div', {class: 'waiting', role: 'status', 'aria-label': 'Waiting for the first token'}, el('i'), el('i'), el('i'));
    this.element = el('article', {class: 'turn assistant live', 'aria-label': 'Answer', 'aria-busy': 'true'}, this.wait,
      this.thought.box, this.body.element, this.calls);
  }

  add(added, answer) {
    if (added.reasoning) {
      this.wait.remove();
      this.thought.box.hidden = false;
      this.reasoning ??= new MarkdownView(this.onDraw);
      if (!this.reasoning.element.isConnected) this.thought.body.append(this.reasoning.element);
      this.reasoning.append(added.reasoning);
    }
    if (added.content) {
      this.wait.remove();
      this.thought.label.firstChild.textContent = 'Reasoning';
      this.body.append(added.content);
    }
    if (answer.calls.length > 0) {
      this.wait.remove();
      clear(this.calls).append(...answer.calls.filter(Boolean).map(callCard));
    }
  }
}

// A form for the results of calls that wait for one.
export function resultForm(calls, actions) {
  const areas = calls.map((call) => el('textarea', {rows: 2, 'aria-label': `Result of ${call.name}`, placeholder: '{"temperature": 21}'}));
  const send = () => actions.giveResults(calls.map((call, i) => [call.id, areas[i].value]));
  return el('form', {class: 'results', onsubmit: (e) => { e.preventDefault(); send(); }},
    calls.map((call, i) => el('label', {}, el('span', {}, 'Result of ', el('code', {}, plain(call.name))), areas[i])),
    el('button', {type: 'submit', class: 'primary'}, calls.length > 1 ? 'Send results' : 'Send result'));
}
