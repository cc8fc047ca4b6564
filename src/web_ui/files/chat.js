// The chat view: conversations at the left, the turns, the composer, the settings.
import {el, icon, button, clear, announce, dialog, download, copyText} from './dom.js';
import * as store from './store.js';
import * as state from './chat_state.js';
import {ApiError, call, events} from './api.js';
import {turnView, LiveTurn, resultForm} from './turn_view.js';
import {settingsPanel} from './settings_view.js';

const SUGGESTIONS = ['What is 17 + 25?', 'Write a haiku about rivers.', 'Explain a prefix cache in three sentences.'];

export class ChatView {
  constructor(server) {
    this.server = server;  // {model}
    this.conversations = [];
    this.current = null;
    this.running = null;  // {abort, answer, conversation}
    this.list = el('nav', {class: 'conversations', 'aria-label': 'Conversations'});
    this.turns = el('div', {class: 'turns', id: 'turns'});
    this.scroller = el('div', {class: 'scroller', tabindex: '-1'}, this.turns);
    this.input = el('textarea', {id: 'message', rows: 1, placeholder: 'Message the model', 'aria-label': 'Message', dir: 'auto',
      oninput: () => this.fit(), onkeydown: (e) => this.key(e)});
    this.sendButton = button('Send', 'send', () => (this.running ? this.stop() : this.send()), {class: 'icon-button send'});
    this.side = el('aside', {class: 'side', id: 'side', 'aria-label': 'Conversations'},
      el('button', {type: 'button', class: 'new', onclick: () => this.open(null)}, icon('plus'), 'New chat'), this.list,
      el('div', {class: 'side-foot'}, el('button', {type: 'button', class: 'quiet', onclick: () => this.export()}, 'Export'),
        el('button', {type: 'button', class: 'quiet', onclick: () => this.import()}, 'Import'),
        el('button', {type: 'button', class: 'quiet danger', onclick: () => this.deleteAll()}, 'Delete all')));
    this.main = el('div', {class: 'chat-main'}, this.scroller, el('div', {class: 'composer-wrap'},
      el('form', {class: 'composer', onsubmit: (e) => { e.preventDefault(); this.send(); }}, this.input, this.sendButton),
      el('p', {class: 'hint'}, 'Enter sends, Shift + Enter begins a line. Conversations stay in this browser.')));
    this.element = el('div', {class: 'chat view'}, this.side, this.main);
    this.actions = {edit: (i, t) => this.edit(i, t), retry: (i) => this.retry(i), request: (i) => this.showRequest(i),
      pinSeed: (seed) => this.pinSeed(seed), giveResults: (r) => this.giveResults(r)};
    this.stuck = true;
    this.scroller.addEventListener('scroll', () => {
      const s = this.scroller;
      this.stuck = s.scrollHeight - s.scrollTop - s.clientHeight < 60;
    }, {passive: true});
    this.ready = this.load();
  }

  async load() {
    this.conversations = await store.allConversations();
    const last = store.setting('last', '');
    this.open(this.conversations.find((c) => c.id === last) ?? null);
  }

  show() { this.element.hidden = false; }
  hide() { this.element.hidden = true; }
  focus() { this.input.focus({preventScroll: true}); }

  // --- conversations ---

  open(conversation) {
    this.current = conversation ?? state.newConversation(this.current ? {...this.current.settings, pinned: false, seed: ''} : {});
    store.setSetting('last', this.current.id);
    this.stuck = true;
    this.drawList();
    this.draw();
    if (this.settings) this.toggleSettings(true);
    document.body.classList.remove('side-open');
    if (matchMedia('(min-width: 800px)').matches) this.focus();
  }

  async save(conversation) {
    conversation.updated = Date.now();
    if (!this.conversations.includes(conversation)) this.conversations.push(conversation);
    this.conversations.sort((a, b) => b.updated - a.updated);
    this.drawList();
    try { await store.saveConversation(structuredClone(conversation)); } catch { announce('The conversation could not be kept: the browser has no room.'); }
  }

  drawList() {
    clear(this.list).append(...this.conversations.map((c) => el('div', {class: 'conversation' + (c === this.current ? ' current' : '')},
      el('button', {type: 'button', class: 'open', 'aria-current': c === this.current ? 'true' : undefined, onclick: () => this.open(c)}, c.title),
      button(`Delete ${c.title}`, 'trash', () => this.delete(c)))));
    if (this.conversations.length === 0) this.list.append(el('p', {class: 'dim empty-list'}, 'Nothing here yet.'));
  }

  async delete(conversation) {
    if (this.running?.conversation === conversation) this.stop();
    this.conversations = this.conversations.filter((c) => c !== conversation);
    await store.deleteConversation(conversation.id);
    if (this.current === conversation) this.open(this.conversations[0] ?? null);
    else this.drawList();
    announce('Deleted');
  }

  deleteAll() {
    const box = dialog('Delete all conversations?', el('p', {}, `${this.conversations.length} conversations are deleted from this browser. They are nowhere else.`),
      el('div', {class: 'dialog-actions'}, el('button', {type: 'button', class: 'quiet', onclick: () => box.close()}, 'Keep them'),
        el('button', {type: 'button', class: 'primary danger', onclick: async () => {
          this.stop();
          this.conversations = [];
          await store.deleteAll();
          box.close();
          this.open(null);
        }}, 'Delete all')));
  }

  export() {
    const text = JSON.stringify({format: 'sluice-conversations', version: 1, conversations: this.conversations}, null, 1);
    download('sluice-conversations.json', 'application/json', text);
  }

  import() {
    const pick = el('input', {type: 'file', accept: '.json,application/json', onchange: async () => {
      try {
        for (const c of state.readExport(await pick.files[0].text())) {
          this.conversations = this.conversations.filter((old) => old.id !== c.id);
          this.conversations.push(c);
          await store.saveConversation(c);
        }
        this.conversations.sort((a, b) => b.updated - a.updated);
        this.open(this.conversations[0]);
      } catch (error) {
        dialog('Not imported', el('p', {}, error.message));
      }
    }});
    pick.click();
  }

  // --- settings ---

  toggleSettings(open = !this.settings) {
    this.settings?.remove();
    this.settings = null;
    document.body.classList.toggle('settings-open', open);
    if (!open) return;
    let later = 0;
    this.settings = settingsPanel(this.current, () => {
      clearTimeout(later);
      const conversation = this.current;
      later = setTimeout(() => { if (conversation.turns.length > 0) this.save(conversation); }, 400);
    }, () => { this.toggleSettings(false); document.getElementById('settings-button')?.focus(); });
    this.element.append(this.settings);
  }

  pinSeed(seed) {
    Object.assign(this.current.settings, {seed: String(seed), pinned: true});
    announce(`Seed ${seed} is pinned`);
    this.toggleSettings(true);
    this.save(this.current);
  }

  // --- turns ---

  draw() {
    const {turns} = this.current;
    clear(this.turns);
    if (turns.length === 0) this.turns.append(this.welcome());
    turns.forEach((turn, i) => this.turns.append(turnView(turn, i, this.actions)));
    const open = state.openCalls(turns);
    if (open.length > 0 && this.running?.conversation !== this.current) this.turns.append(resultForm(open, this.actions));
    if (this.running?.conversation === this.current) this.turns.append(this.running.view.element);
    this.drawButton();
    this.follow();
  }

  welcome() {
    return el('div', {class: 'welcome'}, el('h1', {}, 'What shall we try?'),
      el('p', {class: 'dim'}, `${this.server.model} answers. The same request with the same seed gives the same answer, whoever else is served.`),
      el('div', {class: 'suggestions'}, SUGGESTIONS.map((text) => el('button', {type: 'button', onclick: () => { this.input.value = text; this.send(); }}, text))));
  }

  follow() { if (this.stuck) this.scroller.scrollTop = this.scroller.scrollHeight; }

  fit() {
    this.input.style.height = 'auto';
    this.input.style.height = Math.min(220, this.input.scrollHeight) + 'px';
    this.drawButton();
  }

  key(event) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.running) this.send();
  }

  drawButton() {
    const running = Boolean(this.running);
    this.sendButton.classList.toggle('running', running);
    this.sendButton.setAttribute('aria-label', running ? 'Stop' : 'Send');
    this.sendButton.title = running ? 'Stop (Esc)' : 'Send (Enter)';
    this.sendButton.replaceChildren(icon(running ? 'stop' : 'send'));
    this.sendButton.disabled = !running && this.input.value.trim() === '';
  }

  send() {
    const text = this.input.value.trim();
    if (text === '' || this.running) return;
    this.input.value = '';
    this.fit();
    const conversation = this.current;
    if (conversation.turns.length === 0) conversation.title = state.titleOf(text);
    conversation.turns.push({role: 'user', content: text});
    this.answer();
  }

  edit(at, text) {
    if (text.trim() === '') return;
    this.stop();
    this.current.turns.splice(at, Infinity, {role: 'user', content: text.trim()});
    if (at === 0) this.current.title = state.titleOf(text);
    this.answer();
  }

  retry(at) {
    this.stop();
    this.current.turns.splice(at);
    this.answer();
  }

  giveResults(results) {
    for (const [call, content] of results) this.current.turns.push({role: 'tool', call, content});
    this.answer();
  }

  stop() {
    if (!this.running) return;
    this.running.abort.abort();
    this.settle(this.running, 'stopped');
  }

  async answer() {
    const conversation = this.current, turn = state.newAnswer();
    const run = {abort: new AbortController(), conversation, turn, began: performance.now()};
    run.view = new LiveTurn(() => this.follow());
    this.stuck = true;
    this.running = run;
    this.draw();
    this.save(conversation);
    try {
      const body = state.requestOf(this.server.model, conversation, conversation.turns);
      turn.seed = body.seed ?? null;
      const response = await call('/v1/chat/completions', {body, signal: run.abort.signal});
      for await (const {data} of events(response)) {
        if (data === '[DONE]') break;
        const added = state.take(turn, JSON.parse(data));
        if (!turn.first && (added.content || added.reasoning || turn.calls.length > 0)) turn.first = Math.round(performance.now() - run.began);
        run.view.add(added, turn);
      }
      this.settle(run, '');
    } catch (error) {
      if (error.name === 'AbortError') return this.settle(run, 'stopped');
      turn.error = error.message;
      this.settle(run, 'error');
      if (error instanceof ApiError && error.status === 401) this.server.askForKey(() => this.retry(conversation.turns.length - 1));
    }
  }

  // Once for each answer, however it ends.
  settle(run, how) {
    if (run.settled) return;
    run.settled = true;
    run.view.body.finish();
    run.view.reasoning?.finish();
    const {turn, conversation} = run;
    turn.ms = Math.round(performance.now() - run.began);
    if (how === 'stopped') turn.finish = 'stopped';
    turn.calls = turn.calls.filter(Boolean);
    conversation.turns.push(turn);
    if (this.running === run) this.running = null;
    this.longestDraw = Math.max(this.longestDraw ?? 0, run.view.body.longest);
    announce(how === '' ? 'The answer is complete' : how === 'stopped' ? 'Stopped' : turn.error);
    if (conversation === this.current) this.draw();
    this.save(conversation);
  }

  showRequest(at) {
    let body;
    try { body = state.requestOf(this.server.model, this.current, this.current.turns.slice(0, at)); } catch (error) { return dialog('The request', el('p', {class: 'error'}, error.message)); }
    const forms = {curl: state.asCurl(location.origin, body), Python: state.asPython(location.origin, body)};
    const code = el('code');
    const copy = el('button', {type: 'button', class: 'copy', onclick: () => copyText(code.textContent, copy)}, icon('copy'), el('span', {}, 'Copy'));
    const tabs = Object.keys(forms).map((name) => el('button', {type: 'button', role: 'tab', onclick: () => pick(name)}, name));
    const pick = (name) => {
      code.textContent = forms[name];
      for (const tab of tabs) tab.setAttribute('aria-selected', String(tab.textContent === name));
    };
    pick('curl');
    dialog('The request as code', el('figure', {class: 'code'}, el('figcaption', {}, el('div', {role: 'tablist', class: 'tabs'}, tabs), copy),
      el('pre', {tabindex: '0', 'aria-label': 'Code'}, code)));
  }
}
