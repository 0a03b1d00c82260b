// The rows of the overview: one page of runs at a time, visible ones first; changed runs are fetched in one request.
import { get } from "./api.js";

/**
 * @import { Row } from "./api.js"
 * @typedef {{take: (split: string, rows: Row[]) => void, fault: (error: unknown) => void}} Taker
 */

/** How long changes are gathered before they are asked for: training runs on the same machine. */
const GATHER_MS = 400;
/** Runs of one answer, and runs and characters of names in one question. */
export const PAGE = 200;
const NAMES = 50;
const LONGEST = 4000;

/** The requests for rows, one at a time: changed runs first, then those in sight, then the rest. */
export class RowLoader {
  /** @param {Taker} taker */
  constructor({ take, fault }) {
    this.take = take;
    this.fault = fault;
    this.split = "val";
    /** @type {(string|null)[]} where the pages of the list begin */
    this.marks = [null];
    /** @type {Set<number>} pages that are to be asked for */
    this.due = new Set();
    /** @type {Set<string>} runs whose rows are out of date */
    this.changed = new Set();
    /** @type {number[]} pages in sight */
    this.sight = [];
    /** @type {Map<string, number>} the page of each run */
    this.pages = new Map();
    this.gathering = 0;
    this.asking = false;
  }

  /** Asks for all rows again, of a list whose pages are not known yet. */
  all() {
    Object.assign(this, { marks: [null], pages: new Map(), sight: [], due: new Set([0]) });
    this.ask();
  }

  /** Asks for the rows of another split. @param {string} split */
  show(split) {
    this.split = split;
    this.changed.clear();
    this.due = new Set(this.marks.keys());
    this.ask();
  }

  /** Takes a page of the list: its runs, and where the one after it begins. @param {number} page @param {string[]} runs @param {string|null} after */
  page(page, runs, after) {
    for (const run of runs) this.pages.set(run, page);
    // An answer for a list that has been replaced may arrive late.
    if (after === null || this.marks.length !== page + 1) return;
    this.marks.push(after);
    this.due.add(page + 1);
    this.ask();
  }

  /** Takes the runs in sight that have no row. @param {string[]} runs */
  wanted(runs) {
    this.sight = [...new Set(runs.flatMap((run) => this.pages.get(run) ?? []))];
  }

  /** Takes a run whose row is out of date. @param {string} run */
  gather(run) {
    this.changed.add(run);
    this.gathering ||= setTimeout(() => {
      this.gathering = 0;
      this.ask();
    }, GATHER_MS);
  }

  /** Returns the next question; `done` is called when its rows have come. @returns {{query: Record<string, any>, done: (answer: any) => void}|null} */
  next() {
    if (this.gathering === 0 && this.changed.size > 0) return this.nextChanged();
    const page = this.sight.find((one) => this.due.has(one)) ?? Math.min(...this.due);
    if (!Number.isFinite(page)) return null;
    return { query: { after: this.marks[page], limit: PAGE }, done: ({ pending }) => { if (pending === 0) this.due.delete(page); } };
  }

  nextChanged() {
    /** @type {string[]} */
    const names = [];
    let room = LONGEST;
    for (const name of this.changed) {
      if (names.length === NAMES || room <= 0) break;
      this.changed.delete(name);
      names.push(name);
      room -= name.length;
    }
    const done = (/** @type {{runs: Row[], pending: number}} */ { runs, pending }) => {
      const come = new Set(runs.map(({ name }) => name));
      // Rows that take long arrive with the next answer.
      if (pending > 0) names.filter((name) => !come.has(name)).forEach((name) => this.changed.add(name));
    };
    return { query: { run: names.join("\n") }, done };
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      for (let question = this.next(); question !== null; question = this.next()) {
        const { split, marks } = this;
        const answer = await get("overview", { split, ...question.query }).catch((error) => {
          // The run is gone.
          if (error.code === 404 && "run" in question.query) return { runs: [], pending: 0 };
          throw error;
        });
        if (split !== this.split) continue;
        if (marks === this.marks) question.done(answer);
        this.take(split, answer.runs);
      }
    } catch (error) {
      this.fault(error);
    }
    this.asking = false;
  }
}
