// The rows of the overview: one page of runs at a time, visible ones first; changed runs are fetched in one request.
import { get } from "./api.js";

/**
 * @typedef {import("./api.js").Row} Row
 * @typedef {{take: (split: string, rows: Row[]) => void, fault: (error: unknown) => void}} Taker
 */

/** How long changes are gathered before they are asked for: training runs on the same machine. */
const GATHER_MS = 400;
/** Runs of one answer, and runs and characters of names in one question. */
export const PAGE = 200;
const NAMES = 50;
const LONGEST = 4000;

/** @param {Taker} taker */
export function rowLoader({ take, fault }) {
  let split = "val";
  /** Where the pages of the list begin. @type {(string|null)[]} */
  let marks = [null];
  /** Pages and runs whose rows are to be asked for. @type {Set<number>} */
  let due = new Set();
  /** @type {Set<string>} */
  const changed = new Set();
  /** Pages in sight. @type {number[]} */
  let sight = [];
  /** The page of each run. @type {Map<string, number>} */
  let pages = new Map();
  let gathering = 0;
  let asking = false;

  /** A question of what is missing; `done` is called when its rows have come. @returns {{query: Record<string, any>, done: (answer: any) => void}|null} */
  function next() {
    if (gathering === 0 && changed.size > 0) {
      /** @type {string[]} */
      const names = [];
      for (let room = LONGEST; names.length < NAMES && room > 0;) {
        const [name] = changed;
        if (name === undefined) break;
        changed.delete(name);
        names.push(name);
        room -= name.length;
      }
      // Rows that take long arrive with the next answer.
      return { query: { run: names.join("\n") }, done: ({ runs, pending }) => {
        const come = new Set(runs.map((/** @type {Row} */ row) => row.name));
        if (pending > 0) names.filter((name) => !come.has(name)).forEach((name) => changed.add(name));
      } };
    }
    const page = sight.find((one) => due.has(one)) ?? Math.min(...due);
    if (!Number.isFinite(page)) return null;
    return { query: { after: marks[page], limit: PAGE }, done: ({ pending }) => { if (pending === 0) due.delete(page); } };
  }

  async function ask() {
    if (asking) return;
    asking = true;
    try {
      for (let question = next(); question !== null; question = next()) {
        const [of, known] = [split, marks];
        const answer = await get("overview", { split: of, ...question.query }).catch((error) => {
          // The run is gone.
          if (error.code === 404 && "run" in question.query) return { runs: [], pending: 0 };
          throw error;
        });
        if (of !== split) continue;
        if (known === marks) question.done(answer);
        take(of, answer.runs);
      }
    } catch (error) {
      fault(error);
    }
    asking = false;
  }

  return {
    /** All rows again, of a list whose pages are not known yet. */
    all() {
      [marks, pages, sight, due] = [[null], new Map(), [], new Set([0])];
      ask();
    },
    /** The rows of another split. @param {string} of */
    show(of) {
      split = of;
      changed.clear();
      due = new Set(marks.keys());
      ask();
    },
    /** A page of the list: its runs, and where the one after it begins. @param {number} page @param {string[]} runs @param {string|null} after */
    page(page, runs, after) {
      for (const run of runs) pages.set(run, page);
      // An answer for a list that has been replaced may arrive late.
      if (after === null || marks.length !== page + 1) return;
      marks.push(after);
      due.add(page + 1);
      ask();
    },
    /** Runs in sight that have no row. @param {string[]} runs */
    wanted(runs) {
      sight = [...new Set(runs.flatMap((run) => pages.get(run) ?? []))];
    },
    /** A run whose row is out of date. @param {string} run */
    gather(run) {
      changed.add(run);
      if (gathering === 0) gathering = setTimeout(() => { gathering = 0; ask(); }, GATHER_MS);
    },
  };
}
