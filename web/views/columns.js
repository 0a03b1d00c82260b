// The columns of the table of runs: which are shown, the head that sorts by them, and the menu that chooses them.
import { columns as keptColumns, keepColumns } from "../data/prefs.js";
import { closing } from "../saving.js";
import { change, current } from "../data/state.js";
import { el } from "../text.js";
import { term } from "../tip.js";
import { labelName, nameOf, tipOf, wordOf } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Listed, Shown } from "../data/shown.js"
 * @typedef {{id: string, label: boolean, width?: number}} Column width: pixels of a label's values or its name
 */

const SCORES = ["ctl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy"];
const MORE_SCORES = ["icl_conditional", "ctl", "icl"];
/** Columns that narrow windows leave out. */
const OPTIONAL = ["concept_accuracy", "icl_conditional", "ctl", "icl"];
/** Labels that have a column unless others are chosen. */
const LABELS = 2;
/** Columns before those of scores and labels. */
export const FIXED = 4;

/** @param {Column} column */
export function cellClass({ id, label }) {
  if (label) return "n num opt label";
  return `n ${id === "ctl_conditional" ? "lk" : "num"}${OPTIONAL.includes(id) ? " opt" : ""}`;
}

/** Returns the label of a column's id, or null for a score. @param {string} id */
export const labelOf = (id) => (id.startsWith("label:") ? id.slice(6) : null);

/** @param {Column} column */
const idOf = ({ id, label }) => (label ? `label:${id}` : id);

/** @param {Shown} shown @returns {Column[]} */
export function columnsOf(shown) {
  const valuesOf = new Map(shown.labels.map(({ name, values }) => [name, values]));
  const ofLabel = (/** @type {string} */ name) => ({ id: name, label: true, width: widthOf(name, valuesOf.get(name) ?? []) });
  const ofScore = (/** @type {string} */ id) => ({ id, label: false });
  const kept = keptColumns();
  if (kept) {
    return kept.flatMap((id) => {
      const label = labelOf(id);
      return label === null ? [ofScore(id)] : valuesOf.has(label) ? [ofLabel(label)] : [];
    });
  }
  const differing = shown.labels.filter(({ values }) => values.length > 1).slice(0, LABELS);
  return [...SCORES.map(ofScore), ...differing.map(({ name }) => ofLabel(name))];
}

/** Pixels that a label's column takes, as far as the names of runs can spare them. @param {string} label @param {string[]} values */
function widthOf(label, values) {
  const longest = values.reduce((most, value) => Math.max(most, value.length), 0);
  return Math.round(Math.min(130, Math.max(56, 7 * labelName(label).length + 30, 7.2 * longest + 32)));
}

/**
 * Fills the head of the table.
 * @param {any} head @param {Column[]} columns @param {() => Listed[]} listed
 * @returns {(shown: Shown) => void} marks how the rows are sorted, and whether all are in the charts
 */
export function header(head, columns, listed) {
  /** @type {Map<string, {root: HTMLElement, arrow: HTMLElement}>} */
  const cells = new Map();
  const cell = (/** @type {string} */ id, /** @type {string} */ text, /** @type {string} */ className, /** @type {number} */ width = 0,
    /** @type {string|null} */ title = null) => {
    const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
    const onclick = () => {
      const { sort } = current();
      change({ sort: sort === id ? `-${id}` : sort === `-${id}` ? "" : id });
    };
    const button = el("button", { class: "sort", "data-key": `sort ${id}`, title, onclick }, text, arrow);
    const root = el("th", { scope: "col", class: className, style: width ? `width: ${width}px` : null, role: "columnheader" }, button);
    cells.set(id, { root, arrow });
    return root;
  };
  const all = el("input", { type: "checkbox", "aria-label": "Show all listed runs in the charts", "data-key": "show all",
    onchange: () => change({ show: all.checked ? listed().map(({ run }) => run.name) : null }) });
  head.replaceChildren(el("tr", { "aria-rowindex": "1", role: "row" }, el("th", { scope: "col", role: "columnheader" }, all),
    cell("name", "Run", "name-col"), cell("verdict", "Verdict", "vd-col"),
    el("th", { scope: "col", class: "sp-col", role: "columnheader" }, term("Over epochs", tipOf("ctl_conditional"))),
    ...columns.map((column) => cell(idOf(column), column.label ? labelName(column.id) : wordOf(column.id).short ?? nameOf(column.id),
      cellClass(column), column.width, column.label ? null : nameOf(column.id)))));
  return ({ view: { sort }, listed: rows, slot }) => {
    for (const [id, { root, arrow }] of cells) {
      const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : null;
      const sign = direction === null ? "" : direction === "ascending" ? "↑" : "↓";
      if (arrow.textContent === sign) continue;
      arrow.textContent = sign;
      if (direction === null) root.removeAttribute("aria-sort");
      else root.setAttribute("aria-sort", direction);
    }
    all.checked = rows.length > 0 && rows.length <= slot.size && rows.every(({ run }) => slot.has(run.name));
    all.indeterminate = !all.checked && slot.size > 0;
  };
}

/** The menu of columns. */
export function columnPicker() {
  const box = el("div", { class: "menu-box" });
  const root = closing(el("details", { class: "menu desk" }, el("summary", { class: "btn quiet" }, "Columns"), box));
  const isNew = watcher();
  return {
    root,
    /** @param {Shown} shown @param {Column[]} columns */
    draw(shown, columns) {
      const on = columns.map(idOf);
      const all = [...SCORES, ...MORE_SCORES, ...shown.labels.map(({ name }) => `label:${name}`)];
      if (!isNew(on, all)) return;
      const entry = (/** @type {string} */ id) => {
        const check = el("input", { type: "checkbox", onchange: () => keepColumns(all.filter((one) => (one === id ? check.checked : on.includes(one)))) });
        check.checked = on.includes(id);
        const label = labelOf(id);
        return el("label", { class: "entry" }, check, label === null ? nameOf(id) : labelName(label));
      };
      box.replaceChildren(...all.map(entry), el("button", { class: "entry", onclick: () => keepColumns(null) }, "The usual ones"));
    },
  };
}
