// The newest value of every shown run and score, as a table.
import { latestPoint } from "./curves.js";
import { runColor } from "./palette.js";
import { count, el, epochText, overText, percent, probability, withError } from "./text.js";

/**
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./api.js").Outcome} Outcome
 * @typedef {import("./api.js").Run} Run
 */

/**
 * @param {HTMLElement} host
 * @param {Score[]} scores
 * @param {Run[]} shown
 * @param {string} split
 * @param {(run: Run) => boolean} scored whether it has points in this split
 */
export function drawLatest(host, scores, shown, split, scored) {
  const heads = ["run", "step", "epoch", "N", "ties"].map((text, i) => el("th", { scope: "col", class: i ? "n" : false }, text));
  const columns = scores.map((score) => el("th", { scope: "col", class: "n", title: score.help }, score.title));
  const latest = shown.map((run) => ({ run, point: scored(run) ? latestPoint(run.name, split) : null }));
  const body = latest.map(({ run, point }) => {
    const name = el("th", { scope: "row" }, el("span", { class: "swatch", color: runColor(run.name) }), run.name);
    if (!point) return el("tr", {}, name, el("td", { class: "dim", colspan: 4 + scores.length }, run.splits.some((one) => one.split === split) ? "no value yet" : `nothing in ${split}`));
    if (point.provisional) name.append(el("span", { class: "tag", title: "The sample is still filling." }, "provisional"));
    if (point.incomplete) name.append(el("span", { class: "tag", title: "The pass was closed by its deadline." }, "incomplete"));
    for (const warning of point.warnings ?? []) name.append(el("span", { class: "tag warn", title: warning }, "note"));
    return el("tr", { class: point.provisional ? "provisional" : false }, name,
      ...[count(point.step), epochText(point.epoch), count(point.rows), percent(point.tie_fraction)].map((text) => el("td", { class: "n" }, text)),
      ...scores.map((score) => cell(point.scores[score.id])));
  });
  const warnings = [...new Set(latest.flatMap(({ point }) => point?.warnings ?? []))];
  host.replaceChildren(
    el("div", { class: "panel-head" }, el("h2", {}, "Latest values"), el("span", { class: "dim" }, `${split}, value ± 1 standard error`)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Latest values" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads, ...columns)), el("tbody", {}, ...body))),
    ...warnings.map((warning) => el("p", { class: "note" }, warning)));
}

/** @param {Outcome|undefined} outcome */
function cell(outcome) {
  if (!outcome) return el("td", { class: "n dim", title: "its inputs were not sent" }, "–");
  if (outcome.value === undefined) return el("td", { class: "n dim", title: outcome.undefined }, "undefined");
  const { left_out: leftOut, p_value: p } = outcome;
  const title = [leftOut && `${overText(leftOut)}: ${leftOut.why}`, typeof p === "number" && `p ${probability(p)}`].filter(Boolean).join("\n");
  return el("td", { class: "n", title: title || false }, withError(outcome.value, outcome.standard_error),
    leftOut && el("div", { class: "dim" }, overText(leftOut)), typeof p === "number" && el("div", { class: "dim" }, `p ${probability(p)}`));
}
