// Conversations, kept in this browser only (IndexedDB; in memory where that is refused). Settings in localStorage.
const NAME = 'sluice', STORE = 'conversations';

let opened;
const memory = new Map();

function database() {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, {keyPath: 'id'});
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch { resolve(null); }
  });
  return opened;
}

async function run(mode, work) {
  const db = await database();
  if (!db) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onerror = () => reject(transaction.error);
  });
}

export async function allConversations() {
  const found = (await run('readonly', (s) => s.getAll())) ?? [...memory.values()];
  return found.filter(isConversation).sort((a, b) => b.updated - a.updated);
}
export async function saveConversation(conversation) {
  memory.set(conversation.id, conversation);
  await run('readwrite', (s) => s.put(conversation));
}
export async function deleteConversation(id) {
  memory.delete(id);
  await run('readwrite', (s) => s.delete(id));
}
export async function deleteAll() {
  memory.clear();
  await run('readwrite', (s) => s.clear());
}

// True if an imported value has the form of a conversation: nothing else is taken from a file.
export function isConversation(c) {
  return c !== null && typeof c === 'object' && typeof c.id === 'string' && typeof c.title === 'string' &&
    typeof c.updated === 'number' && c.settings !== null && typeof c.settings === 'object' && Array.isArray(c.turns) &&
    c.turns.every((t) => t !== null && typeof t === 'object' && ['user', 'assistant', 'tool'].includes(t.role) &&
      typeof t.content === 'string');
}

export function setting(name, fallback) {
  try { return JSON.parse(localStorage.getItem('sluice.' + name)) ?? fallback; } catch { return fallback; }
}
export function setSetting(name, value) {
  try { localStorage.setItem('sluice.' + name, JSON.stringify(value)); } catch { /* as long as the page is open */ }
}
