// The evaluations of one run and split, as columns. Pure.

/**
 * @typedef {import("./api.js").Columns} Columns
 * @typedef {import("./api.js").Column} Column
 * @typedef {import("./api.js").Point} Point
 * @typedef {import("./api.js").LeftOut} LeftOut
 * @typedef {{value: (number|null)[], error: (number|null)[], why: Map<number, string>, left: (LeftOut|null)[], p: number|null}} Values
 *   why: by step
 * @typedef {{step: number[], epoch: (number|null)[], time: number[], rows: number[], ties: number[], provisional: Set<number>,
 *   incomplete: Set<number>, superseded: Map<number, number>, scores: Map<string, Values>, version: number}} Series sets are
 *   of steps; superseded: beyond the step to which the run has returned since, with a number of the attempt that made it
 */

/** @param {Columns} columns @returns {Series} */
export function seriesOf(columns) {
  const { step, epoch, time, rows, tie_fraction: ties } = columns;
  const steps = (/** @type {number[]} */ places) => new Set(places.map((at) => step[at]));
  /** @type {Map<string, Values>} */
  const scores = new Map();
  for (const [id, column] of Object.entries(columns.scores)) scores.set(id, valuesOf(column, step));
  const series = { step, epoch, time, rows, ties, provisional: steps(columns.provisional), incomplete: steps(columns.incomplete),
    superseded: new Map(columns.superseded.flatMap((places, attempt) => places.map((at) => /** @type {[number, number]} */ ([step[at], attempt])))), scores, version: 0 };
  dropTrail(series);
  return series;
}

/** @param {Column} column @param {number[]} step @returns {Values} */
function valuesOf(column, step) {
  const why = new Map();
  for (const [reason, places] of Object.entries(column.undefined)) for (const at of places) why.set(step[at], reason);
  /** @type {(LeftOut|null)[]} */
  const left = new Array(step.length).fill(null);
  column.left_out.forEach(([from, leftOut], i) => left.fill(leftOut, from, column.left_out[i + 1]?.[0] ?? step.length));
  return { value: column.value, error: column.standard_error, why, left, p: column.p_value };
}

/** While a sample fills, only its newest provisional value stands. @param {Series} series */
function dropTrail(series) {
  for (let at = series.step.length - 2; at >= 0; at -= 1) if (series.provisional.has(series.step[at])) remove(series, at);
}

/** @param {Series} series @param {number} at */
function remove(series, at) {
  series.provisional.delete(series.step[at]);
  series.incomplete.delete(series.step[at]);
  series.superseded.delete(series.step[at]);
  for (const column of [series.step, series.epoch, series.time, series.rows, series.ties]) column.splice(at, 1);
  for (const { value, error, left } of series.scores.values()) for (const column of [value, error, left]) column.splice(at, 1);
}

/**
 * Takes an evaluation as it was published. A provisional one never replaces the final one of its step. Returns whether the
 * run seems to have returned to an earlier step: what lies beyond is older, and the sidecar knows which attempt made it.
 * @param {Series} series @param {Point} point
 */
export function take(series, point) {
  const { step } = series;
  let at = step.length;
  while (at > 0 && step[at - 1] >= point.step) at -= 1;
  const known = step[at] === point.step;
  if (known && point.provisional && !series.provisional.has(point.step)) return false;
  if (!known) {
    step.splice(at, 0, point.step);
    for (const column of [series.epoch, series.time, series.rows, series.ties]) column.splice(at, 0, 0);
    for (const { value, error, left } of series.scores.values()) for (const column of [value, error, left]) column.splice(at, 0, null);
  }
  series.epoch[at] = point.epoch;
  series.time[at] = point.time;
  series.rows[at] = point.rows;
  series.ties[at] = point.tie_fraction;
  series.superseded.delete(point.step);
  for (const [set, marked] of /** @type {[Set<number>, boolean][]} */ ([[series.provisional, point.provisional], [series.incomplete, point.incomplete]])) {
    if (marked) set.add(point.step);
    else set.delete(point.step);
  }
  for (const [id, values] of series.scores) {
    const outcome = point.scores[id];
    if (!outcome) continue;
    values.value[at] = outcome.value ?? null;
    values.error[at] = outcome.standard_error ?? null;
    values.left[at] = outcome.left_out ?? null;
    values.p = outcome.p_value ?? values.p;
    if (outcome.undefined === undefined) values.why.delete(point.step);
    else values.why.set(point.step, outcome.undefined);
  }
  const returned = step.some((beyond, i) => i > at && series.time[i] < point.time && !series.superseded.has(beyond));
  dropTrail(series);
  series.version += 1;
  return returned;
}
