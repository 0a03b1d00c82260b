// The mean of curves, as over the seeds of a group of runs. Pure.

/** @import { Line } from "./spec.js" */

/** 97.5 % points of Student's t distribution, for 1 to 10 degrees of freedom. */
const T = [12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
const quantile = (/** @type {number} */ freedom) => T[freedom - 1] ?? 1.96 + 2.4 / freedom;

/**
 * Returns the mean at every place where any of the lines has a value, half of its 95 % interval, and how many lines it is
 * over. Between its values a line is straight, beyond them it has none.
 * @param {Pick<Line, "x"|"y">[]} lines
 * @returns {{x: number[], y: (number|null)[], half: (number|null)[], counts: number[]}}
 */
export function meanOf(lines) {
  /** @type {[number, number][][]} */
  const known = lines.map(({ x, y }) => x.flatMap((place, i) => (Number.isNaN(place) || y[i] === null ? [] : [[place, Number(y[i])]])));
  const x = [...new Set(known.flatMap((curve) => curve.map(([place]) => place)))].sort((a, b) => a - b);
  const columns = known.map((curve) => valuesAt(curve, x));
  const at = x.map((_, i) => columns.flatMap((values) => values[i] ?? []));
  const y = at.map((values) => values.reduce((sum, value) => sum + value, 0) / values.length);
  const half = at.map((values, i) => {
    const n = values.length;
    if (n < 2) return null;
    const variance = values.reduce((sum, value) => sum + (value - y[i]) ** 2, 0) / (n - 1);
    return quantile(n - 1) * Math.sqrt(variance / n);
  });
  return { x, y, half, counts: at.map((values) => values.length) };
}

/** @param {[number, number][]} curve places, ascending, and values @param {number[]} places ascending @returns {(number|null)[]} */
function valuesAt(curve, places) {
  let at = 0;
  return places.map((place) => {
    while (at + 1 < curve.length && curve[at + 1][0] <= place) at += 1;
    const [before, after] = [curve[at], curve[at + 1]];
    if (!before || place < before[0] || (!after && place > before[0])) return null;
    return after ? before[1] + ((after[1] - before[1]) * (place - before[0])) / (after[0] - before[0]) : before[1];
  });
}
