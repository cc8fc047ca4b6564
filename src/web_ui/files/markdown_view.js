// The tree of markdown.js as elements, and a view that grows with a stream.
import {el, icon, copyText} from './dom.js';
import {parse, MarkdownStream, safeLink} from './markdown.js';

function inline(nodes) {
  return nodes.map((node) => {
    switch (node.t) {
      case 'text': return document.createTextNode(node.v);
      case 'code': return el('code', {}, node.v);
      case 'strong': return el('strong', {}, inline(node.c));
      case 'em': return el('em', {}, inline(node.c));
      case 'del': return el('del', {}, inline(node.c));
      case 'br': return el('br');
      case 'a': {
        const target = safeLink(node.href);
        if (!target) return el('span', {}, inline(node.c));
        return el('a', {href: target, target: '_blank', rel: 'noopener noreferrer nofollow'}, inline(node.c));
      }
      default: return document.createTextNode('');
    }
  });
}

function codeBlock(node) {
  const copy = el('button', {type: 'button', class: 'copy', onclick: () => copyText(node.v, copy)}, icon('copy'), el('span', {}, 'Copy'));
  return el('figure', {class: 'code'}, el('figcaption', {}, el('span', {}, node.lang || 'text'), copy),
    el('pre', {tabindex: '0', 'aria-label': `Code, ${node.lang || 'text'}`}, el('code', {}, node.v)));
}

export function block(node) {
  switch (node.t) {
    case 'p': return el('p', {dir: 'auto'}, inline(node.c));
    case 'h': return el('h' + Math.min(6, node.level + 2), {class: 'h' + node.level, dir: 'auto'}, inline(node.c));
    case 'hr': return el('hr');
    case 'code': return codeBlock(node);
    case 'quote': return el('blockquote', {}, node.c.map(block));
    case 'ul': return el('ul', {}, node.items.map(item));
    case 'ol': return el('ol', {start: node.start === 1 ? undefined : node.start}, node.items.map(item));
    case 'table': return el('div', {class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table'}, el('table', {},
      el('thead', {}, el('tr', {}, node.head.map((c, i) => el('th', {class: node.align[i], scope: 'col'}, inline(c))))),
      el('tbody', {}, node.rows.map((row) => el('tr', {}, row.map((c, i) => el('td', {class: node.align[i]}, inline(c))))))));
    default: return document.createTextNode('');
  }
}

function item(blocks) {
  // An item of one paragraph has no space around it.
  if (blocks.length > 0 && blocks[0].t === 'p') {
    return el('li', {dir: 'auto'}, inline(blocks[0].c), blocks.slice(1).map(block));
  }
  return el('li', {dir: 'auto'}, blocks.map(block));
}

export function markdown(text) {
  return el('div', {class: 'markdown'}, parse(text).map(block));
}

// Takes pieces at any rate and draws at most once a frame, and less often where drawing takes long: never more than an
// eighth of the time.
export class MarkdownView {
  #stream = new MarkdownStream();
  #pending = '';
  #open = [];
  #scheduled = false;
  #finished = false;
  #notBefore = 0;
  longest = 0;  // ms that a draw took

  constructor(onDraw = () => {}) {
    this.element = el('div', {class: 'markdown streaming'});
    this.onDraw = onDraw;
  }

  append(text) {
    this.#pending += text;
    this.#schedule();
  }

  #schedule() {
    if (this.#scheduled || this.#finished) return;
    this.#scheduled = true;
    const wait = this.#notBefore - performance.now();
    const frame = () => requestAnimationFrame(() => { this.#scheduled = false; this.#draw(); });
    if (wait > 16) setTimeout(frame, wait);
    else frame();
  }

  #draw() {
    if (this.#finished || !this.#pending) return;
    const began = performance.now();
    const {final, open} = this.#stream.append(this.#pending);
    this.#pending = '';
    for (const node of this.#open) node.remove();
    this.element.append(...final.map(block));
    this.#open = open.map(block);
    this.element.append(...this.#open);
    const took = performance.now() - began;
    this.longest = Math.max(this.longest, took);
    this.#notBefore = began + 8 * took;
    this.onDraw();
  }

  finish() {
    if (this.#finished) return;
    this.#finished = true;
    const {final} = this.#stream.append(this.#pending);
    for (const node of this.#open) node.remove();
    this.element.append(...final.map(block), ...this.#stream.finish().map(block));
    this.element.classList.remove('streaming');
    this.onDraw();
  }
}
