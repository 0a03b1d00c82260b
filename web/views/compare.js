// The page of comparisons: groups by a label, two runs, or two splits of a run. The sidecar compares; this shows it.
import { answers } from "../data/answers.js";
import { options, projectPicker, setting, whereOf } from "./overview.js";
import { titleOf } from "../data/prefs.js";
import { byValue } from "../data/query.js";
import { isScored } from "../data/shown.js";
import { scatterPanel } from "./scatter.js";
import { note } from "./states.js";
import { change, current } from "../data/state.js";
import { agreementPanel, sweepPanel } from "./sweep.js";
import { el, upper } from "../text.js";
import { labelName, labelText, leastText } from "../labels.js";
import { pairPanel } from "./pair_panel.js";
import { watcher } from "../scheduler.js";

/**
 * @import { GroupReport, Run } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 * @import { View } from "../data/state.js"
 * @typedef {View["by"]} By
 * @typedef {{by: By, can: Record<By, boolean>, labels: string[], label: string, runs: Run[], first: Run, others: Run[], second: Run,
 *   splits: string[], split: string, other: string, why: string}} Choice why: the runs of the address cannot be compared, or ""
 */

const WAYS = /** @type {[By, string][]} */ ([["label", "By a label"], ["runs", "Two runs"], ["splits", "Two splits"]]);

/** @param {() => void} again draws the page again */
export function compareView(again) {
  const title = el("h1", {});
  const lead = el("p", {});
  const bar = choiceBar();
  const fault = el("div", {});
  const panel = (/** @type {string} */ label) => el("section", { class: "panel", "aria-label": label });
  const [sweep, agreement, differences] = [panel("Sweep"), panel("Agreement of the scores"), panel("Differences")];
  const scatter = panel("Leakage against task accuracy");
  const notes = el("div", { class: "small dim notes" });
  const drawSweep = sweepPanel(sweep);
  const drawAgreement = agreementPanel(agreement);
  const drawScatter = scatterPanel(scatter);
  const pair = pairPanel(differences);
  const answer = answers("compare", again);
  const root = el("div", { class: "compare" }, el("div", { class: "head" }, el("div", {}, title, lead), bar.ways), bar.root, fault, notes, sweep, agreement,
    scatter, differences);
  const isNew = watcher();

  /** @param {Shown} shown */
  function draw(shown) {
    const choice = choiceOf(shown);
    bar.draw(choice, shown);
    if (!choice.can[choice.by] || choice.why) {
      title.textContent = choice.why ? "This comparison is not possible" : "Nothing to compare yet";
      lead.textContent = choice.why || "Log a second run, a second split of a run, or runs with labels, such as labels={\"lambda\": 0.1}.";
      for (const one of [sweep, agreement, scatter, differences]) one.hidden = true;
      fault.replaceChildren();
      notes.replaceChildren();
      bar.counts.textContent = "";
      isNew();
      return;
    }
    scatter.hidden = choice.by !== "label";
    if (!scatter.hidden) drawScatter(shown, choice.label);
    const { query, version } = questionOf(choice, shown.view);
    const { body: report, why } = answer(query, version);
    if (!isNew(choice.by, query, report, why, shown.theme)) return;
    fault.replaceChildren(...(why === null ? [] : [note("bad",
      [el("b", {}, "This comparison is not possible. "), el("br"), el("code", { class: "dim" }, why)])]));
    sweep.hidden = agreement.hidden = !report?.groups;
    differences.hidden = !report || Boolean(report.groups);
    notes.replaceChildren(...(report?.notes ?? []).map((/** @type {string} */ text) => el("p", {}, `${upper(text)}.`)));
    const said = !report ? { title: why === null ? "Comparing …" : "Compare", lead: "", counts: "" } : report.groups ? byLabel(report, shown)
      : report.criterion ? pair.runs(report, choice.first.name, choice.second.name) : pair.splits(report, choice.split, choice.other);
    title.textContent = said.title;
    lead.textContent = said.lead;
    bar.counts.textContent = said.counts;
  }

  /** @param {GroupReport} report @param {Shown} shown */
  function byLabel(report, shown) {
    const { groups, least } = report;
    groups.sort((one, two) => byValue(one.value, two.value));
    drawSweep(report, shown);
    drawAgreement(report);
    const name = labelName(report.label);
    const runs = groups.reduce((sum, { runs: own }) => sum + own.length, 0);
    return {
      title: least?.values.length ? `Leakage is least where ${name} is ${leastText(least)}` : `The ${name} of least leakage is unknown`,
      lead: least ? `Compared with ${name} = ${least.reference}, whose mean is lowest among models with good task and concept accuracy.`
        : upper(report.undefined ?? ""),
      counts: `${runs} runs in ${groups.length} groups, the newest evaluations of each`,
    };
  }

  return { root, draw };
}

/** Returns the choice of the address, as far as the runs allow it. @param {Shown} shown @returns {Choice} */
function choiceOf(shown) {
  const { view, runs: all } = shown;
  const scored = (/** @type {Run} */ run) => run.splits.filter((one) => one.last_step !== null).map((one) => one.split);
  const having = all.filter((run) => isScored(run, view.split));
  const twinned = all.filter((run) => scored(run).length > 1);
  const labels = shown.labels.filter(({ values }) => values.length > 1).map(({ name }) => name);
  const can = { label: labels.length > 0, runs: having.length > 1, splits: twinned.length > 0 };
  const by = can[view.by] ? view.by : can.label ? "label" : can.runs ? "runs" : "splits";
  const runs = by === "splits" ? twinned : having;
  const first = runs.find((run) => run.name === view.a) ?? runs[0];
  const others = having.filter((run) => run !== first);
  const second = others.find((run) => run.name === view.b) ?? others[0] ?? first;
  const splits = by === "splits" && first ? scored(first) : shown.splits;
  const split = splits.includes(view.split) ? view.split : splits[0];
  const other = splits.find((name) => name === view.with && name !== split) ?? splits.find((name) => name !== split) ?? split;
  const label = labels.includes(view.label) ? view.label : setting(shown) ?? labels[0];
  const why = by === "label" ? "" : whyNot(shown, by === "runs" ? [view.a, view.b] : [view.a], runs, by);
  return { by, can, labels, label, runs, first, others, second, splits, split, other, why };
}

/**
 * Returns why the requested runs cannot be compared, or "". Other runs never take their place.
 * @param {Shown} shown @param {string[]} asked names, "" for any @param {Run[]} runs those that can @param {By} by
 */
function whyNot({ view, runs: all, loaded, total }, asked, runs, by) {
  const of = (/** @type {string} */ name) => {
    if (all.some((run) => run.name === name)) {
      return by === "runs" ? `${titleOf(name)} has no evaluation of ${view.split}.` : `${titleOf(name)} has evaluations of fewer than two splits.`;
    }
    return loaded < total ? `${name} is not loaded yet.` : `There is no run ${name}${view.project && ` in ${view.project}`}.`;
  };
  const missing = [...new Set(asked)].filter((name) => name && !runs.some((run) => run.name === name));
  if (missing.length === 0 && view.a && asked[0] === asked[1]) return `A and B are the same run, ${titleOf(view.a)}.`;
  return missing.map(of).join(" ");
}

/** Returns the question to the sidecar, and a version of the data behind its answer. @param {Choice} choice @param {View} view */
function questionOf({ by, label, runs, first, second, split, other }, view) {
  /** @type {Record<string, string|null>} */
  const query = by === "label" ? { by: label, split, where: whereOf(view, view.where) }
    : by === "runs" ? { run_a: first.name, run_b: second.name, split } : { run_a: first.name, split, with_split: other };
  const rests = by === "label" ? runs.filter((run) => label in run.labels) : by === "runs" ? [first, second] : [first];
  return { query, version: JSON.stringify(rests.map((run) => [run.name, run.finished, ...run.splits.map(({ last_step }) => last_step)])) };
}

/** The controls of the comparison. */
function choiceBar() {
  const ways = WAYS.map(([way, text]) => ({ way, root: el("button", { onclick: () => change({ by: way }) }, text) }));
  const pick = (/** @type {string} */ text, /** @type {(value: string) => void} */ take) => {
    const select = el("select", { "aria-label": text, onchange: () => take(select.value) });
    return { select, root: el("label", { class: "pick" }, `${text} `, select) };
  };
  const project = projectPicker();
  const label = pick("Label", (value) => change({ label: value }));
  let first = "";
  // The run that B was takes the place of A.
  const a = pick("A", (value) => change(value === current().b ? { a: value, b: first } : { a: value }));
  const b = pick("B", (value) => change({ b: value }));
  const split = pick("Data", (value) => change({ split: value }));
  const other = pick("With", (value) => change({ with: value }));
  const where = el("input", { "aria-label": "Only runs with", placeholder: "encoder=soft", onchange: () => change({ where: where.value.trim() }) });
  const only = el("label", { class: "pick" }, "Only ", el("span", { class: "field where" }, where));
  const counts = el("span", { class: "dim small end" });
  return {
    counts, root: el("div", { class: "bar" }, project.root, label.root, only, a.root, b.root, split.root, other.root, counts),
    ways: el("div", { class: "tabs", role: "group", "aria-label": "What to compare" }, ...ways.map(({ root }) => root)),
    /** @param {Choice} choice @param {Shown} shown */
    draw(choice, shown) {
      const { by, can } = choice;
      first = choice.first?.name ?? "";
      project.draw(shown);
      for (const { way, root } of ways) {
        root.setAttribute("aria-pressed", String(way === by));
        root.disabled = !can[way];
      }
      label.root.hidden = only.hidden = by !== "label" || !can[by];
      a.root.hidden = by === "label" || !can[by];
      b.root.hidden = by !== "runs" || !can[by];
      other.root.hidden = by !== "splits" || !can[by];
      split.root.hidden = !can[by];
      if (!can[by]) return;
      const names = (/** @type {Run[]} */ list) => list.map((run) => [run.name, titleOf(run.name)]);
      options(label.select, choice.labels.map((name) => [name, labelText(name)]), choice.label ?? "");
      options(a.select, names(choice.runs), (choice.why && shown.view.a) || choice.first.name);
      options(b.select, names(choice.others), (choice.why && shown.view.b) || choice.second.name);
      options(split.select, choice.splits.map((name) => [name, name]), choice.split);
      options(other.select, choice.splits.filter((name) => name !== choice.split).map((name) => [name, name]), choice.other);
      if (where !== document.activeElement) where.value = shown.view.where;
    },
  };
}
