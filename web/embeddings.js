// What the embeddings of a CEM carry: task information in the mixed, positive and negative vectors of each concept.
import { bar, sorted } from "./concepts.js";
import { latestPoint } from "./curves.js";
import { roundUp } from "./order.js";
import { seriesColor } from "./palette.js";
import { saveButtons } from "./saving.js";
import { breakable, el, withError } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./state.js").View} View
 */

/** The same estimate of three kinds of vectors. */
const KINDS = [["embedding_ct", "mixed, ĉʷ"], ["embedding_ct_positive", "positive, ĉ⁺"], ["embedding_ct_negative", "negative, ĉ⁻"]];
/** What is read beside them. */
const BESIDE = ["embedding_ic", "embedding_self", "alignment_leakage"];

/** @param {HTMLElement} host */
export function embeddings(host) {
  const note = el("span", { class: "dim" });
  const facts = el("dl", { class: "facts" });
  const list = el("div", { class: "bars", role: "list" });
  let drawn = "";
  /** @type {{name: string, columns: string[], rows: any[][]}|null} */
  let table = null;
  host.replaceChildren(
    el("div", { class: "panel-head" }, el("h2", {}, "Embeddings: task information per concept"), note, saveButtons(() => table, () => null)), facts, list);

  /**
   * @param {View} view
   * @param {Score[]} scores
   * @param {Run[]} shown runs with points
   * @param {string} split
   */
  return function draw(view, scores, shown, split) {
    const outcomes = (/** @type {Run|undefined} */ run) => (run && latestPoint(run.name, split)?.scores) || {};
    const has = (/** @type {Run} */ run) => KINDS.some(([id]) => outcomes(run)[id] !== undefined);
    const candidates = shown.filter(has);
    const focus = candidates.find((run) => run.name === view.focus) ?? candidates[0];
    host.hidden = !focus;
    if (!focus) return;
    const found = outcomes(focus);
    const now = JSON.stringify([focus.name, split, view.order, found, KINDS.map((_, i) => seriesColor(i))]);
    if (now === drawn) return;
    drawn = now;
    note.textContent = `${focus.name}, ${split}`;
    const columns = KINDS.map(([id, kind], i) => ({ id, kind, color: seriesColor(i), values: found[id]?.per_concept ?? [] }));
    const fact = (/** @type {string} */ id, /** @type {string} */ title, /** @type {string|null} */ color) => {
      const outcome = found[id];
      const text = !outcome ? "–" : outcome.value === undefined ? `undefined: ${outcome.undefined}` : withError(outcome.value, outcome.standard_error);
      const swatch = color === null ? [] : [el("span", { class: "swatch", color })];
      return [el("dt", { title: scores.find((one) => one.id === id)?.help ?? "" }, ...swatch, title), el("dd", {}, text)];
    };
    facts.replaceChildren(
      ...columns.flatMap(({ id, kind, color }) => fact(id, kind, color)),
      ...BESIDE.flatMap((id) => fact(id, scores.find((one) => one.id === id)?.title ?? id, null)));
    table = {
      name: `embeddings per concept ${split}`, columns: ["concept", ...columns.map(({ id }) => id)],
      rows: focus.concepts.map((name, at) => [name, ...columns.map(({ values }) => values[at])]),
    };
    const all = columns.flatMap(({ values }) => values).filter((value) => value !== null);
    const end = roundUp(all.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
    list.classList.toggle("signed", all.some((value) => value < 0));
    list.replaceChildren(...sorted(focus.concepts, columns[0].values, view.order).map((name) => {
      const at = focus.concepts.indexOf(name);
      const bars = columns.map(({ kind, color, values }) => bar(kind, color, values[at], end));
      return el("div", { class: "bar-row", role: "listitem" },
        el("span", { class: "bar-name" }, ...breakable(name)), el("div", { class: "bar-stack" }, ...bars));
    }));
  };
}
