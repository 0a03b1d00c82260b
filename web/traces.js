// From a curve's points to plotly traces. Pure: no page, no network.
import { translucent } from "./palette.js";
import { localTime } from "./text.js";

/**
 * @typedef {import("./api.js").CurvePoint} CurvePoint
 * @typedef {import("./state.js").XAxis} XAxis
 */

/** Half-width of the band in standard errors: 95 % of a normal distribution. */
export const BAND = 1.96;
/** Past this many points a curve is thinned; a chart has fewer pixels. */
const MOST_POINTS = 800;
/** Up to this many points each one gets a dot. */
const MOST_DOTS = 60;

/**
 * @typedef {object} Look
 * @property {string} run
 * @property {number} started seconds since 1970-01-01 UTC
 * @property {XAxis} axis
 * @property {string} color
 * @property {string} symbol
 * @property {string} background
 * @property {boolean} faint
 */

/** @param {CurvePoint} point @param {Look} look @returns {number|string|null} */
export function xOf(point, { axis, started }) {
  switch (axis) {
    case "step": return point.step;
    case "epoch": return point.epoch;
    case "elapsed": return (point.time - started) / 60;
    default: return localTime(point.time);
  }
}

/**
 * The points to draw: those with a place on the axis, thinned to the lowest and highest of each bucket so that no
 * spike is lost. Undefined, provisional and incomplete ones always stay.
 * @param {CurvePoint[]} points
 * @param {XAxis} axis
 */
export function drawable(points, axis) {
  const placed = axis === "epoch" ? points.filter((point) => point.epoch !== null) : points;
  if (placed.length <= MOST_POINTS) return placed;
  const size = Math.ceil((2 * placed.length) / MOST_POINTS);
  const kept = [];
  for (let start = 0; start < placed.length; start += size) {
    const bucket = placed.slice(start, start + size);
    const values = bucket.map((point) => point.value).filter((value) => value !== null);
    const ends = [Math.min(...values), Math.max(...values)];
    const last = start + size >= placed.length ? bucket.at(-1) : null;
    kept.push(...bucket.filter((point) =>
      point === last || point.value === null || point.provisional || point.incomplete || ends.includes(point.value)));
  }
  return kept;
}

/**
 * All traces of one run in one chart. Every point that can be pointed at carries itself as `customdata`.
 * @param {CurvePoint[]} points
 * @param {Look} look
 */
export function tracesOf(points, look) {
  const drawn = drawable(points, look.axis);
  const defined = drawn.filter((point) => point.value !== null);
  const final = defined.filter((point) => !point.provisional && !point.incomplete);
  const alone = (/** @type {CurvePoint} */ point, /** @type {number} */ i) => !joined(final[i - 1], point) && !joined(point, final[i + 1]);
  const dots = defined.length <= MOST_DOTS ? final : final.filter(alone);
  return [
    band(drawn, look),
    line(drawn, look, false),
    line(drawn, look, true),
    marks(dots, look, "points", { symbol: look.symbol, size: 5, color: look.color }),
    marks(defined.filter((point) => point.provisional), look, "provisional", hollow(look, "circle", 8)),
    marks(defined.filter((point) => point.incomplete && !point.provisional), look, "incomplete", hollow(look, "diamond", 9)),
    { ...marks(drawn.filter((point) => point.value === null), look, "undefined", hollow(look, "x-thin", 8)), yaxis: "y2" },
  ].filter((trace) => trace.x.length > 0);
}

/**
 * The points at which alerts fired, and the baseline of a rise.
 * @param {CurvePoint[]} points
 * @param {Look} look
 * @param {import("./api.js").Alert[]} fired
 * @param {number|null} baseline
 * @param {string} alarm colour of the marks
 */
export function alertTraces(points, look, fired, baseline, alarm) {
  const placed = points.filter((point) => point.value !== null && xOf(point, look) !== null);
  const marked = fired.flatMap((alert) => {
    const point = placed.find((one) => one.step === alert.step);
    return point ? [{ alert, point }] : [];
  });
  const ends = [placed[0], placed.at(-1)];
  return [
    {
      type: "scatter", mode: "markers", name: look.run, meta: "alert", hoverinfo: "none", cliponaxis: false,
      marker: { symbol: "triangle-down", size: 13, color: alarm, line: { color: look.background, width: 1.5 } },
      x: marked.map(({ point }) => xOf(point, look)), y: marked.map(({ point }) => point.value),
      customdata: marked.map(({ alert }) => ({ alert })),
    },
    {
      type: "scatter", mode: "lines", name: look.run, meta: "baseline", hoverinfo: "skip",
      line: { color: look.color, width: 1.2, dash: "dot" },
      x: baseline === null || placed.length < 2 ? [] : ends.map((point) => point && xOf(point, look)), y: [baseline, baseline],
    },
  ].filter((trace) => trace.x.length > 0);
}

/** @param {Look} look @param {string} symbol @param {number} size */
function hollow(look, symbol, size) {
  return { symbol, size, color: look.background, line: { color: look.color, width: 1.6 } };
}

/**
 * @param {CurvePoint[]} points @param {Look} look
 * @param {string} kind @param {object} marker
 */
function marks(points, look, kind, marker) {
  return {
    type: "scatter", mode: "markers", name: look.run, meta: kind, hoverinfo: "none", marker, cliponaxis: false,
    x: points.map((point) => xOf(point, look)),
    y: points.map((point) => point.value ?? 0.03),
    customdata: points,
  };
}

/** Whether two neighbours are values of one mean. @param {CurvePoint|undefined} from @param {CurvePoint|undefined} to */
function joined(from, to) {
  if (!from || !to || from.value === null || to.value === null) return false;
  const [a, b] = [from, to].map(({ left_out: left }) => JSON.stringify([left?.concepts ?? [], left?.pairs ?? 0]));
  return a === b;
}

/**
 * The pieces of the line between neighbouring points: dashed towards a provisional value, else solid. An undefined
 * point leaves a gap, and so does a change of the concepts that the score is over.
 * @param {CurvePoint[]} drawn
 * @param {Look} look
 * @param {boolean} dashed
 */
function line(drawn, look, dashed) {
  /** @type {(CurvePoint|null)[]} */
  const path = [];
  for (let i = 0; i < drawn.length - 1; i += 1) {
    const [from, to] = [drawn[i], drawn[i + 1]];
    if (!joined(from, to) || (from.provisional || to.provisional) !== dashed) continue;
    if (path.at(-1) !== from) path.push(null, from);
    path.push(to);
  }
  path.shift();
  return {
    type: "scatter", mode: "lines", name: look.run, meta: dashed ? "dashed" : "line", connectgaps: false,
    hoverinfo: dashed ? "skip" : "none", cliponaxis: true,
    line: { color: look.color, width: look.faint ? 1.2 : 1.7, dash: dashed ? "4px,3px" : "solid" },
    x: path.map((point) => point && xOf(point, look)),
    y: path.map((point) => point && point.value),
    customdata: path,
  };
}

/**
 * ±1.96 standard errors around the final values, one polygon for each unbroken stretch.
 * @param {CurvePoint[]} drawn
 * @param {Look} look
 */
function band(drawn, look) {
  /** @type {(number|string|null)[]} */
  const x = [];
  /** @type {(number|null)[]} */
  const y = [];
  /** @type {CurvePoint[]} */
  let stretch = [];
  const close = () => {
    if (stretch.length > 1) {
      if (x.length) { x.push(null); y.push(null); }
      const back = stretch.toReversed();
      const half = (/** @type {CurvePoint} */ point) => BAND * Number(point.standard_error);
      x.push(...[...stretch, ...back].map((point) => xOf(point, look)));
      y.push(...stretch.map((point) => Number(point.value) + half(point)), ...back.map((point) => Number(point.value) - half(point)));
    }
    stretch = [];
  };
  for (const point of drawn) {
    const before = stretch.at(-1);
    if (before && !joined(before, point)) close();
    if (point.value === null || point.standard_error === null) close();
    else stretch.push(point);
  }
  close();
  return {
    type: "scatter", mode: "lines", name: look.run, meta: "band", fill: "toself", hoverinfo: "skip",
    fillcolor: translucent(look.color, look.faint ? 0.07 : 0.16), line: { width: 0 }, x, y,
  };
}
