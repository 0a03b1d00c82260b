// Orders of concepts. Pure.
import { byText } from "../text.js";

/**
 * @typedef {"given"|"value"|"name"|"alike"} Order
 * @typedef {(number|null)[][]} Cells
 */

/** Mean over the defined entries, leaving one out. @param {(number|null)[]} row @param {number} [skip] */
function mean(row, skip = -1) {
  const defined = row.filter((value, i) => value !== null && i !== skip).map(Number);
  return defined.reduce((sum, value) => sum + value, 0) / Math.max(1, defined.length);
}

/**
 * The concepts' numbers in the order to show them.
 * @param {string[]} names
 * @param {Order} order `value`: largest row mean first; `alike`: the strongest pairs stand together
 * @param {Cells} cells k × k; undefined entries are null
 * @returns {number[]}
 */
export function orderOf(names, order, cells) {
  const all = names.map((_, i) => i);
  if (order === "name") return all.sort((a, b) => byText(names[a], names[b]));
  if (order === "given") return all;
  const means = cells.map((row, i) => mean(row, i));
  const byMean = all.sort((a, b) => means[b] - means[a] || a - b);
  return order === "value" ? byMean : chain(byMean, cells);
}

/**
 * Starts at the first and continues with the concept most strongly related to the last one, in either direction.
 * @param {number[]} from @param {Cells} cells
 */
function chain(from, cells) {
  const tie = (/** @type {number} */ i, /** @type {number} */ j) => Math.max(cells[i][j] ?? -Infinity, cells[j][i] ?? -Infinity);
  const left = [...from];
  const chained = left.splice(0, 1);
  while (left.length) {
    const last = chained[chained.length - 1];
    const next = left.reduce((best, one) => (tie(last, one) > tie(last, best) ? one : best));
    left.splice(left.indexOf(next), 1);
    chained.push(next);
  }
  return chained;
}

/** The first of 1, 2, 5, 10, … times a power of ten that is not below. @param {number} value */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5].find((step) => step * power >= value * (1 - 1e-9)) ?? 10;
  return Number((step * power).toPrecision(1));
}
