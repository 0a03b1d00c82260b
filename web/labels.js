// The page's names of scores, labels and verdicts. The ids of the catalogue stand in tips and files.
import { count, epochText, localTime, number, plural, signed } from "./text.js";

/**
 * @import { GroupReport, Outcome, Point, Row, Run, Score, Unscored } from "./data/api.js"
 * @typedef {{name: string, short?: string, unit?: string, digits?: number, axis?: [number, number], tip?: string}} Word
 *   digits: after the point; axis: least range of a chart
 */

const SHARE = "share, 0 to 1";
/** Digits of accuracies and of their differences, and of other shares. */
const [FINE, COARSE] = [3, 2];

/** @type {Record<string, Word>} */
const WORDS = {
  ctl_conditional: { name: "Leakage to the task", short: "Leakage", unit: SHARE, axis: [0, 0.2],
    tip: "What an activation reveals about the task beyond its concept's true value, as a share of the task's entropy; 0 is none. Mean over concepts." },
  icl_conditional: { name: "Leakage between concepts", short: "Between", unit: SHARE, axis: [0, 0.2],
    tip: "What an activation reveals about the other concepts beyond its own concept's true value, as a share of their entropy; 0 is none. Mean over pairs." },
  intervention_drop: { name: "Intervention drop", short: "Drop", unit: "share", digits: FINE, axis: [0, 0.1],
    tip: "Balanced task accuracy, the mean over classes, lost when every concept is set to its true value. "
      + "A model that reasons through its concepts loses nothing." },
  wrong_intervention_drop: { name: "Drop under wrong interventions", unit: "share", digits: FINE,
    tip: "Task accuracy lost when every concept is set to a wrong value. A model that reasons through its concepts loses a lot." },
  task_accuracy: { name: "Task accuracy", short: "Task", unit: SHARE, digits: FINE, axis: [0.5, 1], tip: "Share of rows with the right task prediction." },
  concept_accuracy: { name: "Concept accuracy", short: "Concepts", unit: SHARE, digits: FINE, axis: [0.5, 1],
    tip: "Share of right concept predictions, mean over concepts." },
  ctl_conditional_r2: { name: "Leakage to the task", short: "Leakage", unit: "share of R²", axis: [0, 0.2],
    tip: "The share of a number's variance that an activation explains beyond its concept's true value; 0 is none. Mean over concepts." },
  task_r2: { name: "R² of the task", unit: "share, at most 1", digits: FINE, tip: "Share of the task's variance that the predictions explain." },
  concept_r2: { name: "R² of concepts", unit: "share, at most 1", digits: FINE, tip: "Share of a concept's variance that its activation explains, mean over concepts." },
  intervened_task_accuracy: { name: "Task accuracy after intervention", unit: SHARE, digits: FINE },
  ctl: { name: "CTL, published", short: "CTL", unit: SHARE, axis: [0, 0.2],
    tip: "Concepts-task leakage as papers report it. It subtracts what an activation has not learnt of its concept, so poorly trained models can look clean." },
  icl: { name: "ICL, published", short: "ICL", unit: SHARE, axis: [0, 0.2],
    tip: "Interconcept leakage as papers report it, for comparison and for rules that stop when it rises." },
  ctl_excess: { name: "CTL, not clipped", unit: "share", tip: "CTL without clipping negative concepts to 0: the form to read trends from." },
  icl_excess: { name: "ICL, not clipped", unit: "share", tip: "ICL without clipping negative pairs to 0: the form to read trends from." },
  embedding_ct_conditional: { name: "Leakage of embeddings to the task", unit: SHARE },
  embedding_ic_conditional: { name: "Leakage of embeddings between concepts", unit: SHARE },
  embedding_ct: { name: "Embeddings about the task", unit: SHARE },
  embedding_ic: { name: "Embeddings about other concepts", unit: SHARE },
  embedding_self: { name: "Embeddings about their concept", unit: SHARE },
  alignment_leakage: { name: "Alignment leakage", unit: "difference of shares" },
  joint_leakage: { name: "Joint leakage", unit: SHARE },
  clarity_best_threshold: { name: "Threshold of highest Clarity", unit: "threshold" },
};

/** Scores of the overview and of a run's page, in this order. */
export const FIRST = ["ctl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy", "ctl", "icl"];
export const OF_RUN = ["ctl_conditional", "icl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy"];
export const PUBLISHED = ["ctl", "icl"];

/** What stands for a score where the task, or the concepts, are numbers. @type {Record<string, string>} */
const OF_NUMBERS = { ctl_conditional: "ctl_conditional_r2", task_accuracy: "task_r2", concept_accuracy: "concept_r2" };

/** The newest value of a score in a row, or of the one that stands for it. @param {Row|undefined} row @param {string} id */
export const newestOf = (row, id) => row?.scores[id] ?? row?.scores[OF_NUMBERS[id]];

/** Those of the scores, and of those that stand for them, that any of the rows has. @param {Iterable<Row>} rows @returns {Set<string>} */
export function valuedIn(rows) {
  const all = Object.entries(OF_NUMBERS).flat();
  const found = new Set();
  for (const { scores } of rows) for (const id of all) if (scores[id]?.value !== undefined) found.add(id);
  return found;
}

/** The ids, and those for numbers beside or instead of them. @param {string[]} ids @param {Set<string>} valued */
export const withNumbers = (ids, valued) => ids.flatMap((id) => {
  const numbers = OF_NUMBERS[id];
  return !valued.has(numbers) ? [id] : valued.has(id) ? [id, numbers] : [numbers];
});

/** The ids, with those for numbers where these have a value, or would have one, of every task. @param {string[]} ids @param {Point|null} point */
export const suited = (ids, point) => ids.map((id) => {
  const whole = (/** @type {Outcome|undefined} */ of) => typeof of?.value === "number" && !of.per_task?.some((one) => typeof one.value !== "number");
  const has = (/** @type {string} */ one) => whole(point?.scores[one]);
  const of = OF_NUMBERS[id === "task_accuracy" && !has("task_r2") ? "ctl_conditional" : id];
  return has(of) && (id === "ctl_conditional" || !has(id)) ? OF_NUMBERS[id] : id;
});

/** The inputs to log so that a score appears, where none has been. @type {Record<string, string>} */
export const TO_LOG = {
  ctl_conditional: "Log concept_activations, concept_labels and task_labels",
  icl_conditional: "Log concept_activations and concept_labels",
  intervention_drop: "Pass head= to init, or log intervened_task_predictions",
  task_accuracy: "Log task_logits or task_predictions",
  task_r2: "Log task_predictions",
  concept_accuracy: "Log concept_labels",
  ctl: "Log concept_activations, concept_labels and task_labels",
  icl: "Log concept_activations and concept_labels",
};

/** The state of a run in words. @param {Run} run */
export const runStateText = ({ state }) => state.replaceAll("_", " ");

/** When a run was last heard from. @param {Run} run */
export const updatedText = ({ updated }) => `last update ${localTime(updated)}`;

/** Evaluations of a split that have come and wait to be scored. @param {Run|undefined} run @param {string} split */
export function waitingOf(run, split) {
  const of = run?.splits.find((one) => one.split === split);
  const unsettled = of?.passes_unsettled ?? 0;
  // One of a run that goes on may still be arriving.
  return run?.finished || of?.points === 0 ? unsettled : Math.max(0, unsettled - 1);
}

export const waitingText = (/** @type {number} */ n) => `${plural(n, "evaluation")} ${n === 1 ? "waits" : "wait"} to be scored`;

/**
 * Why no evaluation has a score: a word, and a sentence with the number behind it.
 * @param {string} score @param {Run|undefined} run @param {string} split @param {Row|undefined} row @param {Unscored[]} [unscored]
 * @returns {[string, string]}
 */
export function absenceOf(score, run, split, row, unscored = []) {
  const of = run?.splits.find((one) => one.split === split);
  const waiting = waitingOf(run, split);
  if (waiting > 0) return ["Waiting", `${waitingText(waiting)}.`];
  if (!of?.points && unscored.length > 0) return ["Skipped", `${plural(unscored.length, "evaluation")}: ${unscored[unscored.length - 1].reason}.`];
  if (!of?.points && of?.rows_dropped) return ["Refused", `${count(of.rows_dropped)} rows of ${split} were not accepted; the job’s log says why.`];
  // Scores of concepts alone say that those were sent.
  const text = row?.scores.icl_conditional ? TO_LOG[score]?.replace("concept_activations, concept_labels and ", "") : TO_LOG[score];
  return ["Not sent", text ? `${text}.` : "No evaluation has it."];
}

/** @type {Map<string, Score>} */
const catalogue = new Map();

/** @type {Set<string>} scores that read the task */
const ofTasks = new Set();

/** @param {Score[]} scores @param {string[]} reading the task */
export function nameScores(scores, reading) {
  for (const score of scores) catalogue.set(score.id, score);
  for (const id of reading) ofTasks.add(id);
}

/** Ids, the usual ones first. */
export const allScores = () => [...new Set([...Object.keys(WORDS), ...catalogue.keys()])].filter((id) => catalogue.has(id));

export const scoreOf = (/** @type {string} */ id) => catalogue.get(id);

/** @param {string} id @returns {Word & {unit: string}} */
export function wordOf(id) {
  const score = catalogue.get(id);
  return { unit: score?.unit || "", ...(WORDS[id] ?? { name: score?.title ?? id }) };
}

/** Possible values. @param {string} id */
export const rangeOf = (id) => catalogue.get(id)?.range;

export const nameOf = (/** @type {string} */ id) => wordOf(id).name;

/** The ids and their names, with the unit where two share a name. @param {string[]} ids @returns {[string, string][]} */
export const withNames = (ids) => ids.map((id) => {
  const shared = ids.some((other) => other !== id && nameOf(other) === nameOf(id));
  return [id, shared ? `${nameOf(id)}, ${wordOf(id).unit}` : nameOf(id)];
});

/** The texts of a score's tip: its meaning, its source and the limits of its use. @param {string} id */
export function tipOf(id) {
  const score = catalogue.get(id);
  const word = WORDS[id];
  return [word?.tip ?? score?.help ?? "", word?.tip && score?.trust?.length ? score.trust[0] : "",
    [score?.title, score?.paper, score?.equation, id].filter(Boolean).join(" · ")].filter(Boolean);
}

/** @param {string} id */
const digitsOf = (id) => wordOf(id).digits ?? COARSE;

/** A value, without its unit. @param {string} id @param {number|null|undefined} value */
export function valueText(id, value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return id in WORDS ? signed(value.toFixed(digitsOf(id))) : number(value);
}

/** Half of the 95 % interval. @param {string} id @param {number|null|undefined} error standard error */
export function halfText(id, error) {
  if (error === null || error === undefined) return "";
  const half = 1.96 * error;
  if (!(id in WORDS)) return number(half, error);
  const least = 10 ** -digitsOf(id);
  return Math.max(half, least).toFixed(digitsOf(id));
}

/**
 * Whose value of several tasks a score is: of the task, or their mean; "" for a score that does not read the task.
 * @param {string} id @param {Run|undefined} run @param {string} [task] the one that decides
 */
export const whoseText = (id, run, task) => (!ofTasks.has(id) || (run?.tasks?.length ?? 0) < 2 ? "" : task ? `task ${task}` : "mean over tasks");

/** The evaluation as it is for one of several tasks. @param {Point|null} point @param {Run|undefined} run @param {string} [task] */
export function ofTask(point, run, task) {
  const at = run?.tasks?.indexOf(task ?? "") ?? -1;
  if (!point || at < 0) return point;
  return { ...point, scores: Object.fromEntries(Object.entries(point.scores).map(([id, one]) => [id, one.per_task?.[at] ?? one])) };
}

/** The values of several tasks; empty for one. @param {string} id @param {string[]} names @param {Outcome[]} [outcomes] */
export function tasksText(id, names, outcomes = []) {
  const one = (/** @type {Outcome} */ { value, undefined: why, standard_error: error }, /** @type {number} */ i) =>
    `${names[i]} ${value === undefined ? `undefined (${why})` : `${valueText(id, value)}${error ? ` ± ${halfText(id, error)}` : ""}`}`;
  return outcomes.length ? `Of each task: ${outcomes.map(one).join(", ")}` : "";
}

/**
 * A difference with its interval: "0.28 (0.20 to 0.37)".
 * @param {{mean: number, low: number|null, high: number|null}} difference
 */
export function differenceText({ mean, low, high }) {
  if (low === null || high === null) return signed(String(Number(mean.toPrecision(2))));
  const digits = digitsOfInterval(mean, low, high, COARSE);
  const text = (/** @type {number} */ value) => signed(value.toFixed(digits));
  return `${text(mean)} (${text(low)} to ${text(high)})`;
}

/**
 * Digits after the point: one significant digit of half the interval where that begins with 2 or more, else two. A mean
 * whose interval leaves out 0 has two digits, and no end of it is given as 0.
 * @param {number} mean @param {number} low @param {number} high @param {number} least
 */
function digitsOfInterval(mean, low, high, least) {
  const half = Number((Math.abs(high - low) / 2).toPrecision(2));
  if (!(half > 0)) return Math.max(1, least);
  const power = Math.floor(Math.log10(half));
  let digits = Math.max(least, -power + (half / 10 ** power < 2 ? 1 : 0));
  if (low * high > 0) digits = Math.max(digits, 1 - Math.floor(Math.log10(Math.abs(mean))));
  const vanishes = () => low * high > 0 && Number(Math.min(Math.abs(low), Math.abs(high)).toFixed(digits)) === 0;
  for (let more = 0; more < 2 && vanishes(); more += 1) digits += 1;
  // Zeros to four digits say no more with six.
  return [mean, low, high].every((value) => Number(value.toFixed(4)) === 0) ? 4 : Math.min(6, digits);
}

/** A label of a run. @param {string} label */
export const labelName = (label) => ({ lambda: "λ", lam: "λ" })[label] ?? label;

/** A label with its name in jobs, where the page has another. @param {string} label */
export const labelText = (label) => (labelName(label) === label ? label : `${labelName(label)} (${label})`);

/**
 * Whether the values of least leakage are a range: the sidecar says how it ends only where a label's values are numbers.
 * @typedef {NonNullable<GroupReport["least"]>} Least
 * @param {Least} least
 */
export const isRange = ({ below }) => typeof below === "string";

const list = (/** @type {"conjunction"|"disjunction"} */ type) => {
  const of = new Intl.ListFormat("en", { type });
  return (/** @type {string[]} */ texts) => of.format(texts);
};
/** "a, b, and c". */
export const both = list("conjunction");
/** "a, b, or c". */
export const either = list("disjunction");

/** The values of a label where leakage is least. @param {Least} least */
export const leastText = (least) => (isRange(least) && least.values.length > 1 ? `${least.values[0]} to ${least.values.at(-1)}` : either(least.values));

/** @param {{step: number|null, epoch: number|null}|null|undefined} at */
export const momentText = (at) => (!at || at.step === null ? "" : at.epoch === null ? `step ${at.step.toLocaleString("en").replaceAll(",", "\u202f")}`
  : `epoch ${epochText(at.epoch)}`);

/**
 * @typedef {"leaking"|"possibly_leaking"|"sound"|"nothing_found"|"too_early"|"cannot_tell"} VerdictState
 * @typedef {{state: VerdictState, look: string, text: string, rest: string}} Told look: class and icon
 */

export const STATES = /** @type {VerdictState[]} */ (["leaking", "possibly_leaking", "sound", "nothing_found", "too_early", "cannot_tell"]);
export const LOOKS = { leaking: "leak", possibly_leaking: "warn", sound: "ok", nothing_found: "none", too_early: "early", cannot_tell: "none" };
export const SHORT = { leaking: "Leaking", possibly_leaking: "Possibly", sound: "Sound", nothing_found: "Nothing found", too_early: "Too early",
  cannot_tell: "Can’t tell" };

/** @param {Row|undefined} row @returns {VerdictState} */
export const stateOf = (row) => row?.verdict?.state ?? (row && row.evaluations > 0 ? "too_early" : "cannot_tell");

/** A verdict in words, which are those of the sidecar's conclusions. @param {Row|undefined} row @param {string} split @param {Run} [run] @returns {Told} */
export function verdictOf(row, split, run) {
  const state = stateOf(row);
  const look = LOOKS[state];
  const verdict = row?.verdict;
  const rest = verdict?.reason ?? "";
  if (!row) return { state, look, text: "…", rest: "" };
  if (!verdict) {
    const waiting = waitingOf(run, split);
    const other = run?.splits.find(({ points }) => points > 0)?.split;
    const none = waiting > 0 ? waitingText(waiting) : `no evaluation of ${split}${other ? `, but of ${other}` : ""}`;
    return { state, look, text: row.evaluations > 0 ? "Too early to tell" : `Can’t tell: ${none}`, rest: "" };
  }
  switch (state) {
    case "leaking": {
      const of = verdict.concepts.length > 0 ? `${verdict.concepts.length}/${row.concepts?.of ?? "…"}` : "";
      const since = verdict.since ? ` since ${momentText(verdict.since)}${verdict.or_earlier ? " or earlier" : ""}` : "";
      return { state, look, text: `Leaking${since}`, rest: of };
    }
    case "possibly_leaking": return { state, look, text: "Possibly leaking", rest };
    case "sound": return { state, look, text: "Sound", rest };
    case "nothing_found": return { state, look, text: "No leakage found", rest };
    case "too_early": return { state, look, text: "Too early to tell", rest: momentText(row) };
    default: return { state, look, text: `Can’t tell: ${rest}`, rest: "" };
  }
}

/** Scores with a curve behind each value. */
export const curved = () => [...catalogue.values()].filter(({ curve }) => curve).map(({ id }) => id);
