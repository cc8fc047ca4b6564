// Conversations as values: what a turn is, the request that it makes, and what a stream adds to it. No document.
import {isConversation} from './store.js';

export const DEFAULTS = {
  system: '', temperature: '', top_p: '', top_k: '', max_tokens: '', seed: '', pinned: false, thinking: '', effort: '',
  tools: '', format: '', logprobs: false,
};

export function newConversation(settings = {}) {
  return {id: crypto.randomUUID?.() ?? String(Date.now()) + Math.random().toString(36).slice(2), title: 'New chat',
    created: Date.now(), updated: Date.now(), settings: {...DEFAULTS, ...settings}, turns: []};
}

export function titleOf(text) {
  const line = text.trim().split('\n')[0];
  return line.length > 60 ? line.slice(0, 57) + '\u2026' : line || 'New chat';
}

export function newAnswer() {
  return {role: 'assistant', content: '', reasoning: '', calls: [], tokens: [], usage: null, seed: null, finish: '', error: '',
    ms: 0, first: 0};
}

function number(settings, name, body) {
  const text = String(settings[name] ?? '').trim();
  if (text === '') return;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${name}: expected a number, found "${text}"`);
  body[name] = value;
}

function json(text, what) {
  try { return JSON.parse(text); } catch (error) { throw new Error(`${what}: not valid JSON (${error.message})`); }
}

function toolsOf(text) {
  let tools = json(text, 'Tools');
  if (!Array.isArray(tools)) tools = [tools];
  return tools.map((t) => (t && t.type === 'function' ? t : {type: 'function', function: t}));
}

function formatOf(text) {
  if (text.trim() === 'json_object') return {type: 'json_object'};
  const value = json(text, 'Response format');
  if (value && typeof value === 'object' && ['json_schema', 'json_object', 'text'].includes(value.type)) return value;
  return {type: 'json_schema', json_schema: {name: 'answer', strict: true, schema: value}};
}

// The request whose answer comes behind the given turns. Throws an Error that says which setting is wrong.
export function requestOf(model, conversation, turns) {
  const s = conversation.settings;
  const messages = [];
  if (s.system.trim() !== '') messages.push({role: 'system', content: s.system});
  for (const turn of turns) {
    if (turn.role === 'assistant') {
      if (turn.error && !turn.content && turn.calls.length === 0) continue;
      const message = {role: 'assistant', content: turn.content};
      if (turn.calls?.length > 0) {
        message.tool_calls = turn.calls.map((c) => ({id: c.id, type: 'function', function: {name: c.name, arguments: c.arguments}}));
        if (turn.reasoning) message.reasoning_content = turn.reasoning;
      }
      messages.push(message);
    } else if (turn.role === 'tool') messages.push({role: 'tool', tool_call_id: turn.call, content: turn.content});
    else messages.push({role: 'user', content: turn.content});
  }
  const body = {model, messages, stream: true, stream_options: {include_usage: true}};
  for (const name of ['temperature', 'top_p', 'top_k', 'max_tokens']) number(s, name, body);
  if (s.pinned) {  // seeds are 64 bits, more than a number holds exactly: Number() only where it is safe
    const text = String(s.seed).trim();
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(Number(text))) throw new Error(`seed: expected 0 to ${Number.MAX_SAFE_INTEGER}, found "${text}"`);
    body.seed = Number(text);
  }
  if (s.thinking === 'on' || s.thinking === 'off') body.chat_template_kwargs = {thinking: s.thinking === 'on'};
  if (s.effort && s.thinking !== 'off') body.reasoning_effort = s.effort;
  if (s.tools.trim() !== '') body.tools = toolsOf(s.tools);
  if (s.format.trim() !== '') body.response_format = formatOf(s.format);
  if (s.logprobs) Object.assign(body, {logprobs: true, top_logprobs: 5});
  return body;
}

// One chunk of a stream. Returns what it added: {content, reasoning}.
export function take(answer, chunk) {
  const added = {content: '', reasoning: ''};
  if (chunk.error) throw new Error(chunk.error.message ?? 'the answer ended with an error');
  if (chunk.usage) answer.usage = chunk.usage;
  if (chunk.seed !== undefined && chunk.seed !== null) answer.seed = chunk.seed;
  const choice = chunk.choices?.[0];
  if (!choice) return added;
  const delta = choice.delta ?? {};
  if (delta.reasoning_content) answer.reasoning += added.reasoning = delta.reasoning_content;
  if (delta.content) answer.content += added.content = delta.content;
  for (const piece of delta.tool_calls ?? []) {
    const call = (answer.calls[piece.index ?? 0] ??= {id: '', name: '', arguments: ''});
    if (piece.id) call.id = piece.id;
    if (piece.function?.name) call.name += piece.function.name;
    if (piece.function?.arguments) call.arguments += piece.function.arguments;
  }
  for (const token of choice.logprobs?.content ?? []) {
    answer.tokens.push([token.token, token.logprob, (token.top_logprobs ?? []).map((t) => [t.token, t.logprob])]);
  }
  if (choice.finish_reason) answer.finish = choice.finish_reason;
  return added;
}

// The calls of the last answer that have no result yet.
export function openCalls(turns) {
  let at = turns.length - 1;
  const answered = new Set();
  for (; at >= 0 && turns[at].role === 'tool'; --at) answered.add(turns[at].call);
  if (at < 0 || turns[at].role !== 'assistant') return [];
  return (turns[at].calls ?? []).filter((c) => !answered.has(c.id));
}

export function asCurl(origin, body) {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return `curl ${origin}/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -d '${quoted}'\n`;
}

export function asPython(origin, body) {
  const {stream, stream_options, top_k, chat_template_kwargs, ...known} = body;
  const extra = {...(top_k !== undefined && {top_k}), ...(chat_template_kwargs && {chat_template_kwargs})};
  const python = (v, pad) => {
    if (v === null) return 'None';
    if (typeof v === 'boolean') return v ? 'True' : 'False';
    if (typeof v !== 'object') return JSON.stringify(v);
    const inner = pad + '    ';
    const parts = Array.isArray(v) ? v.map((x) => python(x, inner))
      : Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}: ${python(x, inner)}`);
    const [open, close] = Array.isArray(v) ? '[]' : '{}';
    return parts.length === 0 ? open + close : `${open}\n${inner}${parts.join(`,\n${inner}`)},\n${pad}${close}`;
  };
  const args = Object.entries(known).map(([k, v]) => `    ${k}=${python(v, '    ')},\n`).join('');
  const more = Object.keys(extra).length > 0 ? `    extra_body=${python(extra, '    ')},\n` : '';
  return `from openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1", api_key="none")\n` +
    `stream = client.chat.completions.create(\n${args}${more}    stream=True,\n)\nfor chunk in stream:\n` +
    `    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="", flush=True)\n`;
}

// Returns the content of an exported file, or an Error.
export function readExport(text) {
  const file = json(text, 'The file');
  const list = Array.isArray(file?.conversations) ? file.conversations : null;
  if (!list || !list.every(isConversation)) throw new Error('The file holds no conversations of this page.');
  return list.map((c) => ({id: c.id, title: String(c.title), created: Number(c.created) || c.updated, updated: c.updated,
    settings: Object.fromEntries(Object.entries(DEFAULTS).map(([k, d]) => [k, typeof c.settings[k] === typeof d ? c.settings[k] : d])),
    turns: c.turns.map((t) => (t.role === 'assistant' ? {...newAnswer(), ...pick(t)} : t.role === 'tool'
      ? {role: 'tool', call: String(t.call), content: t.content} : {role: 'user', content: t.content}))}));
}

function pick(t) {
  const call = (c) => ({id: String(c?.id ?? ''), name: String(c?.name ?? ''), arguments: String(c?.arguments ?? '')});
  return {content: t.content, reasoning: String(t.reasoning ?? ''), calls: Array.isArray(t.calls) ? t.calls.map(call) : [],
    tokens: Array.isArray(t.tokens) ? t.tokens.filter((x) => Array.isArray(x) && typeof x[0] === 'string' && Array.isArray(x[2])) : [],
    usage: t.usage && typeof t.usage === 'object' ? t.usage : null, seed: t.seed ?? null, finish: String(t.finish ?? ''),
    error: String(t.error ?? ''), ms: Number(t.ms) || 0, first: Number(t.first) || 0};
}
