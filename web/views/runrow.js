// A row of the table of runs: its mark in the charts, name, verdict, small curve and values. Rows are kept while they are used.
import { MARKS, hueOf, lookOf } from "../palette.js";
import { isHidden, isPinned, prefsAt, titleOf, toggleHidden, togglePin } from "../data/prefs.js";
import { spark } from "../charts/spark.js";
import { address, change, current } from "../data/state.js";
import { el, icon, lower, upper } from "../text.js";
import { limitIn } from "../charts/lines.js";
import { halfText, momentText, nameOf, newestOf, runStateText, updatedText, valueText, verdictOf, whoseText } from "../labels.js";
import { cellClass } from "./columns.js";

/**
 * @import { Row, Run } from "../data/api.js"
 * @import { Listed, Shown } from "../data/shown.js"
 * @import { Told } from "../labels.js"
 * @import { Column } from "./columns.js"
 */

/** Rows that are kept for when they come in sight again. */
const MOST_KEPT = 400;

/** The rows as they were drawn, by run. */
export class RunRows {
  constructor() {
    /** @type {Map<string, {signature: string, node: any, of: any[], swatch: {root: any, draw: (slot: number|undefined) => void}}>} */
    this.drawn = new Map();
    /** @type {Shown|null} */
    this.shown = null;
    /** @type {Column[]} */
    this.columns = [];
    this.scale = sparkScale([]);
    /** @type {any} */
    this.scaleOf = null;
    /** A signature of the data that all rows share. */
    this.common = "";
  }

  /** @param {Shown} shown @param {Column[]} columns */
  take(shown, columns) {
    if (this.scaleOf !== shown.of) this.scale = sparkScale(shown.searched);
    this.scaleOf = shown.of;
    this.shown = shown;
    this.columns = columns;
    this.common = JSON.stringify([prefsAt(), this.scale, columns, shown.down, shown.view.split]);
  }

  /** Drops rows out of sight, where there are many. */
  trim() {
    if (this.drawn.size <= MOST_KEPT) return;
    for (const [key, { node }] of this.drawn) if (!node.isConnected) this.drawn.delete(key);
  }

  /** Returns the row of a run, the one before where nothing has changed. @param {Listed} listed */
  node({ run, row, live }) {
    const shown = /** @type {Shown} */ (this.shown);
    const known = this.drawn.get(run.name);
    const slot = shown.slot.get(run.name);
    const now = [run, row, live, this.common];
    known?.swatch.draw(slot);
    if (known && now.every((one, i) => one === known.of[i])) return known.node;
    const told = verdictOf(row, shown.view.split, run);
    const signature = JSON.stringify([run.labels, run.state, run.reason, run.updated, isPinned(run.name), isHidden(run.name), titleOf(run.name), told, row?.scores, row?.spark,
      this.scale, this.columns, shown.down, shown.view.split]);
    if (known?.signature === signature) {
      known.of = now;
      return known.node;
    }
    const title = titleOf(run.name);
    const swatch = swatchOf(run.name, title, () => toggle(run.name, /** @type {Shown} */ (this.shown)));
    swatch.draw(slot);
    const label = nameCell(run, title);
    const offer = offered(run.name, title, label);
    const cell = (/** @type {string} */ className, /** @type {...any} */ ...content) => el("td", { class: className, role: "cell" }, ...content);
    const node = el("tr", { class: `${told.look}${isPinned(run.name) ? " pinned" : ""}`, role: "row", "data-run": run.name, onpointerenter: offer,
      onfocusin: offer },
      el("td", { role: "cell" }, swatch.root), el("th", { scope: "row", class: "name", role: "rowheader" }, label),
      cell("vd", verdictMark(told, shown, row)),
      cell("sp", row?.spark ? sparkOf(row.spark, this.scale, limitIn(shown, row.spark.score, [run])?.value ?? null, whoseText(row.spark.score, run)) : ""),
      ...this.columns.map((column) => (column.label ? el("td", { class: cellClass(column), role: "cell", title: run.labels[column.id] ?? "" },
        run.labels[column.id] ?? "")
        : valueCell(row, column, run))));
    this.drawn.set(run.name, { signature, node, of: now, swatch });
    return node;
  }
}

/** The name of a run with its state, in words where it neither trains nor has finished. @param {Run} run @param {string} title */
function nameCell(run, title) {
  const { name, state, reason } = run;
  const [word, at] = [runStateText(run), updatedText(run)];
  const told = state === "training" || state === "finished" ? null
    : el("small", { class: `state ${state}` }, el("b", {}, word), reason && `: ${reason}`, `; ${at}`);
  return el("span", { title: `${word}${reason ? `: ${reason}` : ""}; ${at}` },
    el("a", { href: address({ page: "run", run: name }), title, "data-key": `open ${name}` }, el("span", {}, title)),
    state === "training" && el("span", { class: "live", title: `training; ${at}`, role: "img", "aria-label": "training" }),
    isPinned(name) && el("span", { class: "pinned-mark", title: "pinned", role: "img", "aria-label": "pinned" }, icon("pin")), told);
}

/**
 * Returns a function that adds the buttons to a row when they are needed: two in every row are a third of the table.
 * @param {string} run @param {string} title @param {any} label
 */
function offered(run, title, label) {
  const acts = el("span", { class: "acts" });
  const act = (/** @type {string} */ key, /** @type {string} */ says, /** @type {string} */ symbol, /** @type {boolean} */ on,
    /** @type {() => void} */ onclick) =>
    el("button", { class: on ? "act on" : "act", "aria-pressed": String(on), "aria-label": `${says} ${title}`, title: says,
      "data-key": `${key} ${run}`,
      onclick }, icon(symbol));
  return () => {
    if (acts.hasChildNodes()) return;
    label.append(acts);
    acts.append(act("pin", isPinned(run) ? "Unpin" : "Pin", "pin", isPinned(run), () => togglePin(run)),
      act("hide", isHidden(run) ? "Show again" : "Hide", "eye", isHidden(run), () => toggleHidden(run)));
  };
}

/** A verdict with its mark. @param {Told} told @param {Shown} shown @param {Row|undefined} row */
function verdictMark({ state, look, text: says, rest }, shown, row) {
  const at = momentText(row);
  const text = shown.down && at ? `As of ${at}: ${state === "leaking" ? "leaking" : lower(says)}` : says;
  const leaks = look === "leak";
  return el("span", { class: `v ${look}`, "data-state": state, title: rest ? `${text}, ${rest}${leaks ? " concepts" : ""}` : text }, icon(look),
    el("span", {}, leaks || look === "warn" ? el("b", {}, text) : text, rest && " ",
      rest && el("span", { class: "rest" }, rest, leaks && el("span", { class: "long" }, " concepts"))));
}

/** The mark of a run, which is pressed while the run is in the charts. @param {string} run @param {string} title @param {() => void} onclick */
function swatchOf(run, title, onclick) {
  /** @type {any} */
  let before = null;
  const root = el("button", { "aria-label": `Show ${title} in the charts`, "data-key": `show ${run}`, onclick });
  return {
    root,
    /** @param {number|undefined} slot */
    draw(slot) {
      if (slot === before) return;
      before = slot;
      root.className = slot === undefined ? "sw" : `sw c${hueOf(slot)}`;
      root.setAttribute("aria-pressed", String(slot !== undefined));
      root.replaceChildren(icon(slot === undefined ? "off" : MARKS[lookOf(slot)], ""));
    },
  };
}

/** Shows a run in the charts, or no more. @param {string} run @param {Shown} shown */
function toggle(run, shown) {
  const now = current().show ?? [...shown.slot.keys()];
  change({ show: now.includes(run) ? now.filter((one) => one !== run) : [...now, run] });
}

/** @param {Row|undefined} row @param {Column} column @param {Run} run */
function valueCell(row, column, run) {
  const { id } = column;
  const newest = newestOf(row, id);
  if (newest?.value === undefined) {
    const why = newest?.undefined;
    return el("td", { class: cellClass(column), role: "cell", title: why ? `Undefined: ${why}` : "" }, why ? "–" : "");
  }
  const half = id === "ctl_conditional" || id === "icl_conditional" ? halfText(id, newest.standard_error) : "";
  const title = upper(whoseText(id, run, row?.verdict?.task)) || null;
  return el("td", { class: cellClass(column), role: "cell", title }, valueText(id, newest.value), half && el("small", {}, `±${half}`));
}

/** @param {NonNullable<Row["spark"]>} curve @param {ReturnType<typeof sparkScale>} scale @param {number|null} limit @param {string} whose */
function sparkOf({ score, steps, values }, scale, limit, whose) {
  const label = `${nameOf(score)}${whose && `, ${whose},`} from ${valueText(score, values[0])} to ${valueText(score, values.at(-1))}`;
  return spark({ x: steps, y: values, ...scale, limit, label });
}

/** One scale for the small curves of all rows. @param {Listed[]} listed */
function sparkScale(listed) {
  let [top, end] = [0.2, 0];
  for (const { row } of listed) {
    if (!row?.spark) continue;
    for (const value of row.spark.values) top = Math.max(top, Math.min(1, value));
    end = Math.max(end, row.spark.steps.at(-1) ?? 0);
  }
  return { top, end };
}
