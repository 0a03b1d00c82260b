// The newest values of a run on one scale each: value, 95 % interval and limit.
import { HALF } from "../charts/lines.js";
import { el } from "../text.js";
import { term } from "../tip.js";
import { absenceOf, halfText, nameOf, tipOf, valueText, whoseText } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Newest, Unscored } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

/** @param {HTMLElement} host */
export function statsPanel(host) {
  const isNew = watcher();
  /**
   * @param {Shown} shown @param {Record<string, Newest>} scores @param {boolean} known whether the newest values have come
   * @param {string[]} ids @param {Unscored[]} [unscored]
   */
  return function draw(shown, scores, known, ids, unscored = []) {
    const { view: { run, split }, lines: [line] } = shown;
    const row = shown.rows.get(run);
    const task = row?.verdict?.task;
    const why = ids.map((id) => (scores[id]?.undefined ? /** @type {[string, string]} */ (["Undefined", scores[id].undefined])
      : absenceOf(id, line?.run, split, row, unscored)));
    if (!isNew(ids, ids.map((id) => scores[id]), known, why, task, shown.theme)) return;
    host.replaceChildren(...ids.map((id, i) => stat(shown, id, scores[id], known, why[i], whoseText(id, line?.run, task), task)));
  };
}

/**
 * @param {Shown} shown @param {string} id @param {Newest|undefined} newest @param {boolean} known @param {[string, string]} why there is no value
 * @param {string} whose of several tasks the value is @param {string} [task] the one that decides
 */
function stat(shown, id, newest, known, why, whose, task) {
  const head = el("h3", {}, term(nameOf(id), tipOf(id)));
  if (newest?.value === undefined) {
    if (!known) return el("div", { class: "stat", "data-score": id }, head, el("div", { class: "val" }, "…"));
    return el("div", { class: "stat undef", "data-score": id }, head, el("div", { class: "val word" }, why[0]), el("span", { class: "hatch" }),
      el("p", { class: "small" }, why[1]));
  }
  const { value, standard_error: error } = newest;
  // Each task is judged by its own value.
  const limit = whose && !task ? undefined : shown.limitOf(id);
  const half = error === undefined ? 0 : HALF * error;
  const beyond = limit ? (limit.bad === "above" ? value - half > limit.limit : value + half < limit.limit) : false;
  const [from, to] = limit?.bad === "below" || /accuracy$|^(task|concept)_r2$/.test(id) ? [Math.min(0.5, value - half), 1]
    : [Math.min(0, value - half), Math.max(0.4, value + half, (limit?.limit ?? 0) * 1.5)];
  const place = (/** @type {number} */ at) => `${(100 * Math.max(0, Math.min(1, (at - from) / (to - from)))).toFixed(1)}%`;
  const text = limit ? `limit ${limit.limit}${beyond ? (limit.bad === "above" ? ", above it" : ", below it") : ""}` : "";
  return el("div", { class: "stat", "data-score": id }, head,
    el("div", { class: beyond && limit?.bad === "above" ? "val bad" : "val" }, valueText(id, value),
      el("small", {}, half ? ` ± ${halfText(id, error)}` : "")),
    el("div", { class: "gauge", "aria-hidden": "true", "--c": beyond && limit?.bad === "above" ? "var(--leak)" : "var(--ink-2)" },
      limit && el("u", { style: `left: ${place(limit.limit)}` }),
        half > 0 && el("i", { style: `left: ${place(value - half)}; width: calc(${place(value + half)} - ${place(value - half)})` }),
        el("b", { style: `left: ${place(value)}` })),
    el("p", { class: "small dim" }, [whose, text].filter(Boolean).join(" · ") || " "));
}
