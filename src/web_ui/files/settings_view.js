// The panel with the settings of a conversation.
import {el, button} from './dom.js';

function field(label, hint, control) {
  return el('label', {class: 'field'}, el('span', {class: 'label'}, label), control, hint ? el('small', {}, hint) : null);
}

export function settingsPanel(conversation, onChange, onClose) {
  const s = conversation.settings;
  const set = (name, value) => { s[name] = value; onChange(); };
  const text = (name, rows, placeholder) => el('textarea', {rows, placeholder, spellcheck: 'false', name, value: s[name], oninput: (e) => set(name, e.target.value)});
  const numeric = (name, placeholder, props) => el('input', {type: 'number', placeholder, name, value: s[name], inputmode: 'decimal', ...props, oninput: (e) => set(name, e.target.value)});
  const choice = (name, options) => {
    const select = el('select', {name, onchange: (e) => set(name, e.target.value)}, options.map(([v, l]) => el('option', {value: v}, l)));
    select.value = s[name];
    return select;
  };
  const check = (name, label) => {
    const box = el('input', {type: 'checkbox', name, onchange: (e) => set(name, e.target.checked)});
    box.checked = s[name];
    return el('label', {class: 'check'}, box, el('span', {}, label));
  };
  const pinned = el('input', {type: 'checkbox', name: 'pinned', 'aria-label': 'Pin the seed', onchange: (e) => set('pinned', e.target.checked)});
  pinned.checked = s.pinned;
  return el('aside', {class: 'settings', id: 'settings', 'aria-label': 'Settings of this conversation'},
    el('header', {}, el('h2', {}, 'Settings'), button('Close settings', 'close', onClose)),
    el('div', {class: 'fields'},
      field('System prompt', '', text('system', 3, 'You are\u2026')),
      el('div', {class: 'pair'}, field('Temperature', '', numeric('temperature', 'model', {min: 0, max: 2, step: 0.1})),
        field('Top-p', '', numeric('top_p', 'model', {min: 0, max: 1, step: 0.05}))),
      el('div', {class: 'pair'}, field('Top-k', '', numeric('top_k', 'model', {min: 0, step: 1})),
        field('Max tokens', '', numeric('max_tokens', 'no limit', {min: 1, step: 1}))),
      field('Seed', 'Each answer shows its seed; pinned, the same request gives the same answer, bit by bit.',
        el('span', {class: 'seed-row'}, numeric('seed', 'drawn anew', {min: 0, step: 1}), el('span', {class: 'check'}, pinned, el('span', {}, 'pin')))),
      el('div', {class: 'pair'}, field('Thinking', '', choice('thinking', [['', 'model\u2019s own'], ['on', 'on'], ['off', 'off']])),
        field('Effort', '', choice('effort', [['', 'default'], ['low', 'low'], ['medium', 'medium'], ['high', 'high'], ['max', 'max']]))),
      check('logprobs', 'Shade tokens by probability'),
      field('Tools', 'An array of functions, or of their definitions, as JSON.', text('tools', 4, '[{"name": "weather", "parameters": {\u2026}}]')),
      field('Response format', 'A JSON schema, or json_object.', text('format', 4, '{"type": "object", "properties": {\u2026}}'))));
}
