// The page of comparisons: groups by a label, two runs, or two splits of a run. The sidecar compares; this shows it.
import { answers } from "../data/answers.js";
import { forest } from "./forest.js";
import { options, setting } from "./overview.js";
import { titleOf } from "../data/prefs.js";
import { byValue } from "../data/query.js";
import { saveMenu } from "../saving.js";
import { note } from "./states.js";
import { address, change } from "../data/state.js";
import { agreementPanel, sweepPanel } from "./sweep.js";
import { el, upper } from "../text.js";
import { labelName } from "../labels.js";

/**
 * @typedef {import("../data/shown.js").Shown} Shown
 * @typedef {import("../data/api.js").Run} Run
 * @typedef {import("../data/api.js").PairReport} PairReport
 * @typedef {import("../data/api.js").SplitReport} SplitReport
 * @typedef {import("../data/api.js").GroupReport} GroupReport
 */

const WAYS = /** @type {[import("../data/state.js").View["by"], string][]} */ ([["label", "By a label"], ["runs", "Two runs"], ["splits", "Two splits"]]);
const WEIGHED = {
  a_leaks_more: "A leaks more", b_leaks_more: "B leaks more", no_difference: "No difference in leakage is shown",
  scores_disagree: "The scores disagree on which run leaks more", undecided: "Undecided which run leaks more", undefined: "Leakage cannot be compared",
};
const CRITERION = { a_leaks_more: "A leaks more", b_leaks_more: "B leaks more", compatible: "no difference shown", undecided: "undecided: one score is higher and the other lower", undefined: "undefined" };

/** @param {() => void} again draws the page again */
export function compareView(again) {
  const title = el("h1", {});
  const lead = el("p", {});
  const ways = WAYS.map(([way, text]) => ({ way, root: el("button", { type: "button", onclick: () => change({ by: way }) }, text) }));
  const choice = (/** @type {string} */ text, /** @type {(value: string) => void} */ take) => {
    const select = el("select", { "aria-label": text, onchange: () => take(select.value) });
    return { select, root: el("label", { class: "pick" }, `${text} `, select) };
  };
  const label = choice("Label", (value) => change({ label: value }));
  const a = choice("A", (value) => change({ a: value }));
  const b = choice("B", (value) => change({ b: value }));
  const split = choice("Data", (value) => change({ split: value }));
  const other = choice("With", (value) => change({ with: value }));
  const where = el("input", { "aria-label": "Only runs with", placeholder: "encoder=soft", onchange: () => change({ where: where.value.trim() }) });
  const only = el("label", { class: "pick" }, "Only ", el("span", { class: "field where" }, where));
  const said = el("span", { class: "dim small end" });
  const fault = el("div", {});
  const sweep = el("section", { class: "panel", "aria-label": "Sweep" });
  const agreement = el("section", { class: "panel", "aria-label": "Agreement of the scores" });
  const pair = el("section", { class: "panel", "aria-label": "Differences" });
  const pairHead = el("header", {});
  const pairBody = el("div", {});
  const notes = el("div", { class: "small dim notes" });
  pair.append(pairHead, pairBody);
  const drawSweep = sweepPanel(sweep);
  const drawAgreement = agreementPanel(agreement);
  const answer = answers("compare", again);
  const root = el("div", { class: "compare" }, el("div", { class: "head" }, el("div", {}, title, lead),
    el("div", { class: "tabs", role: "group", "aria-label": "What to compare" }, ...ways.map(({ root: button }) => button))),
    el("div", { class: "bar" }, label.root, only, a.root, b.root, split.root, other.root, said), fault, sweep, agreement, pair, notes);
  let before = "";
  /** @type {any} */
  let table = null;

  /** @param {Shown} shown */
  function draw(shown) {
    const { view, runs } = shown;
    const having = runs.filter((run) => run.splits.some((one) => one.split === view.split && one.last_step !== null));
    const twinned = runs.filter((run) => run.splits.filter((one) => one.last_step !== null).length > 1);
    const labels = shown.labels.filter(({ values }) => values.length > 1).map(({ name }) => name);
    const can = { label: labels.length > 0, runs: having.length > 1, splits: twinned.length > 0 };
    const by = can[view.by] ? view.by : can.label ? "label" : can.runs ? "runs" : "splits";
    for (const { way, root: button } of ways) {
      button.setAttribute("aria-pressed", String(way === by));
      button.disabled = !can[way];
    }
    const possible = can[by];
    for (const [one, on] of /** @type {[any, boolean][]} */ ([[label.root, by === "label"], [only, by === "label"], [a.root, by !== "label"], [b.root, by === "runs"], [other.root, by === "splits"]])) one.hidden = !on || !possible;
    split.root.hidden = !possible;
    if (!possible) {
      title.textContent = "Nothing to compare yet";
      lead.textContent = "Log a second run, a second split of a run, or runs with labels, such as labels={\"lambda\": 0.1}.";
      for (const one of [sweep, agreement, pair]) one.hidden = true;
      fault.replaceChildren();
      notes.replaceChildren();
      before = "";
      return;
    }
    const choices = by === "splits" ? twinned : having;
    const first = choices.find((run) => run.name === view.a) ?? choices[0];
    const second = having.find((run) => run.name === view.b && run !== first) ?? having.find((run) => run !== first) ?? first;
    const own = by === "splits" ? first.splits.filter((one) => one.last_step !== null).map((one) => one.split) : shown.splits;
    const one = own.includes(view.split) ? view.split : own[0];
    const with_ = own.find((name) => name === view.with && name !== one) ?? own.find((name) => name !== one) ?? one;
    const chosen = labels.includes(view.label) ? view.label : setting(shown) ?? labels[0];
    const names = (/** @type {Run[]} */ list) => list.map((run) => [run.name, titleOf(run.name)]);
    options(label.select, labels.map((name) => [name, labelName(name) === name ? name : `${labelName(name)} (${name})`]), chosen ?? "");
    options(a.select, names(choices), first.name);
    options(b.select, names(having.filter((run) => run !== first)), second.name);
    options(split.select, own.map((name) => [name, name]), one);
    options(other.select, own.filter((name) => name !== one).map((name) => [name, name]), with_);
    if (where !== document.activeElement) where.value = view.where;
    const rests = by === "label" ? having.filter((run) => chosen && chosen in run.labels) : by === "runs" ? [first, second] : [first];
    const version = JSON.stringify(rests.map((run) => [run.name, run.finished, ...run.splits.map(({ last_step }) => last_step)]));
    /** @type {Record<string, string|null>} */
    const asked = by === "label" ? { by: chosen, split: one, where: view.where ? view.where.split(/\s+/).join(",") : null }
      : by === "runs" ? { run_a: first.name, run_b: second.name, split: one } : { run_a: first.name, split: one, with_split: with_ };
    const { body: report, why } = answer(asked, version);
    const now = JSON.stringify([by, asked, report, why, shown.theme]);
    if (now === before) return;
    before = now;
    fault.replaceChildren(...(why === null ? [] : [note("bad", [el("b", {}, "This comparison is not possible. "), el("br"), el("code", { class: "dim" }, why)])]));
    sweep.hidden = agreement.hidden = !report?.groups;
    pair.hidden = !report || Boolean(report.groups);
    said.textContent = "";
    lead.replaceChildren();
    notes.replaceChildren(...(report?.notes ?? []).map((/** @type {string} */ text) => el("p", {}, `${upper(text)}.`)));
    if (!report) {
      title.textContent = why === null ? "Comparing …" : "Compare";
      return;
    }
    if (report.groups) byLabel(report, shown);
    else if (report.criterion) twoRuns(report, first.name, second.name);
    else twoSplits(report, one, with_);
  }

  /** @param {GroupReport} report @param {Shown} shown */
  function byLabel(report, shown) {
    report.groups.sort((one, two) => byValue(one.value, two.value));
    const name = labelName(report.label);
    const range = report.least?.values ?? [];
    title.textContent = range.length ? `Leakage is least where ${name} is ${range.length > 1 ? `${range[0]} to ${range.at(-1)}` : range[0]}` : `The ${name} of least leakage is unknown`;
    lead.textContent = report.least ? `Compared with ${name} = ${report.least.reference}, whose mean is lowest among models with good task and concept accuracy.` : upper(report.undefined ?? "");
    const runs = report.groups.reduce((sum, { runs: own }) => sum + own.length, 0);
    said.textContent = `${runs} runs in ${report.groups.length} groups, the newest evaluations of each`;
    drawSweep(report, shown);
    drawAgreement(report);
  }

  /** @param {PairReport} report @param {string} nameA @param {string} nameB */
  function twoRuns(report, nameA, nameB) {
    const { weighed, criterion, criterion_unclipped: unclipped } = report;
    title.textContent = WEIGHED[weighed.verdict];
    lead.textContent = upper(weighed.why);
    const count = (/** @type {"a"|"b"} */ side) => report[side].evaluations.length;
    said.textContent = `${count("a")} and ${count("b")} evaluations`;
    const link = (/** @type {string} */ letter, /** @type {string} */ name) => el("span", {}, el("b", {}, `${letter} `), el("a", { href: address({ page: "run", run: name }) }, titleOf(name)));
    pairHead.replaceChildren(el("h2", {}, "Differences"), el("div", { class: "end key" }, link("A", nameA), link("B", nameB), menu()),
      el("p", {}, "A − B with its 95 % interval. An interval that excludes 0 shows a difference; one that contains 0 does not prove equality."),
      el("p", { class: "small" }, `Leakage Criterion of the paper, by CTL and ICL alone: ${CRITERION[criterion.verdict]} (${criterion.why}). Without clipping: ${CRITERION[unclipped.verdict]} (${unclipped.why}).`));
    pairBody.replaceChildren(forest(report.scores, ["A", "B"]));
    table = tableOf(report, [nameA, nameB].join(" "));
  }

  /** @param {SplitReport} report @param {string} one @param {string} two */
  function twoSplits(report, one, two) {
    const steps = report.a.evaluations.map(([, step]) => step);
    title.textContent = `${titleOf(report.run)}: ${one} and ${two}`;
    lead.textContent = steps.length === 1 ? `The evaluations at step ${steps[0]}.` : `The ${steps.length} newest evaluations that both have, steps ${steps[0]} to ${steps.at(-1)}.`;
    said.textContent = `${rowsOf(report.a.rows)} and ${rowsOf(report.b.rows)} rows`;
    pairHead.replaceChildren(el("h2", {}, `${one} − ${two}`), el("div", { class: "end" }, menu()), el("p", {}, "With 95 % intervals. An interval that excludes 0 shows a difference; one that contains 0 does not prove equality."));
    pairBody.replaceChildren(forest(report.scores, [one, two]));
    table = tableOf(report, [report.run, one, two].join(" "));
  }

  const menu = () => saveMenu("the comparison", { csv: () => table });

  return { root, draw };
}

/** @param {[number, number]} rows */
const rowsOf = ([least, most]) => (least === most ? String(most) : `${least} to ${most}`);

/** @param {PairReport|SplitReport} report @param {string} name */
function tableOf({ scores }, name) {
  const flat = (/** @type {string|null} */ concept, /** @type {any} */ one, /** @type {string} */ score) => [score, concept, one.a?.mean, one.b?.mean, one.difference?.mean, one.difference?.low, one.difference?.high, one.p_value, one.verdict];
  return { name: `compare ${name}`, columns: ["score", "concept", "a", "b", "difference", "low", "high", "p_value", "verdict"],
    rows: scores.flatMap((one) => [flat(null, one, one.score), ...(one.per_concept ?? []).map((part) => flat(part.concept, part, one.score))]) };
}

