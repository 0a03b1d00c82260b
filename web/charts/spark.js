// A curve of a few points in a row of a table.
import { svg } from "../text.js";

const [WIDTH, HEIGHT] = [84, 24];

/**
 * @param {{x: number[], y: (number|null)[], end: number, top: number, limit: number|null, label: string}} of end: the
 *   highest x of all rows; top: the highest y
 */
export function spark({ x, y, end, top, limit, label }) {
  const across = (/** @type {number} */ value) => (end > x[0] ? ((value - x[0]) / (end - x[0])) * WIDTH : WIDTH / 2);
  const down = (/** @type {number} */ value) => HEIGHT - 2 - (Math.max(0, Math.min(top, value)) / top) * (HEIGHT - 4);
  const known = x.flatMap((at, i) => (y[i] === null ? [] : [[across(at), down(Number(y[i]))]]));
  const path = known.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const last = known[known.length - 1];
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    ...(limit === null ? [] : [svg("path", { class: "lim", d: `M0 ${down(limit).toFixed(1)}H${WIDTH}` })]),
    svg("path", { class: "ln", d: path || "M0 0" }),
    ...(last ? [svg("circle", { cx: last[0].toFixed(1), cy: last[1].toFixed(1), r: 2.2 })] : []));
}
