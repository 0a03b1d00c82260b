// The table of runs: pinned ones first, groups by a label, sorted by any column. Rows far outside the window are not laid out.
import { MARKS, hueOf, lookOf } from "../palette.js";
import { columns as keptColumns, isHidden, isPinned, keepColumns, prefsAt, titleOf, toggleHidden, togglePin } from "../data/prefs.js";
import { byValue } from "../data/query.js";
import { closing } from "../saving.js";
import { spark } from "../charts/spark.js";
import { address, change, current } from "../data/state.js";
import { wantRows } from "../data/store.js";
import { count, el, icon, lower, plural } from "../text.js";
import { term } from "../tip.js";
import { afterFrame } from "../scheduler.js";
import { rowAt, stretches, topsOf } from "./virtual.js";
import { STATES, halfText, stateOf, labelName, momentText, nameOf, tipOf, valueText, verdictOf, wordOf } from "../labels.js";

/**
 * @typedef {import("../data/shown.js").Shown} Shown
 * @typedef {import("../data/shown.js").Listed} Listed
 * @typedef {{id: string, label: boolean, width?: number}} Column width: pixels of a label's values or its name
 * @typedef {{key: string, body: string, kind: "run"|"group"|"more", run?: string, node: () => any}} Item a row, laid out or not
 */

/** Rows of a group until more are asked for. */
const OF_GROUP = 4;
/** Shorter lists are laid out whole. */
const WHOLE = 60;
/** Pixels above and below the window in which rows are laid out; of a list that has changed in these steps. */
const AHEAD = 800;
const STEPS = [200, 500, AHEAD];
/** Rows that are kept for when they come in sight again. */
const MOST_KEPT = 400;
/** About where the rows of a page begin that nobody has scrolled. */
const FIRST_TOP = 240;
/** Rows that are made before they are laid out. */
const MADE_AHEAD = 200;
/** Heights of rows that were not laid out yet. */
const HEIGHTS = { run: 37, group: 35, more: 35 };
const SCORES = ["ctl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy"];
const MORE_SCORES = ["icl_conditional", "ctl", "icl"];
/** Columns that narrow windows leave out. */
const OPTIONAL = ["concept_accuracy", "icl_conditional", "ctl", "icl"];
const LABELS = 2;
/** @type {Record<string, number>} */
const GRAVITY = { leaking: 0, possibly_leaking: 1, cannot_tell: 2, too_early: 3, nothing_found: 4, sound: 5 };

/** A verdict with its mark. @param {import("../labels.js").Told} told @param {Shown} shown @param {import("../data/api.js").Row|undefined} row */
export function verdictMark(told, shown, row) {
  const at = row?.step !== null && row?.step !== undefined ? momentText({ step: row.step, epoch: row.epoch }) : "";
  const text = shown.down && at ? `As of ${at}: ${told.state === "leaking" ? "leaking" : lower(told.text)}` : told.text;
  const grave = told.look === "leak" || told.look === "warn";
  return el("span", { class: `v ${told.look}`, "data-state": told.state, title: told.rest ? `${text}, ${told.rest}${told.look === "leak" ? " concepts" : ""}` : text }, icon(told.look),
    el("span", {}, grave ? el("b", {}, text) : text, told.rest && " ", told.rest && el("span", { class: "rest" }, told.rest, told.look === "leak" && el("span", { class: "long" }, " concepts"))));
}

/** @param {HTMLElement} host */
export function runTable(host) {
  const picker = columnPicker();
  const head = el("thead", { role: "rowgroup" });
  const table = el("table", { class: "runs", role: "table" }, head);
  const where = el("div", { class: "place", hidden: true });
  host.append(table, where);
  /** @type {Map<string, {signature: string, node: any, of: any[], swatch: {root: any, draw: (slot: number|undefined) => void}}>} rows as drawn, and of what */
  const drawn = new Map();
  /** What all rows rest on. */
  let common = "";
  /** @type {Set<string>} groups that are closed, and those shown whole */
  const closed = new Set();
  const whole = new Set();
  let choices = 0;
  /** @type {Shown|null} */
  let last = null;
  /** @type {Item[]} */
  let items = [];
  let itemsOf = "";
  /** @type {any} */
  let of = null;
  let headOf = "";
  let mark = (/** @type {Shown} */ _) => {};
  /** @type {Column[]} */
  let columns = [];
  let scale = sparkScale([]);
  /** @type {Map<string, number>} of rows that were laid out */
  const heights = new Map();
  let mean = { ...HEIGHTS };
  /** @type {Float64Array|null} */
  let tops = null;
  /** Where the rows begin in the window: as it was when they were laid out last, for which nothing is laid out again. */
  let start = FIRST_TOP;
  let frame = 0;
  let draws = 0;
  let laidOut = "";
  /** @type {[number, number][]} */
  let parts = [];
  const again = () => { choices += 1; if (last) draw(last); };
  const later = () => { if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; layOut(); }); };
  addEventListener("scroll", later, { passive: true });
  addEventListener("resize", () => { heights.clear(); mean = { ...HEIGHTS }; tops = null; later(); });

  /** @param {Shown} shown */
  function draw(shown) {
    last = shown;
    draws += 1;
    columns = columnsOf(shown);
    picker.draw(shown, columns);
    const focus = document.activeElement?.getAttribute("data-key");
    const { view } = shown;
    const nowHead = JSON.stringify(columns);
    if (nowHead !== headOf) {
      headOf = nowHead;
      mark = header(head, columns, () => last?.listed ?? []);
    }
    mark(shown);
    const now = JSON.stringify([view.sort, view.group, view.q, columns, choices, prefsAt()]);
    let moved = false;
    if (of !== shown.of || now !== itemsOf) {
      if (of !== shown.of) scale = sparkScale(shown.searched, shown.limitOf("ctl_conditional")?.limit ?? null);
      [of, itemsOf] = [shown.of, now];
      const before = items;
      items = list();
      moved = items.length !== before.length || items.some(({ key, body }, at) => key !== before[at].key || body !== before[at].body);
      if (moved) tops = null;
      table.setAttribute("aria-rowcount", String(items.length + 1));
    }
    common = JSON.stringify([prefsAt(), scale, columns, shown.down, view.split]);
    glance(moved);
    afterFrame(table, moved ? fill : () => layOut());
    if (focus && document.activeElement?.getAttribute("data-key") !== focus) /** @type {HTMLElement|null} */ (table.querySelector(`[data-key="${CSS.escape(focus)}"]`))?.focus();
  }

  /** All rows in their order. @returns {Item[]} */
  function list() {
    const shown = /** @type {Shown} */ (last);
    const sorted = order(shown, columns);
    const group = shown.view.group;
    const item = (/** @type {string} */ body) => (/** @type {Listed} */ one) => ({ key: one.run.name, body, kind: /** @type {const} */ ("run"), run: one.run.name, node: () => rowOf(one) });
    const pinned = sorted.filter(({ run }) => isPinned(run.name)).map(item("pinned"));
    const others = sorted.filter(({ run }) => !isPinned(run.name));
    if (sorted.length === 0) {
      const node = rolled(el("tr", { class: "more" }, el("td", { colspan: columns.length + 4 }, nothing(shown))));
      return [{ key: "\nnothing", body: "nothing", kind: "more", node: () => node }];
    }
    if (!group) return [...pinned, ...others.map(item("others"))];
    /** @type {Map<string, Listed[]>} */
    const groups = new Map();
    for (const one of others) {
      const value = one.run.labels[group] ?? "";
      const members = groups.get(value);
      if (members) members.push(one);
      else groups.set(value, [one]);
    }
    const values = [...groups.keys()].sort(byValue);
    return [...pinned, ...values.flatMap((value) => groupOf(group, value, groups.get(value) ?? [], item(`group ${value}`)))];
  }

  /** What the next frame needs: where the list has changed, the rows in sight alone. @param {boolean} moved */
  function glance(moved) {
    const tops = topsNow();
    if (moved) parts = stretches(tops, -start, innerHeight - start, held(), 1);
    place(parts, tops);
    laidOut = "";
  }

  /** Lays out what the glance has left, a step each turn. */
  function* fill() {
    for (const ahead of STEPS) {
      layOut(ahead);
      yield;
    }
    // Of which the next frame may need any, sorted otherwise.
    for (const { kind, node } of items.slice(0, MADE_AHEAD)) {
      if (kind !== "run") continue;
      node();
      yield;
    }
  }

  const topsNow = () => tops ??= topsOf(items.length, (at) => heights.get(items[at].key) ?? mean[items[at].kind]);

  /** Lays out the rows in sight and those around them. @param {number} ahead */
  function layOut(ahead = AHEAD) {
    const shown = last;
    if (!shown || !table.isConnected) return;
    // Heights are known only once rows are laid out, so the second pass finds what the first has missed.
    for (let turn = 0; turn < 2; turn += 1) {
      const tops = topsNow();
      start = table.getBoundingClientRect().top + head.offsetHeight;
      parts = items.length <= WHOLE && ahead === AHEAD ? stretches(tops, 0, Infinity, -1) : stretches(tops, -start - ahead, innerHeight - start + ahead, held());
      const now = `${draws} ${parts}`;
      say(start, tops);
      if (now === laidOut) return;
      place(parts, tops);
      laidOut = now;
      if (measured(parts)) break;
      laidOut = "";
    }
    const inSight = [...table.querySelectorAll("tr[data-run]")].map((/** @type {any} */ row) => row.dataset.run);
    wantRows(inSight.filter((run) => !shown.rows.has(run)));
  }

  /** The row that has the focus stays, so that the focus does. */
  function held() {
    const row = document.activeElement?.closest("tr");
    const key = row && table.contains(row) ? row.dataset.item : undefined;
    return key === undefined ? -1 : items.findIndex((one) => one.key === key);
  }

  /** @param {[number, number][]} parts @param {Float64Array} tops */
  function place(parts, tops) {
    /** @type {Map<string, any[]>} rows of each body, in order */
    const bodies = new Map();
    let [at, gapsUsed] = [0, 0];
    const rowsOf = (/** @type {string} */ body) => {
      const rows = bodies.get(body) ?? [];
      bodies.set(body, rows);
      return rows;
    };
    for (const [from, to] of parts) {
      if (from > at) rowsOf(items[from].body).push(gap(gapsUsed += 1, tops[from] - tops[at]));
      for (at = from; at < to; at += 1) {
        const one = items[at];
        const node = one.node();
        if (node.ariaRowIndex !== String(at + 2)) node.setAttribute("aria-rowindex", String(at + 2));
        if (node.dataset.item !== one.key) node.dataset.item = one.key;
        rowsOf(one.body).push(node);
      }
    }
    if (items.length > at) rowsOf(items[at - 1].body).push(gap(gapsUsed += 1, tops[items.length] - tops[at]));
    const focused = document.activeElement;
    patch(table, bodies);
    if (focused !== document.activeElement && table.contains(focused)) /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
    if (drawn.size <= MOST_KEPT) return;
    for (const [key, { node }] of drawn) if (!node.isConnected) drawn.delete(key);
  }

  /** @type {any[]} */
  const gaps = [];
  /** Room for rows that are not laid out. @param {number} at @param {number} height */
  function gap(at, height) {
    gaps[at] ??= el("tr", { class: "gap", "aria-hidden": "true" }, el("td", {}));
    const cell = gaps[at].firstElementChild;
    if (cell.style.height !== `${height}px`) cell.style.height = `${height}px`;
    if (cell.colSpan !== columns.length + 4) cell.colSpan = columns.length + 4;
    return gaps[at];
  }

  /** Whether the rows are as high as was thought; learns how high they are. @param {[number, number][]} parts */
  function measured(parts) {
    let right = true;
    /** @type {Record<string, [number, number]>} */
    const sums = {};
    for (const [from, to] of parts) {
      for (let at = from; at < to; at += 1) {
        const { key, kind, node } = items[at];
        const { height } = node().getBoundingClientRect();
        if (Math.abs((heights.get(key) ?? mean[kind]) - height) > 0.2) right = false;
        heights.set(key, height);
        const sum = sums[kind] ??= [0, 0];
        sum[0] += height;
        sum[1] += 1;
      }
    }
    if (right) return true;
    for (const [kind, [sum, n]] of Object.entries(sums)) mean[/** @type {Item["kind"]} */ (kind)] = sum / n;
    tops = null;
    return false;
  }

  /** Says which rows of a long list are in the window, below the head that stays. @param {number} start of the rows @param {Float64Array} tops */
  function say(start, tops) {
    where.hidden = items.length <= WHOLE;
    if (where.hidden) return;
    const under = head.querySelector("th")?.getBoundingClientRect().bottom ?? 0;
    const [from, to] = [rowAt(tops, under - start), rowAt(tops, innerHeight - start)];
    where.textContent = `Rows ${count(from + 1)} to ${count(to + 1)} of ${count(items.length)}`;
  }

  /** @param {Shown} shown */
  function nothing(shown) {
    const reset = el("button", { type: "button", class: "btn small-btn", onclick: () => change({ q: "", verdict: "" }) }, "Show all runs");
    return el("span", { class: "sum" }, shown.view.q ? `No run matches “${shown.view.q}”. ` : "No run has this verdict. ", reset);
  }

  /** The rows of a group. @param {string} group @param {string} value @param {Listed[]} members @param {(one: Listed) => Item} item @returns {Item[]} */
  function groupOf(group, value, members, item) {
    const key = `${group}=${value}`;
    const open = !closed.has(key);
    const body = `group ${value}`;
    const of = !open ? [] : whole.has(key) || members.length <= OF_GROUP + 1 ? members : members.slice(0, OF_GROUP);
    return [{ key: `\n${body}`, body, kind: "group", node: once(() => groupHead(group, value, key, members, open)) }, ...of.map(item),
      ...(open && members.length > of.length ? [{ key: `\nmore ${value}`, body, kind: /** @type {const} */ ("more"), node: once(() => more(key, members.length - of.length)) }] : [])];
  }

  /** @param {string} group @param {string} value @param {string} key @param {Listed[]} members @param {boolean} open */
  function groupHead(group, value, key, members, open) {
    const counts = STATES.map((state) => members.filter(({ row }) => stateOf(row) === state).length);
    const [leaking, possible, sound] = counts;
    const other = members.length - leaking - possible - sound;
    const said = [[leaking, "leaking"], [possible, "possible"], [sound, "sound"], [other, "other"]].filter(([n]) => n).map(([n, what]) => `${n} ${what}`).join(" · ");
    const part = (/** @type {string} */ look, /** @type {number} */ n) => n > 0 && el("i", { class: look, style: `flex: ${n}` });
    const button = el("button", { type: "button", "aria-expanded": String(open), "data-key": `group ${key}`, onclick: () => { if (!closed.delete(key)) closed.add(key); again(); } },
      icon("chev", open ? "i chev open" : "i chev"), value === "" ? `without ${labelName(group)}` : `${labelName(group)} = ${value}`);
    const mean = (/** @type {string} */ id) => {
      const known = members.flatMap(({ row }) => row?.scores[id]?.value ?? []);
      return known.length ? valueText(id, known.reduce((sum, one) => sum + one, 0) / known.length) : "";
    };
    return rolled(el("tr", { class: "group" },
      el("th", { colspan: 4, scope: "rowgroup" }, el("span", { class: "sum" }, button, el("span", {}, plural(members.length, "run")),
        el("span", { class: "mix", "aria-hidden": "true" }, part("leak", leaking), part("warn", possible), part("ok", sound), part("early", other)), said)),
      ...columns.map(({ id, label }) => el("td", { class: cellClass(id, label) }, label ? "" : mean(id)))));
  }

  /** @param {string} key @param {number} n */
  function more(key, n) {
    return rolled(el("tr", { class: "more" }, el("td", { colspan: columns.length + 4 },
      el("button", { type: "button", class: "plain-btn", "data-key": `more ${key}`, onclick: () => { whole.add(key); again(); } }, `Show ${n} more`))));
  }

  /** @param {Listed} of */
  function rowOf(of) {
    const { run, row, live } = of;
    const known = drawn.get(run.name);
    const shown = /** @type {Shown} */ (last);
    const now = [run, row, live, common];
    known?.swatch.draw(shown.slot.get(run.name));
    if (known && now.every((one, i) => one === known.of[i])) return known.node;
    const told = verdictOf(row, shown.view.split);
    const signature = JSON.stringify([run.labels, live, isPinned(run.name), isHidden(run.name), titleOf(run.name), told, row?.scores, row?.spark, scale, columns, shown.down, shown.view.split]);
    if (known?.signature === signature) {
      known.of = now;
      return known.node;
    }
    const title = titleOf(run.name);
    const acts = el("span", { class: "acts" });
    // Made when they are needed: two buttons a row are a third of the table.
    const offer = () => {
      if (acts.hasChildNodes()) return;
      const act = (/** @type {string} */ key, /** @type {string} */ says, /** @type {string} */ symbol, /** @type {boolean} */ on, /** @type {() => void} */ onclick) =>
        el("button", { type: "button", class: on ? "act on" : "act", "aria-pressed": String(on), "aria-label": `${says} ${title}`, title: says, "data-key": `${key} ${run.name}`, onclick }, icon(symbol));
      label.append(acts);
      acts.append(act("pin", isPinned(run.name) ? "Unpin" : "Pin", "pin", isPinned(run.name), () => togglePin(run.name)),
        act("hide", isHidden(run.name) ? "Show again" : "Hide", "eye", isHidden(run.name), () => toggleHidden(run.name)));
    };
    const label = el("span", {}, el("a", { href: address({ page: "run", run: run.name }), title, "data-key": `open ${run.name}` }, el("span", {}, title)),
      live && el("span", { class: "live", title: "training", role: "img", "aria-label": "training" }),
      isPinned(run.name) && el("span", { class: "pinned-mark", title: "pinned", role: "img", "aria-label": "pinned" }, icon("pin")));
    const swatch = swatchOf(run.name, title, () => toggle(run.name, last ?? shown));
    swatch.draw(shown.slot.get(run.name));
    const node = el("tr", { class: `${told.look}${isPinned(run.name) ? " pinned" : ""}`, "data-run": run.name, onpointerenter: offer, onfocusin: offer },
      el("td", {}, swatch.root),
      el("th", { scope: "row", class: "name" }, label),
      el("td", { class: "vd" }, verdictMark(told, shown, row)),
      el("td", { class: "sp" }, row?.spark ? spark({ x: row.spark.steps, y: row.spark.values, end: scale.end, top: scale.top, limit: scale.limit,
        label: `${nameOf(row.spark.score)} from ${valueText(row.spark.score, row.spark.values[0])} to ${valueText(row.spark.score, row.spark.values.at(-1))}` }) : ""),
      ...columns.map(({ id, label }) => (label ? el("td", { class: cellClass(id, label), title: run.labels[id] ?? "" }, run.labels[id] ?? "") : valueCell(row, id))));
    roles(node);
    drawn.set(run.name, { signature, node, of: now, swatch });
    return node;
  }

  return { draw, picker: picker.root };
}

/** @template T @param {() => T} make */
function once(make) {
  /** @type {T|undefined} */
  let made;
  return () => made ??= make();
}

/**
 * Puts rows into the bodies of the table. What stays is not moved: it would lose the focus, and be laid out again.
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

/** The mark of a run, which is pressed while the run is in the charts. @param {string} run @param {string} title @param {() => void} onclick */
function swatchOf(run, title, onclick) {
  /** @type {any} */
  let before = null;
  const root = el("button", { type: "button", "aria-label": `Show ${title} in the charts`, "data-key": `show ${run}`, onclick });
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

/** Rows that are cards on a phone would lose their meaning with their display. @param {HTMLElement} table or a row */
function roles(table) {
  if (table.tagName === "TR") table.setAttribute("role", "row");
  for (const [selector, role] of [["tr", "row"], ["td", "cell"], ["th[scope=col]", "columnheader"], ["th[scope^=row]", "rowheader"]]) {
    for (const one of table.querySelectorAll(selector)) one.setAttribute("role", role);
  }
}

/** @param {any} node */
function rolled(node) {
  roles(node);
  return node;
}

/** @param {import("../data/api.js").Row|undefined} row @param {string} id */
function valueCell(row, id) {
  const value = row?.scores[id];
  if (value?.value === undefined) return el("td", { class: cellClass(id, false), title: value?.undefined ? `Undefined: ${value.undefined}` : "" }, value?.undefined ? "–" : "");
  const half = id === "ctl_conditional" || id === "icl_conditional" ? halfText(id, value.standard_error) : "";
  return el("td", { class: cellClass(id, false) }, valueText(id, value.value), half && el("small", {}, `±${half}`));
}

/** @param {string} id @param {boolean} label */
const cellClass = (id, label) => `n ${id === "ctl_conditional" && !label ? "lk" : "num"}${OPTIONAL.includes(id) || label ? " opt" : ""}${label ? " label" : ""}`;

/** Shows a run in the charts, or no more. @param {string} run @param {Shown} shown */
function toggle(run, shown) {
  const now = current().show ?? [...shown.slot.keys()];
  change({ show: now.includes(run) ? now.filter((one) => one !== run) : [...now, run] });
}

/**
 * The head of the table. What it returns marks in it how the rows are sorted, and whether all are in the charts.
 * @param {any} head @param {Column[]} columns @param {() => Listed[]} listed
 * @returns {(shown: Shown) => void}
 */
function header(head, columns, listed) {
  /** @type {Map<string, {root: HTMLElement, arrow: HTMLElement}>} */
  const cells = new Map();
  const cell = (/** @type {string} */ id, /** @type {string} */ text, /** @type {string} */ className, /** @type {number} */ width = 0) => {
    const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
    const button = el("button", { type: "button", class: "sort", "data-key": `sort ${id}`, onclick: () => {
      const { sort } = current();
      change({ sort: sort === id ? `-${id}` : sort === `-${id}` ? "" : id });
    } }, text, arrow);
    const root = el("th", { scope: "col", class: className, style: width ? `width: ${width}px` : null }, button);
    cells.set(id, { root, arrow });
    return root;
  };
  const all = el("input", { type: "checkbox", "aria-label": "Show all listed runs in the charts", "data-key": "show all", onchange: () =>
    change({ show: all.checked ? listed().map(({ run }) => run.name) : null }) });
  head.replaceChildren(el("tr", { "aria-rowindex": "1" }, el("th", { scope: "col" }, all), cell("name", "Run", "name-col"), cell("verdict", "Verdict", "vd-col"),
    el("th", { scope: "col", class: "sp-col" }, term("Over epochs", tipOf("ctl_conditional"))),
    ...columns.map(({ id, label, width }) => cell(label ? `label:${id}` : id, label ? labelName(id) : wordOf(id).short ?? nameOf(id), cellClass(id, label), width))));
  roles(head);
  return ({ view: { sort }, listed: rows, slot }) => {
    for (const [id, { root, arrow }] of cells) {
      const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : null;
      const sign = direction === null ? "" : direction === "ascending" ? "↑" : "↓";
      if (arrow.textContent === sign) continue;
      arrow.textContent = sign;
      if (direction === null) root.removeAttribute("aria-sort");
      else root.setAttribute("aria-sort", direction);
    }
    all.checked = rows.length > 0 && rows.length <= slot.size && rows.every(({ run }) => slot.has(run.name));
    all.indeterminate = !all.checked && slot.size > 0;
  };
}

/** @param {Shown} shown @returns {Column[]} */
function columnsOf(shown) {
  const kept = keptColumns();
  const labels = shown.labels.map(({ name }) => name);
  const known = (/** @type {string} */ id) => !id.startsWith("label:") || labels.includes(id.slice(6));
  const ofLabel = (/** @type {string} */ name) => ({ id: name, label: true, width: widthOf(name, shown.labels.find((one) => one.name === name)?.values ?? []) });
  if (kept) return kept.filter(known).map((id) => (id.startsWith("label:") ? ofLabel(id.slice(6)) : { id, label: false }));
  const differing = shown.labels.filter(({ values }) => values.length > 1).slice(0, LABELS);
  return [...SCORES.map((id) => ({ id, label: false })), ...differing.map(({ name }) => ofLabel(name))];
}

/** Pixels that a label's column takes, as far as the names of runs can spare them. @param {string} label @param {string[]} values */
function widthOf(label, values) {
  const longest = values.reduce((most, value) => Math.max(most, value.length), 0);
  return Math.round(Math.min(130, Math.max(56, 7 * labelName(label).length + 30, 7.2 * longest + 32)));
}

function columnPicker() {
  const box = el("div", { class: "menu-box" });
  const root = closing(el("details", { class: "menu desk" }, el("summary", { class: "btn quiet" }, "Columns"), box));
  let before = "";
  return {
    root,
    /** @param {Shown} shown @param {Column[]} columns */
    draw(shown, columns) {
      const on = columns.map(({ id, label }) => (label ? `label:${id}` : id));
      const all = [...SCORES, ...MORE_SCORES, ...shown.labels.map(({ name }) => `label:${name}`)];
      const now = JSON.stringify([on, all]);
      if (now === before) return;
      before = now;
      box.replaceChildren(...all.map((id) => {
        const check = el("input", { type: "checkbox", onchange: () => keepColumns(check.checked ? all.filter((one) => on.includes(one) || one === id) : on.filter((one) => one !== id)) });
        check.checked = on.includes(id);
        return el("label", { class: "entry" }, check, id.startsWith("label:") ? labelName(id.slice(6)) : nameOf(id));
      }), el("button", { type: "button", class: "entry", onclick: () => keepColumns(null) }, "The usual ones"));
    },
  };
}

/** @param {Shown} shown @param {Column[]} columns @returns {Listed[]} */
function order(shown, columns) {
  const { sort } = shown.view;
  const sign = sort.startsWith("-") ? -1 : 1;
  const id = sort.replace(/^-/, "");
  if (!id) return shown.listed;
  const label = id.startsWith("label:") ? id.slice(6) : null;
  const compare = (/** @type {Listed} */ a, /** @type {Listed} */ b) => {
    if (id === "name") return titleOf(a.run.name).localeCompare(titleOf(b.run.name), "en", { numeric: true });
    if (id === "verdict") return GRAVITY[stateOf(a.row)] - GRAVITY[stateOf(b.row)] || (a.row?.verdict?.since?.step ?? 0) - (b.row?.verdict?.since?.step ?? 0);
    if (label !== null) return byValue(a.run.labels[label] ?? "", b.run.labels[label] ?? "");
    return Number(a.row?.scores[id]?.value) - Number(b.row?.scores[id]?.value);
  };
  const known = (/** @type {Listed} */ { run, row }) => (label !== null ? label in run.labels : !columns.some((one) => one.id === id) || id === "name" || id === "verdict" || row?.scores[id]?.value !== undefined);
  const sorted = shown.listed.filter(known).sort((a, b) => sign * compare(a, b));
  return [...sorted, ...shown.listed.filter((one) => !known(one))];
}

/** One scale for the small curves of all rows. @param {Listed[]} listed @param {number|null} [limit] */
function sparkScale(listed, limit = null) {
  let [top, end] = [0.2, 0];
  for (const { row } of listed) {
    if (!row?.spark) continue;
    for (const value of row.spark.values) top = Math.max(top, Math.min(1, value));
    end = Math.max(end, row.spark.steps.at(-1) ?? 0);
  }
  return { top, end, limit };
}
