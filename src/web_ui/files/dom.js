// Elements made by name, with text as text: nothing here, or anywhere in the page, parses a string as HTML.

export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'class') node.className = value;
    else if (key === 'value') node.value = value;
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';
const ICONS = {
  plus: 'M12 5v14M5 12h14', send: 'M12 19V6M6 11l6-6 6 6', stop: 'M7 7h10v10H7z', menu: 'M4 7h16M4 12h16M4 17h16',
  tune: 'M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M7 14.5v5', close: 'M6 6l12 12M18 6L6 18', copy: 'M9 9h10v10H9zM5 15V5h10',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13.5 6.5l4 4', retry: 'M19 12a7 7 0 1 1-2-5M19 4v4h-4', trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  code: 'M8 7l-5 5 5 5M16 7l5 5-5 5', pause: 'M8 5v14M16 5v14', play: 'M8 5l11 7-11 7z', back: 'M15 6l-6 6 6 6',
  next: 'M9 6l6 6-6 6', save: 'M12 4v11M7 10l5 5 5-5M5 20h14', check: 'M5 12l5 5 9-10', sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5',
  dots: 'M5 12h.01M12 12h.01M19 12h.01',
};

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(label, iconName, onclick, props = {}) {
  return el('button', {type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...props}, icon(iconName));
}

export function clear(node) { node.replaceChildren(); return node; }

export async function copyText(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // pages that are not secure have no clipboard
    const area = el('textarea', {class: 'offscreen', 'aria-hidden': 'true', value: text});
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  announce('Copied');
  if (!from) return;
  from.classList.add('done');
  setTimeout(() => from.classList.remove('done'), 1200);
}

// Told to screen readers.
export function announce(text) { document.getElementById('announce').textContent = text; }

export function download(name, type, text) {
  const link = el('a', {download: name, href: URL.createObjectURL(new Blob([text], {type}))});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function dialog(title, ...content) {
  const before = document.activeElement;
  const box = el('dialog', {class: 'dialog', 'aria-label': title, onclose: () => { box.remove(); before?.focus?.(); },
    onclick: (event) => { if (event.target === box) box.close(); }},
    el('header', {}, el('h2', {}, title), button('Close', 'close', () => box.close())), ...content);
  document.body.append(box);
  box.showModal();
  return box;
}
