// The rows of the table in their order: pinned runs first, groups by a label, sorted by any column.
import { isPinned, titleOf } from "../data/prefs.js";
import { byValue } from "../data/query.js";
import { change } from "../data/state.js";
import { byText, el, icon, plural } from "../text.js";
import { STATES, labelName, newestOf, stateOf, valueText } from "../labels.js";
import { FIXED, cellClass, labelOf } from "./columns.js";

/**
 * @import { Listed, Shown } from "../data/shown.js"
 * @import { Column } from "./columns.js"
 * @typedef {{key: string, body: string, kind: "run"|"group"|"more", node: () => any}} Item a row, laid out or not
 */

/** Rows of a group until more are asked for. */
const OF_GROUP = 4;
/** @type {Record<string, number>} */
const GRAVITY = { leaking: 0, possibly_leaking: 1, cannot_tell: 2, too_early: 3, nothing_found: 4, sound: 5 };

/** The list of rows, and which groups of it are open. */
export class RunList {
  /** @param {(one: Listed) => any} rowOf @param {() => void} again draws the table again */
  constructor(rowOf, again) {
    this.rowOf = rowOf;
    this.again = again;
    /** @type {Set<string>} groups that are closed */
    this.closed = new Set();
    /** @type {Set<string>} groups that are shown whole */
    this.whole = new Set();
    /** @type {Column[]} */
    this.columns = [];
  }

  /** Returns all rows in their order. @param {Shown} shown @param {Column[]} columns @returns {Item[]} */
  items(shown, columns) {
    this.columns = columns;
    const sorted = order(shown, columns);
    const group = shown.view.group;
    if (sorted.length === 0) {
      const node = this.wide(nothing(shown));
      return [{ key: "\nnothing", body: "nothing", kind: "more", node: () => node }];
    }
    const pinned = sorted.filter(({ run }) => isPinned(run.name)).map((one) => this.item(one, "pinned"));
    const others = sorted.filter(({ run }) => !isPinned(run.name));
    if (!group) return [...pinned, ...others.map((one) => this.item(one, "others"))];
    /** @type {Map<string, Listed[]>} */
    const groups = new Map();
    for (const one of others) {
      const value = one.run.labels[group] ?? "";
      const members = groups.get(value);
      if (members) members.push(one);
      else groups.set(value, [one]);
    }
    const values = [...groups.keys()].sort(byValue);
    return [...pinned, ...values.flatMap((value) => this.group(group, value, groups.get(value) ?? []))];
  }

  /** @param {Listed} one @param {string} body @returns {Item} */
  item(one, body) {
    return { key: one.run.name, body, kind: "run", node: () => this.rowOf(one) };
  }

  /** The rows of a group. @param {string} group @param {string} value @param {Listed[]} members @returns {Item[]} */
  group(group, value, members) {
    const key = `${group}=${value}`;
    const open = !this.closed.has(key);
    const body = `group ${value}`;
    const shown = !open ? [] : this.whole.has(key) || members.length <= OF_GROUP + 1 ? members : members.slice(0, OF_GROUP);
    const left = open ? members.length - shown.length : 0;
    const more = () => this.wide(el("button", { class: "plain-btn", "data-key": `more ${key}`,
      onclick: () => { this.whole.add(key); this.again(); } }, `Show ${left} more`));
    return [{ key: `\n${body}`, body, kind: "group", node: once(() => this.groupHead(group, value, key, members, open)) },
      ...shown.map((one) => this.item(one, body)),
      ...(left > 0 ? [{ key: `\nmore ${value}`, body, kind: /** @type {const} */ ("more"), node: once(more) }] : [])];
  }

  /** @param {string} group @param {string} value @param {string} key @param {Listed[]} members @param {boolean} open */
  groupHead(group, value, key, members, open) {
    const [leaking, possible, sound] = STATES.map((state) => members.filter(({ row }) => stateOf(row) === state).length);
    const mix = /** @type {[string, string, number][]} */ ([["leak", "leaking", leaking], ["warn", "possible", possible], ["ok", "sound", sound],
      ["early", "other", members.length - leaking - possible - sound]]).filter(([, , n]) => n > 0);
    const onclick = () => {
      if (!this.closed.delete(key)) this.closed.add(key);
      this.again();
    };
    const button = el("button", { "aria-expanded": String(open), "data-key": `group ${key}`, onclick },
      icon("chev", open ? "i chev open" : "i chev"), value === "" ? `without ${labelName(group)}` : `${labelName(group)} = ${value}`);
    const mean = (/** @type {string} */ id) => {
      const known = members.flatMap(({ row }) => newestOf(row, id)?.value ?? []);
      return known.length ? valueText(id, known.reduce((sum, one) => sum + one, 0) / known.length) : "";
    };
    return el("tr", { class: "group", role: "row" },
      el("th", { colspan: FIXED, scope: "rowgroup", role: "rowheader" }, el("span", { class: "sum" }, button, el("span", {}, plural(members.length, "run")),
        el("span", { class: "mix", "aria-hidden": "true" }, ...mix.map(([look, , n]) => el("i", { class: look, style: `flex: ${n}` }))),
        mix.map(([, word, n]) => `${n} ${word}`).join(" · "))),
      ...this.columns.map((column) => el("td", { class: cellClass(column), role: "cell" }, column.label ? "" : mean(column.id))));
  }

  /** A row of one cell. @param {Node} content */
  wide(content) {
    return el("tr", { class: "more", role: "row" }, el("td", { colspan: this.columns.length + FIXED, role: "cell" }, content));
  }
}

/** @param {Shown} shown */
function nothing(shown) {
  if (shown.hidden > 0 && shown.hidden === shown.runs.length) {
    return el("span", { class: "sum" }, `${shown.hidden === 1 ? "The only run is" : `All ${plural(shown.hidden, "run")} are`} hidden. `,
      el("button", { class: "btn small-btn", onclick: () => change({ all: true }) }, "List hidden runs"));
  }
  const reset = el("button", { class: "btn small-btn", onclick: () => change({ q: "", verdict: "", project: "" }) }, "Show all runs");
  return el("span", { class: "sum" }, shown.runs.length === 0 ? `No run is in project “${shown.view.project}”. ` : shown.view.q ? `No run matches “${shown.view.q}”. ` : "No run has this verdict. ", reset);
}

/** Sorts the runs; those without a value stand last. @param {Shown} shown @param {Column[]} columns @returns {Listed[]} */
export function order(shown, columns) {
  const { sort } = shown.view;
  const sign = sort.startsWith("-") ? -1 : 1;
  const id = sort.replace(/^-/, "");
  if (!id) return shown.listed;
  const label = labelOf(id);
  const compare = (/** @type {Listed} */ a, /** @type {Listed} */ b) => {
    if (id === "name") return byText(titleOf(a.run.name), titleOf(b.run.name));
    if (id === "verdict") return GRAVITY[stateOf(a.row)] - GRAVITY[stateOf(b.row)] || (a.row?.verdict?.since?.step ?? 0) - (b.row?.verdict?.since?.step ?? 0);
    if (label !== null) return byValue(a.run.labels[label] ?? "", b.run.labels[label] ?? "");
    return Number(newestOf(a.row, id)?.value) - Number(newestOf(b.row, id)?.value);
  };
  const all = id === "name" || id === "verdict" || (label === null && !columns.some((one) => one.id === id));
  const known = (/** @type {Listed} */ { run, row }) => all || (label !== null ? label in run.labels : newestOf(row, id)?.value !== undefined);
  const sorted = shown.listed.filter(known).sort((a, b) => sign * compare(a, b));
  return [...sorted, ...shown.listed.filter((one) => !known(one))];
}

/** @template T @param {() => T} make */
function once(make) {
  /** @type {T|undefined} */
  let made;
  return () => made ??= make();
}
