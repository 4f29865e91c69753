// Creates and updates elements, and formats times and numbers. Text is only ever set as text, never
// as HTML, because names and messages come from the cluster.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Create an HTML element with attributes and children. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Set a text if it has changed. Otherwise a screen reader would announce it again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set or remove an attribute if it has changed. */
export function mark(element, name, value) {
  const wanted = value === false || value === null || value === undefined ? null : String(value);
  if (wanted === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== wanted) element.setAttribute(name, wanted);
}

/**
 * Update the children to match items, one for each key. Existing children are kept, so that the
 * focus and the selection of the user survive an update.
 */
export function keyed(parent, items, key, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focus = document.activeElement;
  items.forEach((item, at) => {
    const name = String(key(item));
    let child = known.get(name);
    if (!child) {
      child = make(item);
      child.dataset.key = name;
    }
    known.delete(name);
    update(child, item);
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
  });
  for (const child of known.values()) child.remove();
  // Moving an element takes the focus away.
  if (focus !== document.activeElement && focus && focus.isConnected) focus.focus();
}

/** Return a function that calls `draw` only if its arguments have changed. */
export function changes(draw) {
  let last = "";
  return (...given) => {
    const now = JSON.stringify(given);
    if (now === last) return;
    last = now;
    draw(...given);
  };
}

/** Format seconds as kubectl does: 90s, 12m, 3h, 4d. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 10) return whole % 60 ? `${minutes}m${whole % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** Return the seconds from one timestamp to another, or until now. */
export function between(from, to) {
  const begin = Date.parse(from);
  const end = to ? Date.parse(to) : Date.now();
  return Number.isNaN(begin) || Number.isNaN(end) ? 0 : (end - begin) / 1000;
}

/** Format a timestamp as local time, with the date unless it is today. */
export function clock(stamp) {
  const time = new Date(stamp);
  if (Number.isNaN(time.getTime())) return stamp;
  const day = time.toDateString() === new Date().toDateString() ? "" : `${time.toLocaleDateString("en-CA")} `;
  return day + time.toLocaleTimeString("en-GB");
}

/** Format a number with at most four significant digits. */
export function number(value) {
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toPrecision(3)}M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  return String(Number(value.toPrecision(4)));
}
