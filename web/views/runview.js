// The page of one run: its verdict, its curves, its concepts, and the advice.
import { carried } from "../data/api.js";
import { allScoresPanel } from "./allscores.js";
import { answers } from "../data/answers.js";
import { behindPanel } from "./curve_panel.js";
import { conceptsPanel } from "./concepts.js";
import { curveControls, curves } from "../charts/curves.js";
import { figure } from "../charts/figure.js";
import { lanesPanel } from "./alert_timeline.js";
import { leakingRowsPanel } from "./leaking_rows.js";
import { chartText, linesOf } from "../charts/lines.js";
import { pairsPanel } from "./pairs.js";
import { runHead } from "./run_head.js";
import { change } from "../data/state.js";
import { statsPanel } from "./stats.js";
import { el } from "../text.js";
import { afterFrame } from "../scheduler.js";
import { verdictPanel } from "./verdict.js";
import { OF_RUN, PUBLISHED, curved, ofTask, rangeOf, suited, tipOf, whoseText, wordOf } from "../labels.js";

/**
 * @import { Point, Unscored } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

const EMBEDDINGS = ["embedding_ct_conditional", "embedding_ic_conditional", "embedding_ct", "embedding_self", "alignment_leakage"];
/** Of classes and of numbers: R² has no lower bound, and on one scale accuracies would be flat. */
const QUALITIES = [{ id: "accuracy", name: "Accuracy", task: "task_accuracy", concepts: "concept_accuracy" },
  { id: "r2", name: "R²", task: "task_r2", concepts: "concept_r2" }];
const SINCE = ["ctl_conditional", "icl_conditional"];

/** Scores whose curves a run's page may draw. */
export const runScores = () => [...new Set([...OF_RUN, ...PUBLISHED, ...curved(), ...QUALITIES.flatMap(({ task, concepts }) => [task, concepts]), "ctl_conditional_r2"])];

/** @param {() => void} again draws the page again */
export function runView(again) {
  const panel = (/** @type {string} */ className, /** @type {string} */ label, /** @type {any} */ more = {}) =>
    el("section", { class: `panel ${className}`, "aria-label": label, ...more });
  const [verdict, stats] = [panel("verdict", "Verdict"), panel("stats", "Newest values")];
  // Files have one evaluation.
  const over = { hidden: carried?.of_files };
  const [since, published] = [panel("w12", "Curves", over), panel("w12", "Published scores", over)];
  const [lanes, behind] = [panel("w7", "Alerts", over), panel(over.hidden ? "w12" : "w5", "Curve behind a score", { hidden: true })];
  const [concepts, pairs] = [panel("w7", "Concepts", { id: "concepts" }), panel("w5", "Pairs of concepts")];
  const embeddings = panel("w12", "Embeddings", { hidden: true });
  const all = el("details", { class: "panel w12", open: carried !== null });
  const rows = el("details", { class: "panel w12", hidden: true });
  const own = el("div", { class: "stats" });
  embeddings.append(el("header", {}, el("h2", {}, "Embeddings"),
    el("p", {}, "Each as a share of the entropy of the task or of the concept.")),
    own);
  const head = runHead();
  const drawVerdict = verdictPanel(verdict);
  const drawStats = statsPanel(stats);
  const qualities = QUALITIES.map(qualityFigure);
  const drawCurves = curvePanels(since, published, qualities[0].root, qualities[1].root);
  const drawLanes = lanesPanel(lanes);
  const drawBehind = behindPanel(behind, again);
  const drawConcepts = conceptsPanel(concepts, again);
  const drawPairs = pairsPanel(pairs, again);
  const drawEmbeddings = statsPanel(own);
  const drawAll = allScoresPanel(all);
  const drawRows = leakingRowsPanel(rows, again);
  all.addEventListener("toggle", again);
  const points = answers("point", again);
  const assessments = answers("verdict", again);
  const passes = answers("unscored", again);
  const root = el("div", {}, head.root, verdict, stats,
    el("div", { class: "grid" }, since, published, lanes, behind, concepts, pairs, embeddings, rows, all));

  /** @param {Shown} shown */
  function draw(shown) {
    const { run, split } = shown.view;
    const row = shown.rows.get(run);
    const series = shown.lines[0]?.series;
    head.draw(shown, row);
    const asked = { run, split };
    const nothing = { body: null, why: null };
    const known = (row?.evaluations ?? 0) > 0;
    const { body: whole } = known ? points(asked, `${series?.version}/${row?.step}/${row?.time}/${row?.evaluations}`) : nothing;
    const { body: found, why } = known ? assessments(asked, `${row?.step}/${row?.time}/${JSON.stringify([row?.scores, row?.verdict])}`) : nothing;
    const unscored = passes(asked, `${series?.version}/${series?.step.length}/${row?.step}`).body?.passes ?? [];
    const point = ofTask(whole, shown.lines[0]?.run, row?.verdict?.task);
    drawVerdict(shown, row, point, found, why);
    const numbers = /** @type {Record<string, any>} */ (point?.scores ?? {});
    drawStats(shown, { ...numbers, ...row?.scores }, row !== undefined, suited(OF_RUN, point), unscored);
    drawCurves(shown, whole, unscored);
    root.classList.toggle("stale", shown.down);
    afterFrame(root, () => drawRest(shown, point, whole, unscored));
  }

  /**
   * Panels below the first window.
   * @param {Shown} shown @param {Point|null} point of the task that decides @param {Point|null} whole @param {Unscored[]} unscored
   */
  function* drawRest(shown, point, whole, unscored) {
    for (const quality of qualities) quality.draw(shown);
    yield;
    drawLanes(shown, unscored);
    drawBehind(shown, point);
    lanes.classList.toggle("w12", behind.hidden);
    yield;
    drawConcepts(shown, point, whole);
    drawPairs(shown);
    concepts.classList.toggle("w12", pairs.hidden);
    yield;
    const vectors = Object.fromEntries(Object.entries(point?.scores ?? {}).filter(([id]) => EMBEDDINGS.includes(id)));
    embeddings.hidden = Object.keys(vectors).length === 0;
    if (!embeddings.hidden) drawEmbeddings(shown, /** @type {any} */ (vectors), true, EMBEDDINGS);
    drawAll(whole, shown.runs.find((one) => one.name === shown.view.run)?.tasks ?? []);
    drawRows(shown, whole);
  }

  return { root, draw };
}

/**
 * The curves of a run, and below them those of the published scores.
 * @param {HTMLElement} since @param {HTMLElement} published @param {HTMLElement} accuracy @param {HTMLElement} r2
 */
function curvePanels(since, published, accuracy, r2) {
  const controls = el("div", { class: "end" });
  const grid = el("div", { class: "quad" });
  const drop = el("div", { class: "quad contents" });
  const last = el("div", { class: "quad" });
  grid.append(accuracy, drop, r2);
  since.append(el("header", {}, el("h2", {}, "Since when"), controls), grid);
  published.append(el("header", {}, el("h2", {}, "As published"), el("p", {}, "CTL and ICL as papers quote them. Both subtract what an activation has "
    + "not learnt of its concept, so compare them with the curves above before you conclude from them.")), last);
  const drawControls = curveControls(controls);
  const [drawSince, drawDrop, drawPublished] = [grid, drop, last].map((host) => curves(host, "run"));
  /** @param {Shown} shown @param {Point|null} point @param {Unscored[]} unscored */
  return function draw(shown, point, unscored) {
    drawControls();
    drawSince(shown, suited(SINCE, point), { unscored, all: true });
    drawDrop(shown, ["intervention_drop"], { unscored });
    drawPublished(shown, PUBLISHED, { unscored, all: true });
  };
}

/** The quality of the task and of the concepts on one scale. @param {typeof QUALITIES[number]} of */
function qualityFigure({ id, name, task, concepts }) {
  const chart = figure({ id, name, unit: wordOf(task).unit, tip: tipOf(task), group: "run", onZoom: (zoom) => change({ zoom }) });
  /** @param {Shown} shown */
  function draw(shown) {
    const { view, lines: [line] } = shown;
    const series = line?.series;
    const of = (/** @type {string} */ score, /** @type {string} */ says, /** @type {string} */ color, /** @type {number} */ look) => (series
      ? linesOf({ series, score, run: view.run, split: view.split, name: says, color, look, along: shown.along, started: line.run.started }) : []);
    const all = [...of(task, "task", "--s5", 4), ...of(concepts, "concepts", "--s4", 3)];
    // A score of classes has no value where the other one is of numbers: the chart of those has it.
    const valued = all.filter(({ y }) => y.some((value) => value !== null));
    const lines = valued.length ? valued : all;
    // Most models are of classes: their chart is there before its curves.
    chart.root.hidden = lines.length === 0 && (Boolean(series) || id !== "accuracy");
    const { zoom, logx, logy, smooth } = view;
    const said = line && whoseText(task, line.run);
    chart.show({ lines, along: shown.along, zoom, logx, logy, smooth, least: [0.5, 1], range: rangeOf(task), text: chartText(task) },
      [shown.along, zoom, logx, logy, smooth, shown.theme, series?.version, series?.step.length, lines.length].join(), said && `Task: ${said}`);
  }
  return { root: chart.root, draw };
}
