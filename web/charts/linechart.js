// A chart of lines: when it is painted, and how it answers pointer and keys. All charts of a group share one cross hair and
// one stretch of the horizontal axis. A chart is painted only while it is near the window, after the frame and in turns.
import { minuteText, scale } from "./axes.js";
import { LinePlot } from "./lineplot.js";
import { current } from "./spec.js";
import { el } from "../text.js";
import { hideTip, sayTip, showTip } from "../tip.js";
import { afterFrame, finishAll } from "../scheduler.js";

/** @import { Line, Spec } from "./spec.js" */

/** Lines that a label names. */
const MOST_NAMED = 10;
/** Lines between which a painting may be left. */
const AT_ONCE = 4;

/** @type {Map<string, Set<LineChart>>} charts that share a cross hair */
const groups = new Map();

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = /** @type {any} */ (target).chart;
    chart.inView = isIntersecting;
    if (isIntersecting && chart.stale) chart.schedule();
  }
}, { rootMargin: "200px" });
const sized = new ResizeObserver((entries) => {
  for (const { target, contentRect: { width, height } } of entries) {
    const chart = /** @type {any} */ (target).chart;
    chart.size = [width, height];
    chart.schedule();
  }
});

/** Paints all charts again, as after a change of scheme. */
export function redrawAll() {
  for (const group of groups.values()) for (const chart of group) chart.schedule();
}

/** Pixels of a chart on a sheet of paper, where two stand side by side: its texts stay legible. */
const SHEET = 340;

/** Paints at once all charts of the page, also those far from the window, as a sheet of paper has them. */
export function paintForPrint() {
  // Work that waits may give them lines, and a chart that is being painted has the easel.
  finishAll();
  for (const chart of [...groups.values()].flatMap((group) => [...group])) {
    if (!chart.root.isConnected) continue;
    const { size } = chart;
    chart.size = [Math.min(SHEET, size[0]), size[1]];
    for (const _ of chart.paint());
    chart.size = size;
  }
}

/** Where a chart is painted before it is put in sight, whole. One is painted at a time. @type {CanvasRenderingContext2D|null} */
let easel = null;

/** @param {number} width @param {number} height in pixels of the screen */
function clean(width, height) {
  // In main memory, a turn finishes the painting that it began.
  easel ??= /** @type {CanvasRenderingContext2D} */ (el("canvas", {}).getContext("2d", { willReadFrequently: true }));
  // A new size also resets the settings of a painting that was left.
  Object.assign(easel.canvas, { width, height });
  return easel;
}

export class LineChart {
  /**
   * @param {{label: string, group: string, onZoom?: (zoom: [number, number]|null) => void}} options
   */
  constructor({ label, group, onZoom }) {
    this.canvas = el("canvas", {});
    this.cross = el("i", { class: "cross", hidden: true });
    this.stretch = el("i", { class: "stretch", hidden: true });
    /** @type {any} */
    this.root = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": label }, this.canvas, this.cross, this.stretch);
    this.root.chart = this;
    this.label = label;
    this.onZoom = onZoom;
    this.inView = false;
    this.stale = true;
    this.painting = false;
    /** The room for the chart, as the observer tells it: to ask the browser would lay out the page. */
    this.size = [0, 0];
    /** @type {Spec|null} the newest, which may not be painted yet */
    this.spec = null;
    this.signature = "";
    /** @type {LinePlot|null} the plot in sight */
    this.plot = null;
    /** @type {number[]|null} of values of it, once keys have asked for them */
    this.places = null;
    this.across = scale(0, 1);
    this.down = scale(0, 1);
    this.group = groups.get(group) ?? new Set();
    groups.set(group, this.group.add(this));
    seen.observe(this.root);
    sized.observe(this.root);
    this.listen();
  }

  /** Takes a specification to draw. @param {Spec} spec @param {string} signature of its data */
  show(spec, signature) {
    if (this.signature === signature) return;
    this.signature = signature;
    this.spec = spec;
    const ends = current(spec).slice(0, MOST_NAMED).map(({ name, y }) => `${name} ${spec.text(Number(y.findLast((value) => value !== null) ?? NaN))}`);
    this.root.setAttribute("aria-label", `${this.label}: ${ends.join("; ") || "no values"}. Arrow keys read values.`);
    this.schedule();
  }

  schedule() {
    this.stale = true;
    // One that is being painted is finished first, so that something is seen of a slider that moves all the time.
    if (this.inView && !this.painting) afterFrame(this, () => this.paint());
  }

  remove() {
    seen.unobserve(this.root);
    sized.unobserve(this.root);
    this.group.delete(this);
    this.spec = null;
  }

  /** The place of the axes in the plot in sight. */
  get box() { return this.plot?.box; }

  *paint() {
    this.stale = false;
    const { spec, canvas } = this;
    const [width, height] = this.size;
    if (!spec || width === 0) return;
    this.painting = true;
    try {
      const ratio = Math.min(3, devicePixelRatio || 1);
      const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
      const context = clean(across, down);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const plot = new LinePlot(spec, width, height, context);
      let lines = 0;
      for (const _ of plot.paint()) {
        lines += 1;
        if (lines % AT_ONCE > 0) continue;
        // A canvas collects commands and paints when it is read.
        context.getImageData(0, 0, 1, 1);
        yield;
      }
      if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
      const shown = canvas.getContext("2d");
      shown.clearRect(0, 0, across, down);
      shown.drawImage(context.canvas, 0, 0);
      this.plot = plot;
      this.across = plot.across;
      this.down = plot.down;
      this.places = null;
    } finally {
      this.painting = false;
    }
    if (this.stale) this.schedule();
  }

  listen() {
    const { root } = this;
    /** @type {number|null} */
    let from = null;
    /** @param {PointerEvent} event */
    const at = (event) => (event.clientX - root.getBoundingClientRect().left - (this.box?.left ?? 0)) / (this.box?.width || 1);
    root.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (!this.box) return;
      const place = at(event);
      if (from !== null && Math.abs(place - from) * this.box.width > 6) {
        this.stretch.hidden = false;
        const [a, b] = [Math.max(0, Math.min(from, place)), Math.min(1, Math.max(from, place))];
        this.stretch.style.left = `${this.box.left + a * this.box.width}px`;
        this.stretch.style.width = `${(b - a) * this.box.width}px`;
      }
      this.point(place, event.clientX, event.clientY);
    });
    root.addEventListener("pointerleave", () => this.leave());
    root.addEventListener("blur", () => this.leave());
    root.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      if (event.button !== 0 || !this.box || !this.onZoom || event.pointerType !== "mouse") return;
      from = at(event);
      addEventListener("pointerup", released, { once: true });
    });
    const released = (/** @type {PointerEvent} */ event) => {
      if (from === null || !this.box) return;
      const [a, b] = [from, at(event)].sort((one, other) => one - other);
      from = null;
      this.stretch.hidden = true;
      if ((b - a) * this.box.width > 6) this.onZoom?.([this.across.value(Math.max(0, a)), this.across.value(Math.min(1, b))]);
    };
    root.addEventListener("dblclick", () => this.onZoom?.(null));
    root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
      if (by === undefined || !this.plot) return;
      event.preventDefault();
      const places = this.places ??= placesOf(this.plot);
      if (!places.length) return;
      const now = this.read ?? places[places.length - 1];
      const index = places.reduce((best, one, i) => (Math.abs(one - now) < Math.abs(places[best] - now) ? i : best), 0);
      const next = places[Math.max(0, Math.min(places.length - 1, this.read === undefined ? index : index + by))];
      const { left, top } = root.getBoundingClientRect();
      this.point(this.across.place(next), left + this.plot.x(next), top + 20);
      sayTip();
    });
  }

  /** Reads all lines near a place, 0 to 1. @param {number} place @param {number} x @param {number} y of the pointer */
  point(place, x, y) {
    if (!this.plot) return;
    const { spec, box } = this.plot;
    const wanted = this.across.value(Math.max(0, Math.min(1, place)));
    const close = spec.lines.map((line) => ({ line, at: nearest(line, wanted) })).filter(({ at }) => at >= 0);
    if (!close.length) return this.leave();
    const best = close.reduce((one, other) => (Math.abs(other.line.x[other.at] - wanted) < Math.abs(one.line.x[one.at] - wanted) ? other : one));
    const value = best.line.x[best.at];
    this.read = value;
    for (const chart of this.group) chart.mark(value);
    // Lines that have nothing near this place are left out.
    const near = close.filter(({ line, at }) => Math.abs(this.across.place(line.x[at]) - this.across.place(value)) * box.width < 12);
    showTip(x, y, ...tipOf(spec, value, near));
  }

  /** @param {number} value */
  mark(value) {
    if (!this.box || !this.inView) return;
    const place = this.across.place(value);
    this.cross.hidden = place < 0 || place > 1;
    this.cross.style.transform = `translateX(${this.box.left + place * this.box.width}px)`;
  }

  leave() {
    this.read = undefined;
    hideTip();
    for (const chart of this.group) chart.cross.hidden = true;
  }
}

/** All places in sight with a value, in order. @param {LinePlot} plot */
function placesOf({ spec, across }) {
  /** @type {Set<number>} */
  const all = new Set();
  for (const { x, y } of spec.lines) x.forEach((at, i) => { if (y[i] !== null && at >= across.from && at <= across.to) all.add(at); });
  return [...all].sort((a, b) => a - b);
}

/** @param {Line} line @param {number} wanted */
function nearest({ x, y, gaps }, wanted) {
  let [low, high] = [0, x.length - 1];
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < wanted || Number.isNaN(x[middle])) low = middle + 1;
    else high = middle;
  }
  let best = -1;
  for (let i = Math.max(0, low - 2); i <= Math.min(x.length - 1, low + 1); i += 1) {
    if (Number.isNaN(x[i]) || (y[i] === null && !gaps?.some((gap) => gap.x === x[i]))) continue;
    if (best < 0 || Math.abs(x[i] - wanted) < Math.abs(x[best] - wanted)) best = i;
  }
  return best;
}

/** Rows of a tip: more would leave the window. */
const MOST_ROWS = 12;

/** @param {Spec} spec @param {number} value @param {{line: Line, at: number}[]} near */
function tipOf(spec, value, near) {
  const head = spec.along === "time" ? minuteText(value)
    : spec.places ? spec.places.find(({ at }) => at === value)?.text ?? "" : `${spec.along} ${String(Number(value.toPrecision(6)))}`;
  const rows = near.toSorted((a, b) => Number(b.line.y[b.at] ?? -Infinity) - Number(a.line.y[a.at] ?? -Infinity));
  const lines = rows.slice(0, MOST_ROWS).map(({ line, at }) => {
    const half = line.half?.[at];
    const gap = line.gaps?.find(({ x }) => x === line.x[at]);
    return el("tr", {},
      el("td", {}, el("i", { class: "dot", "--c": `var(${line.color})` }), line.name),
      el("td", { class: "n" }, el("b", {}, line.y[at] === null ? "–" : spec.text(Number(line.y[at]))), half ? ` ± ${spec.text(half)}` : "",
        gap && line.y[at] === null ? ` ${gap.text}` : ""));
  });
  const only = rows.length === 1 ? rows[0] : null;
  const notes = only?.line.notes?.(only.at) ?? [];
  const alerts = rows.flatMap(({ line, at }) => (line.alerts ?? []).filter(({ x }) => x === line.x[at]).map(({ text }) => text));
  return [el("b", {}, head), el("table", {}, ...lines), rows.length > MOST_ROWS ? el("p", {}, `and ${rows.length - MOST_ROWS} more`) : "",
    ...[...notes, ...alerts].map((text) => el("p", {}, text))];
}
