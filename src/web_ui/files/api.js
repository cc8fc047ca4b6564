// The server: its model, and streams of events. A key, where the server wants one, is kept for this tab only.
let key = '';
try { key = sessionStorage.getItem('sluice.key') ?? ''; } catch { /* none */ }

export function setKey(value) {
  key = value;
  try { sessionStorage.setItem('sluice.key', value); } catch { /* as long as the page is open */ }
}
export const hasKey = () => key !== '';

export class ApiError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export async function call(path, {body, signal} = {}) {
  const headers = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers.Authorization = 'Bearer ' + key;
  let response;
  try {
    response = await fetch(path, {method: body === undefined ? 'GET' : 'POST', headers, signal, cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body)});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server cannot be reached.');
  }
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try { message = (await response.json()).error.message; } catch { /* no JSON */ }
  throw new ApiError(response.status, message);
}

// The events of a stream: {event, data}, data as text.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', event = '', data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      rest += value;
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (line === '') {
          if (data.length > 0) yield {event, data: data.join('\n')};
          event = ''; data = [];
        } else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (line.startsWith('event:')) event = line.slice(6).trim();
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export async function model() {
  const list = await (await call('/v1/models')).json();
  return list.data[0];
}
