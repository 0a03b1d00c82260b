// Every score of the newest evaluation by family, closed until someone wants it.
import { saveMenu } from "../saving.js";
import { el, headRow, icon, number, overText, probability, scroller } from "../text.js";
import { term } from "../tip.js";
import { halfText, nameOf, scoreOf, tasksText, tipOf, valueText, wordOf } from "../labels.js";
import { watcher } from "../scheduler.js";

/** @import { Outcome, Point } from "../data/api.js" */

/** @param {any} host a details element */
export function allScoresPanel(host) {
  const body = el("div", { class: "body" });
  /** @type {any} */
  let table = null;
  const remarks = el("div", { class: "small dim" });
  host.append(el("summary", {}, icon("chev", "i chev"), el("h2", {}, "All scores"),
    el("span", { class: "small dim" }, "as published and others, at the newest evaluation; the verdict does not rest on them")),
    el("div", { class: "save-line" }, saveMenu("all scores", { csv: () => table })), remarks, body);
  const isNew = watcher();

  /** @param {Point|null} point @param {string[]} tasks */
  return function draw(point, tasks) {
    host.hidden = !point;
    if (!point || !host.open) return;
    if (!isNew(point.run, point.step, point.time, point.seconds)) return;
    /** @type {Map<string, [string, Outcome][]>} */
    const families = new Map();
    for (const [id, outcome] of Object.entries(point.scores)) {
      const family = scoreOf(id)?.family ?? "other";
      families.set(family, [...(families.get(family) ?? []), [id, outcome]]);
    }
    table = { name: `scores ${point.run} step ${point.step}`, columns: ["score", "value", "standard_error", "p_value", "undefined"],
      rows: Object.entries(point.scores).map(([id, { value, standard_error: error, p_value: p, undefined: why }]) => [id, value, error, p, why]) };
    const copies = point.repeated_rows ? `, ${point.repeated_rows} copies not scored` : "";
    const made = `estimator ${point.estimator} with ${point.neighbours} neighbours, seed ${point.seed}, scored in ${number(point.seconds, 0.1)} s`;
    const at = point.step === null ? "" : `Step ${point.step}: `;
    const said = [`${at}${point.rows} rows of ${point.rows_seen}${copies}, ${made}.`, ...(point.warnings ?? [])];
    remarks.replaceChildren(...said.map((text) => el("p", {}, text)));
    body.replaceChildren(...[...families].map(([family, scores]) => el("section", {}, el("h3", { class: "family" }, family),
      scroller(`Scores: ${family}`, "", tableOf(scores, tasks)))));
  };
}

/** @param {[string, Outcome][]} scores @param {string[]} tasks */
function tableOf(scores, tasks) {
  const row = (/** @type {[string, Outcome]} */ [id, one]) => el("tr", { "data-score": id },
    el("th", { scope: "row" }, term(nameOf(id), tipOf(id))), el("td", { class: "n" }, one.value === undefined ? "–" : valueText(id, one.value)),
    el("td", { class: "n" }, halfText(id, one.standard_error) || "–"), el("td", {}, wordOf(id).unit), el("td", { class: "remark" }, remark(id, one, tasks)));
  return el("table", { class: "plain" },
    headRow(["Score"], ["Value", "n"], ["±, 95 %", "n"], ["Unit"], ["Remarks"]),
    el("tbody", {}, ...scores.map(row)));
}

/** @param {string} id @param {Outcome} one @param {string[]} tasks */
function remark(id, { undefined: why, left_out: left, p_value: p, per_task: perTask }, tasks) {
  return [why !== undefined && `Undefined: ${why}`, left && overText(left), typeof p === "number" && `p ${probability(p)}`, tasksText(id, tasks, perTask)]
    .filter(Boolean).join(" · ");
}
