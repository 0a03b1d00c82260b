// The evaluations of one run and split, as columns. Pure.

/**
 * @import { Columns, LeftOut, Point } from "./api.js"
 * @typedef {{value: (number|null)[], error: (number|null)[], why: Map<number, string>, left: (LeftOut|null)[], p: number|null}} Values
 *   why: by step
 * @typedef {{step: number[], epoch: (number|null)[], time: number[], rows: number[], ties: number[], provisional: Set<number>,
 *   incomplete: Set<number>, scores: Map<string, Values>, branches: Series[], version: number}} Series sets are of steps;
 *   branches: superseded evaluations, a series for each attempt
 */

/** @param {Columns} columns @returns {Series} */
export function seriesOf(columns) {
  const left = new Set(columns.superseded.flat());
  const current = columns.step.map((_, at) => at).filter((at) => !left.has(at));
  const series = { ...partOf(columns, current), branches: columns.superseded.map((places) => partOf(columns, places)) };
  dropTrail(series);
  return series;
}

/** The evaluations at some places, in ascending order. @param {Columns} columns @param {number[]} places @returns {Series} */
function partOf(columns, places) {
  const belongs = new Set(places);
  const pick = (/** @type {any[]} */ column) => places.map((at) => column[at]);
  const steps = (/** @type {number[]} */ marked) => new Set(marked.filter((at) => belongs.has(at)).map((at) => columns.step[at]));
  /** @type {Map<string, Values>} */
  const scores = new Map();
  for (const [id, column] of Object.entries(columns.scores)) {
    const why = new Map();
    for (const [reason, marked] of Object.entries(column.undefined)) for (const step of steps(marked)) why.set(step, reason);
    /** @type {(LeftOut|null)[]} */
    const left = new Array(columns.step.length).fill(null);
    column.left_out.forEach(([from, leftOut], i) => left.fill(leftOut, from, column.left_out[i + 1]?.[0] ?? left.length));
    scores.set(id, { value: pick(column.value), error: pick(column.standard_error), why, left: pick(left), p: column.p_value });
  }
  return { step: pick(columns.step), epoch: pick(columns.epoch), time: pick(columns.time), rows: pick(columns.rows), ties: pick(columns.tie_fraction),
    provisional: steps(columns.provisional), incomplete: steps(columns.incomplete), scores, branches: [], version: 0 };
}

/**
 * Whether an alert changed at an evaluation of an attempt that was left: the run has a newer one of its step or an earlier step.
 * Times of evaluations are rounded to milliseconds.
 * @param {Series|null|undefined} series @param {{step: number, since: number}} change
 */
export const isLeft = (series, { step, since }) => (series?.branches.length ?? 0) > 0
  && series?.step.some((one, at) => one <= step && series.time[at] > since + 0.001) === true;

/** While a sample fills, only its newest provisional value stands. @param {Series} series */
function dropTrail(series) {
  for (let at = series.step.length - 2; at >= 0; at -= 1) if (series.provisional.has(series.step[at])) remove(series, at);
}

/** @param {Series} series @param {number} at */
function remove(series, at) {
  series.provisional.delete(series.step[at]);
  series.incomplete.delete(series.step[at]);
  for (const column of [series.step, series.epoch, series.time, series.rows, series.ties]) column.splice(at, 1);
  for (const { value, error, left } of series.scores.values()) for (const column of [value, error, left]) column.splice(at, 1);
}

/**
 * Takes an evaluation as it was published. A provisional one never replaces the final one of its step. Returns whether the
 * run seems to have returned to an earlier step: later evaluations are older, and the sidecar knows which attempt made them.
 * @param {Series} series @param {Point} point
 */
export function take(series, point) {
  const { step } = series;
  let at = step.length;
  while (at > 0 && step[at - 1] >= point.step) at -= 1;
  const known = step[at] === point.step;
  if (known && point.provisional && !series.provisional.has(point.step)) return false;
  const again = known && series.time[at] < point.time && !series.provisional.has(point.step);
  if (!known) {
    step.splice(at, 0, point.step);
    for (const column of [series.epoch, series.time, series.rows, series.ties]) column.splice(at, 0, 0);
    for (const { value, error, left } of series.scores.values()) for (const column of [value, error, left]) column.splice(at, 0, null);
  }
  series.epoch[at] = point.epoch;
  series.time[at] = point.time;
  series.rows[at] = point.rows;
  series.ties[at] = point.tie_fraction;
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
  const returned = again || series.time.some((time, i) => i > at && time < point.time);
  dropTrail(series);
  series.version += 1;
  return returned;
}
