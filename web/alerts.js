// The alert rules, their states and their changes: fetched once, then updated by the events.
import { get } from "./api.js";
import { count, el, localTime } from "./text.js";

/**
 * @typedef {import("./api.js").Alert} Alert
 * @typedef {{name: string, score?: string, split: string, above?: number, below?: number, rise?: number, scope?: string,
 *   advise_stop?: boolean, severity?: string}} Rule
 */

/** @type {Rule[]} */
let rules = [];
/** @type {Map<string, Alert>} */
const standings = new Map();
/** @type {Alert[]} oldest first */
let changes = [];
/** Changes each time there is something new to draw. */
let version = 0;
/** @type {() => void} */
let changed = () => {};

const keyOf = (/** @type {Alert} */ alert) => JSON.stringify([alert.rule, alert.run, alert.split]);

/** @param {() => void} listener */
export const onAlerts = (listener) => { changed = listener; };
export const alertsVersion = () => version;

/** Fetches everything, including what happened before the page was opened. */
export async function loadAlerts() {
  try {
    const answer = await get("alerts");
    rules = answer.rules;
    changes = answer.changes;
    standings.clear();
    for (const one of answer.standings) standings.set(keyOf(one), one);
  } catch {
    // The connection line says that nothing answers; the next connection fetches again.
    return;
  }
  version += 1;
  changed();
}

/** @param {Alert} alert from the event stream */
export function takeAlert(alert) {
  standings.set(keyOf(alert), alert);
  changes.push(alert);
  version += 1;
  changed();
}

/** A rule on the unclipped score shows on the chart of the published one, too. @param {string} of @param {string} id */
const concerns = (of, id) => of === id || of === `${id}_excess`;

/**
 * Limits to draw in a score's chart.
 * @param {string} id @param {string} split
 * @returns {{rule: Rule, limit: number}[]}
 */
export function limitsOf(id, split) {
  const here = rules.filter((rule) => rule.split === split && concerns(rule.score ?? "", id) && (rule.scope ?? "run") === "run");
  return here.flatMap((rule) => [rule.above, rule.below].flatMap((limit) => (typeof limit === "number" ? [{ rule, limit }] : [])));
}

/**
 * Alerts of a run that began to fire, for marks in a score's chart.
 * @param {string} run @param {string} split @param {string} id
 */
export const firedOf = (run, split, id) =>
  changes.filter((one) => one.run === run && one.split === split && one.state === "firing" && concerns(one.score, id));

/**
 * The baseline of a rise of the score, if a rule on it judges rises.
 * @param {string} run @param {string} split @param {string} id
 * @returns {number|null}
 */
export function baselineOf(run, split, id) {
  const of = [...standings.values()].find((one) =>
    one.run === run && one.split === split && concerns(one.score, id) && typeof one.baseline === "number");
  return of?.baseline ?? null;
}

const RANK = { critical: 0, warning: 1, info: 2 };

/** What is pending or firing, the gravest first. */
function standing() {
  const found = [...standings.values()].filter((one) => one.state !== "inactive");
  const rank = (/** @type {Alert} */ one) => (one.state === "firing" ? 0 : 10) + (RANK[one.severity ?? "warning"] ?? 1);
  return found.sort((a, b) => rank(a) - rank(b) || b.since - a.since);
}

/** @param {HTMLElement} host */
export function alertList(host) {
  let drawn = "";
  return function draw() {
    const found = standing();
    const now = JSON.stringify(found);
    if (now === drawn) return;
    drawn = now;
    host.hidden = found.length === 0;
    host.replaceChildren(...found.map((one) => el("div", { class: `alert ${one.state} ${one.severity ?? ""}` },
      el("strong", {}, `${one.rule} ${one.state}`),
      el("span", {}, [one.run, one.split, one.score, `step ${count(one.step)}`].filter(Boolean).join(" · ")),
      el("span", {}, one.evidence), one.advises_stop && el("span", { class: "tag warn" }, "advises to stop"),
      el("span", { class: "dim" }, [one.severity, `since ${localTime(one.since)}`].filter(Boolean).join(" · ")))));
  };
}

/** The box beside the pointer at a mark. @param {Alert} alert @param {string} color of the run */
export function alertTip(alert, color) {
  /** @type {Node[]} */
  const rows = [];
  const row = (/** @type {string} */ term, /** @type {string} */ text) => rows.push(el("dt", {}, term), el("dd", {}, text));
  row("rule", `${alert.rule}${alert.severity ? ` (${alert.severity})` : ""}`);
  row("evidence", alert.evidence);
  row("step", count(alert.step));
  row("fired", localTime(alert.since));
  if (alert.advises_stop) row("advice", "to stop training");
  return [el("div", { class: "tip-head" }, el("span", { class: "swatch", color }), el("strong", {}, alert.run)), el("dl", {}, ...rows)];
}
