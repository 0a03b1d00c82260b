// The view, kept in the address: it can be shared, and a reload changes nothing.
import { carried } from "./api.js";
import { onceMade } from "../scheduler.js";

/**
 * @import { Order } from "./order.js"
 * @typedef {"epoch"|"step"|"time"} Along
 * @typedef {"runs"|"run"|"compare"|"sidecar"} Page
 * @typedef {object} View
 * @property {Page} page
 * @property {string} run of a run's page
 * @property {string} split
 * @property {Along} along
 * @property {string} project whose runs are shown, or "" for all
 * @property {string} q words and label conditions that runs must meet
 * @property {string} group label, or "" for none
 * @property {boolean} means whether the charts draw a mean for each group in place of its runs
 * @property {string} sort column, "-" before it for descending
 * @property {string} verdict its state, or "" for all
 * @property {boolean} all whether hidden runs are listed
 * @property {string[]|null} show runs in the charts; null: chosen by the page
 * @property {string[]} scores charts of the overview; empty: the usual ones
 * @property {number} smooth 0 to 0.95
 * @property {boolean} logx
 * @property {boolean} logy
 * @property {[number, number]|null} zoom stretch of the horizontal axis
 * @property {"label"|"runs"|"splits"} by the kind of comparison
 * @property {string} label
 * @property {string} where LABEL=VALUE, separated by spaces
 * @property {string} a
 * @property {string} b
 * @property {string} with the other split
 * @property {string} pairs score of the heat map
 * @property {Order} order of concepts
 * @property {"most"|"earliest"|"least"|"name"} rank of concepts in their table
 * @property {string} behind score whose curve behind a value is drawn
 */

/** @type {View} */
const DEFAULTS = {
  page: "runs", run: "", split: "val", along: "epoch", project: "", q: "", group: "", means: false, sort: "", verdict: "", all: false, show: null, scores: [],
  smooth: 0, logx: false, logy: false, zoom: null, by: "label", label: "", where: "", a: "", b: "", with: "", pairs: "icl_conditional",
  order: "value", rank: "most", behind: "", ...carried?.view,
};
const PAGES = ["runs", "run", "compare", "sidecar"];
/** The form in the address of lists and of values that are no text. */
const LISTS = ["show", "scores"];
const FLAGS = ["all", "logx", "logy", "means"];

/** @param {string} hash @returns {View} */
export function parse(hash) {
  const text = hash.replace(/^#\/?/, "");
  const at = text.indexOf("?");
  const [path, query] = at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  const slash = path.indexOf("/");
  const [page, run] = slash < 0 ? [path, ""] : [path.slice(0, slash), path.slice(slash + 1)];
  const given = new URLSearchParams(query);
  /** @type {any} */
  const view = { ...DEFAULTS, ...(PAGES.includes(page) && { page, run: decoded(run) }) };
  for (const [key, value] of given) {
    if (!(key in DEFAULTS) || key === "page" || key === "run" || LISTS.includes(key)) continue;
    if (FLAGS.includes(key)) view[key] = value === "1";
    else if (key === "smooth") view.smooth = Math.min(0.95, Math.max(0, Number(value) || 0));
    else if (key === "zoom") view.zoom = zoomOf(value);
    else view[key] = value;
  }
  if (given.has("show")) view.show = given.getAll("show").filter(Boolean);
  if (given.has("scores")) view.scores = given.getAll("scores").filter(Boolean);
  if (!["epoch", "step", "time"].includes(view.along)) view.along = DEFAULTS.along;
  if (!["label", "runs", "splits"].includes(view.by)) view.by = DEFAULTS.by;
  if (!["given", "value", "name", "alike"].includes(view.order)) view.order = DEFAULTS.order;
  if (!["most", "earliest", "least", "name"].includes(view.rank)) view.rank = DEFAULTS.rank;
  return view;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} text @returns {[number, number]|null} */
function zoomOf(text) {
  const [from, to] = text.split("_").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

/** @param {View} view */
export function format(view) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(/** @type {Record<string, any>} */ (view))) {
    const usual = /** @type {any} */ (DEFAULTS)[key];
    if (key === "page" || key === "run" || value === usual || value === null) continue;
    if (LISTS.includes(key)) {
      // An empty list of shown runs is not the same as none.
      for (const one of value.length ? value : key === "show" ? [""] : []) query.append(key, one);
    } else if (FLAGS.includes(key)) query.set(key, value ? "1" : "0");
    else if (key === "zoom") query.set(key, value.join("_"));
    else query.set(key, String(value));
  }
  const path = view.page === "runs" ? "" : view.page === "run" ? `run/${encodeURIComponent(view.run)}` : view.page;
  const text = query.toString();
  return `#/${path}${text && `?${text}`}`;
}

/** @type {View} */
let view = parse(location.hash);
/** @type {(view: View, before: View) => void} */
let changed = () => {};
/** The address as it was read or written last. */
let written = location.hash;

export const current = () => view;

/** @param {(view: View, before: View) => void} listener */
export function onChange(listener) {
  changed = listener;
  addEventListener("hashchange", () => {
    const before = view;
    view = parse(location.hash);
    written = location.hash;
    changed(view, before);
  });
}

/** Writes the view into the address, unless the reader has gone elsewhere meanwhile. */
function write() {
  if (location.hash !== written) return;
  history.replaceState(history.state, "", format(view));
  written = location.hash;
}

/** @param {Partial<View>} patch */
export function change(patch) {
  const before = view;
  view = { ...view, ...patch };
  // Browsers take some time for it, and refuse it where it comes too often.
  onceMade(write);
  changed(view, before);
}

/** Returns the address of another view, with the choices for all pages. @param {Partial<View>} patch */
export const address = (patch) => format({ ...DEFAULTS, split: view.split, along: view.along, project: view.project, ...patch });
