// The sidecar's JSON API and its event stream.

/**
 * @import { VerdictState } from "../labels.js"
 * @typedef {{id: string, title: string, family: string, paper: string, equation: string, range: [number, number],
 *   unit: string, per_concept: boolean, matrix: boolean, help: string, trust?: string[], curve?: {x: string, y: string, best?: string,
 *   beside?: string}}} Score curve: the axes of its values' curves, the score that says at which x they are best, and one
 *   whose curve belongs beside it
 * @typedef {{split: string, window: "pass"|"recent"|"all"|null, rows_received: number|null, rows_duplicate: number|null,
 *   rows_dropped: number|null, passes_unsettled: number|null, points: number, last_step: number|null}} Split counts of rows are null when the sidecar
 *   has received nothing for the split since it started
 * @typedef {"training"|"stalled"|"lost"|"finished"|"stopped_on_advice"|"failed"} RunState
 * @typedef {{name: string, title: string|null, note: string|null, finished: boolean, open: boolean, state: RunState, reason: string|null,
 *   updated: number, started: number, activation_kind: string, concepts: string[], tasks?: string[], labels: Record<string, string>, world_size: number,
 *   splits: Split[]}} Run updated: when it was last heard from
 * @typedef {{score: string, limit: number, bad: "above"|"below"}} Limit
 * @typedef {{scores: Score[], of_task: string[], limits: Limit[], rows: number}} Catalogue
 * @typedef {{step: number, epoch: number|null}} Moment
 * @typedef {{state: VerdictState, deciding: Evidence|null, concepts: string[], since: Moment|null,
 *   or_earlier: boolean, last_sound: Moment|null, reason: string, stop_advised_by: string|null, task?: string}} Verdict
 * @typedef {{step: number, value?: number, standard_error?: number, undefined?: string}} Newest
 * @typedef {{name: string, verdict: Verdict|null, step: number|null, epoch: number|null, time: number|null, rows: number|null,
 *   evaluations: number, scores: Record<string, Newest>, concepts: {score: string, above: number, of: number, limit: number}|null,
 *   spark: {score: string, steps: number[], values: number[]}|null}} Row
 * @typedef {{value: (number|null)[], standard_error: (number|null)[], undefined: Record<string, number[]>,
 *   left_out: [number, LeftOut|null][], p_value: number|null}} Column
 * @typedef {{step: number[], epoch: (number|null)[], time: number[], rows: number[], tie_fraction: number[], provisional: number[],
 *   incomplete: number[], superseded: number[][], scores: Record<string, Column>}} Columns superseded: a list for each attempt that was left
 * @typedef {{step: number[], epoch: (number|null)[], concepts: string[], values: (number|null)[][]}} ConceptCurves
 * @typedef {{run: string, split: string, step: number, time: number, outcome: string, reason: string, rows_seen: number}} Unscored
 * @typedef {{concepts: number[], pairs?: number, of: number, why: string}} LeftOut numbers of concepts, of which the score has `of`
 * @typedef {{value?: number, standard_error?: number|null, per_concept?: (number|null)[], per_concept_q?: (number|null)[],
 *   curve?: [number, number|null][], undefined?: string, left_out?: LeftOut, p_value?: number|null,
 *   per_task?: Outcome[]}} Outcome per_task: of several tasks, whose mean the value is
 * @typedef {{run: string, split: string, step: number, epoch: number|null, time: number, rows: number,
 *   rows_seen: number, repeated_rows: number, provisional: boolean, incomplete: boolean, tie_fraction: number, warnings?: string[],
 *   estimator: string, neighbours: number, seed: number, seconds: number, scores: Record<string, Outcome>}} Point
 * @typedef {{id: number, local: number, term: number, task_label: number, group: number|null}} LeakingRow
 * @typedef {{score: string, task: string|null, step: number, value: number, rows: LeakingRow[]}} LeakingRows
 * @typedef {{step: number, concepts: string[], matrix: (number|null)[][], ages?: number[][],
 *   matrix_q?: (number|null)[][]}} Matrix ages: seconds since each
 *   pair was computed, where some were on an earlier sample
 * @typedef {{rule: string, run: string, split: string, score: string, state: "inactive"|"pending"|"firing",
 *   since: number, evidence: string, step: number, severity?: "info"|"warning"|"critical", advises_stop?: boolean,
 *   value?: number|null, baseline?: number|null}} Alert
 * @typedef {{score: string, value: number, standard_error?: number, limit?: number, step: number}} Evidence
 * @typedef {{rule: string, title: string, subject: string, source: string, action?: string,
 *   state: "found"|"absent"|"unknown", text: string, evidence: Evidence[]}} Line
 * @typedef {{text: string, why: string, evidence: Evidence[]}} Action
 * @typedef {Verdict & {run: string, split: string, step: number, epoch: number|null, rows: number, incomplete: boolean,
 *   coverage: Line[], actions: Action[]}} Assessment
 * @typedef {{mean: number, standard_error: number|null, low: number|null, high: number|null, count: number}} Interval
 * @typedef {{a: Interval|null, b: Interval|null, difference: Interval|null, p_value: number|null,
 *   verdict: "higher_in_a"|"higher_in_b"|"compatible"|"undefined", undefined?: string}} Comparison
 * @typedef {Comparison & {concept: string}} ConceptComparison
 * @typedef {{verdict: "a_leaks_more"|"b_leaks_more"|"compatible"|"undecided"|"undefined", why: string}} Criterion
 * @typedef {{verdict: "a_leaks_more"|"b_leaks_more"|"no_difference"|"scores_disagree"|"undecided"|"undefined", why: string}} Weighed
 * @typedef {{run: string, evaluations: [string, number][], rows: [number, number]}} Side
 * @typedef {{a: Side, b: Side, confidence: number, weighed: Weighed, criterion: Criterion, criterion_unclipped: Criterion,
 *   scores: (Comparison & {score: string, per_concept?: ConceptComparison[]})[], notes: string[]}} PairReport
 * @typedef {{run: string, a: Side, b: Side, confidence: number,
 *   scores: (Comparison & {score: string, per_concept?: ConceptComparison[]})[], notes: string[]}} SplitReport
 * @typedef {{label: string, confidence: number, undefined?: string, notes: string[],
 *   least: {reference: string, values: string[], below?: string, above?: string, caution?: string}|null,
 *   groups: {value: string, runs: string[], training?: {trained: number, runs: number, accuracy: number}, criterion?: Criterion,
 *     scores: {score: string, interval: Interval|null, undefined?: string}[]}[]}} GroupReport
 * @typedef {{version: string, catalogue_version: number, uptime_seconds: number, lag_seconds: number,
 *   rows_dropped: number, points_skipped: number, memory_bytes: number, memory_limit_bytes?: number,
 *   staleness_seconds?: number, cpu_share?: number, cpu_seconds?: number, estimator: string,
 *   unwritable?: {reason: string, why: string},
 *   upstream?: {hub: string, reached: boolean, why: string, waiting: number, sent: number, refused: number, dropped: number,
 *     seconds_since_answer: number}}} Status
 */

const API = "api/v1/";
const RETRY_MS = 2000;

/**
 * The answers that a report holds, by path and score or step, and its view. `null` on the page of a sidecar.
 * @type {Record<string, any>|null}
 */
export const carried = JSON.parse(document.getElementById("answers")?.textContent ?? "null");

/** An answer of the sidecar that is an error. */
export class ApiError extends Error {
  /** @param {number} code HTTP status; 0 when nothing answered @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @param {string} path
 * @param {Record<string, string|number|null|undefined>} [query] null and undefined are left out
 * @param {(mark: string) => void} [heard] takes the mark of the events that the answer has in it
 * @returns {Promise<any>}
 */
export function get(path, query = {}, heard = () => {}) {
  if (carried) {
    const answer = carried[`${path} ${query.score ?? query.step ?? ""}`.trim()];
    return answer ? Promise.resolve(answer) : Promise.reject(new ApiError(404, "the report does not have it"));
  }
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return answerOf(path, API + path + (search && `?${search}`), { cache: "no-store" }, heard);
}

/**
 * Changes a run, or removes it.
 * @param {"PATCH"|"DELETE"} method @param {string} run @param {{title?: string, note?: string}} [fields] @returns {Promise<any>}
 */
export function changeRun(method, run, fields) {
  return answerOf("run", `${API}run?${new URLSearchParams({ run })}`, { method, ...(fields && { body: JSON.stringify(fields) }) });
}

/** @param {string} path @param {string} address @param {RequestInit} options @param {(mark: string) => void} [heard] @returns {Promise<any>} */
async function answerOf(path, address, options, heard = () => {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new ApiError(0, "the sidecar does not answer");
  }
  if (response.status === 401) location.assign("login");
  if (response.headers.has("conceptwatch-session")) document.getElementById("logout")?.removeAttribute("hidden");
  heard(response.headers.get("conceptwatch-mark") ?? "");
  if (response.status === 204) return null;
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    const { field, message } = body?.error ?? {};
    throw new ApiError(response.status, message ? `${field ? `${field}: ` : ""}${message}` : `HTTP ${response.status}`);
  }
  if (body === null) throw new ApiError(response.status, `${path}: the answer is not JSON`);
  return body;
}

/** Opens the event stream again at once, where it waits. @type {() => void} */
let reopen = () => {};
export const tryNow = () => reopen();

/**
 * Follows the event stream for as long as the page is open. A browser abandons an EventSource after an answer that is
 * not an event stream, as from a proxy in front of a stopped sidecar; then it is opened again. A report has all from the beginning.
 * @param {{begin: () => void, down: () => void, heard: (mark: string) => void, point: (point: Point) => void, run: (run: string) => void,
 *   alert: (alert: Alert, mark: string) => void, lost: () => void}} on heard: takes the mark behind each message, before the message;
 *   begin: no event is missed from now on
 */
export function follow(on) {
  if (carried) return on.begin();
  const source = new EventSource(`${API}events`);
  let waiting = 0;
  /** @param {string} kind @param {(data: any, mark: string) => void} take */
  const listen = (kind, take) => source.addEventListener(kind, ({ data, lastEventId }) => {
    on.heard(lastEventId);
    take(JSON.parse(data), lastEventId);
  });
  reopen = () => {
    clearTimeout(waiting);
    source.close();
    follow(on);
  };
  source.addEventListener("error", () => {
    on.down();
    if (source.readyState === EventSource.CLOSED) waiting = setTimeout(reopen, RETRY_MS);
  });
  listen("begin", on.begin);
  listen("point", on.point);
  listen("run", (data) => on.run(data.run));
  listen("alert", on.alert);
  listen("lost", on.lost);
}
