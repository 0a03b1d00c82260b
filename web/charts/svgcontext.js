// A drawing context that writes SVG: as much of a canvas's as the charts use. Its texts are nodes, so no name is parsed.
import { el, svg } from "../text.js";

const ANCHORS = /** @type {Record<string, string>} */ ({ left: "start", center: "middle", right: "end" });
/** Shifts of a text's baseline, in em: few programs know `dominant-baseline`. */
const SHIFTS = /** @type {Record<string, string>} */ ({ top: "0.8em", middle: "0.35em" });
const round = (/** @type {number} */ value) => String(Math.round(value * 100) / 100);

export class SvgContext {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  lineJoin = "miter";
  globalAlpha = 1;
  font = "11px sans-serif";
  textAlign = "left";
  textBaseline = "alphabetic";

  constructor() {
    this.root = svg("svg", {});
    /** @type {Element} */
    this.into = this.root;
    /** @type {Element[]} */
    this.saved = [];
    this.path = "";
    /** @type {number[]} */
    this.dash = [];
    this.measure = /** @type {CanvasRenderingContext2D} */ (el("canvas", {}).getContext("2d"));
  }

  /** @param {number} width @param {number} height */
  text(width, height) {
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) this.root.setAttribute(name, String(value));
    return new XMLSerializer().serializeToString(this.root);
  }

  beginPath() { this.path = ""; }
  /** @param {number} x @param {number} y */
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  /** @param {number} x @param {number} y */
  lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${round(x)} ${round(y)}`; }
  closePath() { this.path += "Z"; }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) { this.path += `M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}Z`; }
  /** A whole circle. @param {number} x @param {number} y @param {number} r */
  arc(x, y, r) { this.path += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }
  /** @param {number[]} dash */
  setLineDash(dash) { this.dash = dash; }
  clearRect() {}

  stroke() { this.add("path", { d: this.path, fill: "none", ...this.pen }); }
  fill() { this.add("path", { d: this.path, fill: this.fillStyle, "fill-opacity": this.globalAlpha }); }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.add("rect", { x: round(x), y: round(y), width: round(width), height: round(height), fill: this.fillStyle, "fill-opacity": this.globalAlpha });
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) { this.write(text, x, y, { fill: this.fillStyle }); }
  /** @param {string} text @param {number} x @param {number} y */
  strokeText(text, x, y) { this.write(text, x, y, { fill: "none", ...this.pen }); }

  /** @param {string} text */
  measureText(text) {
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }

  save() { this.saved.push(this.into); }
  restore() { this.into = this.saved.pop() ?? this.root; }
  clip() {
    const id = `clip${this.root.querySelectorAll("clipPath").length}`;
    this.add("clipPath", { id }, svg("path", { d: this.path }));
    this.into = this.add("g", { "clip-path": `url(#${id})` });
  }
  /** @param {number} x @param {number} y */
  translate(x, y) { this.into = this.add("g", { transform: `translate(${x} ${y})` }); }

  get pen() {
    return { stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-opacity": this.globalAlpha, "stroke-linejoin": this.lineJoin,
      ...(this.dash.length && { "stroke-dasharray": this.dash.join(" ") }) };
  }

  /** @param {string} text @param {number} x @param {number} y @param {Record<string, any>} look */
  write(text, x, y, look) {
    this.add("text", { x: round(x), y: round(y), dy: SHIFTS[this.textBaseline] ?? 0, "text-anchor": ANCHORS[this.textAlign], style: `font: ${this.font}`,
      ...look }, new Text(text));
  }

  /** @param {string} tag @param {Record<string, any>} attributes @param {...Node} children */
  add(tag, attributes, ...children) {
    const node = svg(tag, attributes, ...children);
    this.into.append(node);
    return node;
  }
}
