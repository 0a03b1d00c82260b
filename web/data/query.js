// The search for runs: words of names and labels, and conditions such as lambda<1, leakage>0.2 or verdict:leaking. Pure.
import { newestOf, scoreOf, stateOf } from "../labels.js";
import { byText } from "../text.js";

/** @import { Row, Run } from "./api.js" */

/** Scores by the words for them; all have their id, too. @type {Record<string, string>} */
const SCORES = { leakage: "ctl_conditional", between: "icl_conditional", drop: "intervention_drop", accuracy: "task_accuracy",
  concepts: "concept_accuracy", ctl: "ctl", icl: "icl" };

/** The label that names a run's project. */
export const PROJECT = "project";
const CONDITION = /^([^<>=!]+)(<=|>=|!=|=|<|>)(.+)$/;
/** A condition that is still being typed; `lambda=` alone finds the runs with that label. */
const INCOMPLETE = /^[^<>=!]+(<|>|!|<=|>=|!=)$/;

const wordsOf = (/** @type {string} */ text) => text.split(/\s+/).filter(Boolean).map((word) => word.replace(/^verdict:/i, "verdict="));
const idOf = (/** @type {string} */ key) => SCORES[key.toLocaleLowerCase()] ?? key;
/** Whether a score is compared with what is no number. @param {string} key @param {string} value */
const isOdd = (key, value) => scoreOf(idOf(key)) !== undefined && !Number.isFinite(Number(value));
const labelOf = (/** @type {string} */ key) => (key === "λ" ? "lambda" : key);

/** @param {string} text @returns {(run: Run, title: string, row: Row|undefined) => boolean} */
export function matcher(text) {
  const tests = wordsOf(text).filter((word) => !INCOMPLETE.test(word)).map((word) => {
    const condition = word.match(CONDITION);
    if (!condition) {
      const wanted = word.toLocaleLowerCase();
      return (/** @type {Run} */ run, /** @type {string} */ title) =>
        [run.name, title, ...Object.entries(run.labels).map(([key, value]) => `${key}=${value}`)].some((one) => one.toLocaleLowerCase().includes(wanted));
    }
    const [, key, sign, value] = condition;
    const label = labelOf(key);
    return (/** @type {Run} */ run, /** @type {string} */ title, /** @type {Row|undefined} */ row) => {
      if (label in run.labels) return holds(run.labels[label], sign, value);
      if (key.toLocaleLowerCase() === "verdict") return holds(stateOf(row), sign, value);
      if (isOdd(key, value)) return true;
      const own = newestOf(row, idOf(key))?.value;
      if (own !== undefined) return holds(String(own), sign, value);
      return !(key in SCORES) && (title.includes(word) || run.name.includes(word));
    };
  });
  return (run, title, row) => tests.every((test) => test(run, title, row));
}

/** Returns why a search finds nothing, or "". @param {string} text @param {string[]} labels that runs have @param {boolean} finds whether it finds any run */
export function hintOf(text, labels, finds) {
  for (const word of wordsOf(text)) {
    if (/^verdict(=|!=)$/i.test(word)) return "“verdict:” needs a verdict, such as verdict:leaking. It is ignored until then.";
    if (INCOMPLETE.test(word)) return `“${word}” needs a value, such as ${word.replace(/!$/, "!=")}1. It is ignored until then.`;
    if (/^(<=|>=|!=|<|>)/.test(word)) return `“${word}” needs a label before it, such as ${labels[0] ?? "lambda"}${word}.`;
    const [, key, sign, value] = word.match(CONDITION) ?? [];
    if (key && !labels.includes(labelOf(key)) && isOdd(key, value)) {
      const decimal = value.replace(",", ".");
      return `“${word}” needs a number, such as ${key}${sign}${Number.isFinite(Number(decimal)) ? decimal : 0.2}. It is ignored until then.`;
    }
    if (key && !finds && !labels.includes(labelOf(key)) && !(key in SCORES) && key !== "verdict") {
      return `No run has a label “${key}”.${labels.length ? ` Existing labels: ${labels.join(", ")}.` : ""}`;
    }
  }
  return "";
}

/** Numbers are compared as numbers. @param {string} own @param {string} sign @param {string} value */
function holds(own, sign, value) {
  const [a, b] = [Number(own), Number(value)];
  const numbers = own.trim() !== "" && Number.isFinite(a) && Number.isFinite(b);
  const order = numbers ? a - b : own.localeCompare(value);
  switch (sign) {
    case "=": return numbers ? a === b : own.toLocaleLowerCase().startsWith(value.toLocaleLowerCase());
    case "!=": return numbers ? a !== b : own !== value;
    case "<": return order < 0;
    case ">": return order > 0;
    case "<=": return order <= 0;
    default: return order >= 0;
  }
}

/** Values of a label in order, numbers by size. @param {string} a @param {string} b */
export function byValue(a, b) {
  const [one, other] = [Number(a), Number(b)];
  return Number.isFinite(one) && Number.isFinite(other) && a !== "" && b !== "" ? one - other : byText(a, b);
}

/** Labels that runs have, those with different values first; the project is the scope of them all. @param {Run[]} runs */
export function labelsOf(runs) {
  /** @type {Map<string, Set<string>>} */
  const values = new Map();
  for (const run of runs) for (const [key, value] of Object.entries(run.labels)) if (key !== PROJECT) values.set(key, (values.get(key) ?? new Set()).add(value));
  const names = [...values.keys()];
  const differ = (/** @type {string} */ name) => (/** @type {Set<string>} */ (values.get(name)).size > 1 ? 0 : 1);
  return names.sort((a, b) => differ(a) - differ(b)).map((name) => ({ name, values: [.../** @type {Set<string>} */ (values.get(name))].sort(byValue) }));
}
