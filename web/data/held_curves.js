// The curves of runs: fetched when they are first drawn, a few at a time, then continued by events.
import { ApiError, get } from "./api.js";
import { seriesOf, take } from "./series.js";
import { afterFrame } from "../scheduler.js";

/**
 * @import { Point } from "./api.js"
 * @import { Series } from "./series.js"
 * @typedef {{series: Series|null, scores: Set<string>, wanted: Set<string>, fetching: boolean,
 *   fault: string|null, missed: Point[]}} Held missed: points that came while curves were in flight
 */

/** Requests in flight: a browser has six connections for one sidecar, and rows come first. */
const MOST_IN_FLIGHT = 4;

const keyOf = (/** @type {string} */ run, /** @type {string} */ split) => JSON.stringify([run, split]);

/** The curves of each run and split. */
export class HeldCurves {
  /** @param {(more: boolean) => void} changed called when curves have come; more: others are awaited */
  constructor(changed) {
    this.changed = changed;
    /** @type {Map<string, Held>} */
    this.held = new Map();
    this.inFlight = 0;
    /** @type {(() => void)[]} */
    this.waiting = [];
  }

  /** @param {string} run @param {string} split @param {string[]} scores @param {boolean} down whether asking is of no use @returns {Held} */
  of(run, split, scores, down) {
    const key = keyOf(run, split);
    const held = this.held.get(key) ?? { series: null, scores: new Set(), wanted: new Set(), fetching: false, fault: null, missed: [] };
    this.held.set(key, held);
    for (const score of scores) held.wanted.add(score);
    const missing = [...held.wanted].some((score) => !held.scores.has(score));
    if (missing && !held.fetching && held.fault === null && !down) this.fetch(run, split, held);
    return held;
  }

  /** Appends a new point. @param {Point} point */
  take(point) {
    const held = this.held.get(keyOf(point.run, point.split));
    if (held?.series && take(held.series, point)) held.scores = new Set();
    if (held?.fetching) held.missed.push(point);
  }

  /** Has all curves asked for again. Until they come, those at hand stay. */
  outdate() {
    for (const [key, { series, wanted }] of this.held) {
      // A request in flight belongs to the entry that this one replaces.
      this.held.set(key, { series, wanted, scores: new Set(), fetching: false, fault: null, missed: [] });
    }
  }

  /** Lets failed curves be asked for again. */
  retry() {
    for (const held of this.held.values()) held.fault = null;
  }

  /** @param {string} run @param {string} split @param {Held} held */
  async fetch(run, split, held) {
    held.fetching = true;
    await new Promise((go) => afterFrame(held, () => go(null)));
    if (this.inFlight >= MOST_IN_FLIGHT) await new Promise((go) => this.waiting.push(() => go(null)));
    this.inFlight += 1;
    const scores = [...held.wanted];
    try {
      const series = seriesOf(await get("curves", { run, split, scores: scores.join(",") }));
      if (this.held.get(keyOf(run, split)) === held) {
        held.series = series;
        const returned = held.missed.filter((point) => take(series, point));
        held.scores = new Set(returned.length ? [] : scores);
      }
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) {
        // A run without this split has no curves there.
        held.series = seriesOf({ step: [], epoch: [], time: [], rows: [], tie_fraction: [], provisional: [], incomplete: [], superseded: [], scores: {} });
        held.scores = new Set(scores);
      } else {
        held.fault = error instanceof ApiError ? error.message : String(error);
      }
    }
    held.missed = [];
    held.fetching = false;
    this.inFlight -= 1;
    this.changed(this.waiting.length > 0);
    this.waiting.shift()?.();
  }
}
