// The k × k heat map of one run, with concept names.
import { get } from "./api.js";
import { choice } from "./controls.js";
import { heatScale, pageColor } from "./palette.js";
import { orderOf, roundUp } from "./order.js";
import { saveButtons } from "./saving.js";
import { change } from "./state.js";
import { hideTip, showTip } from "./tip.js";
import { duration, el, number, onScale, plotText, probability, shortened } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./api.js").Matrix} Matrix
 * @typedef {import("./state.js").View} View
 */

const LIMITS = ["", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"];
/** Cells from this many pixels on carry their value. */
const CELL_TEXT = 42;
/** Longer names are cut on the axes; the box beside the pointer has them whole. */
const MOST_NAME = 26;

/**
 * @param {HTMLElement} host
 * @param {"matrix"|"beside"} which of the two, by the part of the view that names its score
 */
export function heatMap(host, which) {
  const run = choice("run", (value) => change({ focus: value }));
  const score = choice("score", (value) => change({ [which]: value }));
  const order = choice("order", (value) => change({ order: /** @type {any} */ (value) }));
  const limit = choice("scale to", (value) => change({ limit: Number(value) || null }));
  const when = el("input", { type: "range", min: 0, "aria-label": `Step of the ${which === "matrix" ? "first" : "second"} heat map`, oninput: () => pickStep() });
  const whenText = el("output", { class: "dim" });
  const title = el("h2", { id: `title-${which}` });
  const plot = el("div", { class: "plot-matrix", role: "img", "aria-labelledby": `title-${which}` });
  const note = el("p", { class: "note" });
  host.replaceChildren(el("div", { class: "panel-head" }, title, saveButtons(table, () => plot)),
    el("div", { class: "controls inner" }, run.root, score.root, order.root, limit.root,
      el("label", { class: "choice" }, el("span", {}, "step"), when, whenText)),
    plot, note);

  /** @type {{key: string, matrix: Matrix|null, why: string|null}} */
  let held = { key: "", matrix: null, why: null };
  let drawn = "";
  /** @type {string|null} the fetch under way */
  let fetching = null;
  /** @type {number|null} null: the latest */
  let step = null;
  let stepsOf = "";
  /** @type {number[]} */
  let steps = [];
  /** @type {{view: View, focus: Run, shown: Run[], score: Score, scores: Score[], split: string}|null} */
  let asked = null;

  function table() {
    const matrix = held.matrix;
    if (!asked || !matrix) return null;
    const names = matrix.concepts;
    return {
      name: `${asked.score.id} ${asked.focus.name} step ${matrix.step}`, columns: ["activation of", ...names],
      rows: matrix.matrix.map((row, i) => [names[i], ...row]),
    };
  }

  function pickStep() {
    step = Number(when.value) >= steps.length - 1 ? null : steps[Number(when.value)];
    refresh();
  }

  /** One fetch at a time; when something newer was asked for meanwhile, it follows. */
  async function refresh() {
    if (!asked) return;
    const { focus, split, score } = asked;
    const newest = steps.at(-1) ?? null;
    whenText.textContent = newest === null ? "" : step === null ? `${newest} (latest)` : String(step);
    const key = JSON.stringify([focus.name, split, score.id, step, step ?? newest]);
    if (fetching !== null || key === held.key) return render();
    fetching = key;
    try {
      const matrix = await get("matrix", { run: focus.name, split, score: score.id, step });
      held = { key, matrix, why: null };
    } catch (error) {
      held = { key, matrix: null, why: /** @type {Error} */ (error).message };
    }
    fetching = null;
    refresh();
  }

  function render() {
    if (!asked) return;
    const { view, score: chosen } = asked;
    title.textContent = `${chosen.title}: concept by concept`;
    const matrix = held.matrix;
    note.textContent = held.why ?? (matrix ? describe(matrix) : "no matrix yet");
    plot.hidden = !matrix;
    if (!matrix) return;
    const room = host.clientWidth - 24;
    const now = JSON.stringify([held.key, view.order, view.limit, room, pageColor("--panel")]);
    if (now !== drawn) drawMatrix(plot, matrix, chosen, view, room);
    drawn = now;
  }

  /**
   * @param {View} view
   * @param {Run[]} shown
   * @param {Score[]} scores those with a matrix
   * @param {string} split
   * @param {(run: string, score: string) => number[]} stepsWith rising steps of the curve; where its mean is undefined, some pairs may not be
   */
  return function draw(view, shown, scores, split, stepsWith) {
    const focus = shown.find((one) => one.name === view.focus) ?? shown[0];
    const chosen = scores.find((one) => one.id === view[which]) ?? scores[which === "matrix" ? 0 : 1];
    host.hidden = !focus || !chosen;
    if (!focus || !chosen) return;
    asked = { view, focus, shown, score: chosen, scores, split };
    run.set(shown.map((one) => [one.name, one.name]), focus.name);
    score.set(scores.map((one) => [one.id, one.title]), chosen.id);
    order.set([["given", "as given"], ["value", "largest first"], ["alike", "pairs together"], ["name", "by name"]], view.order);
    limit.set(LIMITS.map((value) => [value, value || "the values"]), view.limit ? String(view.limit) : "");
    steps = stepsWith(focus.name, chosen.id);
    const of = JSON.stringify([focus.name, split]);
    if (of !== stepsOf) [step, stepsOf] = [null, of];
    when.max = String(Math.max(0, steps.length - 1));
    when.value = String(step === null ? steps.length - 1 : steps.indexOf(step));
    when.disabled = steps.length < 2;
    refresh();
  };
}

/** The strongest pair in words, and how old the oldest is. @param {Matrix} matrix */
function describe(matrix) {
  const oldest = Math.max(0, ...(matrix.ages ?? []).flat());
  return strongest(matrix) + (oldest > 0 ? ` · the oldest pair was computed ${duration(oldest)} before this evaluation, for want of CPU time` : "");
}

/** @param {Matrix} matrix */
function strongest({ concepts, matrix }) {
  let [top, from, to] = [-Infinity, 0, 0];
  matrix.forEach((row, i) => row.forEach((value, j) => {
    if (i !== j && value !== null && value > top) [top, from, to] = [value, i, j];
  }));
  return top === -Infinity ? "undefined for every pair" : top <= 0 ? "no pair is above 0" : `row: whose activation; column: the other concept · largest: ${concepts[from]} → ${concepts[to]} ${number(top)}`;
}

/**
 * @param {any} plot @param {Matrix} data @param {Score} score @param {View} view @param {number} room in pixels
 */
function drawMatrix(plot, data, score, view, room) {
  const k = data.concepts.length;
  const sorted = orderOf(data.concepts, view.order, data.matrix);
  const names = sorted.map((i) => data.concepts[i]);
  // A concept's information about itself is not leakage: its cell stays empty.
  const cells = sorted.map((i) => sorted.map((j) => (i === j ? null : data.matrix[i][j])));
  const defined = cells.flat().filter((value) => value !== null);
  const diverging = score.range[0] < 0 || defined.some((value) => value < 0);
  const end = view.limit ?? roundUp(defined.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  const size = k > 40 ? 9 : 11.5;
  const nameWidth = 12 + 0.6 * size * Math.min(MOST_NAME, names.reduce((most, name) => Math.max(most, name.length), 0));
  const cell = Math.max(5, Math.min(Math.max(48, Math.min(96, 330 / k)), Math.floor((Math.min(room, 1200) - nameWidth - 76) / k)));
  const side = cell * k;
  const upright = k > 3;
  const below = upright ? nameWidth : 2 * size;
  const [ink, dim, panel, hole] = ["--ink", "--dim", "--panel", "--hole"].map(pageColor);
  const ticks = (/** @type {number} */ visible) => {
    const every = Math.ceil((12 * visible) / side);
    const at = names.map((_, i) => i).filter((i) => i % every === 0);
    return { tickvals: at, ticktext: at.map((i) => plotText(shortened(names[i], MOST_NAME))) };
  };
  const axis = {
    tickmode: "array", ...ticks(k), showgrid: false, zeroline: false,
    ticks: "", range: [-0.5, k - 0.5], tickfont: { size, color: ink }, constrain: "domain",
  };
  globalThis.Plotly.react(plot, [{
    type: "heatmap", z: cells, hoverinfo: "none", zmin: diverging ? -end : 0, zmax: end, colorscale: heatScale(diverging),
    xgap: cell > 8 ? 1 : 0, ygap: cell > 8 ? 1 : 0,
    text: cells.map((row) => row.map((value) => (value === null ? "" : onScale(value, end)))),
    texttemplate: cell >= CELL_TEXT ? "%{text}" : "", textfont: { size: 11 },
    colorbar: { thickness: 10, len: 1, outlinewidth: 0, tickfont: { color: dim, size: 10.5 }, nticks: 6, x: 1.01, xpad: 4 },
  }], {
    width: side + nameWidth + 76, height: side + below + 12,
    margin: { l: nameWidth, r: 76, t: 6, b: below + 6, pad: 3 },
    paper_bgcolor: panel, plot_bgcolor: hole, font: { family: "system-ui, sans-serif", size: 11.5, color: ink },
    xaxis: { ...axis, tickangle: upright ? -90 : 0 }, yaxis: { ...axis, range: [k - 0.5, -0.5] },
    dragmode: "zoom", uirevision: JSON.stringify([k, view.order]),
  }, { displayModeBar: false, showTips: false });
  if (!plot.listening) listen(plot);
  plot.ticks = ticks;
  plot.tell = (/** @type {any} */ event) => {
    plot.told = event;
    const { x, y } = event.points[0];
    if (!names[x] || !names[y]) return hideTip();
    const value = cells[y]?.[x];
    const age = data.ages?.[sorted[y]]?.[sorted[x]];
    const q = data.matrix_q?.[sorted[y]]?.[sorted[x]] ?? null;
    showTip(event.event, el("div", {}, el("strong", {}, names[y]), " → ", el("strong", {}, names[x])),
      el("div", {}, `${score.title} ${x === y ? "of a concept with itself is not counted" : value === null ? "undefined" : number(value)}`),
      ...(q === null || x === y ? [] : [el("div", { class: "dim" }, `q ${probability(q)}, over all pairs`)]),
      ...(age === undefined || x === y ? [] : [el("div", { class: "dim" }, age > 0 ? `computed ${duration(age)} before this evaluation` : "computed in this evaluation")]));
  };
  // An open box describes what is drawn now.
  if (plot.told) plot.tell(plot.told);
}

/** @param {any} plot */
function listen(plot) {
  plot.listening = true;
  plot.on("plotly_hover", (/** @type {any} */ event) => plot.tell(event));
  plot.on("plotly_unhover", () => {
    plot.told = null;
    hideTip();
  });
  // Zoomed in there is room for more names.
  plot.on("plotly_relayout", (/** @type {any} */ change) => {
    for (const axis of ["xaxis", "yaxis"]) {
      if (!(`${axis}.range[0]` in change || `${axis}.autorange` in change)) continue;
      const [from, to] = plot.layout[axis].range;
      const { tickvals, ticktext } = plot.ticks(Math.abs(to - from));
      globalThis.Plotly.relayout(plot, { [`${axis}.tickvals`]: tickvals, [`${axis}.ticktext`]: ticktext });
    }
  });
}
