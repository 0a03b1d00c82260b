// The specification of a chart of lines, and the axes that follow from it. Pure.
import { rounded, scale } from "./axes.js";

/**
 * @import { Scale } from "./axes.js"
 * @typedef {object} Line
 * @property {string} name
 * @property {string} color a custom property
 * @property {number} look of its dashes and marks
 * @property {number[]} x ascending; NaN: no place on the axis
 * @property {(number|null)[]} y
 * @property {(number|null)[]} [half] half of the interval
 * @property {boolean[]} [open] provisional or cut short: hollow, and dotted towards it
 * @property {boolean[]} [broken] no line leads here from the value before
 * @property {{x: number, text: string}[]} [gaps] where there is no value, and why
 * @property {{x: number, y: number, text: string}[]} [alerts]
 * @property {boolean} [superseded] left by its run, which has returned to an earlier step: faint and dashed
 * @property {[number, number]} [from] where the run left it
 * @property {(at: number) => string[]} [notes] texts below a value in the tip
 * @typedef {object} Spec
 * @property {Line[]} lines
 * @property {"epoch"|"step"|"time"|string} along
 * @property {[number, number]|null} zoom
 * @property {boolean} logx
 * @property {boolean} logy
 * @property {number} smooth
 * @property {[number, number]} [least] range that the vertical axis has at least
 * @property {[number, number]} [range] possible values
 * @property {[number, number]} [within] possible places on the horizontal axis, where it is that of a score
 * @property {{value: number, text: string, bad: "above"|"below"}|null} [limit]
 * @property {number[][]} [best] stretches to shade, by their ends
 * @property {(value: number) => string} text
 * @property {{at: number, text: string}[]} [places] ticks, where the axis has no scale
 * @property {boolean} [points] marks at all values
 * @property {boolean} [scatter] a mark for each line, which has no end to name
 * @property {boolean} [whiskers] intervals as bars instead of bands
 */

/** Bands of more lines than this would cover each other. */
export const MOST_BANDS = 8;

/** On both sides of the only place on the axis of a score. */
const BESIDE = 0.05;

/** The lines that runs go on with. @param {Spec} spec */
export const current = (spec) => spec.lines.filter(({ superseded }) => !superseded);

/**
 * Returns the axes, on which every value in sight and the limit have a place.
 * @param {Spec} spec @returns {{across: Scale, down: Scale}}
 */
export function axesOf(spec) {
  const { zoom, logx, logy, least, range, limit } = spec;
  let [left, right] = [Infinity, -Infinity];
  // The ends of values, and of their intervals.
  let [bottom, top, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  const banded = current(spec).length <= MOST_BANDS;
  const take = (/** @type {number} */ value, /** @type {number} */ half) => {
    if (logy && value <= 0) return;
    [bottom, top] = [Math.min(bottom, value), Math.max(top, value)];
    // An interval may reach 0, where a logarithm has no place.
    [low, high] = [Math.min(low, logy ? value : value - half), Math.max(high, value + half)];
  };
  for (const { x, y, half } of spec.lines) {
    for (let i = 0; i < x.length; i += 1) {
      const [at, value] = [x[i], y[i]];
      if (Number.isNaN(at) || (zoom && (at < zoom[0] || at > zoom[1])) || (logx && at <= 0)) continue;
      [left, right] = [Math.min(left, at), Math.max(right, at)];
      if (value !== null) take(value, banded ? half?.[i] ?? 0 : 0);
    }
  }
  if (limit) take(limit.value, 0);
  if (!logy && least) [low, high] = [Math.min(low, least[0]), Math.max(high, least[1])];
  if (!(high >= low)) [low, high] = least ?? [0, 1];
  if (!logy) {
    [low, high] = rounded(low, high, 6);
    // Intervals and round numbers may leave the possible values, a value does not vanish.
    if (range) [low, high] = [Math.max(low, Math.min(range[0], bottom)), Math.min(high, Math.max(range[1], top))];
  } else if (high === low) high = 10 * low;
  return { across: acrossOf(left, right, spec), down: scale(low, high, logy) };
}

/** @param {number} left @param {number} right ends of what the lines have @param {Spec} spec @returns {Scale} */
function acrossOf(left, right, { zoom, places, logx, within }) {
  if (zoom) [left, right] = zoom;
  if (places) [left, right] = [Math.min(left, ...places.map(({ at }) => at)), Math.max(right, ...places.map(({ at }) => at))];
  if (!(right >= left)) [left, right] = [0, 1];
  if (right === left && within) {
    [left, right] = [Math.max(Math.min(within[0], left), left - BESIDE), Math.min(Math.max(within[1], right), right + BESIDE)];
  } else if (right === left) right = left + (logx ? left : 1);
  const room = places ? (right - left) * 0.06 : 0;
  return scale(left - room, right + room, logx);
}

/** Returns the place of a value on its axis, 0 to 1 within its range: at the end where a logarithm has none. @param {Scale} axis @param {number} value */
export const placeOn = (axis, value) => axis.place(axis.log ? Math.max(value, axis.from) : value);
