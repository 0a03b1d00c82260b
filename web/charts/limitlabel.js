// The text beside a limit, where the fewest lines cross it.
import { MOST_BANDS } from "./spec.js";
import { pageColor } from "../palette.js";

/**
 * @import { LinePlot } from "./lineplot.js"
 * @import { Line } from "./spec.js"
 */

/**
 * Draws the text over the lines.
 * @param {LinePlot} plot
 * @returns {LinePlot["label"]} where it stands
 */
export function drawLimitText(plot) {
  const { context, limit, box } = plot;
  if (!limit) return null;
  const y = plot.y(limit.value);
  const width = context.measureText(limit.text).width;
  const [left, right] = [box.left + 3, box.left + box.width - 3 - width];
  const tops = limit.bad === "above" ? [y - 15, y + 2] : [y + 2, y - 15];
  const places = tops.flatMap((top) => [right, left, (left + right) / 2].map((x) => ({ x, top })))
    .filter(({ top }) => top >= box.top - 2 && top + 13 <= box.top + box.height);
  const crossed = (/** @type {{x: number, top: number}} */ { x, top }) => (plot.lines > MOST_BANDS ? 0
    : plot.spec.lines.reduce((sum, line) => sum + crossings(plot, line, [x - 2, top - 2, x + width + 2, top + 15]), 0));
  const best = places.map((place) => ({ ...place, crossed: crossed(place) }))
    .reduce((one, other) => (other.crossed < one.crossed ? other : one), { x: right, top: y - 15, crossed: Infinity });
  context.textAlign = "left";
  context.textBaseline = "top";
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = pageColor("--surface");
  context.strokeText(limit.text, best.x, best.top + 1);
  context.fillStyle = pageColor("--leak");
  context.fillText(limit.text, best.x, best.top + 1);
  return { ...best, width };
}

/**
 * Counts the parts of a line and its band that meet a rectangle.
 * @param {LinePlot} plot @param {Line} line @param {number[]} rectangle left, top, right, bottom
 */
function crossings(plot, { x, y, half }, [left, top, right, bottom]) {
  let count = 0;
  for (let i = 0; i < x.length; i += 1) {
    const value = y[i];
    if (value === null || Number.isNaN(x[i])) continue;
    const before = i > 0 && y[i - 1] !== null && !Number.isNaN(x[i - 1]) ? i - 1 : i;
    const [from, to] = [plot.x(x[before]), plot.x(x[i])];
    if (to < left || from > right) continue;
    const [a, b] = [plot.y(Number(y[before])), plot.y(value)];
    const at = (/** @type {number} */ place) => (to > from ? a + ((b - a) * (Math.min(to, Math.max(from, place)) - from)) / (to - from) : b);
    const wide = half?.[i] ? Math.abs(plot.y(value + Number(half[i])) - b) : 0;
    const [high, low] = [Math.min(at(left), at(right)), Math.max(at(left), at(right))];
    if (low >= top && high <= bottom) count += 10;
    else if (low + wide >= top && high - wide <= bottom) count += 1;
  }
  return count;
}
