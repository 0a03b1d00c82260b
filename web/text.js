// Numbers, times and names as text. Names come from training jobs: they reach the page as text nodes only.

/** @import { LeftOut } from "./data/api.js" */

/**
 * An element. String children become text nodes, so no name is ever parsed as HTML.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on…` are listeners; false, null and undefined are left out
 * @param {...(Node|string|null|false|undefined)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  // Within a form, a button would send it.
  if (tag === "button") node.setAttribute("type", "button");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, String(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== false && child !== undefined));
  return node;
}

/** The head of a table. @param {...[string|Node, string?]} columns their names and classes */
export const headRow = (...columns) =>
  el("thead", {}, el("tr", {}, ...columns.map(([name, look]) => el("th", { scope: "col", class: look }, name))));

/** A part of the page that scrolls by itself. @param {string} label @param {string} look @param {...Node} content */
export const scroller = (label, look, ...content) =>
  el("div", { class: `scroll ${look}`, tabindex: "0", role: "region", "aria-label": label }, ...content);

/** Gives an element a text; one that it has is not laid out again. @param {HTMLElement} node @param {string} text */
export function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element of SVG.
 * @param {string} tag @param {Record<string, any>} [attributes] @param {...Node} children
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** @type {Map<string, {box: string, shapes: Node[]}>} */
const symbols = new Map();

/**
 * A symbol of index.html, which says nothing by itself. Its shapes are copied: hundreds of `use` elements are slow.
 * @param {string} name @param {string} [className]
 */
export function icon(name, className = "i") {
  let symbol = symbols.get(name);
  if (!symbol) {
    const found = document.getElementById(name);
    symbol = { box: found?.getAttribute("viewBox") ?? "0 0 14 14", shapes: [...(found?.children ?? [])] };
    symbols.set(name, symbol);
  }
  return svg("svg", { class: className, "aria-hidden": "true", viewBox: symbol.box }, ...symbol.shapes.map((shape) => shape.cloneNode()));
}

/** A name that may break after its separators. @param {string} name @returns {Node[]} */
export function breakable(name) {
  return name.split(/(?<=[_:/. -])/).flatMap((part, i) => (i ? [el("wbr"), new Text(part)] : [new Text(part)]));
}

/** A number as text with a true minus, and none at 0. @param {string} text as `toFixed` gives it */
export const signed = (text) => text.replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−");

/**
 * A score with as many digits as its error supports (two digits of the error), else four significant ones.
 * @param {number|null|undefined} value
 * @param {number|null} [error]
 */
export function number(value, error = null) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0 && !error) return "0";
  const size = error && error > 0 ? error / 10 : Math.max(Math.abs(value), 1e-3) / 1000;
  const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(size) + 1e-9)));
  return signed(value.toFixed(digits));
}

/** Compares names, numbers in them by size. Shared, because creating a collator for each pair takes longer than the comparison. */
export const byText = new Intl.Collator("en", { numeric: true }).compare;
const { format } = new Intl.NumberFormat("en");

/** @param {number|null|undefined} count */
export function count(count) {
  return count === null || count === undefined ? "–" : format(count).replaceAll(",", "\u202f");
}

/**
 * Returns the set that a score is over, where it leaves concepts or pairs out: "over 111 of 112 concepts".
 * @param {LeftOut} leftOut
 */
export function overText({ concepts, pairs = 0, of }) {
  const all = (/** @type {number} */ k) => k * (k - 1);
  const left = of - concepts.length;
  return pairs === 0 || pairs === all(of) - all(left) ? `over ${left} of ${of} concepts` : `over ${all(of) - pairs} of ${all(of)} pairs`;
}

/** A probability, which is never 0. @param {number} p */
export const probability = (p) => (p < 1e-4 ? "< 0.0001" : `= ${number(p, p)}`);

/** @param {number|null|undefined} epoch */
export function epochText(epoch) {
  return epoch === null || epoch === undefined ? "–" : String(Math.round(epoch * 100) / 100);
}

/** @param {number} bytes */
export function memory(bytes) {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(0)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/** @param {number} seconds a length of time */
export function duration(seconds) {
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(0)} h`;
  return `${(seconds / 86400).toFixed(0)} d`;
}

/**
 * Local time as people read it: 2026-01-31 09:05:07.
 * @param {number} time seconds since 1970-01-01 UTC
 */
export function localTime(time) {
  const d = new Date(time * 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/**
 * Cut in the middle: names of one data set tend to begin alike.
 * @param {string} name @param {number} most characters kept
 */
export function shortened(name, most) {
  if (name.length <= most) return name;
  const head = Math.floor((most - 1) * 0.4);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}

/** @param {Record<string, string>} labels */
export function labelText(labels) {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`).join("  ");
}

/** A sentence of the sidecar, which begins small. @param {string} text */
export const upper = (text) => text.replace(/^./, (first) => first.toUpperCase());

/** In the middle of a sentence; abbreviations keep their capitals. @param {string} text */
export const lower = (text) => text.replace(/^[A-Z](?![A-Z])/, (first) => first.toLowerCase());

/** How long ago. @param {number} seconds */
export const ago = (seconds) => (seconds < 2 ? "just now" : `${duration(Math.round(seconds))} ago`);

/** The time of day. @param {number} time seconds since 1970-01-01 UTC */
export const clock = (time) => localTime(time).slice(11);

/** "1 run", "2 runs". @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
