// Charts of scores over the run: one for each score, the shown runs laid over each other.
import { carried, get } from "../data/api.js";
import { figure } from "./figure.js";
import { chartText, hasScore, limitIn, linesOf } from "./lines.js";
import { meanOf } from "./means.js";
import { hueOf, lookOf } from "../palette.js";
import { titleOf } from "../data/prefs.js";
import { change, current } from "../data/state.js";
import { el, lower, plural, upper } from "../text.js";
import { afterFrame } from "../scheduler.js";
import { TO_LOG, absenceOf, nameOf, rangeOf, tipOf, whoseText, wordOf } from "../labels.js";

/**
 * @import { Unscored } from "../data/api.js"
 * @import { Drawn, Shown } from "../data/shown.js"
 * @import { Line } from "./spec.js"
 * @typedef {ReturnType<typeof figure>} Figure
 */

/**
 * @param {HTMLElement} host @param {string} group of charts that share a cross hair
 */
export function curves(host, group) {
  /** @type {Map<string, Figure>} */
  const figures = new Map();
  const missing = el("p", { class: "small dim missing", hidden: true });
  let absence = "";

  /** @param {string} score */
  function make(score) {
    const word = wordOf(score);
    return figure({
      id: score, name: word.name, unit: word.unit, tip: tipOf(score), group,
      onZoom: (zoom) => change({ zoom }),
      // A report holds the curves alone, with six digits of each value.
      csv: carried ? undefined : () => table(score, host.dataset.split ?? "val", (host.dataset.runs ?? "").split("\u0000").filter(Boolean)),
    });
  }

  /**
   * Puts the charts into the page at once, and their lines after the next frame.
   * @param {Shown} shown @param {string[]} scores
   * @param {{unscored?: Unscored[], all?: boolean}} [more] all: also those whose values are still to come
   */
  return function draw(shown, scores, { unscored, all = false } = {}) {
    const { view, lines: runs } = shown;
    host.dataset.split = view.split;
    host.dataset.runs = runs.map(({ run }) => run.name).join("\u0000");
    const found = scores.map((score) => ({ score, having: runs.filter(({ series }) => hasScore(series, score)) }));
    const waiting = runs.some(({ series }) => series === null);
    const begun = runs.some(({ run }) => run.splits.some((one) => one.split === view.split && one.points > 0));
    const why = new Map(scores.map((score) => [score, reason(score, shown, unscored)]));
    const comes = (/** @type {string} */ score) => all && !(begun && why.get(score)?.[0] === "Not sent");
    const drawn = found.filter(({ score, having }) => waiting || runs.length === 0 || having.length > 0 || comes(score));
    for (const [score, one] of figures) {
      if (drawn.some((other) => other.score === score)) continue;
      one.remove();
      figures.delete(score);
    }
    drawn.forEach(({ score }, i) => {
      const one = figures.get(score) ?? make(score);
      figures.set(score, one);
      if (host.children[i] !== one.root) host.insertBefore(one.root, host.children[i] ?? null);
    });
    const absent = found.filter((one) => !drawn.includes(one) && TO_LOG[one.score]).map(({ score }) => ({ score, why: why.get(score) ?? ["", ""] }));
    if (JSON.stringify(absent) !== absence) {
      absence = JSON.stringify(absent);
      missing.hidden = absent.length === 0;
      missing.replaceChildren(...absent.map(({ score, why: [word, text] }) => el("span", {}, el("b", {}, `${nameOf(score)}: ${lower(word)}. `), `${text} `)));
    }
    if (host.lastChild !== missing) host.append(missing);
    afterFrame(host, () => fill(shown, drawn, unscored));
  };

  /**
   * Gives the charts their lines, one chart after the other.
   * @param {Shown} shown @param {{score: string, having: Shown["lines"]}[]} drawn @param {Unscored[]} [unscored]
   */
  function* fill(shown, drawn, unscored) {
    const { view, lines: runs } = shown;
    for (const { score, having } of drawn) {
      const one = figures.get(score);
      const signature = [shown.along, view.zoom, view.logx, view.logy, view.smooth, shown.theme, shown.alertsVersion, unscored?.length,
        shown.groups && view.group,
        ...runs.map(({ run, slot, series }) => `${titleOf(run.name)}/${slot}/${series?.version}/${series?.step.length}/${series?.scores.has(score)}`)].join();
      if (!one || one.chart.signature === signature) continue;
      const linesOfRun = (/** @type {Drawn} */ { run, slot, series }) =>
        (series ? linesOf({ series, score, run: run.name, split: view.split, name: titleOf(run.name), color: `--s${hueOf(slot)}`,
        look: lookOf(slot), along: shown.along, started: run.started, unscored: runs.length === 1 ? unscored : [] }) : []);
      const lines = shown.groups ? shown.groups.flatMap((group) => meanLine(group, having, linesOfRun)) : having.flatMap(linesOfRun);
      const word = wordOf(score);
      const why = lines.length === 1 && lines[0].y.every((value) => value === null) ? lines[0].gaps?.[0]?.text ?? "" : "";
      const left = runs.length === 1 ? (runs[0].series?.scores.get(score)?.left.at(-1) ?? null) : null;
      const whose = having.map(({ run }) => whoseText(score, run)).find(Boolean);
      const means = whose ? `${upper(whose)}${having.length > 1 ? ", where a run has several" : ""}` : "";
      const said = [means, why, left ? `The mean leaves out ${left.concepts.length} of ${left.of} concepts: ${left.why}` : ""].filter(Boolean).join(" · ");
      one.show({
        lines, along: shown.along, zoom: view.zoom, logx: view.logx, logy: view.logy, smooth: view.smooth, least: word.axis, range: rangeOf(score),
          text: chartText(score),
        limit: limitIn(shown, score, having.map(({ run }) => run)),
      }, signature, said);
      yield;
    }
  }
}

/**
 * The mean of the curves of a group.
 * @param {NonNullable<Shown["groups"]>[0]} group @param {Drawn[]} having @param {(run: Drawn) => Line[]} linesOfRun @returns {Line[]}
 */
function meanLine({ name, slot, members }, having, linesOfRun) {
  const lines = having.filter(({ run }) => members.includes(run.name)).flatMap(linesOfRun).filter(({ superseded }) => !superseded);
  if (lines.length === 0) return [];
  const { counts, ...mean } = meanOf(lines);
  return [{ name, color: `--s${hueOf(slot)}`, look: lookOf(slot), ...mean, notes: (at) => [`mean of ${plural(counts[at], "run")}`] }];
}

/**
 * Why no run has a score: it waits, where it does in one of them.
 * @param {string} score @param {Shown} shown @param {Unscored[]} [unscored] @returns {[string, string]|undefined}
 */
function reason(score, { view: { split }, rows, lines: runs }, unscored) {
  const all = runs.map(({ run }) => absenceOf(score, run, split, rows.get(run.name), runs.length === 1 ? unscored : []));
  return all.find(([word]) => word !== "Not sent") ?? all[0];
}

/** All values of a score, exact, as a file has them. @param {string} score @param {string} split @param {string[]} runs */
async function table(score, split, runs) {
  const columns = ["run", "split", "score", "step", "epoch", "time", "value", "standard_error", "undefined", "rows", "tie_fraction", "provisional",
    "incomplete", "superseded"];
  const rows = [];
  for (const run of runs) {
    const { points } = await get("series", { run, split, score });
    for (const point of points) rows.push([run, split, score, ...columns.slice(3).map((key) => point[key] ?? (key === "superseded" ? false : null))]);
  }
  return { name: `${score} ${split}`, columns, rows };
}

const ALONG = { epoch: "epoch", step: "step", time: "time" };

/** How the charts are drawn: the axis, smoothing and logarithms. @param {HTMLElement} host */
export function curveControls(host) {
  const along = el("select", { "aria-label": "Horizontal axis", onchange: () => change({ along: along.value, zoom: null }) },
    ...Object.entries(ALONG).map(([value, text]) => el("option", { value }, text)));
  const smooth = el("input", { type: "range", min: 0, max: 0.95, step: 0.05, "aria-label": "Smoothing; the raw curve stays faint",
    oninput: () => change({ smooth: Number(smooth.value) }) });
  const logy = el("input", { type: "checkbox", onchange: () => change({ logy: logy.checked }) });
  const logx = el("input", { type: "checkbox", onchange: () => change({ logx: logx.checked }) });
  const reset = el("button", { class: "btn small-btn", onclick: () => change({ zoom: null }) }, "Show all");
  const more = el("details", { class: "menu" }, el("summary", { class: "btn quiet small-btn" }, "Axes"),
    el("div", { class: "menu-box" }, el("label", { class: "entry" }, logy, "Logarithmic values"),
      el("label", { class: "entry" }, logx, "Logarithmic horizontal axis"),
      el("label", { class: "entry" }, "Smooth", smooth)));
  host.append(reset, more, el("label", { class: "pick" }, "Along ", along));
  return function draw() {
    const view = current();
    along.value = view.along;
    smooth.value = String(view.smooth);
    logy.checked = view.logy;
    logx.checked = view.logx;
    reset.hidden = view.zoom === null;
  };
}

