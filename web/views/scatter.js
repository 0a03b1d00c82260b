// Leakage against task accuracy: a mark for each run, and the front of those that no other run beats in both.
import { figure } from "../charts/figure.js";
import { chartText, limitIn } from "../charts/lines.js";
import { titleOf } from "../data/prefs.js";
import { frontOf } from "../data/front.js";
import { matcher } from "../data/query.js";
import { el, plural, shortened } from "../text.js";
import { STATES, labelName, nameOf, newestOf, rangeOf, stateOf, tipOf, valueText, wordOf } from "../labels.js";

/**
 * @import { Shown } from "../data/shown.js"
 * @import { Line } from "../charts/spec.js"
 */

const [ACROSS, DOWN] = ["task_accuracy", "ctl_conditional"];
/** Marks, of the newest runs; names of the front in the sentence, and their characters. */
const [MOST, NAMED, NAME] = [500, 4, 40];
/** The colour and the mark of each verdict, in the order of the states: triangles, squares, circles and diamonds. */
const COLORS = ["--leak", "--warn", "--ok", "--ink-3", "--ink-3", "--ink-3"];
const SHAPES = [1, 4, 0, 0, 2, 2];

/** @param {HTMLElement} host */
export function scatterPanel(host) {
  const said = el("p", {});
  host.classList.add("scatter");
  /** @type {any} */
  let table = null;
  const chart = figure({ id: "scatter", name: nameOf(DOWN), unit: `${wordOf(DOWN).unit}, over ${nameOf(ACROSS).toLowerCase()}`, tip: tipOf(DOWN),
    group: "scatter", csv: () => table });
  host.append(el("header", {}, el("h2", {}, "Leakage against task accuracy"), said), chart.root);

  /** @param {Shown} shown @param {string} label that tells models apart */
  return function draw(shown, label) {
    const matches = matcher(shown.view.where);
    const runs = shown.runs.flatMap((run) => {
      const row = shown.rows.get(run.name);
      const [x, y] = [ACROSS, DOWN].map((id) => newestOf(row, id)?.value);
      // A run that has only begun leaks little and has learnt little.
      const begun = stateOf(row) === "too_early";
      if (begun || x === undefined || y === undefined || !matches(run, titleOf(run.name), row)) return [];
      const value = run.labels[label];
      const name = `${titleOf(run.name)}${value === undefined ? "" : `, ${labelName(label)} = ${value}`}`;
      return [{ run, name, state: stateOf(row), task: row?.verdict?.task, x, y }];
    }).slice(0, MOST);
    host.hidden = runs.length < 2;
    if (host.hidden) return;
    const front = frontOf(runs);
    const names = front.slice(0, NAMED).map(({ name, x, y }) =>
      `${shortened(name, NAME)} (${valueText(DOWN, y)} at ${valueText(ACROSS, x)})`);
    const more = front.length > NAMED ? `; and ${front.length - NAMED} more` : "";
    said.textContent = `No run has less leakage at as high an accuracy as ${names.join("; ")}${more}. `
      + `Of ${plural(runs.length, "run")}, triangles leak, squares possibly leak, on circles no leakage is found, and diamonds have no verdict.`;
    table = { name: `${DOWN} over ${ACROSS}`, columns: ["run", label, "verdict", ACROSS, DOWN, "on_front"],
      rows: runs.map((one) => [one.run.name, one.run.labels[label], one.state, one.x, one.y, front.includes(one)]) };
    /** @type {Line[]} */
    const lines = [{ name: "Pareto front", color: "--ink-2", look: 0, x: front.map(({ x }) => x), y: front.map(({ y }) => y) },
      ...runs.map(({ name, state, x, y }) => ({ name, color: COLORS[STATES.indexOf(state)], look: SHAPES[STATES.indexOf(state)], x: [x], y: [y] }))];
    chart.show({ lines, along: nameOf(ACROSS).toLowerCase(), zoom: null, logx: false, logy: false, smooth: 0, least: wordOf(DOWN).axis, range: rangeOf(DOWN),
      within: rangeOf(ACROSS),
      text: chartText(DOWN), points: true, scatter: true,
      limit: limitIn(shown, DOWN, runs.flatMap(({ run, task }) => (task ? [] : [run]))) }, JSON.stringify([lines, shown.theme]));
  };
}
