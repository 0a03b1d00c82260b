// The user's view. It is stored in the URL's hash, so that it can be kept, shared and reloaded.

/**
 * @typedef {"step"|"epoch"|"elapsed"|"time"} XAxis
 * @typedef {object} View
 * @property {string[]|null} runs names; null: the newest few, as they come
 * @property {string|null} split null: the first that the runs have, evaluation splits before training
 * @property {XAxis} x
 * @property {string[]} scores catalogue ids, one chart each
 * @property {string|null} concept its own curves instead of those of all concepts
 * @property {string|null} focus the run of the heat map; null: the first shown
 * @property {string} matrix the score of the heat map
 * @property {string} beside the score of the heat map beside it
 * @property {string|null} group the label that groups and colours the runs; null: each has a colour of its own
 * @property {[any, any]|null} zoom the stretch of the x axis that all charts show; null: everything
 * @property {string} bars the score of the per-concept bars
 * @property {string|null} sweep the score whose curve behind is drawn; null: one of the charts', else the first
 * @property {"given"|"value"|"name"|"alike"} order of concepts
 * @property {boolean} compare the comparison of runs is open
 * @property {string|null} a the first run of the comparison; null: the newest
 * @property {string|null} b the second
 * @property {string|null} twin the split that the first run's is compared with; null: runs are compared
 * @property {string|null} by the label whose groups are compared; null: two runs are
 * @property {number|null} limit end of the heat map's colour scale; null: fits the values
 */

/** What is read first: conditional leakage, interventions and the accuracies, then leakage as published. */
export const FIRST = ["ctl_conditional", "icl_conditional", "intervention_drop", "concept_accuracy", "task_accuracy", "ctl", "icl"];
/** @type {View} */
const DEFAULT = {
  runs: null, split: null, x: "step", scores: FIRST, concept: null, focus: null,
  matrix: "icl_conditional", beside: "icl", bars: "ctl_conditional", sweep: null, order: "value", limit: null, group: null, zoom: null,
  compare: false, a: null, b: null, by: null, twin: null,
};
const AXES = ["step", "epoch", "elapsed", "time"];
const ORDERS = ["given", "value", "name", "alike"];

/** @type {View} */
let view = parse(location.hash);
/** @type {Set<() => void>} */
const listeners = new Set();

export const current = () => view;

/** @param {() => void} listener */
export const onView = (listener) => listeners.add(listener);

/** @param {Partial<View>} change */
export function change(change) {
  view = { ...view, ...change };
  history.replaceState(null, "", `${location.pathname}${location.search}#${format(view)}`);
  for (const listener of listeners) listener();
}

addEventListener("hashchange", () => {
  view = parse(location.hash);
  for (const listener of listeners) listener();
});

/**
 * @param {string} hash with or without its #
 * @returns {View}
 */
export function parse(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const list = (/** @type {string} */ key) => (fields.has(key) ? fields.getAll(key).filter(Boolean) : null);
  const one = (/** @type {string} */ key, /** @type {string[]} */ allowed) =>
    allowed.includes(fields.get(key) ?? "") ? fields.get(key) : null;
  const limit = Number(fields.get("limit"));
  return /** @type {View} */ ({
    runs: list("run"),
    split: fields.get("split") || null,
    x: one("x", AXES) ?? DEFAULT.x,
    scores: list("score") ?? DEFAULT.scores,
    concept: fields.get("concept") || null,
    focus: fields.get("focus") || null,
    matrix: fields.get("matrix") || DEFAULT.matrix,
    beside: fields.get("beside") || DEFAULT.beside,
    group: fields.get("group") || null,
    zoom: fields.getAll("zoom").length === 2 ? fields.getAll("zoom").map((end) => (isNaN(Number(end)) ? end : Number(end))) : null,
    bars: fields.get("bars") || DEFAULT.bars,
    sweep: fields.get("sweep") || null,
    order: one("order", ORDERS) ?? DEFAULT.order,
    compare: fields.get("compare") === "true",
    a: fields.get("a") || null,
    b: fields.get("b") || null,
    by: fields.get("by") || null,
    twin: fields.get("twin") || null,
    limit: limit > 0 ? limit : null,
  });
}

/**
 * Only what differs from the default is written. An empty list is written as one empty value.
 * @param {View} view
 */
export function format(view) {
  const fields = new URLSearchParams();
  const list = (/** @type {string} */ key, /** @type {string[]} */ values) => {
    for (const value of values.length ? values : [""]) fields.append(key, value);
  };
  if (view.runs) list("run", view.runs);
  if (view.scores.join() !== DEFAULT.scores.join()) list("score", view.scores);
  for (const key of /** @type {const} */ (["split", "x", "concept", "focus", "matrix", "beside", "bars", "sweep", "order", "limit", "group", "compare", "a", "b", "by", "twin"])) {
    if (view[key] !== DEFAULT[key]) fields.set(key, String(view[key]));
  }
  if (view.zoom) list("zoom", view.zoom.map(String));
  return fields.toString();
}
