// Groups of runs by a label: means with intervals along its values, and which value each score finds worst.
import { figure } from "../charts/figure.js";
import { chartText, limitIn } from "../charts/lines.js";
import { el, headRow, icon, scroller, upper } from "../text.js";
import { term, tipped } from "../tip.js";
import { both, either, isRange, labelName, leastText, nameOf, rangeOf, tipOf, valueText, wordOf } from "../labels.js";

/**
 * @import { GroupReport } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 * @typedef {ReturnType<typeof figure>} Figure
 */

const CHARTED = ["ctl_conditional", "ctl_conditional_r2", "intervention_drop", "task_accuracy", "task_r2", "concept_accuracy", "concept_r2"];
const FALLBACK = ["ctl", "icl"];

/** @param {HTMLElement} host */
export function sweepPanel(host) {
  const title = el("h2", {});
  const key = el("div", { class: "end key" });
  const grid = el("div", { class: "quad" });
  const notes = el("div", { class: "body" });
  host.append(el("header", {}, title, key), grid, notes);
  /** @type {Map<string, Figure>} */
  const figures = new Map();

  /** @param {GroupReport} report @param {Shown} shown */
  return function draw(report, shown) {
    const { label, groups, least } = report;
    const values = groups.map(({ value }) => value);
    const place = placesOf(values);
    title.textContent = `Along ${labelName(label)}`;
    key.replaceChildren(...(least ? [el("span", {}, el("i", { class: "best-key" }), `least leakage: ${labelName(label)} = ${leastText(least)}`)] : []),
      el("span", {}, el("i", { class: "mean-key" }), "mean of the runs, 95 % interval"));
    const has = (/** @type {string} */ id) => groups.some(({ scores }) => scores.some(({ score, interval }) => score === id && interval));
    const charted = CHARTED.filter(has).length ? CHARTED.filter(has) : FALLBACK.filter(has);
    for (const [id, one] of figures) if (!charted.includes(id)) { one.remove(); figures.delete(id); }
    for (const id of charted) {
      const one = figures.get(id) ?? figure({ id: `sweep-${id}`, name: nameOf(id), unit: wordOf(id).unit, tip: tipOf(id), group: "sweep",
        csv: () => ({ name: `${id} by ${label}`, columns: [label, "mean", "low", "high"],
          rows: groups.flatMap(({ value, scores }) => scores.filter(({ score }) => score === id).map(({ interval }) =>
          [value, interval?.mean, interval?.low, interval?.high])) }) });
      figures.set(id, one);
      if (one.root.parentElement !== grid) grid.append(one.root);
      const { axis } = wordOf(id);
      const means = groups.map(({ scores }) => scores.find(({ score }) => score === id)?.interval ?? null);
      const gap = smallest([...place.values()]) / 2;
      const bands = (least?.values ?? []).map((value) => [Number(place.get(value)) - gap, Number(place.get(value)) + gap]);
      const limit = limitIn(shown, id, shown.runs.filter(({ name }) => groups.some(({ runs }) => runs.includes(name))));
      one.show({
        lines: [{ name: "mean", color: "--s1", look: 0, x: values.map((value) => Number(place.get(value))),
          y: means.map((mean) => (mean ? mean.mean : null)),
          half: means.map((mean) => (mean && mean.low !== null && mean.high !== null ? (mean.high - mean.low) / 2 : null)),
            notes: (at) => [`${groups[at].runs.length} runs`] }],
        along: "", zoom: null, logx: false, logy: false, smooth: 0, least: axis, range: rangeOf(id), text: chartText(id), points: true, whiskers: true,
        places: values.map((value, i) => ({ at: Number(place.get(value)), text: i === 0 ? `${labelName(label)} ${value}` : value })),
        best: least && isRange(least) && bands.length ? [[bands[0][0], bands[bands.length - 1][1]]] : bands,
        limit: limit?.bad === "above" ? limit : null,
      }, JSON.stringify([label, means, least, shown.theme]));
    }
    const said = least ? [["Below it", least.below], ["Above it", least.above], ["Caution", least.caution]].filter(([, text]) => text)
      : [["No range", report.undefined ?? "unknown"]];
    notes.hidden = said.length === 0;
    notes.replaceChildren(el("div", { class: "note plain-note" }, icon(least?.caution || !least ? "warn" : "ok"),
      el("div", {}, ...said.map(([head, text]) => el("p", {}, el("b", {}, `${head}: `), `${text}.`)))));
  };
}

/** Numbers by their logarithm where all are positive, else side by side. @param {string[]} values */
function placesOf(values) {
  const positive = values.every((value) => Number(value) > 0);
  return new Map(values.map((value, i) => [value, positive ? Math.log10(Number(value)) : i]));
}

/** @param {number[]} places */
function smallest(places) {
  const sorted = places.toSorted((a, b) => a - b);
  const gaps = sorted.slice(1).map((place, i) => place - sorted[i]);
  return gaps.length ? Math.min(...gaps) : 1;
}

const BAD_HIGH = ["intervention_drop", "ctl_conditional", "ctl_conditional_r2", "icl_conditional", "ctl", "icl"];

/** @param {HTMLElement} host */
export function agreementPanel(host) {
  const said = el("p", {});
  const body = scroller("Scores by group", "table-body");
  host.append(el("header", {}, el("h2", {}, "Do the scores agree?"), said), body);

  /** @param {GroupReport} report */
  return function draw({ label, groups, least }) {
    const ids = groups[0]?.scores.map(({ score }) => score) ?? [];
    const cells = ids.map((id) => groups.map(({ scores }) => scores.find(({ score }) => score === id)));
    /** @type {Map<string, Set<number>>} for each score, the groups below none of the others */
    const worst = new Map();
    /** @type {string[]} scores that show no difference between the groups */
    const alike = [];
    ids.forEach((id, row) => {
      const known = cells[row].flatMap((cell, at) => (cell?.interval ? [{ at, ...cell.interval }] : []));
      if (!BAD_HIGH.includes(id) || known.length < 2) return;
      const floor = Math.max(...known.map(({ low }) => low ?? -Infinity));
      const most = known.filter(({ high }) => (high ?? Infinity) >= floor);
      if (most.length < known.length) worst.set(id, new Set(most.map(({ at }) => at)));
      else alike.push(nameOf(id));
    });
    const at = (/** @type {string} */ value) => `${labelName(label)} = ${value}`;
    const where = (/** @type {Iterable<number>} */ own) => at(either([...own].map((i) => groups[i].value)));
    const common = [...worst.values()].reduce((some, own) => some.filter((i) => own.has(i)), groups.map((_, i) => i));
    const each = [...worst].map(([id, own]) => `${nameOf(id)} is worst at ${where(own)}`).join("; ");
    said.textContent = [worst.size < 2 ? each && `${each}.`
      : common.length ? `Yes: all${alike.length ? " that show a difference" : ""} are worst at ${where(common)}.`
      : `No. ${each}. Where they disagree, the verdict follows the conditional scores and interventions.`,
    alike.length ? `No difference between the groups is shown by ${both(alike)}.` : ""].filter(Boolean).join(" ");
    const best = groups.map(({ value }) => least?.values.includes(value) ?? false);
    const counts = groups.map(({ runs, training }, i) => el("td", { class: best[i] ? "n least" : "n" },
      `${runs.length}${training && training.trained < training.runs ? `, ${training.trained} trained` : ""}`));
    body.replaceChildren(el("table", { class: "plain agreement" },
      headRow(["Score"],
        ...groups.map(({ value }, i) => /** @type {[string, string]} */ ([at(value), best[i] ? "n least" : "n"]))),
      el("tbody", {}, ...ids.map((id, row) => agreementRow(id, cells[row], worst.get(id), best)), el("tr", {}, el("th", { scope: "row" }, "Runs"),
        ...counts))));
  };
}

/**
 * A score in each group.
 * @param {string} id @param {(GroupReport["groups"][0]["scores"][0]|undefined)[]} cells @param {Set<number>|undefined} worst
 * @param {boolean[]} best whether leakage is least in a group
 */
function agreementRow(id, cells, worst, best) {
  const head = el("th", { scope: "row" }, term(nameOf(id), tipOf(id)));
  const reasons = [...new Set(cells.flatMap((cell) => (cell && !cell.interval ? [cell.undefined ?? "no value"] : [])))];
  // Why a row has no values stands in it; why one of its values is missing, in a tip.
  if (reasons.length === 1 && cells.every((cell) => cell && !cell.interval)) {
    return el("tr", { "data-score": id }, head, el("td", { class: "n dim reason", colspan: cells.length }, upper(reasons[0])));
  }
  const top = Math.max(1e-9, ...cells.map((cell) => Math.abs(cell?.interval?.mean ?? 0)));
  return el("tr", { "data-score": id }, head, ...cells.map((cell, at) => {
    if (!cell?.interval) {
      const why = cell?.undefined;
      const button = el("button", { class: "tipped", "aria-label": "No value, why" }, "–");
      return el("td", { class: best[at] ? "n dim least" : "n dim" }, why ? tipped(button, () => [upper(why)]) : "–");
    }
    const { mean, low, high } = cell.interval;
    const text = low === null || high === null ? "" : `${valueText(id, low)} to ${valueText(id, high)}`;
    return el("td", { class: `n${worst?.has(at) ? " worst" : ""}${best[at] ? " least" : ""}`, title: text },
      el("span", { class: "cellbar", "--v": ((100 * Math.max(0, mean)) / top).toFixed(0) }, valueText(id, mean), el("i", {})));
  }));
}
