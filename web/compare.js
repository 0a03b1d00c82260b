// Two runs by what is known of their leakage, two splits of a run, or groups of runs by a label: tables with intervals, and a chart
// over the label.
import { answers } from "./answers.js";
import { choice } from "./controls.js";
import { pageColor, runColor, seriesColor, translucent } from "./palette.js";
import { saveButtons } from "./saving.js";
import { change, current } from "./state.js";
import { el, number, plotText } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./api.js").Interval} Interval
 * @typedef {import("./api.js").PairReport} PairReport
 * @typedef {import("./api.js").SplitReport} SplitReport
 * @typedef {import("./api.js").GroupReport} GroupReport
 */

/** In the list of what is compared, beside labels: none has a control character. */
const SPLITS = "\u0001splits";

const VERDICTS = {
  a_leaks_more: "run a leaks more", b_leaks_more: "run b leaks more", compatible: "no difference shown",
  undecided: "undecided: one score is higher and the other lower", undefined: "undefined",
};
const WEIGHED = {
  a_leaks_more: "Run a leaks more", b_leaks_more: "Run b leaks more", no_difference: "No difference in leakage is shown",
  scores_disagree: "The scores disagree on which run leaks more", undecided: "Undecided which run leaks more", undefined: "Leakage cannot be compared",
};
const HIGHER = { higher_in_a: "higher in a", higher_in_b: "higher in b", compatible: "no difference shown", undefined: "undefined" };
/** Errors below it would only add digits. */
const FINEST = 0.002;
/** Scores of the chart, as far as there are. */
const CHARTED = ["ctl_conditional", "icl_conditional", "intervention_drop", "ctl", "icl"];

/** @param {any} host a details element: nothing is asked while it is closed @param {() => void} changed */
export function comparison(host, changed) {
  const by = choice("compare", (value) => change(value === SPLITS ? { by: null, twin: twins[0] } : { by: value || null, twin: null }));
  const a = choice("a", (value) => change({ a: value }));
  const b = choice("b", (value) => change({ b: value }));
  const twin = choice("with split", (value) => change({ twin: value }));
  /** @type {string[]} splits that the split on the page can be compared with */
  let twins = [];
  const note = el("span", { class: "dim" });
  const head = el("div", { class: "verdict" });
  const plot = el("div", { class: "plot", role: "img", "aria-label": "Leakage by the label's value" });
  const body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" });
  const notes = el("p", { class: "note" });
  /** @type {any} */
  let table = null;
  // Two runs have no chart: that of earlier groups must not be saved under their name.
  const saves = saveButtons(() => table, () => (plot.hidden ? {} : plot));
  host.replaceChildren(el("summary", {}, el("h2", {}, "Compare runs or splits")),
    el("div", { class: "controls inner" }, by.root, a.root, b.root, twin.root, note, saves), head, plot, body, notes);
  host.addEventListener("toggle", () => {
    if (host.open !== current().compare) change({ compare: host.open });
  });
  const answer = answers("compare", changed);
  let drawn = "";

  /**
   * @param {import("./state.js").View} view
   * @param {Run[]} all runs with points in the split, newest first
   * @param {string[]} labels that runs have
   * @param {string} split
   * @param {Score[]} scores
   */
  return function draw(view, all, labels, split, scores) {
    const others = (/** @type {Run} */ run) => run.splits.filter((one) => one.split !== split && one.last_step !== null).map((one) => one.split);
    const twinned = all.filter((run) => others(run).length > 0);
    host.hidden = all.length < 2 && !twinned.length;
    if (host.open !== view.compare) host.open = view.compare;
    if (host.hidden || !view.compare) return;
    const ofSplits = twinned.length > 0 && (view.twin !== null || all.length < 2);
    const label = !ofSplits && view.by !== null && labels.includes(view.by) ? view.by : null;
    const choices = ofSplits ? twinned : all;
    const named = (/** @type {string} */ name) => /** @type {[string, string]} */ ([name, name]);
    const first = choices.find((run) => run.name === view.a) ?? choices[0];
    const second = ofSplits ? first : all.find((run) => run.name === view.b && run !== first) ?? all.find((run) => run !== first) ?? all[1];
    twins = others(ofSplits ? first : twinned[0] ?? first);
    const other = twins.find((name) => name === view.twin) ?? twins[0];
    by.set([...(all.length > 1 ? [/** @type {[string, string]} */ (["", "two runs"])] : []),
      ...(twinned.length ? [/** @type {[string, string]} */ ([SPLITS, "two splits of a run"])] : []),
      ...(all.length > 1 ? labels : []).map((name) => /** @type {[string, string]} */ ([name, `groups by ${name}`]))], ofSplits ? SPLITS : label ?? "");
    a.set(choices.map((run) => named(run.name)), first.name);
    b.set(all.filter((run) => run !== first).map((run) => named(run.name)), second.name);
    twin.set(twins.map(named), other);
    a.root.hidden = label !== null;
    b.root.hidden = label !== null || ofSplits;
    twin.root.hidden = !ofSplits;
    const rests = ofSplits ? [first] : label === null ? [first, second] : all.filter((run) => label in run.labels);
    const read = ofSplits ? [split, other] : [split];
    const version = JSON.stringify(rests.map((run) => [run.name, run.finished, ...read.map((name) => run.splits.find((one) => one.split === name)?.last_step)]));
    /** @type {Record<string, string>} */
    const asked = ofSplits ? { run_a: first.name, split, with_split: other }
      : label === null ? { run_a: first.name, run_b: second.name, split } : { by: label, split };
    const { body: report, why } = answer(asked, version);
    const titles = new Map(scores.map((score) => [score.id, score.title]));
    const looks = [runColor(first.name), runColor(second.name), pageColor("--panel")];
    const now = JSON.stringify([report, why, asked, looks]);
    if (now === drawn) return;
    drawn = now;
    plot.hidden = !report?.groups;
    saves.hidden = !report;
    saves.lastElementChild.hidden = plot.hidden;
    note.textContent = report ? `${ofSplits ? "" : `${split}, `}${100 * report.confidence} % intervals` : why ?? "…";
    notes.replaceChildren(...(report?.notes ?? []).map((/** @type {string} */ text) => el("span", {}, text)));
    table = null;
    head.replaceChildren();
    body.replaceChildren();
    if (report?.groups) {
      drawGroups(report);
    } else if (report?.criterion) {
      drawPair(report);
    } else if (report) {
      drawSplits(report);
    }

    /** @param {PairReport} report */
    function drawPair(report) {
      const { weighed, criterion, criterion_unclipped: unclipped } = report;
      head.replaceChildren(
        el("p", {}, el("strong", {}, WEIGHED[weighed.verdict])), el("p", {}, weighed.why),
        el("p", { class: "dim" }, `Leakage Criterion, by CTL and ICL alone: ${VERDICTS[criterion.verdict]}: ${criterion.why}`),
        el("p", { class: "dim" }, `without clipping at 0: ${VERDICTS[unclipped.verdict]}: ${unclipped.why}`));
      const count = (/** @type {"a"|"b"} */ letter) => report[letter].evaluations.length;
      drawTable(report, first.name, second.name, (letter, name) => [
        el("span", { class: "swatch", color: runColor(name) }), ` ${letter}: ${name}, ${count(letter)} evaluation${count(letter) === 1 ? "" : "s"}`]);
    }

    /** @param {SplitReport} compared */
    function drawSplits(compared) {
      const steps = compared.a.evaluations.map(([, step]) => step);
      head.replaceChildren(el("p", {}, el("span", { class: "swatch", color: runColor(compared.run) }), ` ${compared.run}, `,
        steps.length === 1 ? `step ${steps[0]}` : `the ${steps.length} newest common evaluations, steps ${steps[0]} to ${steps.at(-1)}`));
      drawTable(compared, split, other, (letter, name) => [`${letter}: ${name}, ${rowsOf(compared[letter].rows)} rows`]);
    }

    /**
     * @param {PairReport|SplitReport} report @param {string} nameA @param {string} nameB
     * @param {(letter: "a"|"b", name: string) => (Node|string)[]} heading of a side's column
     */
    function drawTable({ scores: compared }, nameA, nameB, heading) {
      const side = (/** @type {"a"|"b"} */ letter, /** @type {string} */ name) => el("th", { scope: "col", class: "n" }, ...heading(letter, name));
      const rows = compared.map((one) => el("tr", { "data-score": one.score },
        el("th", { scope: "row" }, titles.get(one.score) ?? one.score), mean(one.a), mean(one.b),
        one.undefined ? el("td", { class: "dim", colspan: 2 }, `undefined: ${one.undefined}`) : el("td", { class: "n" }, range(one.difference)),
        one.undefined ? null : el("td", { class: one.verdict === "compatible" ? "dim" : false }, HIGHER[one.verdict]),
        el("td", {}, differing(one.per_concept ?? []))));
      body.replaceChildren(el("table", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "score"), side("a", nameA), side("b", nameB),
          ...["a − b", "", "concepts that differ"].map((text, i) => el("th", { scope: "col", class: i ? false : "n" }, text)))),
        el("tbody", {}, ...rows)));
      const flat = (/** @type {string|null} */ concept, /** @type {any} */ one, /** @type {string} */ score) => [score, concept,
        one.a?.mean, one.b?.mean, one.difference?.mean, one.difference?.low, one.difference?.high, one.p_value, one.verdict];
      table = {
        name: ["compare", first.name, ...(ofSplits ? [split, other] : [second.name, split])].join(" "),
        columns: ["score", "concept", "a", "b", "difference", "low", "high", "p_value", "verdict"],
        rows: compared.flatMap((one) => [flat(null, one, one.score), ...(one.per_concept ?? []).map((part) => flat(part.concept, part, one.score))]),
      };
    }

    /** @param {GroupReport} report */
    function drawGroups({ label, groups, least, undefined: why }) {
      const values = least?.values ?? [];
      const reach = least?.below !== undefined && values.length > 1 ? `${values[0]} to ${values.at(-1)}` : values.join(", ");
      head.replaceChildren(el("p", {}, el("strong", {}, least ? `Least leakage: ${label} ${reach}` : `Least leakage: undefined: ${why}`),
        least && el("span", { class: "dim" }, ` compared with ${least.reference}`)),
      ...(least ? [["below", least.below], ["above", least.above], ["caution", least.caution]] : []).filter(([, text]) => text)
        .map(([end, text]) => el("p", { class: "dim" }, `${end}: ${text}`)));
      const ids = groups[0].scores.map(({ score }) => score);
      const cell = (/** @type {{interval: Interval|null, undefined?: string}} */ one) =>
        el("td", { class: one.interval ? "n" : "n dim", title: one.undefined }, one.interval ? range(one.interval) : "undefined");
      body.replaceChildren(el("table", {},
        el("thead", {}, el("tr", {}, ...[label, "runs", "trained", ...ids.map((id) => titles.get(id) ?? id)]
          .map((text, i) => el("th", { scope: "col", class: i ? "n" : false }, text)))),
        el("tbody", {}, ...groups.map(({ value, runs, training, scores: own }) => el("tr", { class: values.includes(value) ? "least" : false },
          el("th", { scope: "row" }, value), el("td", { class: "n" }, String(runs.length)),
          el("td", { class: "n" }, training ? `${training.trained} of ${training.runs}` : "–"), ...own.map(cell))))));
      table = {
        name: `compare by ${label} ${split}`, columns: [label, "runs", "score", "mean", "low", "high", "least"],
        rows: groups.flatMap(({ value, runs, scores: own }) => own.map(({ score, interval }) =>
          [value, runs.length, score, interval?.mean, interval?.low, interval?.high, values.includes(value)])),
      };
      chart(plot, label, groups, values, titles);
    }
  };
}

/** @param {[number, number]} rows */
const rowsOf = ([least, most]) => (least === most ? String(most) : `${least} to ${most}`);

/** @param {Interval|null} interval */
function mean(interval) {
  if (!interval) return el("td", { class: "n" }, "–");
  const { mean: middle, standard_error: error } = interval;
  const finest = Math.max(error ?? 0, FINEST);
  return el("td", { class: "n" }, number(middle, finest) + (error === null ? "" : ` ± ${number(error, finest)}`));
}

/** @param {Interval|null} interval */
function range(interval) {
  if (!interval) return "–";
  const { mean: middle, standard_error: error, low, high } = interval;
  const finest = Math.max(error ?? 0, FINEST);
  if (low === null || high === null) return number(middle, finest);
  return `${number(middle, finest)} (${number(low, finest)} to ${number(high, finest)})`;
}

/** @param {import("./api.js").ConceptComparison[]} concepts */
function differing(concepts) {
  if (!concepts.length) return "";
  const found = concepts.filter(({ verdict }) => verdict.startsWith("higher"));
  const named = found.slice(0, 4).map(({ concept, verdict }) => `${concept} (${verdict.at(-1)})`);
  return `${found.length} of ${concepts.length}${named.length ? `: ${named.join(", ")}${found.length > 4 ? ", …" : ""}` : ""}`;
}

/**
 * Means with intervals over the label's values, the range of least leakage shaded.
 * @param {any} plot @param {string} label @param {GroupReport["groups"]} groups @param {string[]} least @param {Map<string, string>} titles
 */
function chart(plot, label, groups, least, titles) {
  const [ink, dim, grid, panel, good] = ["--ink", "--dim", "--grid", "--panel", "--good"].map(pageColor);
  const positive = groups.every(({ value }) => Number(value) > 0);
  // Without a scale the groups stand side by side.
  const place = new Map(groups.map(({ value }, i) => [value, positive ? Math.log10(Number(value)) : i]));
  const scores = CHARTED.filter((id) => groups.some(({ scores }) => scores.some((one) => one.score === id && one.interval)));
  const traces = scores.map((id, i) => {
    const known = groups.flatMap(({ value, scores: own }) => {
      const interval = own.find(({ score }) => score === id)?.interval;
      return interval ? [{ x: Number(place.get(value)), interval }] : [];
    });
    const end = (/** @type {"low"|"high"} */ which) => known.map(({ interval }) => Math.abs((interval[which] ?? interval.mean) - interval.mean));
    const color = seriesColor(i);
    return {
      name: plotText(titles.get(id) ?? id), mode: "lines+markers", x: known.map(({ x }) => x), y: known.map(({ interval }) => interval.mean),
      line: { color, width: 1.5 }, marker: { color, size: 6, symbol: ["circle", "square", "triangle-up", "diamond", "cross"][i] },
      error_y: { type: "data", symmetric: false, array: end("high"), arrayminus: end("low"), thickness: 1.2, width: 4, color },
      hovertemplate: "%{y:.4f}<extra>%{fullData.name}</extra>", meta: id,
    };
  });
  const inside = least.map((value) => Number(place.get(value)));
  const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: dim, tickfont: { color: dim }, ticks: "outside", ticklen: 3, tickcolor: grid };
  globalThis.Plotly.react(plot, traces, {
    margin: { l: 52, r: 14, t: 8, b: 38 }, paper_bgcolor: panel, plot_bgcolor: panel, font: { family: "system-ui, sans-serif", size: 11.5, color: ink },
    xaxis: { ...axis, tickvals: [...place.values()], ticktext: [...place.keys()].map(plotText), zeroline: false, title: { text: plotText(label), standoff: 6, font: { color: dim, size: 11.5 } } },
    yaxis: { ...axis, rangemode: "tozero", nticks: 7 }, legend: { x: 1, xanchor: "right", y: 1, bgcolor: "rgba(0,0,0,0)" }, showlegend: true,
    shapes: inside.length ? [{ type: "rect", layer: "below", yref: "paper", y0: 0, y1: 1, x0: Math.min(...inside) - 0.08, x1: Math.max(...inside) + 0.08, line: { width: 0 }, fillcolor: translucent(good, 0.14) }] : [],
  }, { displaylogo: false, displayModeBar: false, responsive: true });
}
