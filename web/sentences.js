// Sentences of the sidecar in the page's words, units and digits. It writes ids, shares and four digits, which suit its API.
import { signed } from "./text.js";
import { term } from "./tip.js";
import { inSentence, labelName, named, nameOf, scoreOf, tipOf, wordOf } from "./labels.js";

const NUMBER = "-?\\d+(?:\\.\\d+)?";

/**
 * Digits after the point: one significant digit of half the interval where that begins with 2 or more, else two. A mean
 * whose interval leaves out 0 has two digits, and no end of it is given as 0.
 * @param {number} mean @param {number} low @param {number} high @param {number} [least]
 */
function digitsOf(mean, low, high, least = 0) {
  const half = Number((Math.abs(high - low) / 2).toPrecision(2));
  if (!(half > 0)) return Math.max(1, least);
  const power = Math.floor(Math.log10(half));
  let digits = Math.max(least, -power + (half / 10 ** power < 2 ? 1 : 0));
  if (low * high > 0) digits = Math.max(digits, 1 - Math.floor(Math.log10(Math.abs(mean))));
  const vanishes = () => low * high > 0 && Number(Math.min(Math.abs(low), Math.abs(high)).toFixed(digits)) === 0;
  for (let more = 0; more < 2 && vanishes(); more += 1) digits += 1;
  return Math.min(6, digits);
}

/** The unit that follows a difference of a score. @param {string} score */
const pointsOf = (score) => (wordOf(score).scale === 100 ? " points" : "");

/**
 * A difference with its interval, in the page's unit: "28 points (20 to 37)".
 * @param {string} score @param {{mean: number, low: number|null, high: number|null}} difference @param {string} [unit]
 */
export function differenceText(score, { mean, low, high }, unit = pointsOf(score)) {
  const { scale } = wordOf(score);
  if (low === null || high === null) return `${signed(String(Number((mean * scale).toPrecision(2))))}${unit}`;
  const digits = digitsOf(mean * scale, low * scale, high * scale, scale === 100 ? 0 : 2);
  const text = (/** @type {number} */ value) => signed((value * scale).toFixed(digits));
  return `${text(mean)}${unit} (${text(low)} to ${text(high)})`;
}

/**
 * What a comparison says. @param {string} text
 * @param {{label: string, values: string[]}|null} [by] the label by which groups are compared, and its values
 */
export function comparedText(text, by = null) {
  const difference = (/** @type {string} */ score, /** @type {string[]} */ [mean, low, high]) =>
    differenceText(score, { mean: Number(mean), low: low === undefined ? null : Number(low), high: high === undefined ? null : Number(high) });
  const said = text
    .replace(new RegExp(`\\b([a-z]\\w*) is higher in (.+?) by (${NUMBER})(?: \\((${NUMBER}) to (${NUMBER})\\))?`, "g"),
      (all, score, side, ...numbers) => (scoreOf(score) ? `${score} is higher in ${side} by ${difference(score, numbers)}` : all))
    .replace(new RegExp(`\\b([a-z]\\w*) shows no difference \\((${NUMBER}), (${NUMBER}) to (${NUMBER})\\)`, "g"),
      (all, score, ...numbers) => (scoreOf(score) ? `${score} shows no difference: ${difference(score, numbers)}` : all))
    .replace(new RegExp(`\\b([a-z]\\w*_accuracy) (${NUMBER}) against (${NUMBER})`, "g"), (_, score, one, other) => `${score} ${percentText(one)} against ${percentText(other)}`)
    .replace(new RegExp(`(are not learnt \\([a-z]\\w*_accuracy) (${NUMBER})`, "g"), (_, head, share) => `${head} ${percentText(share)}`)
    .replace(new RegExp(`task accuracy of (${NUMBER})`, "g"), (_, share) => `task accuracy of ${percentText(share)}`)
    .replace(new RegExp(`loses (${NUMBER}) of accuracy under intervention`, "g"), (_, share) => `loses ${Number((100 * Number(share)).toPrecision(2))} points of task accuracy under intervention`)
    .replace(/comparable only at equal N, and evaluations have (\d+) to (\d+) rows/g, "comparable only between evaluations of equally many rows, and these have $1 to $2");
  return named(by ? keyed(said, by) : said);
}

const percentText = (/** @type {string} */ share) => `${(100 * Number(share)).toFixed(0)} %`;

/** Values of a label with its name: "0.5" alone may be anything. @param {string} text @param {{label: string, values: string[]}} by */
function keyed(text, { label, values }) {
  const any = values.toSorted((a, b) => b.length - a.length).map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  if (!any) return text;
  const key = `${labelName(label)} = `;
  const said = text
    .replace(new RegExp(`^(${any})(?=: )`), `${key}$1`)
    .replace(new RegExp(`(is higher) in (${any}) by`, "g"), `$1 at ${key}$2 by`)
    .replace(new RegExp(`concepts of (${any}) are`, "g"), `concepts at ${key}$1 are`)
    .replace(new RegExp(`(^|; )(${any}) (still loses|has the least)`, "g"), `$1${key}$2 $3`)
    .replace(new RegExp(`(disagree: )(${any}) (has the least)`, "g"), `$1${key}$2 $3`)
    .replace(new RegExp(`: ${label.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")} (?=(${any})(, |$))`, "g"), `: ${key}`);
  // What a sentence begins with need not be said again.
  const of = values.find((value) => said.startsWith(`${key}${value}: `));
  return of === undefined ? said : said.replaceAll(`is higher at ${key}${of} by`, "is higher by");
}

/** What a rule saw, in the page's units, with ids. @param {string} text */
function inUnits(text) {
  return text.replace(new RegExp(`\\b([a-z]\\w*) is (${NUMBER})((?:, [^;]*)?)`, "g"), (all, score, value, rest) => {
    const { scale, unit } = wordOf(score);
    if (!scoreOf(score)) return all;
    const words = rest.replace(/not below (?=\d)/, "at or above ").replace(/not above (?=\d)/, "at or below ");
    if (scale !== 100) return `${score} is ${signed(value)}${words}`;
    const limits = [...words.matchAll(new RegExp(`(?:above|below|baseline) (${NUMBER})`, "g"))].map(([, limit]) => Number(limit));
    // Rounded alike, a value beyond its limit would be equal to it.
    const digits = limits.some((limit) => (100 * limit).toFixed(1) === (100 * Number(value)).toFixed(1)) ? 2 : 1;
    const share = (/** @type {string} */ one) => `${signed(String(Number((100 * Number(one)).toFixed(digits))))} ${unit === "%" ? "%" : "points"}`;
    return `${score} is ${share(value)}${words.replace(new RegExp(`(above|below|baseline|SE) (${NUMBER})`, "g"), (/** @type {string} */ _, /** @type {string} */ word, /** @type {string} */ one) => `${word} ${share(one)}`)}`;
  });
}

/** The same as plain text. @param {string} text */
export const alertText = (text) => named(inUnits(text));

/**
 * The same, where each score has a tip with what it is and its id.
 * @param {string} text @param {boolean} [begins] whether it begins a sentence @returns {(Node|string)[]}
 */
export function alertParts(text, begins = false) {
  const parts = inUnits(text).split(/\b([a-z]+(?:_[a-z0-9]+)+|ctl|icl)\b/).map((part, i) => ({ part, score: i % 2 > 0 && scoreOf(part) !== undefined })).filter(({ part }) => part !== "");
  return parts.map(({ part, score }, i) => (score ? term(i === 0 && begins ? nameOf(part) : inSentence(nameOf(part)), tipOf(part)) : i === 0 && begins ? upper(part) : part));
}

/** @param {string} text */
export const upper = (text) => text.replace(/^./, (first) => first.toUpperCase());
