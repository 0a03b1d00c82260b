// Curves and latest points as known to the page: fetched once, then grown by events.
import { get } from "./api.js";

/**
 * @typedef {import("./api.js").CurvePoint} CurvePoint
 * @typedef {import("./api.js").Point} Point
 * @typedef {object} Curve
 * @property {string} run
 * @property {string} split
 * @property {string} score
 * @property {string|null} concept
 * @property {CurvePoint[]} points by rising step
 * @property {CurvePoint[]|null} arrived those of events during a fetch; null when none runs
 * @property {boolean} again another fetch was asked for during this one
 * @property {boolean} loaded
 * @property {number} version rises with every change
 * @property {string|null} error why the last fetch failed
 */

/** @type {Map<string, Curve>} */
const curves = new Map();
/** @type {Map<string, {point: Point|null, loading: boolean, again: boolean}>} */
const latest = new Map();
/** @type {(awaited: boolean) => void} */
let changed = () => {};

/**
 * @param {(awaited: boolean) => void} listener called after any curve or latest point changed; awaited when the page
 *   had nothing to show in its place
 */
export const onCurves = (listener) => { changed = listener; };

const keyOf = (/** @type {(string|null)[]} */ ...parts) => JSON.stringify(parts);

/**
 * The curve as far as it is known; a fetch starts at the first call.
 * @param {string} run @param {string} split @param {string} score @param {string|null} concept
 * @returns {Curve}
 */
export function curve(run, split, score, concept) {
  const key = keyOf(run, split, score, concept);
  let found = curves.get(key);
  if (!found) {
    found = { run, split, score, concept, points: [], arrived: null, again: false, loaded: false, version: 0, error: null };
    curves.set(key, found);
    load(found, null);
  }
  return found;
}

/**
 * @param {Curve} curve
 * @param {number|null} firstStep null: all of it, which also replaces what is known
 */
async function load(curve, firstStep) {
  if (curve.arrived) {
    curve.again = true;
    return;
  }
  curve.arrived = [];
  const { run, split, score, concept } = curve;
  try {
    const answer = await get("series", { run, split, score, concept, first_step: firstStep });
    const points = answer.points.map(complete);
    if (firstStep === null) curve.points = points;
    else for (const point of points) insert(curve.points, point);
    curve.error = null;
  } catch (error) {
    curve.error = /** @type {Error} */ (error).message;
  }
  for (const point of curve.arrived) insert(curve.points, point);
  curve.points = withoutTrail(curve.points);
  curve.arrived = null;
  curve.loaded = true;
  curve.version += 1;
  changed(firstStep === null);
  if (curve.again) {
    curve.again = false;
    load(curve, null);
  }
}

/** What an answer leaves out is null. @param {Partial<CurvePoint>} point @returns {CurvePoint} */
function complete(point) {
  const absent = { epoch: null, value: null, standard_error: null, undefined: null, provisional: false, incomplete: false };
  return /** @type {CurvePoint} */ ({ ...absent, ...point });
}

/**
 * Puts a point at its step. A step that is scored again replaces the older value, but a provisional value never
 * replaces a final one.
 * @param {CurvePoint[]} points
 * @param {CurvePoint} point
 */
export function insert(points, point) {
  let at = points.length;
  while (at > 0 && points[at - 1].step > point.step) at -= 1;
  const same = at > 0 && points[at - 1].step === point.step ? points[at - 1] : null;
  if (!same) points.splice(at, 0, point);
  else if (same.provisional || !point.provisional) points[at - 1] = point;
}

/**
 * A sample that goes on filling leaves no trail: a provisional value is kept only while it is the newest.
 * @param {CurvePoint[]} points
 */
export const withoutTrail = (points) => points.filter((point, i) => !point.provisional || i === points.length - 1);

/** @param {Point} point from the event stream: without values per concept */
export function take(point) {
  for (const curve of curves.values()) {
    if (curve.run !== point.run || curve.split !== point.split) continue;
    const outcome = point.scores[curve.score];
    if (!outcome) continue;
    if (curve.concept !== null) {
      load(curve, point.step);
      continue;
    }
    const { step, epoch, time, rows, tie_fraction, provisional, incomplete } = point;
    const { value, standard_error, undefined: why } = outcome;
    const given = { step, epoch, time, rows, tie_fraction, provisional, incomplete, value, standard_error, undefined: why };
    const grown = complete(Object.fromEntries(Object.entries(given).filter(([, field]) => field !== undefined)));
    insert(curve.points, grown);
    curve.points = withoutTrail(curve.points);
    curve.arrived?.push(grown);
    curve.version += 1;
  }
  const known = latest.get(keyOf(point.run, point.split));
  if (known && (!known.point || point.step >= known.point.step)) {
    for (const [id, outcome] of Object.entries(point.scores)) {
      outcome.per_concept ??= known.point?.scores[id]?.per_concept;
    }
    known.point = point;
    loadLatest(point.run, point.split);
  }
  changed(false);
}

/**
 * The newest point of a run's split with values per concept; null until it is there.
 * @param {string} run @param {string} split
 */
export function latestPoint(run, split) {
  const known = latest.get(keyOf(run, split));
  if (!known) loadLatest(run, split);
  return known?.point ?? null;
}

/**
 * @param {string} run @param {string} split
 * @param {boolean} [replace] also by a point of an earlier step: the sidecar may have forgotten the later ones
 */
async function loadLatest(run, split, replace = false) {
  const key = keyOf(run, split);
  const entry = latest.get(key) ?? { point: null, loading: false, again: false };
  latest.set(key, entry);
  entry.again = entry.loading;
  if (entry.loading) return;
  entry.loading = true;
  const awaited = replace || !entry.point;
  try {
    const point = await get("point", { run, split });
    if (replace || !entry.point || point.step >= entry.point.step) entry.point = point;
  } catch {
    // The curves of the same run show the error.
  }
  entry.loading = false;
  changed(awaited);
  if (entry.again) loadLatest(run, split);
}

/** Fetches everything again, after a gap in the events. Old values stay on the page until the new ones come. */
export function reload() {
  for (const curve of curves.values()) load(curve, null);
  for (const key of latest.keys()) {
    const [run, split] = JSON.parse(key);
    loadLatest(run, split, true);
  }
}

/** Drops the runs that the sidecar no longer has. @param {(run: string) => boolean} exists */
export function forget(exists) {
  for (const [key, { run }] of curves) if (!exists(run)) curves.delete(key);
  for (const key of latest.keys()) if (!exists(JSON.parse(key)[0])) latest.delete(key);
}
