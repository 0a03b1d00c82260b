// The differences of two runs or two splits, score by score.
import { forest } from "./forest.js";
import { titleOf } from "../data/prefs.js";
import { saveMenu } from "../saving.js";
import { address } from "../data/state.js";
import { el, upper } from "../text.js";

/** @import { PairReport, SplitReport } from "../data/api.js" */

const WEIGHED = {
  a_leaks_more: "A leaks more", b_leaks_more: "B leaks more", no_difference: "No difference in leakage is shown",
  scores_disagree: "The scores disagree on which run leaks more", undecided: "Undecided which run leaks more", undefined: "Leakage cannot be compared",
};
const CRITERION = {
  a_leaks_more: "A leaks more", b_leaks_more: "B leaks more", compatible: "no difference shown",
  undecided: "undecided: one score is higher and the other lower", undefined: "undefined",
};
const INTERVALS = "An interval that excludes 0 shows a difference; one that contains 0 does not prove equality.";

/** @param {HTMLElement} host */
export function pairPanel(host) {
  const head = el("header", {});
  const body = el("div", {});
  host.append(head, body);

  return {
    /** @param {PairReport} report @param {string} nameA @param {string} nameB */
    runs(report, nameA, nameB) {
      const { weighed, criterion, criterion_unclipped: unclipped } = report;
      const link = (/** @type {string} */ letter, /** @type {string} */ name) =>
        el("span", {}, el("b", {}, `${letter} `), el("a", { href: address({ page: "run", run: name }) }, titleOf(name)));
      head.replaceChildren(el("h2", {}, "Differences"),
        el("div", { class: "end key" }, link("A", nameA), link("B", nameB), menu(report, [nameA, nameB])),
        el("p", {}, `A − B with its 95 % interval. ${INTERVALS}`),
        el("p", { class: "small" }, `Leakage Criterion of the paper, by CTL and ICL alone: ${CRITERION[criterion.verdict]} (${criterion.why}). `
          + `Without clipping: ${CRITERION[unclipped.verdict]} (${unclipped.why}).`));
      body.replaceChildren(forest(report.scores, ["A", "B"]));
      return { title: WEIGHED[weighed.verdict], lead: upper(weighed.why),
        counts: `${report.a.evaluations.length} and ${report.b.evaluations.length} evaluations` };
    },
    /** @param {SplitReport} report @param {string} one @param {string} two */
    splits(report, one, two) {
      const steps = report.a.evaluations.map(([, step]) => step);
      head.replaceChildren(el("h2", {}, `${one} − ${two}`), el("div", { class: "end" }, menu(report, [report.run, one, two])),
        el("p", {}, `With 95 % intervals. ${INTERVALS}`));
      body.replaceChildren(forest(report.scores, [one, two]));
      return {
        title: `${titleOf(report.run)}: ${one} and ${two}`, counts: `${rowsOf(report.a.rows)} and ${rowsOf(report.b.rows)} rows`,
        lead: steps.length === 1 ? `The evaluations at step ${steps[0]}.`
          : `The ${steps.length} newest evaluations that both have, steps ${steps[0]} to ${steps.at(-1)}.`,
      };
    },
  };
}

/** @param {PairReport|SplitReport} report @param {string[]} names */
function menu({ scores }, names) {
  const flat = (/** @type {string|null} */ concept, /** @type {any} */ one, /** @type {string} */ score) =>
    [score, concept, one.a?.mean, one.b?.mean, one.difference?.mean, one.difference?.low, one.difference?.high, one.p_value, one.verdict];
  return saveMenu("the comparison", { csv: () => ({
    name: `compare ${names.join(" ")}`, columns: ["score", "concept", "a", "b", "difference", "low", "high", "p_value", "verdict"],
    rows: scores.flatMap((one) => [flat(null, one, one.score), ...(one.per_concept ?? []).map((part) => flat(part.concept, part, one.score))]),
  }) });
}

/** @param {[number, number]} rows */
const rowsOf = ([least, most]) => (least === most ? String(most) : `${least} to ${most}`);
