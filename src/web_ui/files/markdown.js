// Markdown to a tree of plain objects, without a document: blocks {t: 'p' | 'h' | 'ul' | 'ol' | 'quote' | 'code' |
// 'table' | 'hr', ...} of inlines {t: 'text' | 'code' | 'strong' | 'em' | 'del' | 'a' | 'br', ...}.
// A text is read line by line and every block but the last one is final, so a stream keeps what it has built
// (MarkdownStream). HTML is text. Work is linear in the text, but for emphasis in paragraphs, whose length is bounded.

const MOST_DEPTH = 12;         // lists and quotes within each other; deeper ones are text
const MOST_INLINE = 20000;     // characters of a paragraph that is looked into
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])[ \t]+(?=\S|$)/;
const QUOTE = /^ {0,3}> ?/;
const SEPARATOR = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const PUNCTUATION = /[!-/:-@[-`{-~]/;

// Only what leads to another page or a letter; anything else stays text.
export function safeLink(target) {
  const trimmed = target.trim();
  if (!/^(https?:\/\/|mailto:)/i.test(trimmed) || /[\u0000-\u0020\u007f\ufffd<>"\\^`{|}]/.test(trimmed)) return null;
  return trimmed;
}

// Marks that turn the direction of the text around them are shown, not obeyed.
export function plain(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g,
    (c) => '\u27e8U+' + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0') + '\u27e9')
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '\ufffd');
}

function pushText(out, text) {
  if (!text) return;
  const last = out[out.length - 1];
  if (last && last.t === 'text') last.v += text;
  else out.push({t: 'text', v: text});
}

function closingOf(text, mark, from, missing) {
  if (missing.has(mark)) return -1;
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    if (/\s/.test(text[at - 1])) continue;
    if (mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark)) { at += 1; continue; }
    return at;
  }
  missing.add(mark);
  return -1;
}

function linkAt(text, start) {
  let depth = 0;
  for (let at = start; at < text.length && at < start + 1000; ++at) {
    if (text[at] === '\\') { ++at; continue; }
    if (text[at] === '[') ++depth;
    if (text[at] !== ']' || --depth > 0) continue;
    if (text[at + 1] !== '(') return null;
    const end = text.indexOf(')', at + 2);
    if (end < 0 || end > at + 2050) return null;
    return {label: text.slice(start + 1, at), target: text.slice(at + 2, end).replace(/\s+"[^"]*"\s*$/, ''), end: end + 1};
  }
  return null;
}

export function parseInline(text, depth = 0) {
  const out = [];
  if (text.length > MOST_INLINE || depth > MOST_DEPTH) { pushText(out, text); return out; }
  const missing = new Set();
  let done = 0;
  const upTo = (at) => pushText(out, text.slice(done, at));
  for (let at = 0; at < text.length;) {
    const c = text[at];
    if (c === '\\' && at + 1 < text.length && PUNCTUATION.test(text[at + 1])) {
      upTo(at);
      pushText(out, text[at + 1]);
      done = at += 2;
    } else if (c === '`') {
      const mark = /^`+/.exec(text.slice(at, at + 40))[0];
      const end = missing.has(mark) ? -1 : text.indexOf(mark, at + mark.length);
      if (end < 0) { missing.add(mark); at += mark.length; continue; }
      upTo(at);
      out.push({t: 'code', v: text.slice(at + mark.length, end).replace(/\n/g, ' ').replace(/^ (.+) $/, '$1')});
      done = at = end + mark.length;
    } else if (c === '\n') {
      const hard = /( {2,}|\\)$/.exec(text.slice(Math.max(done, at - 10), at));
      upTo(hard ? at - hard[0].length : at);
      out.push(hard ? {t: 'br'} : {t: 'text', v: '\n'});
      if (!hard && out.length > 1 && out[out.length - 2].t === 'text') { out.pop(); pushText(out, '\n'); }
      done = ++at;
    } else if (c === '[' || (c === '!' && text[at + 1] === '[')) {
      const start = c === '!' ? at + 1 : at;
      const link = linkAt(text, start);
      const target = link && safeLink(link.target);
      if (!target) { at = start + 1; continue; }
      upTo(at);
      out.push({t: 'a', href: target, c: parseInline(link.label, MOST_DEPTH - 1)});
      done = at = link.end;
    } else if ((c === 'h' || c === '<') && /^<?https?:\/\//.test(text.slice(at, at + 9)) && !/\w/.test(text[at - 1] ?? '')) {
      const found = /^<?(https?:\/\/[^\s<>"'`\\^{|}]{1,2000})/.exec(text.slice(at, at + 2010));
      const address = found && found[1].replace(/[.,;:!?*_~)\]]+$/, '');
      if (!address || !safeLink(address)) { ++at; continue; }
      upTo(at);
      out.push({t: 'a', href: address, c: [{t: 'text', v: address}]});
      at += (c === '<' ? 1 : 0) + address.length;
      if (c === '<' && text[at] === '>') ++at;
      done = at;
    } else if (c === '*' || c === '_' || c === '~') {
      const double = text[at + 1] === c;
      const mark = double ? c + c : c;
      const inner = at + mark.length;
      const opens = !(c === '~' && !double) && inner < text.length && !/\s/.test(text[inner]) &&
        !(c === '_' && /\w/.test(text[at - 1] ?? ''));
      const end = opens ? closingOf(text, mark, inner + 1, missing) : -1;
      if (end < 0 || (c === '_' && /\w/.test(text[end + mark.length] ?? ''))) { at = inner; continue; }
      upTo(at);
      out.push({t: c === '~' ? 'del' : double ? 'strong' : 'em', c: parseInline(text.slice(inner, end), depth + 1)});
      done = at = end + mark.length;
    } else {
      ++at;
    }
  }
  pushText(out, text.slice(done));
  return out;
}

function cellsOf(line) {
  const cells = [];
  let cell = '';
  const inside = line.trim().replace(/^\|/, '').replace(/(^|[^\\])\|$/, '$1');
  for (let i = 0; i < inside.length; ++i) {
    if (inside[i] === '\\' && inside[i + 1] === '|') { cell += '|'; ++i; }
    else if (inside[i] === '|') { cells.push(cell.trim()); cell = ''; }
    else cell += inside[i];
  }
  cells.push(cell.trim());
  return cells;
}

function startsBlock(line, complete) {
  return FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || (complete && RULE.test(line));
}

// The block that starts at lines[at]: {node, end}. `complete(i)`: line i has its end.
function blockAt(lines, at, complete, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) {
    const body = [];
    let end = at + 1, closed = false;
    for (; end < lines.length; ++end) {
      const close = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(lines[end]);
      if (close && close[1][0] === fence[1][0] && close[1].length >= fence[1].length) { ++end; closed = true; break; }
      body.push(lines[end]);
    }
    if (!closed && body.length > 0 && body[body.length - 1] === '' && end === lines.length) body.pop();
    return {node: {t: 'code', lang: fence[2].trim().split(/\s/)[0].slice(0, 40), v: body.join('\n')}, end};
  }
  const heading = HEADING.exec(line);
  if (heading) {
    const text = heading[2].replace(/[ \t]+#+[ \t]*$/, '');
    return {node: {t: 'h', level: heading[1].length, c: parseInline(text)}, end: at + 1};
  }
  if (complete(at) && RULE.test(line)) return {node: {t: 'hr'}, end: at + 1};
  if (QUOTE.test(line) && depth < MOST_DEPTH) {
    const inner = [];
    let end = at;
    for (; end < lines.length && QUOTE.test(lines[end]); ++end) inner.push(lines[end].replace(QUOTE, ''));
    return {node: {t: 'quote', c: parseLines(inner, (i) => complete(at + i), depth + 1).map((b) => b.node)}, end};
  }
  if (ITEM.test(line) && depth < MOST_DEPTH) return listAt(lines, at, complete, depth);
  if (line.includes('|') && at + 1 < lines.length && complete(at + 1) && SEPARATOR.test(lines[at + 1]) &&
      cellsOf(line).length === cellsOf(lines[at + 1]).length) {
    const head = cellsOf(line);
    const align = cellsOf(lines[at + 1]).map((c) => (c.endsWith(':') ? (c.startsWith(':') ? 'center' : 'right') : 'left'));
    const rows = [];
    let end = at + 2;
    for (; end < lines.length && lines[end].includes('|') && lines[end].trim() !== ''; ++end) {
      rows.push(cellsOf(lines[end]).slice(0, head.length).map((c) => parseInline(c)));
    }
    return {node: {t: 'table', align, head: head.map((c) => parseInline(c)), rows}, end};
  }
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== '' && !startsBlock(lines[end], complete(end)) &&
         !(lines[end].includes('|') && end + 1 < lines.length && complete(end + 1) && SEPARATOR.test(lines[end + 1]) &&
           lines[end + 1].includes('|'))) ++end;
  return {node: {t: 'p', c: parseInline(lines.slice(at, end).map((l) => l.replace(/^[ \t]+/, '')).join('\n').replace(/\s+$/, ''))}, end};
}

function listAt(lines, at, complete, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || /\d/.test(item[2]) !== ordered || (complete(end) && RULE.test(lines[end]))) break;
    const indent = Math.min(item[0].length, item[1].length + item[2].length + 4);
    const begin = end;
    const inner = [lines[end].slice(item[0].length)];
    for (++end; end < lines.length; ++end) {
      const line = lines[end];
      if (line.trim() === '') {
        let next = end + 1;
        while (next < lines.length && lines[next].trim() === '') ++next;
        if (next >= lines.length || !/^ {2,}\S/.test(lines[next])) break;
        inner.push('');
      } else if (line.search(/\S/) >= Math.min(indent, 2)) {
        inner.push(line.slice(Math.min(indent, line.search(/\S/))));
      } else if (startsBlock(line, complete(end)) || inner[inner.length - 1] === '') {
        break;
      } else {
        inner.push(line);
      }
    }
    items.push(parseLines(inner, (i) => complete(begin + i), depth + 1).map((b) => b.node));
    let next = end;
    while (next < lines.length && lines[next].trim() === '') ++next;
    const following = next < lines.length ? ITEM.exec(lines[next]) : null;
    if (!following || /\d/.test(following[2]) !== ordered) break;
    end = next;
  }
  return {node: ordered ? {t: 'ol', start: parseInt(first[2], 10), items} : {t: 'ul', items}, end};
}

// [{node, begin}]: the blocks, each with its first line.
function parseLines(lines, complete, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === '') { ++at; continue; }
    const {node, end} = blockAt(lines, at, complete, depth);
    blocks.push({node, begin: at});
    at = end;
  }
  return blocks;
}

export function parse(text) {
  const lines = plain(text).replace(/\r\n?/g, '\n').split('\n');
  return parseLines(lines, () => true, 0).map((b) => b.node);
}

// A text that grows. append() returns {final, open}: blocks that will not change any more, each given once, and what
// the rest looks like so far. finish() makes all of it final.
export class MarkdownStream {
  #rest = '';

  append(text) {
    this.#rest += plain(text).replace(/\r\n?/g, '\n');
    const lines = this.#rest.split('\n');
    const whole = lines.slice(0, -1);
    const blocks = parseLines(whole, () => true, 0);
    const final = [];
    if (blocks.length > 1) {
      const keep = blocks[blocks.length - 1].begin;
      for (const block of blocks.slice(0, -1)) final.push(block.node);
      this.#rest = lines.slice(keep).join('\n');
      lines.splice(0, keep);
    }
    const open = parseLines(lines, (i) => i + 1 < lines.length, 0).map((b) => b.node);
    return {final, open};
  }

  finish() {
    const final = parseLines(this.#rest.split('\n'), () => true, 0).map((b) => b.node);
    this.#rest = '';
    return final;
  }
}
