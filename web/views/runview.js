// The page of one run: is it leaking, how sure is that, through what, and what now.
import { allScoresPanel } from "./allscores.js";
import { answers } from "../data/answers.js";
import { behindPanel } from "./curve_panel.js";
import { conceptsPanel } from "./concepts.js";
import { curveControls, curves } from "../charts/curves.js";
import { figure } from "../charts/figure.js";
import { lanesPanel } from "./alert_timeline.js";
import { chartText, linesOf } from "../charts/lines.js";
import { options } from "./overview.js";
import { pairsPanel } from "./pairs.js";
import { isHidden, isPinned, titleOf, toggleHidden, togglePin } from "../data/prefs.js";
import { remarks } from "./notes.js";
import { isLive } from "../data/shown.js";
import { address, change, current } from "../data/state.js";
import { statsPanel } from "./stats.js";
import { count, el, icon } from "../text.js";
import { afterFrame } from "../scheduler.js";
import { verdictPanel } from "./verdict.js";
import { OF_RUN, PUBLISHED, curved, labelName, momentText, tipOf } from "../labels.js";

/** @typedef {import("../data/shown.js").Shown} Shown */

const EMBEDDINGS = ["embedding_ct_conditional", "embedding_ic_conditional", "embedding_ct", "embedding_self", "alignment_leakage"];
const ACCURACIES = /** @type {[string, string, string, number][]} */ ([["task_accuracy", "task", "--s5", 4], ["concept_accuracy", "concepts", "--s4", 3]]);
const SINCE = ["ctl_conditional", "icl_conditional"];

/** Scores whose curves a run's page may draw. */
export const runScores = () => [...OF_RUN, ...PUBLISHED, ...curved()];

/** @param {() => void} again draws the page again */
export function runView(again) {
  const crumb = el("div", { class: "small dim" });
  const chips = el("div", { class: "chips" });
  const split = el("select", { "aria-label": "Data", onchange: () => change({ split: split.value, zoom: null }) });
  const pin = el("button", { type: "button", class: "btn", onclick: () => togglePin(current().run) });
  const hide = el("button", { type: "button", class: "btn", onclick: () => toggleHidden(current().run) });
  const said = remarks(() => current().run);
  const compare = el("a", { class: "btn" }, "Compare");
  const panel = (/** @type {string} */ className, /** @type {string} */ label, /** @type {any} */ more = {}) => el("section", { class: `panel ${className}`, "aria-label": label, ...more });
  const verdict = panel("verdict", "Verdict");
  const stats = panel("stats", "Newest values");
  const since = panel("w12", "Curves");
  const published = panel("w12", "Published scores");
  const lanes = panel("w7", "Alerts");
  const behind = panel("w5", "Curve behind a score", { hidden: true });
  const concepts = panel("w7", "Concepts", { id: "concepts" });
  const pairs = panel("w5", "Pairs of concepts");
  const embeddings = panel("w12", "Embeddings", { hidden: true });
  const all = el("details", { class: "panel w12" });
  const controls = el("div", { class: "end" });
  const grid = el("div", { class: "quad" });
  const last = el("div", { class: "quad" });
  const own = el("div", { class: "stats" });
  since.append(el("header", {}, el("h2", {}, "Since when"), controls), grid);
  published.append(el("header", {}, el("h2", {}, "As published"), el("p", {}, "CTL and ICL as papers quote them. Both subtract what an activation has not learnt of its concept, so compare them with the curves above before you conclude from them.")), last);
  embeddings.append(el("header", {}, el("h2", {}, "Embeddings"), el("p", {}, "Information in the concept embeddings about … (as a fraction of its entropy).")), own);
  const drawVerdict = verdictPanel(verdict);
  const drawStats = statsPanel(stats);
  const drawControls = curveControls(controls);
  const drawSince = curves(grid, "run");
  const drawPublished = curves(last, "run");
  const drawLanes = lanesPanel(lanes);
  const drawBehind = behindPanel(behind, again);
  const drawConcepts = conceptsPanel(concepts, again);
  const drawPairs = pairsPanel(pairs, again);
  const drawEmbeddings = statsPanel(own, EMBEDDINGS);
  const drawAll = allScoresPanel(all);
  all.addEventListener("toggle", again);
  const accuracy = figure({ id: "accuracy", name: "Accuracy", unit: "%", tip: tipOf("task_accuracy"), group: "run", onZoom: (zoom) => change({ zoom }) });
  const drop = el("div", { class: "quad contents" });
  const drawDrop = curves(drop, "run");
  const points = answers("point", again);
  const assessments = answers("verdict", again);
  const passes = answers("unscored", again);
  const root = el("div", {}, el("div", { class: "head run" }, el("div", {}, crumb, chips, said.note), el("div", { class: "row" }, el("label", { class: "pick" }, "Data ", split), pin, hide, said.edit, compare, said.remove)),
    verdict, stats, el("div", { class: "grid" }, since, published, lanes, behind, concepts, pairs, embeddings, all));
  let heading = "";

  /** @param {Shown} shown */
  function draw(shown) {
    const { view, lines: [line] } = shown;
    const { run: name, split: of } = view;
    const row = shown.rows.get(name);
    const series = line?.series;
    drawHead(shown, row);
    options(split, (line?.run.splits ?? []).map((one) => [one.split, one.split]), of);
    const version = `${series?.version}/${row?.step}/${row?.time}/${row?.evaluations}`;
    const known = (row?.evaluations ?? 0) > 0;
    const { body: point } = known ? points({ run: name, split: of }, version) : { body: null };
    const { body: found, why } = known ? assessments({ run: name, split: of }, `${row?.step}/${row?.time}/${JSON.stringify([row?.scores, row?.verdict])}`) : { body: null, why: null };
    const { body: missed } = passes({ run: name, split: of }, `${series?.version}/${series?.step.length}/${row?.step}`);
    const unscored = missed?.passes ?? [];
    drawVerdict(shown, row, point, found, why);
    drawStats(shown, row?.scores ?? {}, row !== undefined);
    drawControls();
    drawSince(shown, SINCE, { unscored, all: true });
    drawDrop(shown, ["intervention_drop"], { unscored });
    if (accuracy.root.parentElement !== grid) grid.append(accuracy.root, drop);
    drawPublished(shown, PUBLISHED, { unscored, all: true });
    root.classList.toggle("stale", shown.down);
    afterFrame(root, () => drawRest(shown, point, unscored));
  }

  /** Panels below the first window. @param {Shown} shown @param {import("../data/api.js").Point|null} point @param {import("../data/api.js").Unscored[]} unscored */
  function* drawRest(shown, point, unscored) {
    drawAccuracy(shown);
    yield;
    drawLanes(shown, unscored);
    drawBehind(shown, point);
    lanes.classList.toggle("w12", behind.hidden);
    yield;
    drawConcepts(shown, point);
    drawPairs(shown);
    concepts.classList.toggle("w12", pairs.hidden);
    yield;
    const vectors = Object.fromEntries(Object.entries(point?.scores ?? {}).filter(([id]) => EMBEDDINGS.includes(id)));
    embeddings.hidden = Object.keys(vectors).length === 0;
    if (!embeddings.hidden) drawEmbeddings(shown, /** @type {any} */ (vectors), true);
    drawAll(point);
  }

  /** @param {Shown} shown @param {import("../data/api.js").Row|undefined} row */
  function drawHead(shown, row) {
    const { run: name } = shown.view;
    const run = shown.lines[0]?.run;
    const now = JSON.stringify([name, titleOf(name), run?.note, row?.step, isPinned(name), isHidden(name), run && isLive(run), run?.finished, shown.view.split]);
    if (now === heading || !run) return;
    heading = now;
    said.draw(run);
    crumb.replaceChildren(el("a", { href: address({}) }, "Runs"), " / ", el("b", { class: "ink" }, titleOf(name)), titleOf(name) === name ? "" : ` (${name})`);
    const chip = (/** @type {(Node|string|false)[]} */ ...parts) => el("span", { class: "chip" }, ...parts);
    const at = row?.step === null || row?.step === undefined ? "" : momentText({ step: row.step, epoch: row.epoch });
    chips.replaceChildren(isLive(run) ? chip(el("span", { class: "live" }, "training"), at) : chip(run.finished ? "finished" : "silent", at && ` at ${at}`),
      ...Object.entries(run.labels).map(([key, value]) => chip(`${labelName(key)} `, el("b", {}, value))), chip(el("b", {}, count(run.concepts.length)), " concepts"),
      ...(row?.rows ? [chip(el("b", {}, count(row.rows)), ` ${shown.view.split} rows`)] : []), ...(run.world_size > 1 ? [chip(el("b", {}, String(run.world_size)), " ranks")] : []));
    pin.replaceChildren(icon("pin"), el("span", { class: "word" }, isPinned(name) ? "Unpin" : "Pin"));
    pin.setAttribute("aria-label", isPinned(name) ? "Unpin this run" : "Pin this run");
    hide.replaceChildren(icon("eye"), el("span", { class: "word" }, isHidden(name) ? "Show again" : "Hide"));
    hide.setAttribute("aria-label", isHidden(name) ? "List this run again" : "Hide this run");
    const other = shown.runs.find((one) => one.name !== name);
    compare.hidden = !other;
    compare.setAttribute("href", address({ page: "compare", by: "runs", a: name, b: other?.name ?? "" }));
  }

  /** Both accuracies on one scale. @param {Shown} shown */
  function drawAccuracy(shown) {
    const { view, lines: [line] } = shown;
    const series = line?.series;
    const lines = series ? ACCURACIES.flatMap(([score, called, color, look]) =>
      linesOf({ series, score, run: view.run, split: view.split, name: called, color, look, along: shown.along, started: line.run.started })) : [];
    accuracy.root.hidden = series !== null && series !== undefined && lines.length === 0;
    accuracy.show({ lines, along: shown.along, zoom: view.zoom, logx: view.logx, logy: view.logy, smooth: view.smooth, least: [50, 100], range: [0, 100], text: chartText("task_accuracy") },
      [shown.along, view.zoom, view.logx, view.logy, view.smooth, shown.theme, series?.version, series?.step.length, lines.length].join());
  }

  return { root, draw };
}
