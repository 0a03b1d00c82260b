// From a run's evaluations to a line of a chart.
import { firedOf, store } from "../data/store.js";
import { epochText, localTime, number, overText, probability, signed } from "../text.js";
import { isLeft } from "../data/series.js";
import { whoseText, wordOf } from "../labels.js";

/**
 * @import { LeftOut, Run, Unscored } from "../data/api.js"
 * @import { Series, Values } from "../data/series.js"
 * @import { Shown } from "../data/shown.js"
 * @import { Along } from "../data/state.js"
 * @import { Line } from "./spec.js"
 */

/** Half of an interval of 95 % in standard errors. */
export const HALF = 1.96;

/** Where evaluations stand on the axis; NaN: nowhere. @param {Series} series @param {Along} along @param {number} started */
export function placesOf(series, along, started) {
  if (along === "step") return series.step;
  if (along === "time") return series.time.map((time) => (time - started) / 60);
  return series.epoch.map((epoch) => epoch ?? NaN);
}

/** Whether an evaluation has a score, be it undefined. @param {Series|null} series @param {string} score */
export function hasScore(series, score) {
  const values = series?.scores.get(score);
  return values !== undefined && (values.why.size > 0 || values.value.some((value) => value !== null));
}

/**
 * Lines that were made, by their evaluations: with a hundred runs in the charts, one more costs one line.
 * @type {WeakMap<Series, Map<string, {made: string, lines: Line[]}>>}
 */
const kept = new WeakMap();

/**
 * Returns the line of a score, after those of attempts that were left. Lines that have not
 * changed are those of the last call.
 * @param {Parameters<typeof made>[0]} of @returns {Line[]}
 */
export function linesOf(of) {
  const bySeries = kept.get(of.series) ?? new Map();
  kept.set(of.series, bySeries);
  const key = `${of.score}/${of.name}`;
  const now = JSON.stringify([of.series.version, of.series.step.length, of.series.scores.has(of.score), of.color, of.look, of.along, of.started, of.split,
    of.unscored?.length, store.changes.length]);
  const known = bySeries.get(key);
  if (known?.made === now) return known.lines;
  const lines = made(of);
  bySeries.set(key, { made: now, lines });
  return lines;
}

/**
 * @param {object} of
 * @param {Series} of.series
 * @param {string} of.score
 * @param {string} of.run
 * @param {string} of.split
 * @param {string} of.name
 * @param {string} of.color
 * @param {number} of.look
 * @param {Along} of.along
 * @param {number} of.started
 * @param {Unscored[]} [of.unscored]
 * @returns {Line[]} none where no evaluation has the score
 */
function made({ series, score, run, split, name, color, look, along, started, unscored = [] }) {
  const values = series.scores.get(score);
  if (!values || !hasScore(series, score)) return [];
  const now = lineOf(series, values, { name, color, look, along, started }, "");
  const { x, y } = now;
  const left = series.branches.flatMap((branch) => {
    const of = branch.scores.get(score);
    if (!of || of.value.every((value) => value === null)) return [];
    const line = lineOf(branch, of, { name: `${name}, superseded`, color, look, along, started },
      "superseded: the run has gone on from an earlier checkpoint since");
    const before = series.step.findLastIndex((step, at) => step < branch.step[0] && series.time[at] < branch.time[0] && y[at] !== null);
    const from = before < 0 || Number.isNaN(x[before]) ? undefined : /** @type {[number, number]} */ ([x[before], Number(y[before])]);
    return [{ ...line, half: undefined, superseded: true, from }];
  });
  const gaps = [];
  for (const [step, why] of values.why) {
    const at = series.step.indexOf(step);
    if (at >= 0 && !Number.isNaN(x[at])) gaps.push({ x: x[at], text: `Undefined: ${why}` });
  }
  const scored = new Set([series, ...series.branches].flatMap(({ step }) => step));
  for (const pass of unscored) {
    // A pass without a point has no epoch: it stands between its neighbours.
    const at = between(series.step, x, pass.step);
    if (at !== null && !scored.has(pass.step)) gaps.push({ x: along === "step" ? pass.step : at, text: `No evaluation at step ${pass.step}: ${pass.reason}` });
  }
  const alerts = firedOf(run, split, score).filter((alert) => !isLeft(series, alert)).flatMap((alert) => {
    const at = series.step.indexOf(alert.step);
    return at >= 0 && y[at] !== null && !Number.isNaN(x[at]) ? [{ x: x[at], y: Number(y[at]), text: `${alert.rule}: ${alert.evidence}` }] : [];
  });
  return [...left, { ...now, gaps, alerts }];
}

/**
 * The evaluations of one attempt, or of those that the newest has gone on from.
 * @param {Series} series @param {Values} values
 * @param {{name: string, color: string, look: number, along: Along, started: number}} of
 * @param {string} said of each of them
 * @returns {Line}
 */
function lineOf(series, values, { name, color, look, along, started }, said) {
  const x = placesOf(series, along, started);
  const y = [...values.value];
  const half = values.error.map((error) => (error === null ? null : HALF * error));
  const open = series.step.map((step) => series.provisional.has(step) || series.incomplete.has(step));
  const broken = broke(values.left);
  const notes = (/** @type {number} */ at) => [
    `step ${series.step[at]}${series.epoch[at] === null ? "" : `, epoch ${epochText(series.epoch[at])}`} · ${series.rows[at]} rows`
      + ` · tied activations ${number(series.ties[at], 0.1)}`,
    localTime(series.time[at]),
    values.left[at] ? `${overText(/** @type {any} */ (values.left[at]))}: ${/** @type {any} */ (values.left[at]).why}` : "",
    values.p !== null && said === "" && at === series.step.length - 1 ? `p ${probability(values.p)}` : "",
    said,
    series.provisional.has(series.step[at]) ? "provisional: the sample is still filling" : "",
    series.incomplete.has(series.step[at]) ? "evaluation cut short: a part of its rows did not arrive" : "",
  ].filter(Boolean);
  return { name, color, look, x, y, half, open, broken, notes };
}

/** Where the mean leaves out other concepts than before. @param {(LeftOut|null)[]} left */
function broke(left) {
  const set = left.map((one) => JSON.stringify([one?.concepts ?? [], one?.pairs ?? 0]));
  return set.map((one, i) => i > 0 && one !== set[i - 1]);
}

/** The place of a step among those known. @param {number[]} steps @param {number[]} x @param {number} step @returns {number|null} */
function between(steps, x, step) {
  const after = steps.findIndex((one) => one >= step);
  if (after < 0) return steps.length ? x[x.length - 1] : null;
  if (after === 0 || steps[after] === step) return x[after];
  const share = (step - steps[after - 1]) / (steps[after] - steps[after - 1]);
  return x[after - 1] + share * (x[after] - x[after - 1]);
}

/**
 * The limit of a score, as a chart shows it; none beside means over tasks, of which each is judged by its own value.
 * @param {Pick<Shown, "limitOf">} shown @param {string} score @param {Run[]} runs in the chart
 */
export function limitIn({ limitOf }, score, runs) {
  const limit = limitOf(score);
  if (!limit || runs.some((run) => whoseText(score, run))) return undefined;
  return { value: limit.limit, bad: limit.bad, text: `${limit.bad} the limit, ${limit.limit}` };
}

/** A value of a chart as text. @param {string} score */
export function chartText(score) {
  const { digits } = wordOf(score);
  return (/** @type {number} */ value) => (!Number.isFinite(value) ? "–" : digits ? signed(value.toFixed(digits)) : number(value, 0.1));
}
