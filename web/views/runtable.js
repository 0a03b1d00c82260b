// The table of runs: draws it again when something has changed, and keeps the focus.
import { prefsAt, titleOf } from "../data/prefs.js";
import { wantRows } from "../data/store.js";
import { saveMenu } from "../saving.js";
import { stateOf } from "../labels.js";
import { el } from "../text.js";
import { afterFrame } from "../scheduler.js";
import { FIXED, columnPicker, columnsOf, header } from "./columns.js";
import { RowLayout } from "./rowlayout.js";
import { RunList, order } from "./runlist.js";
import { RunRows } from "./runrow.js";

/**
 * @import { Listed, Shown } from "../data/shown.js"
 * @import { Column } from "./columns.js"
 * @import { Item } from "./runlist.js"
 */

/** @param {HTMLElement} host */
export function runTable(host) {
  const picker = columnPicker();
  const head = el("thead", { role: "rowgroup" });
  const table = el("table", { class: "runs", role: "table" }, head);
  const where = el("div", { class: "place", hidden: true });
  host.append(table, where);
  const rows = new RunRows();
  let choices = 0;
  /** @type {Shown|null} */
  let last = null;
  const list = new RunList((one) => rows.node(one), () => { choices += 1; if (last) draw(last); });
  const layout = new RowLayout(table, head, where, () => {
    rows.trim();
    const inSight = [...table.querySelectorAll("tr[data-run]")].map((/** @type {any} */ row) => row.dataset.run);
    wantRows(inSight.filter((run) => !last?.rows.has(run)));
  });
  /** @type {Item[]} */
  let items = [];
  let itemsOf = "";
  /** @type {any} */
  let of = null;
  let headOf = "";
  let mark = (/** @type {Shown} */ _) => {};

  /** @param {Shown} shown */
  function draw(shown) {
    last = shown;
    const columns = columnsOf(shown);
    picker.draw(shown, columns);
    const focus = document.activeElement?.getAttribute("data-key");
    const { view } = shown;
    const nowHead = JSON.stringify(columns);
    if (nowHead !== headOf) {
      headOf = nowHead;
      mark = header(head, columns, () => last?.listed ?? []);
    }
    mark(shown);
    rows.take(shown, columns);
    const now = JSON.stringify([view.sort, view.group, view.q, columns, choices, prefsAt()]);
    if (of !== shown.of || now !== itemsOf) {
      [of, itemsOf] = [shown.of, now];
      items = list.items(shown, columns);
    }
    const moved = layout.show(items, columns.length + FIXED);
    afterFrame(table, moved ? () => layout.fill() : () => layout.layOut());
    if (focus && document.activeElement?.getAttribute("data-key") !== focus) {
      /** @type {HTMLElement|null} */ (table.querySelector(`[data-key="${CSS.escape(focus)}"]`))?.focus();
    }
  }

  return { draw, picker: picker.root, menu: saveMenu("the runs", { csv: () => last && tableOf(last, columnsOf(last)) }) };
}

/** The listed runs in their order, with all labels and scores, as a file has them. @param {Shown} shown @param {Column[]} columns */
function tableOf(shown, columns) {
  const listed = order(shown, columns);
  const labels = shown.labels.map(({ name }) => name);
  const scores = [...new Set(listed.flatMap(({ row }) => Object.keys(row?.scores ?? {})))];
  const of = (/** @type {Listed} */ { run, row }) => [run.name, titleOf(run.name), shown.view.split, stateOf(row),
    row?.verdict?.task, row?.verdict?.since?.step, row?.step, row?.epoch, row?.time, row?.rows, ...labels.map((label) => run.labels[label]),
    ...scores.flatMap((id) => [row?.scores[id]?.value, row?.scores[id]?.standard_error])];
  return { name: `runs ${shown.view.split}`, rows: listed.map(of),
    columns: ["run", "title", "split", "verdict", "task", "since_step", "step", "epoch", "time", "rows", ...labels.map((label) => `label:${label}`),
      ...scores.flatMap((id) => [id, `${id}_standard_error`])] };
}
