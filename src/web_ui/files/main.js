// The page: its frame, the two views, theme, keyboard.
import {el, icon, button, dialog} from './dom.js';
import {ChatView} from './chat.js';
import {EngineView} from './engine.js';
import {model, setKey, ApiError} from './api.js';
import {setting, setSetting} from './store.js';

const server = {model: 'The model', askForKey};
let views = null, shown = '';

function askForKey(then) {
  const input = el('input', {type: 'password', autocomplete: 'off', 'aria-label': 'API key', placeholder: 'API key'});
  const box = dialog('This server wants a key', el('form', {class: 'key-form', onsubmit: (event) => {
    event.preventDefault();
    setKey(input.value.trim());
    box.close();
    start().then(then);
  }}, el('p', {}, 'It is kept for this tab only.'), input, el('div', {class: 'dialog-actions'}, el('button', {type: 'submit', class: 'primary'}, 'Use it'))));
  input.focus();
}

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setSetting('theme', theme);
  views?.engine.restyle();
}

function nextTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(dark ? 'light' : 'dark');
}

const modelName = el('span', {class: 'model'});
const tabs = {chat: el('a', {href: '#chat'}, 'Chat'), engine: el('a', {href: '#engine'}, 'Engine')};
const settingsButton = button('Settings', 'tune', () => views.chat.toggleSettings(), {id: 'settings-button'});
const menuButton = button('Conversations', 'menu', () => document.body.classList.toggle('side-open'), {class: 'icon-button menu', 'aria-controls': 'side'});

function show(name) {
  shown = name === 'engine' ? 'engine' : 'chat';
  for (const [key, tab] of Object.entries(tabs)) {
    if (key === shown) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  document.body.dataset.view = shown;
  document.body.classList.remove('side-open');
  views[shown === 'chat' ? 'engine' : 'chat'].hide();
  views[shown].show();
  document.title = shown === 'engine' ? 'Engine \u00b7 Sluice' : 'Sluice';
}

async function start() {
  try {
    const found = await model();
    server.model = found.id;
    modelName.textContent = found.id;
    modelName.title = `${found.max_model_len} tokens of context`;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return askForKey(() => {});
    modelName.textContent = error.message;
  }
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && shown === 'chat' && !document.querySelector('dialog')) {
    if (document.body.classList.contains('side-open')) document.body.classList.remove('side-open');
    else views.chat.stop();
  }
  if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyN') { event.preventDefault(); location.hash = '#chat'; views.chat.open(null); }
});

setTheme(setting('theme', 'auto'));
await start();
views = {chat: new ChatView(server), engine: new EngineView(server)};
document.getElementById('app').replaceChildren(
  el('header', {class: 'top'}, menuButton, el('span', {class: 'brand'}, el('img', {src: '/page/icon.svg', alt: '', width: 22, height: 22}), el('b', {}, 'Sluice')), modelName,
    el('nav', {class: 'switch', 'aria-label': 'Views'}, tabs.chat, tabs.engine),
    el('span', {class: 'top-actions'}, settingsButton, button('Light or dark', 'sun', nextTheme))),
  el('main', {id: 'main', tabindex: '-1'}, views.chat.element, views.engine.element),
  el('div', {class: 'shade', onclick: () => document.body.classList.remove('side-open')}));
await views.chat.ready;
window.sluice = views;  // for debugging the page
show(location.hash.slice(1));
addEventListener('hashchange', () => show(location.hash.slice(1)));
