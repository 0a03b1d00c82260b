// The newest values of a run on one scale each: value, 95 % interval and limit.
import { carried } from "../data/api.js";
import { HALF } from "../charts/lines.js";
import { el } from "../text.js";
import { term } from "../tip.js";
import { OF_RUN, TO_LOG, halfText, nameOf, tipOf, valueText, wordOf } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Newest } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

const UNITS = /** @type {Record<string, string>} */ ({ "%": "%", "percentage points": "pt" });

/** @param {HTMLElement} host @param {string[]} [ids] */
export function statsPanel(host, ids = OF_RUN) {
  const isNew = watcher();
  /** @param {Shown} shown @param {Record<string, Newest>} scores @param {boolean} known whether the newest values have come */
  return function draw(shown, scores, known) {
    if (!isNew(scores, known, shown.theme)) return;
    host.replaceChildren(...ids.map((id) => stat(shown, id, scores[id], known)));
  };
}

/** @param {Shown} shown @param {string} id @param {Newest|undefined} newest @param {boolean} known */
function stat(shown, id, newest, known) {
  const head = el("h3", {}, term(nameOf(id), tipOf(id)));
  if (newest?.value === undefined) {
    const later = carried ? "" : ", and it appears at the next evaluation";
    if (!known) return el("div", { class: "stat", "data-score": id }, head, el("div", { class: "val" }, "…"));
    const why = newest?.undefined;
    return el("div", { class: "stat undef", "data-score": id }, head, el("div", { class: "val word" }, why ? "Undefined" : "Not sent"),
      el("span", { class: "hatch" }),
      el("p", { class: "small" }, why ? why : TO_LOG[id] ? `${TO_LOG[id]}${later}.` : "No evaluation has it."));
  }
  const { scale, unit } = wordOf(id);
  const { value, standard_error: error } = newest;
  const limit = shown.limitOf(id);
  const half = error === undefined ? 0 : HALF * error;
  const beyond = limit ? (limit.bad === "above" ? value - half > limit.limit : value + half < limit.limit) : false;
  const [from, to] = limit?.bad === "below" || unit === "%" ? [Math.min(0.5, value - half), 1]
    : [Math.min(0, value - half), Math.max(0.4, value + half, (limit?.limit ?? 0) * 1.5)];
  const place = (/** @type {number} */ at) => `${(100 * Math.max(0, Math.min(1, (at - from) / (to - from)))).toFixed(1)}%`;
  const text = limit ? `limit ${Number((limit.limit * scale).toPrecision(3))}${beyond ? (limit.bad === "above" ? ", above it" : ", below it") : ""}` : "";
  return el("div", { class: "stat", "data-score": id }, head,
    el("div", { class: beyond && limit?.bad === "above" ? "val bad" : "val" }, valueText(id, value),
      el("small", {}, ` ${UNITS[unit] ?? ""}${half ? ` ± ${halfText(id, error)}` : ""}`)),
    el("div", { class: "gauge", "aria-hidden": "true", "--c": beyond && limit?.bad === "above" ? "var(--leak)" : "var(--ink-2)" },
      limit && el("u", { style: `left: ${place(limit.limit)}` }),
        half > 0 && el("i", { style: `left: ${place(value - half)}; width: calc(${place(value + half)} - ${place(value - half)})` }),
        el("b", { style: `left: ${place(value)}` })),
    el("p", { class: "small dim" }, text || " "));
}
