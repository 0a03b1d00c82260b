// Connects the sidecar's data, the user's choices and what is drawn.
import { alertList, loadAlerts, onAlerts, takeAlert } from "./alerts.js";
import { follow, get } from "./api.js";
import { drawCharts, emphasise } from "./charts.js";
import { comparison } from "./compare.js";
import { conceptBars } from "./concepts.js";
import { controls } from "./controls.js";
import * as curves from "./curves.js";
import { diagnosis } from "./diagnosis.js";
import { embeddings } from "./embeddings.js";
import { heatMap } from "./heatmap.js";
import { drawLatest } from "./latest.js";
import { allotColors, onSchemeChange } from "./palette.js";
import { runList } from "./runs.js";
import { FIRST, change, current, onView } from "./state.js";
import { statusLine } from "./status.js";
import { sweep } from "./sweep.js";

/** Runs shown until the person chooses. */
const NEWEST = 6;
/** From more concepts than this on the heat map takes the whole width. */
const MANY_CONCEPTS = 24;
/** Points that arrive redraw at most this often, in milliseconds. */
const REDRAW_MS = 200;
/** And at most this share of the time: training runs on the same machine. */
const DRAW_SHARE = 0.1;
const STATUS_MS = 5000;

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @type {import("./api.js").Score[]} */
let scores = [];
/** @type {import("./api.js").Run[]|null} newest first; null: not known yet */
let runs = null;
/** @type {import("./api.js").Status|null} */
let status = null;
/** @type {import("./status.js").Connection} */
let connection = "connecting";
/** The last question after the sidecar's status was answered: a silent event stream alone proves nothing. */
let answers = true;
let lost = 0;

const drawStatus = statusLine(element("status"));
const drawAlerts = alertList(element("alerts"));
const drawRuns = runList(element("runs"), { show: (names) => change({ runs: names }), point: emphasise });
const drawControls = controls(element("controls"));
const drawMaps = [heatMap(element("matrix"), "matrix"), heatMap(element("beside"), "beside")];
const drawDiagnosis = diagnosis(element("diagnosis"), soon);
const drawComparison = comparison(element("compare"), soon);
const drawConcepts = conceptBars(element("concepts"));
const drawEmbeddings = embeddings(element("embeddings"));
const drawSweep = sweep(element("sweep"), soon);

function draw() {
  drawStatus(connection === "live" && !answers ? "reconnecting" : connection, status, lost);
  drawAlerts();
  if (runs === null || !scores.length) return;
  const view = current();
  const known = runs;
  const names = (view.runs ?? known.slice(0, NEWEST).map((run) => run.name)).filter((name) => known.some((run) => run.name === name));
  const labels = [...new Set(known.flatMap((run) => Object.keys(run.labels)))].sort();
  const group = view.group !== null && labels.includes(view.group) ? view.group : null;
  const valueOf = (/** @type {string} */ name) => `${group}=${known.find((run) => run.name === name)?.labels[group ?? ""] ?? ""}`;
  allotColors(view.runs ? names : names.toReversed(), group === null ? undefined : valueOf);
  const shown = known.filter((run) => names.includes(run.name));
  const splits = splitsOf(shown.length ? shown : known);
  const split = splits.includes(view.split ?? "") ? String(view.split) : splits[0] ?? "val";
  const withSplit = shown.filter((run) => run.splits.some((one) => one.split === split));
  const scored = (/** @type {import("./api.js").Run} */ run) => run.splits.some((one) => one.split === split && one.last_step !== null);
  const points = withSplit.filter(scored).map((run) => curves.latestPoint(run.name, split));
  const available = new Set(points.flatMap((point) => Object.keys(point?.scores ?? {})));
  const concepts = [...new Set(shown.flatMap((run) => run.concepts))];
  const has = (/** @type {import("./api.js").Score} */ score) => available.size === 0 || available.has(score.id);
  // Those that nobody chose are left out where no run has them.
  const wanted = inOrder(scores.filter((score) => view.scores.includes(score.id) && (view.scores !== FIRST || has(score))));

  element("empty").hidden = known.length > 0;
  element("view").hidden = known.length === 0;
  element("pair").classList.toggle("wide", concepts.length > MANY_CONCEPTS);
  drawRuns(known, names, split, group);
  drawControls({ ...view, scores: wanted.map(({ id }) => id) }, scores, available, splits, split, concepts, labels);
  drawCharts(view, wanted, withSplit, split);
  drawLatest(element("latest"), wanted, shown, split, scored);
  drawDiagnosis(view, withSplit.filter(scored), split);
  drawComparison(view, known.filter(scored), labels, split, scores);
  const stepsOf = (/** @type {string} */ run, /** @type {string} */ score) => curves.curve(run, split, score, null).points.map((point) => point.step);
  for (const drawMap of drawMaps) drawMap(view, withSplit.filter(scored), scores.filter((score) => score.matrix && has(score)), split, stepsOf);
  drawConcepts(view, scores.filter((score) => score.per_concept && has(score)), withSplit.filter(scored), split);
  drawEmbeddings(view, scores, withSplit.filter(scored), split);
  const valued = (/** @type {string} */ run, /** @type {string} */ score) =>
    curves.curve(run, split, score, null).points.filter((point) => point.value !== null).map((point) => point.step);
  drawSweep(view, scores.filter((score) => score.curve), withSplit.filter(scored), split, valued);
}

/** What is read first, then the rest as in the catalogue. @param {import("./api.js").Score[]} of */
function inOrder(of) {
  const rank = (/** @type {import("./api.js").Score} */ { id }) => (FIRST.includes(id) ? FIRST.indexOf(id) : FIRST.length);
  return of.toSorted((a, b) => rank(a) - rank(b));
}

/** Evaluation splits first: their passes have a frozen model. @param {import("./api.js").Run[]} of */
function splitsOf(of) {
  const rank = (/** @type {string} */ name) => ["val", "valid", "validation", "test"].indexOf(name) + 1 || (name === "train" ? 9 : 8);
  return [...new Set(of.flatMap((run) => run.splits.map((one) => one.split)))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

let drawMs = 0;
let due = Infinity;
let timer = 0;
/**
 * Redraws soon: many changes become one, and a hidden page draws nothing.
 * @param {boolean} [awaited] someone waits for it; else it keeps to its share of the time
 */
function soon(awaited = true) {
  const at = performance.now() + (awaited ? Math.max(50, drawMs) : Math.max(REDRAW_MS, drawMs / DRAW_SHARE));
  if (at >= due) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(() => requestAnimationFrame(() => {
    due = Infinity;
    const start = performance.now();
    draw();
    drawMs = performance.now() - start;
  }), at - performance.now());
}

async function loadStatus() {
  try {
    status = await get("status");
    answers = true;
    if (runs === null) loadRuns();
  } catch {
    answers = false;
  }
  soon(false);
}

let catalogueKnown = false;
let loadingRuns = false;
let runsAgain = false;
async function loadRuns() {
  runsAgain = loadingRuns;
  if (loadingRuns) return;
  loadingRuns = true;
  try {
    if (!catalogueKnown) scores = (await get("catalogue")).scores;
    catalogueKnown = true;
    runs = /** @type {import("./api.js").Run[]} */ ((await get("runs")).runs);
    const known = new Set(runs.map((run) => run.name));
    curves.forget((run) => known.has(run));
  } catch {
    // The connection line says that nothing answers; the next event or reconnection fetches again.
  }
  loadingRuns = false;
  soon();
  if (runsAgain) setTimeout(loadRuns, 1000);
}

curves.onCurves(soon);
onAlerts(soon);
onView(draw);
onSchemeChange(draw);
addEventListener("resize", () => soon());
setInterval(loadStatus, STATUS_MS);
loadStatus();

let opened = false;
follow({
  open: () => {
    connection = "live";
    // The sidecar may have been replaced by another version.
    catalogueKnown = false;
    loadStatus();
    loadRuns();
    loadAlerts();
    if (opened) curves.reload();
    opened = true;
  },
  down: () => {
    connection = opened ? "reconnecting" : "connecting";
    soon();
  },
  point: (point) => {
    noteStep(point);
    curves.take(point);
  },
  run: loadRuns,
  alert: takeAlert,
  lost: (missed) => {
    lost += missed;
    loadRuns();
    loadAlerts();
    curves.reload();
  },
});

/** Keeps the list of runs in step without asking for it again at every point. @param {import("./api.js").Point} point */
function noteStep(point) {
  const split = runs?.find((run) => run.name === point.run)?.splits.find((one) => one.split === point.split);
  if (split) split.last_step = Math.max(split.last_step ?? 0, point.step);
  else loadRuns();
}
