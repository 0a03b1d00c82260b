// One chart per score: the shown runs laid over each other.
import { alertTip, alertsVersion, baselineOf, firedOf, limitsOf } from "./alerts.js";
import { curve } from "./curves.js";
import { pageColor, runColor, runSymbol } from "./palette.js";
import { hideTip, pointTip, showTip } from "./tip.js";
import { saveButtons } from "./saving.js";
import { change } from "./state.js";
import { alertTraces, tracesOf } from "./traces.js";
import { el, overText, plotText } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./state.js").View} View
 * @typedef {{score: Score, root: HTMLElement, title: HTMLElement, plot: any, note: HTMLElement, drawn: string,
 *   table: () => any}} Chart
 */

/** Bands of more runs than this would cover each other. */
const FAINT_FROM = 8;
const AXIS_TITLES = { step: "step", epoch: "epoch", elapsed: "minutes since the start of the run", time: "" };
const CONFIG = {
  displaylogo: false, showTips: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
};

const host = /** @type {HTMLElement} */ (document.getElementById("charts"));
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) if (/** @type {any} */ (target).data) globalThis.Plotly.Plots.resize(target);
});
/** @type {Map<string, Chart>} */
const charts = new Map();
/** @type {[any, any]|null} the stretch of the x axis that all charts show; null: everything */
let zoom = null;
let zoomAxis = "";
/** @type {string|null} the run whose row is pointed at */
let emphasis = null;

/** @param {string|null} run the others step back; null: none does */
export function emphasise(run) {
  emphasis = run;
  for (const { plot } of charts.values()) fade(plot);
}

/** @param {HTMLElement} plot */
function fade(plot) {
  for (const trace of plot.querySelectorAll(".scatterlayer .trace")) {
    const { name } = /** @type {any} */ (trace).__data__[0].trace;
    /** @type {SVGElement} */ (trace).style.opacity = emphasis === null || name === emphasis ? "" : "0.15";
  }
}

/**
 * @param {View} view
 * @param {Score[]} scores to show, in order
 * @param {Run[]} shown
 * @param {string} split
 */
export function drawCharts(view, scores, shown, split) {
  if (zoomAxis !== "" && zoomAxis !== view.x && view.zoom) {
    zoomAxis = view.x;
    change({ zoom: null });
    return;
  }
  [zoom, zoomAxis] = [view.zoom, view.x];
  for (const [id, chart] of charts) {
    if (scores.some((score) => score.id === id)) continue;
    resized.unobserve(chart.plot);
    globalThis.Plotly.purge(chart.plot);
    chart.root.remove();
    charts.delete(id);
  }
  for (const [place, score] of scores.entries()) {
    const chart = charts.get(score.id) ?? create(score);
    charts.set(score.id, chart);
    if (host.children[place] !== chart.root) host.insertBefore(chart.root, host.children[place] ?? null);
  }
  host.classList.toggle("many", scores.length > 2);
  // Every chart has its size only now.
  for (const chart of charts.values()) draw(chart, view, shown, split);
}

/** @param {Score} score @returns {Chart} */
function create(score) {
  const title = el("h2", { id: `title-${score.id}` });
  const plot = el("div", { class: "plot", role: "img", "aria-labelledby": `title-${score.id}`, "aria-describedby": `note-${score.id}` });
  const note = el("p", { class: "note", id: `note-${score.id}` });
  resized.observe(plot);
  /** @type {Chart} */
  const chart = { score, root: el("section", { class: "panel chart", "data-score": score.id }), title, plot, note, drawn: "", table: () => null };
  const tools = el("div", { class: "tools" }, saveButtons(() => chart.table(), () => plot), about(score));
  chart.root.append(el("div", { class: "panel-head" }, title, tools), plot, note);
  return chart;
}

/** What the catalogue says of a score, opened by mouse or keyboard. @param {Score} score */
export function about(score) {
  return el("details", { class: "about" },
    el("summary", { "aria-label": `About ${score.title}`, title: score.help }, "?"),
    el("div", { class: "about-box" },
      el("p", {}, score.help),
      el("p", { class: "dim" }, [score.paper, score.equation, score.unit && `unit: ${score.unit}`,
        `range ${score.range.map((end) => end ?? "∞").join(" to ").replace("-", "−")}`].filter(Boolean).join(" · "))));
}

/** @param {Chart} chart @param {View} view @param {Run[]} shown @param {string} split */
function draw(chart, view, shown, split) {
  const { score, plot } = chart;
  const concept = score.per_concept ? view.concept : null;
  const drawn = shown.filter((run) => concept === null || run.concepts.includes(concept)).map((run) => {
    const known = curve(run.name, split, score.id, concept);
    const look = {
      run: run.name, color: runColor(run.name), symbol: runSymbol(run.name), axis: view.x, started: run.started,
      background: pageColor("--panel"), faint: shown.length > FAINT_FROM,
    };
    return { run, look, known };
  });
  const limits = concept === null ? limitsOf(score.id, split) : [];
  chart.table = () => tableOf(score, split, concept, drawn);
  const now = JSON.stringify([zoom, concept, alertsVersion(), drawn.map(({ look, known }) => [look, known.version])]);
  if (now === chart.drawn) return;
  chart.drawn = now;
  chart.title.textContent = (concept === null ? score.title : `${score.title} of ${concept}`) + (score.unit ? `  [${score.unit}]` : "");
  chart.note.replaceChildren(...remarks(drawn, view.x));
  const first = !plot.data;
  const curves = drawn.flatMap(({ look, known }) => tracesOf(known.points, look));
  const alerts = concept !== null ? [] : drawn.flatMap(({ look, known }) =>
    alertTraces(known.points, look, firedOf(look.run, split, score.id), baselineOf(look.run, split, score.id), pageColor("--bad")));
  const traces = [...curves, ...alerts];
  globalThis.Plotly.react(plot, traces, layoutOf(view, traces, limits), CONFIG);
  fade(plot);
  if (first) listen(chart);
  chart.plot.onhovered = (/** @type {any} */ event) => {
    const hit = event.points[0];
    const of = drawn.find(({ run }) => run.name === hit.data.name);
    if (!of || !hit.customdata) return;
    // The mark of an alert lies on its point: whichever is nearer to the pointer, the box shows the evidence.
    const alert = hit.customdata.alert ?? firedOf(of.run.name, split, score.id).find((one) => one.step === hit.customdata.step);
    if (alert) showTip(event.event, ...alertTip(alert, of.look.color));
    else showTip(event.event, ...pointTip(of.run, of.run.name, of.look.color, score.title, hit.customdata));
  };
}

/** @param {Chart} chart */
function listen({ plot }) {
  plot.on("plotly_hover", (/** @type {any} */ event) => plot.onhovered(event));
  plot.on("plotly_unhover", hideTip);
  plot.on("plotly_relayout", (/** @type {any} */ now) => {
    if ("xaxis.range[0]" in now) change({ zoom: [now["xaxis.range[0]"], now["xaxis.range[1]"]] });
    else if (now["xaxis.autorange"]) change({ zoom: null });
  });
}

/** Starts at 0 unless that would flatten the curves. @param {any[]} traces */
function startsAtZero(traces) {
  const values = traces.filter(({ meta }) => meta !== "undefined").flatMap(({ y }) => y.filter((/** @type {any} */ v) => v !== null));
  const [low, high] = values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  return low >= 0 && low < 0.6 * high;
}

/** @param {View} view @param {any[]} traces @param {ReturnType<typeof limitsOf>} limits */
function layoutOf(view, traces, limits) {
  const [ink, dim, grid, panel] = ["--ink", "--dim", "--grid", "--panel"].map(pageColor);
  const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: dim, zerolinewidth: 1, tickfont: { color: dim }, tickcolor: grid, ticks: "outside", ticklen: 3 };
  const empty = !traces.length && { text: "no points yet", showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: dim, size: 13 } };
  return {
    margin: { l: 52, r: 14, t: 8, b: view.x === "time" ? 36 : 38 },
    paper_bgcolor: panel, plot_bgcolor: panel, showlegend: false, hovermode: "closest", hoverdistance: 24, dragmode: "zoom",
    font: { family: "system-ui, sans-serif", size: 11.5, color: ink },
    modebar: { color: dim, activecolor: ink, bgcolor: "rgba(0,0,0,0)" },
    xaxis: { ...axis, uirevision: JSON.stringify(zoom), type: view.x === "time" ? "date" : "linear", zeroline: false, title: { text: AXIS_TITLES[view.x], standoff: 6, font: { color: dim, size: 11.5 } }, ...(zoom ? { range: [...zoom] } : { autorange: true }) },
    yaxis: { ...axis, rangemode: startsAtZero(traces) ? "tozero" : "normal", exponentformat: "power", nticks: 7 },
    // Undefined points have no value: they are drawn at the bottom of the chart.
    yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    annotations: empty ? [empty] : limits.map(({ rule, limit }) => ({
      text: plotText(rule.name), x: 0, xref: "paper", xanchor: "left", y: limit, yanchor: "bottom", showarrow: false, font: { color: dim, size: 10.5 },
    })),
    // A limit far from the curves stays out of view: it would flatten them.
    shapes: limits.map(({ rule, limit }) => ({
      type: "line", x0: 0, x1: 1, xref: "paper", y0: limit, y1: limit, layer: "below",
      line: { color: pageColor(rule.severity === "critical" ? "--bad" : "--warn"), width: 1.2, dash: "dash" },
    })),
    uirevision: view.x,
  };
}

/**
 * The values that a chart was drawn from.
 * @param {Score} score @param {string} split @param {string|null} concept
 * @param {{run: Run, known: import("./curves.js").Curve}[]} drawn
 */
function tableOf(score, split, concept, drawn) {
  const columns = ["run", "split", "score", "concept", "step", "epoch", "time", "value", "standard_error", "rows", "tie_fraction", "provisional", "incomplete", "undefined", "p_value", "left_out"];
  const rows = drawn.flatMap(({ run, known }) => known.points.map((point) => [
    run.name, split, score.id, concept, point.step, point.epoch, point.time, point.value, point.standard_error, point.rows, point.tie_fraction,
    point.provisional, point.incomplete, point.undefined, point.p_value ?? null, point.left_out?.concepts.map((i) => run.concepts[i]).join(" ") ?? null,
  ]));
  return { name: [score.id, concept, split].filter(Boolean).join(" "), columns, rows };
}

/** What the picture alone does not say. @param {{run: Run, known: import("./curves.js").Curve}[]} drawn @param {string} axis */
function remarks(drawn, axis) {
  const lines = [];
  /** @type {Map<string, string[]>} */
  const reasons = new Map();
  /** @type {Map<string, string[]>} */
  const parts = new Map();
  for (const { run, known } of drawn) {
    if (known.error) lines.push(el("span", { class: "bad" }, `${run.name}: ${known.error}`));
    const without = known.points.filter((point) => point.value === null);
    const last = without.at(-1);
    if (last) {
      const why = last.undefined ?? "no reason given";
      const where = without.length === 1 ? `step ${last.step}` : `${without.length} steps, last ${last.step}`;
      reasons.set(why, [...(reasons.get(why) ?? []), `${run.name} (${where})`]);
    }
    const newest = known.points.at(-1);
    if (newest?.left_out && newest.value !== null) {
      const why = `${overText(newest.left_out)}: ${newest.left_out.why}`;
      parts.set(why, [...(parts.get(why) ?? []), run.name]);
    }
    if (axis === "epoch" && known.points.length && known.points.every((point) => point.epoch === null)) {
      lines.push(el("span", {}, `${run.name}: states no epochs`));
    }
  }
  for (const [why, where] of parts) lines.push(el("span", {}, `${why}: ${where.join(", ")}`));
  for (const [why, where] of reasons) lines.push(el("span", {}, `× undefined: ${why}: ${where.join(", ")}`));
  const more = lines.length - 4;
  return more > 0 ? [...lines.slice(0, 4), el("span", {}, `and ${more} more`)] : lines;
}
