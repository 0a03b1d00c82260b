// The rows of the newest evaluation that leak most, closed until someone wants them.
import { answers } from "../data/answers.js";
import { carried } from "../data/api.js";
import { tipOf, valueText } from "../labels.js";
import { options } from "./overview.js";
import { saveMenu } from "../saving.js";
import { el, headRow, icon, scroller } from "../text.js";
import { term } from "../tip.js";
import { watcher } from "../scheduler.js";

/**
 * @import { LeakingRow, LeakingRows, Point } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

const SCORE = "ctl_conditional";
const COLUMNS = /** @type {const} */ (["id", "local", "term", "task_label", "group"]);

/** @param {any} host a details element @param {() => void} again draws the page again */
export function leakingRowsPanel(host, again) {
  const concept = el("select", { "aria-label": "Concept of the rows", onchange: again });
  const said = el("p", { class: "small dim" });
  const body = el("div", { class: "body" });
  /** @type {any} */
  let table = null;
  host.append(el("summary", {}, icon("chev", "i chev"), el("h2", {}, "Rows that leak most"),
    el("span", { class: "small dim" }, "at the newest evaluation, which their sidecar keeps until it ends")),
    el("div", { class: "save-line" }, saveMenu("the rows", { csv: () => table })),
    el("div", { class: "rows-line" }, said, concept), body);
  host.addEventListener("toggle", again);
  const rows = answers("rows", again);
  const isNew = watcher();

  /** @param {Shown} shown @param {Point|null} point */
  return function draw(shown, point) {
    host.hidden = carried !== null || point?.scores[SCORE]?.value === undefined;
    if (host.hidden || !host.open) return;
    const { run, split } = shown.view;
    const { concepts: names = [], tasks = [] } = shown.runs.find((one) => one.name === run) ?? {};
    options(concept, [["", "Mean over concepts"], ...names.map((name) => [name, name])], names.includes(concept.value) ? concept.value : "");
    const asked = { run, split, score: SCORE, concept: concept.value || null };
    const { body: found, why } = rows(asked, `${point?.step}/${point?.time}/${point?.seconds}`);
    if (!isNew(run, split, concept.value, found, why)) return;
    const task = found?.task && tasks.length > 1 ? ` Task ${found.task}, which leaks most.` : "";
    said.textContent = why ?? (found ? `Step ${found.step}.${task} Rows are ordered by the mean over rows like them, which varies less than a row's own part.` : "");
    table = found && { name: `rows ${run} step ${found.step}`, columns: COLUMNS,
      rows: found.rows.map((/** @type {LeakingRow} */ row) => COLUMNS.map((name) => (name === "id" ? idText(row.id) : row[name]))) };
    body.replaceChildren(...(found ? [scroller("Rows that leak most, scrollable", "", tableOf(found))] : []));
  };
}

/** An id that JavaScript has rounded is not shown. @param {number} id */
const idText = (id) => (Number.isSafeInteger(id) ? String(id) : "above 2⁵³: see run.rows()");

/** @param {LeakingRows} found */
function tableOf({ rows }) {
  const hasGroups = rows.some(({ group }) => group !== null);
  const cells = (/** @type {LeakingRow} */ { local, term: own, task_label: label, group }) =>
    [valueText(SCORE, local), valueText(SCORE, own), label, ...(hasGroups ? [group] : [])].map((text) => el("td", { class: "n" }, String(text)));
  const numbers = ["Its own part", "Task label", ...(hasGroups ? ["Group"] : [])];
  const ofNumbers = (/** @type {string} */ name) => /** @type {[string, string]} */ ([name, "n"]);
  return el("table", { class: "plain" },
    headRow(["Sample id"], [term("Leakage around it", tipOf(SCORE)), "n"], ...numbers.map(ofNumbers)),
    el("tbody", {}, ...rows.map((row) => el("tr", { "data-row": row.id }, el("th", { scope: "row" }, idText(row.id)), ...cells(row)))));
}
