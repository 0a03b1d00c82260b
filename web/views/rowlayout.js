// A long table of which only the rows in sight and some around them are laid out; gaps stand for the others.
import { count, el } from "../text.js";
import { rowAt, stretches, topsOf } from "./virtual.js";

/** @import { Item } from "./runlist.js" */

/** Shorter lists are laid out whole. */
const WHOLE = 60;
/** Pixels above and below the window in which rows are laid out; of a list that has changed in these steps. */
const AHEAD = 800;
const STEPS = [200, 500, AHEAD];
/** About where the rows of a page begin that nobody has scrolled. */
const FIRST_TOP = 240;
/** Rows that are made before they are laid out. */
const MADE_AHEAD = 200;
/** Heights of rows that were not laid out yet. */
const HEIGHTS = { run: 37, group: 35, more: 35 };

export class RowLayout {
  /**
   * @param {any} table @param {any} head
   * @param {any} where says which rows are in sight
   * @param {() => void} settled called once rows are laid out
   */
  constructor(table, head, where, settled) {
    this.table = table;
    this.head = head;
    this.where = where;
    this.settled = settled;
    /** @type {Item[]} */
    this.items = [];
    this.columns = 0;
    /** @type {Map<string, number>} of rows that were laid out */
    this.heights = new Map();
    this.mean = { ...HEIGHTS };
    /** @type {Float64Array|null} */
    this.known = null;
    /** Where the rows begin in the window, as it was when they were laid out last: asking again would lay out the page. */
    this.start = FIRST_TOP;
    this.frame = 0;
    this.shows = 0;
    this.laidOut = "";
    /** @type {[number, number][]} */
    this.parts = [];
    /** @type {any[]} */
    this.gaps = [];
    // Before the next frame: a second Tab can come sooner.
    table.addEventListener("focusin", () => {
      const at = this.held();
      if (at >= 0 && !this.parts.some(([from, to]) => from < at && at < to - 1)) this.layOut();
    });
    addEventListener("scroll", () => this.later(), { passive: true });
    addEventListener("resize", () => {
      this.heights.clear();
      this.mean = { ...HEIGHTS };
      this.known = null;
      this.later();
    });
  }

  later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.layOut();
    });
  }

  /**
   * Takes the rows, and puts those that the next frame needs into the table: where the list has changed, those in sight alone.
   * @param {Item[]} items @param {number} columns
   * @returns {boolean} whether the list has changed
   */
  show(items, columns) {
    const before = this.items;
    const moved = items !== before && (items.length !== before.length || items.some(({ key, body }, at) => key !== before[at].key || body !== before[at].body));
    this.items = items;
    this.columns = columns;
    this.shows += 1;
    if (moved) this.known = null;
    this.table.setAttribute("aria-rowcount", String(items.length + 1));
    if (moved) this.parts = stretches(this.tops, -this.start, innerHeight - this.start, this.held(), 1);
    this.place();
    this.laidOut = "";
    return moved;
  }

  /** Lays out more, a step each turn. */
  *fill() {
    for (const ahead of STEPS) {
      this.layOut(ahead);
      yield;
    }
    // The next frame may need any of them, sorted otherwise.
    for (const { kind, node } of this.items.slice(0, MADE_AHEAD)) {
      if (kind !== "run") continue;
      node();
      yield;
    }
  }

  get tops() {
    return this.known ??= topsOf(this.items.length, (at) => this.heights.get(this.items[at].key) ?? this.mean[this.items[at].kind]);
  }

  /** Lays out the rows in sight and those around them. @param {number} ahead */
  layOut(ahead = AHEAD) {
    if (!this.items.length || !this.table.isConnected) return;
    // Heights are known only once rows are laid out, so the second pass finds rows that the first has missed.
    for (let turn = 0; turn < 2; turn += 1) {
      const { tops } = this;
      this.start = this.table.getBoundingClientRect().top + this.head.offsetHeight;
      const all = this.items.length <= WHOLE && ahead === AHEAD;
      this.parts = all ? stretches(tops, 0, Infinity, -1) : stretches(tops, -this.start - ahead, innerHeight - this.start + ahead, this.held());
      const now = `${this.shows} ${this.parts}`;
      this.say();
      if (now === this.laidOut) return;
      this.place();
      this.laidOut = now;
      if (this.measured()) break;
      this.laidOut = "";
    }
    this.settled();
  }

  /** The row that has the focus, which stays so that the focus does. */
  held() {
    const row = document.activeElement?.closest("tr");
    const key = row && this.table.contains(row) ? row.dataset.item : undefined;
    return key === undefined ? -1 : this.items.findIndex((one) => one.key === key);
  }

  /** Puts the rows of the parts into the table. */
  place() {
    const { items, tops } = this;
    /** @type {Map<string, any[]>} rows of each body, in order */
    const bodies = new Map();
    let [at, gapsUsed] = [0, 0];
    const rowsOf = (/** @type {string} */ body) => {
      const rows = bodies.get(body) ?? [];
      bodies.set(body, rows);
      return rows;
    };
    for (const [from, to] of this.parts) {
      if (from > at) rowsOf(items[from].body).push(this.gap(gapsUsed += 1, tops[from] - tops[at]));
      for (at = from; at < to; at += 1) {
        const one = items[at];
        const node = one.node();
        if (node.ariaRowIndex !== String(at + 2)) node.setAttribute("aria-rowindex", String(at + 2));
        if (node.dataset.item !== one.key) node.dataset.item = one.key;
        rowsOf(one.body).push(node);
      }
    }
    if (items.length > at) rowsOf(items[at - 1].body).push(this.gap(gapsUsed += 1, tops[items.length] - tops[at]));
    const focused = document.activeElement;
    patch(this.table, bodies);
    if (focused !== document.activeElement && this.table.contains(focused)) /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
  }

  /** Room for rows that are not laid out. @param {number} at @param {number} height */
  gap(at, height) {
    this.gaps[at] ??= el("tr", { class: "gap", "aria-hidden": "true" }, el("td", {}));
    const cell = this.gaps[at].firstElementChild;
    if (cell.style.height !== `${height}px`) cell.style.height = `${height}px`;
    if (cell.colSpan !== this.columns) cell.colSpan = this.columns;
    return this.gaps[at];
  }

  /** Whether the rows are as high as was thought; learns how high they are. */
  measured() {
    let right = true;
    /** @type {Record<string, [number, number]>} */
    const sums = {};
    for (const [from, to] of this.parts) {
      for (let at = from; at < to; at += 1) {
        const { key, kind, node } = this.items[at];
        const { height } = node().getBoundingClientRect();
        if (Math.abs((this.heights.get(key) ?? this.mean[kind]) - height) > 0.2) right = false;
        this.heights.set(key, height);
        const sum = sums[kind] ??= [0, 0];
        sum[0] += height;
        sum[1] += 1;
      }
    }
    if (right) return true;
    for (const [kind, [sum, n]] of Object.entries(sums)) this.mean[/** @type {Item["kind"]} */ (kind)] = sum / n;
    this.known = null;
    return false;
  }

  /** Says which rows of a long list are in the window, below the head that stays. */
  say() {
    const { items, where, start, tops } = this;
    where.hidden = items.length <= WHOLE;
    if (where.hidden) return;
    const under = this.head.querySelector("th")?.getBoundingClientRect().bottom ?? 0;
    const [from, to] = [rowAt(tops, under - start), rowAt(tops, innerHeight - start)];
    where.textContent = `Rows ${count(from + 1)} to ${count(to + 1)} of ${count(items.length)}`;
  }
}

/**
 * Puts rows into the bodies of the table. A row that stays is not moved: it would lose the focus, and be laid out again.
 * @param {HTMLTableElement} table @param {Map<string, any[]>} bodies
 */
function patch(table, bodies) {
  for (const body of [...table.tBodies]) if (!bodies.has(body.dataset.body ?? "")) body.remove();
  let before = table.tHead?.nextElementSibling ?? null;
  for (const [name, rows] of bodies) {
    const known = [...table.tBodies].find((one) => one.dataset.body === name);
    const body = known ?? el("tbody", { role: "rowgroup", "data-body": name });
    if (body === before) before = body.nextElementSibling;
    else table.insertBefore(body, before);
    if (rows.length === body.children.length && rows.every((row, i) => row === body.children[i])) continue;
    const wanted = new Set(rows);
    for (const row of [...body.children]) if (!wanted.has(row) || row.classList.contains("gap")) row.remove();
    let at = body.firstChild;
    for (const row of rows) {
      if (row === at) at = row.nextSibling;
      else body.insertBefore(row, at);
    }
  }
}
