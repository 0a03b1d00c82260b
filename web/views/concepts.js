// A score of each concept: a table with bars, or small curves of all concepts on one scale.
import { answers } from "../data/answers.js";
import { carried } from "../data/api.js";
import { options } from "./overview.js";
import { saveMenu } from "../saving.js";
import { spark } from "../charts/spark.js";
import { change } from "../data/state.js";
import { breakable, byText, el, headRow, icon, number, scroller, shortened } from "../text.js";
import { afterFrame, watcher } from "../scheduler.js";
import { halfText, nameOf, scoreOf, suited, tasksText, valueText, whoseText, withNames } from "../labels.js";

/**
 * @import { ConceptCurves, Point } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

const RANKS = { most: "most first", least: "least accurate", earliest: "as declared", name: "name" };
/** Concepts that come at once, as many as are in sight, and those of each turn after that. */
const [FIRST, NEXT] = [24, 16];
/** Characters of a name above a small curve. */
const NAME = 19;
const USUAL = ["ctl_conditional", "ctl_conditional_r2", "embedding_ct_conditional", "ctl", "icl"];

/** @param {HTMLElement} host @param {() => void} again draws the page again */
export function conceptsPanel(host, again) {
  const score = el("select", { "aria-label": "Score of the concepts", onchange: () => { chosen = score.value; again(); } });
  const search = el("input", { type: "search", "aria-label": "Search concepts", oninput: again });
  const rank = el("select", { "aria-label": "Sort concepts by", onchange: () => change({ rank: rank.value }) });
  const small = el("button", { class: "btn", "aria-pressed": "false", onclick: () => {
    charts = !charts;
    small.setAttribute("aria-pressed", String(charts));
    again();
  } }, "Small curves");
  const said = el("p", {});
  const body = scroller("Concepts, scrollable", "concepts-body");
  let chosen = "";
  let charts = false;
  const isNew = watcher();
  /** @type {any} */
  let table = null;
  const curves = answers("concepts", again);
  host.append(el("header", {}, el("h2", {}, "Leakage by concept"),
    el("div", { class: "end" }, el("label", { class: "field" }, icon("find"), search), score, rank, small, saveMenu("the concepts", { csv: () => table })),
      said), body);

  /** @param {Shown} shown @param {Point|null} point of the task that decides @param {Point|null} whole */
  return function draw(shown, point, whole) {
    const { run, split } = shown.view;
    const of = shown.runs.find((one) => one.name === run);
    const names = of?.concepts ?? [];
    const task = shown.rows.get(run)?.verdict?.task;
    const all = Object.keys(point?.scores ?? {}).filter((id) => point?.scores[id].per_concept && scoreOf(id));
    const having = [...new Set(suited(all, point))].filter((id) => all.includes(id));
    host.hidden = having.length === 0 || names.length === 0;
    if (host.hidden || !point) return;
    having.sort((a, b) => place(a) - place(b));
    // The verdict's score, unless another is chosen.
    const id = [chosen, shown.rows.get(run)?.concepts?.score ?? ""].find((one) => having.includes(one)) ?? having[0];
    const { body: over } = curves({ run, split, score: id }, `${point.step}/${point.time}`);
    small.hidden = carried !== null && !over;
    if (!isNew(run, id, task, point.step, point.time, over?.step?.length, over?.step?.at(-1), search.value, shown.view.rank, charts, shown.theme)) return;
    options(score, withNames(having), id);
    options(rank, Object.entries(RANKS), shown.view.rank);
    search.placeholder = `Search ${names.length} concepts`;
    const outcome = point.scores[id];
    const values = outcome.per_concept ?? [];
    const accuracy = point.scores.concept_accuracy?.per_concept ?? [];
    const whose = whoseText(id, of, task);
    const limit = whose && !task ? undefined : shown.limitOf(id);
    const half = outcome.left_out ? ` The mean leaves out ${outcome.left_out.concepts.length}: ${outcome.left_out.why}.` : "";
    said.textContent = outcome.undefined !== undefined ? `The mean is undefined: ${outcome.undefined}. Concepts that have a value are shown.`
      : `${nameOf(id)} of each concept${whose && `, ${whose}`}; mean ${valueText(id, outcome.value)}${outcome.standard_error ? ` ± ${halfText(id, outcome.standard_error)}` : ""}.`
        + `${limit ? " The red line is the limit of the mean." : ""}${half}`;
    const tasks = tasksText(id, of?.tasks ?? [], whole?.scores[id].per_task);
    if (tasks) said.textContent += ` ${tasks}.${task ? " Curves over the run are means over tasks." : ""}`;
    const wanted = search.value.trim().toLocaleLowerCase();
    const rows = names.map((name, i) => ({ name, i, value: values[i] ?? null, q: outcome.per_concept_q?.[i] ?? null, accuracy: accuracy[i] ?? null }))
      .filter(({ name }) => name.toLocaleLowerCase().includes(wanted)).sort(order(shown.view.rank));
    const known = values.flatMap((value) => (value === null ? [] : [value]));
    const [low, top] = [Math.min(0, ...known), Math.max(limit?.limit ?? 0, ...known, 0.01)];
    let peak = top;
    for (const curve of over?.values ?? []) for (const value of curve) peak = Math.max(peak, value ?? 0);
    table = { name: `${id} concepts ${run}`, columns: ["concept", whose ? `${run}, ${whose}` : run, "q", "concept_accuracy"],
      rows: rows.map((row) => [row.name, row.value, row.q, row.accuracy]) };
    const shared = charts ? sharedStart(names) : "";
    if (shared) said.textContent += ` The common prefix “${shared}” is not shown.`;
    const limits = /** @type {[number|null, number|null]} */ ([limit?.limit ?? null, whose ? null : limit?.limit ?? null]);
    const made = charts ? multiples(id, over, peak, limits, shared) : listing(id, over, [low, top, peak], limits, accuracy.length > 0);
    afterFrame(body, () => fill(made, rows));
  };

  /** @param {Made} made @param {Row[]} rows */
  function* fill({ root, list, one }, rows) {
    // Whoever has scrolled stays at their place.
    const first = body.scrollTop > 0 ? rows.length : FIRST;
    list.append(...rows.slice(0, first).map(one));
    body.replaceChildren(root);
    for (let at = first; at < rows.length; at += NEXT) {
      yield;
      list.append(...rows.slice(at, at + NEXT).map(one));
    }
  }
}

/** The usual ones first. @param {string} id */
const place = (id) => (USUAL.includes(id) ? USUAL.indexOf(id) : USUAL.length);

/**
 * @typedef {{name: string, i: number, value: number|null, q: number|null, accuracy: number|null}} Row
 * @typedef {{root: HTMLElement, list: HTMLElement, one: (row: Row) => HTMLElement}} Made a list without its concepts, and the node of each
 */

/** @param {string} rank @returns {(a: Row, b: Row) => number} */
function order(rank) {
  switch (rank) {
    case "name": return (a, b) => byText(a.name, b.name);
    case "least": return (a, b) => (a.accuracy ?? 2) - (b.accuracy ?? 2) || a.i - b.i;
    case "earliest": return (a, b) => a.i - b.i;
    default: return (a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity) || a.i - b.i;
  }
}

/**
 * @param {string} id @param {ConceptCurves|null} over @param {[number, number, number]} range of the bars, and the top of the curves
 * @param {[number|null, number|null]} limits of the values and of the curves @param {boolean} accurate @returns {Made}
 */
function listing(id, over, [low, top, peak], [limit, ofCurves], accurate) {
  const share = (/** @type {number} */ value) => (100 * (value - low)) / (top - low);
  // A report has the curves of some scores.
  const timed = over !== null || !carried;
  const list = el("tbody", {});
  const root = el("table", { class: "concepts" },
    headRow(["Concept"], [nameOf(id), "wide"], [el("span", { class: "sr" }, "Value"), "n"],
      .../** @type {[string, string][]} */ (timed ? [["Over the run", "opt"]] : []),
      .../** @type {[string, string][]} */ (accurate ? [["Accuracy", "n opt"]] : [])), list);
  return { root, list,
    one: ({ name, i, value, q, accuracy }) => el("tr", { "data-concept": name }, el("th", { scope: "row", title: name }, ...breakable(name)),
      el("td", {}, value === null ? el("span", { class: "hatch", title: "Undefined in this sample" })
        : el("div", { class: limit === null || value <= limit ? "hb low" : "hb",
        title: q === null ? "" : `q = ${number(q)}: the expected share of false discoveries among concepts with this q or a smaller one`,
        "--v": share(value).toFixed(1), "--z": share(Math.min(0, value)).toFixed(1), "--lim": limit === null ? -10 : share(limit).toFixed(1) }, el("i", {}))),
      el("td", { class: "n value" }, value === null ? "–" : valueText(id, value)),
      timed && el("td", { class: "opt" }, over ? curveOf(id, over, i, peak, ofCurves, name) : ""),
        accurate && el("td", { class: "n opt" }, valueText("concept_accuracy", accuracy))) };
}

/** Returns the beginning that all names share, up to a separator. @param {string[]} names */
function sharedStart(names) {
  const [first = ""] = names;
  let end = names.length > 2 ? first.length : 0;
  for (const name of names) while (!name.startsWith(first.slice(0, end))) end -= 1;
  return first.slice(0, end).match(/^.*[_:/. -]/)?.[0] ?? "";
}

/**
 * @param {string} id @param {ConceptCurves|null} over @param {number} top
 * @param {[number|null, number|null]} limits of the values and of the curves @param {string} shared start of all names @returns {Made}
 */
function multiples(id, over, top, [limit, ofCurves], shared) {
  const root = el("div", { class: "multiples" });
  return { root, list: root,
    one: ({ name, i, value }) => el("figure", { class: limit !== null && (value ?? 0) > limit ? "one leak" : "one" },
      el("figcaption", { title: name }, el("span", {}, shortened(name.slice(shared.length), NAME)), el("b", {}, value === null ? "–" : valueText(id, value))),
        over ? curveOf(id, over, i, top, ofCurves, name) : "") };
}

/** @param {string} id @param {ConceptCurves} over @param {number} i @param {number} top @param {number|null} limit @param {string} name */
function curveOf(id, over, i, top, limit, name) {
  const y = over.values[i] ?? [];
  const known = y.filter((value) => value !== null);
  return spark({ x: over.step, y, end: over.step.at(-1) ?? 0, top, limit,
    label: `${name}: ${known.length ? `from ${valueText(id, known[0])} to ${valueText(id, known.at(-1))}` : "no value"}` });
}
