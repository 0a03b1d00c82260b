// Per-concept values of the newest points as bars, a few runs side by side.
import { choice } from "./controls.js";
import { latestPoint } from "./curves.js";
import { runColor } from "./palette.js";
import { roundUp } from "./order.js";
import { saveButtons } from "./saving.js";
import { change } from "./state.js";
import { breakable, el, onScale, probability } from "./text.js";

/**
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./state.js").View} View
 */

/** More runs than this would make the bars too thin to compare. */
const MOST_RUNS = 4;

/** @param {HTMLElement} host */
export function conceptBars(host) {
  const score = choice("score", (value) => change({ bars: value }));
  const title = el("h2");
  const note = el("span", { class: "dim" });
  const list = el("div", { class: "bars", role: "list" });
  const reasons = el("p", { class: "note" });
  let drawn = "";
  /** @type {{name: string, columns: string[], rows: any[][]}|null} */
  let table = null;
  host.replaceChildren(el("div", { class: "panel-head" }, title, note, saveButtons(() => table, () => null)), el("div", { class: "controls inner" }, score.root), list, reasons);

  /**
   * @param {View} view
   * @param {Score[]} scores those with values per concept
   * @param {Run[]} shown
   * @param {string} split
   */
  return function draw(view, scores, shown, split) {
    const chosen = scores.find((one) => one.id === view.bars) ?? scores[0];
    const focus = shown.find((run) => run.name === view.focus) ?? shown[0];
    host.hidden = !chosen || !focus;
    if (!chosen || !focus) return;
    score.set(scores.map((one) => [one.id, one.title]), chosen.id);
    title.textContent = `${chosen.title}: per concept`;
    const compared = [focus, ...shown.filter((one) => one !== focus)].slice(0, MOST_RUNS);
    note.textContent = shown.length > compared.length ? `${compared.length} of ${shown.length} runs` : "";
    const columns = compared.map((run) => {
      const outcome = latestPoint(run.name, split)?.scores[chosen.id];
      return { run, color: runColor(run.name), values: outcome?.per_concept ?? [], qs: outcome?.per_concept_q ?? [], why: outcome?.undefined };
    });
    const now = JSON.stringify([chosen.id, view.order, view.concept, columns.map(({ run, color, values, qs, why }) => [run.name, color, values, qs, why])]);
    if (now === drawn) return;
    drawn = now;
    table = {
      name: `${chosen.id} per concept ${split}`, columns: ["concept", ...compared.map((run) => run.name)],
      rows: focus.concepts.map((name) => [name, ...columns.map(({ run, values }) => values[run.concepts.indexOf(name)])]),
    };
    const all = columns.flatMap(({ values }) => values).filter((value) => value !== null);
    const end = roundUp(all.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
    const signed = all.some((value) => value < 0);
    // Some concepts may have a value where the mean over all has none.
    reasons.replaceChildren(...columns.filter(({ why }) => why).map(({ run, why }) => el("span", {}, `× mean undefined: ${why}: ${run.name}`)));
    list.classList.toggle("signed", signed);
    list.replaceChildren(...sorted(focus.concepts, columns[0].values, view.order).map((name) => {
      const bars = columns.map(({ run, color, values, qs }) => {
        const at = run.concepts.indexOf(name);
        return bar(run.name, color, values[at], end, qs[at]);
      });
      return el("div", { class: "bar-row", role: "listitem" },
        el("button", {
          type: "button", class: "bar-name", title: `Show the curves of ${name}`, "aria-pressed": view.concept === name,
          onclick: () => change({ concept: view.concept === name ? null : name }),
        }, ...breakable(name)),
        el("div", { class: "bar-stack" }, ...bars));
    }));
  };
}

/** @param {string[]} names @param {(number|null)[]} values @param {View["order"]} order */
export function sorted(names, values, order) {
  if (order === "given") return names;
  const value = new Map(names.map((name, i) => [name, values[i] ?? -Infinity]));
  if (order === "name") return names.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return names.toSorted((a, b) => Number(value.get(b)) - Number(value.get(a)) || 0);
}

/**
 * @param {string} run @param {string} color @param {number|null|undefined} value @param {number} end
 * @param {number|null} [q] its p-value, adjusted over the concepts
 */
export function bar(run, color, value, end, q = null) {
  const known = value !== null && value !== undefined;
  const text = known ? onScale(value, end) : "×";
  const fill = el("i", { color, class: known && value < 0 ? "negative" : false });
  fill.style.setProperty("--share", String(known ? Math.min(1, Math.abs(value) / end) : 0));
  return el("div", { class: "bar", title: `${run}: ${known ? text : "undefined"}${q === null ? "" : `, q ${probability(q)}`}` }, el("span", { class: "bar-track" }, fill), el("span", { class: "bar-value" }, text));
}
