// Differences of two sides on one scale, each with its interval.
import { el, headRow, scroller } from "../text.js";
import { term } from "../tip.js";
import { differenceText, nameOf, tipOf } from "../labels.js";

/**
 * @import { Comparison, ConceptComparison } from "../data/api.js"
 * @typedef {Comparison & {score: string, per_concept?: ConceptComparison[]}} Compared
 */

/** Concepts that a row names. */
const NAMED = 4;
const LEAKS = ["ctl_conditional", "icl_conditional", "joint_leakage", "ctl", "icl", "ctl_excess", "icl_excess", "icl_label", "embedding_ct_conditional",
  "embedding_ic_conditional"];

/** Returns the meaning of a difference in words. @param {Compared} one @param {[string, string]} sides */
function meaning({ score, verdict, undefined: why }, [a, b]) {
  if (why !== undefined || verdict === "undefined") return `undefined: ${why ?? "no value"}`;
  if (verdict === "compatible") return "no difference shown";
  const [higher, lower] = verdict === "higher_in_a" ? [a, b] : [b, a];
  if (LEAKS.includes(score)) return `${higher} leaks more`;
  if (score === "intervention_drop") return `${higher} loses more`;
  if (/accuracy|_auc|_f1/.test(score)) return `${lower} is worse`;
  return `higher in ${higher}`;
}

/** @param {Compared[]} compared @param {[string, string]} sides */
export function forest(compared, sides) {
  const ends = compared.flatMap(({ difference }) => (difference ? [difference.low ?? difference.mean, difference.high ?? difference.mean, difference.mean]
    : []).map(Math.abs));
  const most = Math.max(0.01, ...ends.filter(Number.isFinite)) * 1.08;
  const place = (/** @type {number} */ value) => 50 + (50 * value) / most;
  return scroller("Scores, scrollable", "forest-scroll", el("table", { class: "plain forest" },
    headRow(["Score"], [`${sides[0]} − ${sides[1]}`, "wide"], ["Difference, 95 % interval", "n"], ["What it means"], ["Concepts that differ", "opt"]),
    el("tbody", {}, ...compared.map((one) => {
      const { difference, verdict } = one;
      const clear = verdict.startsWith("higher");
      const [low, high] = difference ? [difference.low ?? difference.mean, difference.high ?? difference.mean] : [0, 0];
      return el("tr", { "data-score": one.score }, el("th", { scope: "row" }, term(nameOf(one.score), tipOf(one.score))),
        el("td", { class: "zero" }, el("div", { class: "rng", "--c": clear ? "var(--s1)" : "var(--ink-3)", "aria-hidden": "true" },
          difference && el("i", { style: `left: ${place(low)}%; width: ${Math.max(0.5, place(high) - place(low))}%` }),
          difference && el("b", { style: `left: ${place(difference.mean)}%` }))),
        el("td", { class: "n" }, difference ? differenceText(difference) : "–"),
          el("td", { class: clear ? "means" : "means dim" }, meaning(one, sides)),
          el("td", { class: "opt dim small" }, differing(one.per_concept ?? [], sides)));
    }))));
}

/** @param {ConceptComparison[]} concepts @param {[string, string]} sides */
function differing(concepts, [a, b]) {
  if (!concepts.length) return "";
  const found = concepts.filter(({ verdict }) => verdict.startsWith("higher"));
  const named = found.slice(0, NAMED).map(({ concept, verdict }) => `${concept} (${verdict === "higher_in_a" ? a : b})`);
  return `${found.length} of ${concepts.length}${named.length ? `: ${named.join(", ")}${found.length > NAMED ? " …" : ""}` : ""}`;
}
