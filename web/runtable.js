// The table of runs: pinned ones first, groups by a label, sorted by any column.
import { MARKS, hueOf, lookOf } from "./palette.js";
import { columns as keptColumns, isHidden, isPinned, keepColumns, titleOf, toggleHidden, togglePin } from "./prefs.js";
import { byValue } from "./query.js";
import { closing } from "./saving.js";
import { spark } from "./spark.js";
import { address, change, current } from "./state.js";
import { el, icon, plural } from "./text.js";
import { term } from "./tip.js";
import { KINDS, halfText, kindOf, labelName, momentText, nameOf, tipOf, valueText, verdictOf, wordOf } from "./words.js";

/**
 * @typedef {import("./shown.js").Shown} Shown
 * @typedef {import("./shown.js").Listed} Listed
 * @typedef {{id: string, label: boolean}} Column
 */

/** Rows of a group until more are asked for. */
const OF_GROUP = 4;
/** Rows that are laid out at first, and as many again each time that their end comes near: a row out of view costs, too. */
const AT_ONCE = 32;
const SCORES = ["ctl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy"];
const MORE_SCORES = ["icl_conditional", "ctl", "icl"];
/** Columns that narrow windows leave out. */
const OPTIONAL = ["concept_accuracy", "icl_conditional", "ctl", "icl"];
const LABELS = 2;
/** @type {Record<string, number>} */
const GRAVITY = { leaking: 0, possibly_leaking: 1, cannot_tell: 2, too_early: 3, sound: 4 };

/** A verdict with its mark. @param {import("./words.js").Told} told @param {Shown} shown @param {import("./api.js").Row|undefined} row */
export function verdictMark(told, shown, row) {
  const at = row?.step !== null && row?.step !== undefined ? momentText({ step: row.step, epoch: row.epoch }) : "";
  const text = shown.down && at ? `As of ${at}: ${told.kind === "leaking" ? "leaking" : told.text.replace(/^./, (first) => first.toLowerCase())}` : told.text;
  const grave = told.look === "leak" || told.look === "warn";
  return el("span", { class: `v ${told.look}`, "data-kind": told.kind }, icon(told.look),
    el("span", {}, grave ? el("b", {}, text) : text, told.rest && el("span", { class: "rest" }, ` ${told.rest}`, told.look === "leak" && el("span", { class: "long" }, " concepts"))));
}

/** @param {HTMLElement} host */
export function runTable(host) {
  const picker = columnPicker();
  const head = el("thead", { role: "rowgroup" });
  const table = el("table", { class: "runs", role: "table" }, head);
  const end = el("div", { class: "more-space", hidden: true });
  host.append(table, end);
  let most = AT_ONCE;
  let sortedBy = "";
  new IntersectionObserver(([{ isIntersecting }]) => {
    if (!isIntersecting || end.hidden) return;
    most += AT_ONCE;
    again();
  }, { rootMargin: "250px" }).observe(end);
  /** @type {Map<string, {signature: string, node: any}>} rows as drawn */
  const drawn = new Map();
  /** @type {Set<string>} groups that are closed, and those shown whole */
  const closed = new Set();
  const whole = new Set();
  let before = "";
  /** @type {Shown} */
  let last;
  const again = () => { before = ""; draw(last); };

  /** @param {Shown} shown */
  function draw(shown) {
    last = shown;
    const columns = columnsOf(shown);
    picker.draw(shown, columns);
    const { sort, q, group: by, verdict } = shown.view;
    if (sortedBy !== [sort, q, by, verdict].join("\n")) {
      sortedBy = [sort, q, by, verdict].join("\n");
      most = AT_ONCE;
    }
    const signature = JSON.stringify([most, shown.view.group, shown.view.sort, shown.down, shown.theme, columns, shown.listed.map(({ run, row, live }) => [run.name, titleOf(run.name), live, isPinned(run.name), isHidden(run.name),
      row?.step, row?.verdict, row?.scores, shown.slot.get(run.name)])]);
    if (signature === before) return;
    before = signature;
    const focus = document.activeElement?.getAttribute("data-key");
    header(head, columns, shown);
    const scale = sparkScale(shown);
    const sorted = order(shown, columns);
    const pinned = sorted.filter(({ run }) => isPinned(run.name));
    const others = sorted.filter(({ run }) => !isPinned(run.name));
    /** @type {any[][]} the rows of each body */
    const bodies = [];
    if (pinned.length) bodies.push(pinned.map((one) => rowOf(one, columns, shown, scale)));
    const group = shown.view.group;
    let room = most;
    if (group) {
      const values = [...new Set(others.map(({ run }) => run.labels[group] ?? ""))].sort(byValue);
      for (const value of values) {
        if (room <= 0) break;
        const rows = groupOf(group, value, others.filter(({ run }) => (run.labels[group] ?? "") === value), columns, shown, scale);
        room -= rows.length;
        bodies.push(rows);
      }
    } else {
      bodies.push(others.slice(0, room).map((one) => rowOf(one, columns, shown, scale)));
      room -= others.length;
    }
    if (!sorted.length) bodies.push([rolled(el("tr", { class: "more" }, el("td", { colspan: columns.length + 4 }, nothing(shown))))]);
    patch(table, bodies);
    end.hidden = room >= 0;
    for (const name of drawn.keys()) if (!shown.listed.some(({ run }) => run.name === name)) drawn.delete(name);
    if (focus && document.activeElement?.getAttribute("data-key") !== focus) /** @type {HTMLElement|null} */ (table.querySelector(`[data-key="${CSS.escape(focus)}"]`))?.focus();
  }

  /** @param {Shown} shown */
  function nothing(shown) {
    const reset = el("button", { type: "button", class: "btn small-btn", onclick: () => change({ q: "", verdict: "" }) }, "Show all runs");
    return el("span", { class: "sum" }, shown.view.q ? `No run matches “${shown.view.q}”. ` : "No run has this verdict. ", reset);
  }

  /** @param {string} group @param {string} value @param {Listed[]} members @param {Column[]} columns @param {Shown} shown @param {any} scale */
  function groupOf(group, value, members, columns, shown, scale) {
    const key = `${group}=${value}`;
    const open = !closed.has(key);
    const counts = KINDS.map((kind) => members.filter(({ row }) => kindOf(row) === kind).length);
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
    const shownRows = !open ? [] : whole.has(key) || members.length <= OF_GROUP + 1 ? members : members.slice(0, OF_GROUP);
    return [rolled(el("tr", { class: "group" },
      el("th", { colspan: 4, scope: "rowgroup" }, el("span", { class: "sum" }, button, el("span", {}, plural(members.length, "run")),
        el("span", { class: "mix", "aria-hidden": "true" }, part("leak", leaking), part("warn", possible), part("ok", sound), part("early", other)), said)),
      ...columns.map(({ id, label }) => el("td", { class: cellClass(id, label) }, label ? "" : mean(id))))),
    ...shownRows.map((one) => rowOf(one, columns, shown, scale)), ...(open && members.length > shownRows.length ? [more(key, members.length - shownRows.length, columns)] : [])];
  }

  /** @param {string} key @param {number} n @param {Column[]} columns */
  function more(key, n, columns) {
    return rolled(el("tr", { class: "more" }, el("td", { colspan: columns.length + 4 },
      el("button", { type: "button", class: "plain-btn", "data-key": `more ${key}`, onclick: () => { whole.add(key); again(); } }, `Show ${n} more`))));
  }

  /** @param {Listed} one @param {Column[]} columns @param {Shown} shown @param {{top: number, ends: Map<string, number>, limit: number|null}} scale */
  function rowOf({ run, row, live }, columns, shown, scale) {
    const slot = shown.slot.get(run.name);
    const told = verdictOf(row, shown.view.split);
    const signature = JSON.stringify([titleOf(run.name), live, isPinned(run.name), isHidden(run.name), slot, told, row?.scores, row?.spark, scale.top, scale.ends.get("end"), columns, shown.down, shown.view.split]);
    const known = drawn.get(run.name);
    if (known?.signature === signature) return known.node;
    const title = titleOf(run.name);
    const acts = el("span", { class: "acts" });
    // Made when they are needed: two buttons a row are a third of the table.
    const offer = () => {
      if (acts.hasChildNodes()) return;
      const act = (/** @type {string} */ key, /** @type {string} */ says, /** @type {string} */ symbol, /** @type {boolean} */ on, /** @type {() => void} */ onclick) =>
        el("button", { type: "button", class: on ? "act on" : "act", "aria-pressed": String(on), "aria-label": `${says} ${title}`, title: says, "data-key": `${key} ${run.name}`, onclick }, icon(symbol));
      acts.append(act("pin", isPinned(run.name) ? "Unpin" : "Pin", "pin", isPinned(run.name), () => togglePin(run.name)),
        act("hide", isHidden(run.name) ? "Show again" : "Hide", "eye", isHidden(run.name), () => toggleHidden(run.name)));
    };
    const node = el("tr", { class: `${told.look}${isPinned(run.name) ? " pinned" : ""}`, "data-run": run.name, onpointerenter: offer, onfocusin: offer },
      el("td", {}, el("button", { type: "button", class: slot === undefined ? "sw" : `sw c${hueOf(slot)}`, "aria-pressed": String(slot !== undefined),
        "aria-label": `Show ${title} in the charts`, "data-key": `show ${run.name}`, onclick: () => toggle(run.name) },
      icon(slot === undefined ? "off" : MARKS[lookOf(slot)], ""))),
      el("th", { scope: "row", class: "name" }, el("span", {}, el("a", { href: address({ page: "run", run: run.name }), title, "data-key": `open ${run.name}` }, title),
        live && el("span", { class: "live", title: "training", role: "img", "aria-label": "training" }),
        isPinned(run.name) && el("span", { class: "pinned-mark", title: "pinned", role: "img", "aria-label": "pinned" }, icon("pin")),
        acts)),
      el("td", { class: "vd" }, verdictMark(told, shown, row)),
      el("td", { class: "sp" }, row?.spark ? spark({ x: row.spark.steps, y: row.spark.values, end: scale.ends.get("end") ?? 0, top: scale.top, limit: scale.limit,
        label: `${nameOf(row.spark.score)} from ${valueText(row.spark.score, row.spark.values[0])} to ${valueText(row.spark.score, row.spark.values.at(-1))}` }) : ""),
      ...columns.map(({ id, label }) => (label ? el("td", { class: cellClass(id, label), title: run.labels[id] ?? "" }, run.labels[id] ?? "") : valueCell(row, id))));
    roles(node);
    drawn.set(run.name, { signature, node });
    return node;
  }

  return { draw, picker: picker.root };
}

/**
 * Puts rows into the bodies of the table, and moves only what is elsewhere: rows that stay are not laid out again.
 * @param {HTMLTableElement} table @param {any[][]} bodies
 */
function patch(table, bodies) {
  while (table.tBodies.length > bodies.length) table.tBodies[table.tBodies.length - 1].remove();
  bodies.forEach((rows, at) => {
    const body = table.tBodies[at] ?? table.appendChild(el("tbody", { role: "rowgroup" }));
    rows.forEach((row, i) => { if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null); });
    while (body.children.length > rows.length) body.lastElementChild?.remove();
  });
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

/** @param {import("./api.js").Row|undefined} row @param {string} id */
function valueCell(row, id) {
  const value = row?.scores[id];
  if (value?.value === undefined) return el("td", { class: cellClass(id, false), title: value?.undefined ? `Undefined: ${value.undefined}` : "" }, value?.undefined ? "–" : "");
  const half = id === "ctl_conditional" || id === "icl_conditional" ? halfText(id, value.standard_error) : "";
  return el("td", { class: cellClass(id, false) }, valueText(id, value.value), half && el("small", {}, `±${half}`));
}

/** @param {string} id @param {boolean} label */
const cellClass = (id, label) => `n ${id === "ctl_conditional" && !label ? "lk" : "num"}${OPTIONAL.includes(id) || label ? " opt" : ""}${label ? " label" : ""}`;

/** @param {string} run */
function toggle(run) {
  const shown = [...document.querySelectorAll('.sw[aria-pressed="true"]')].map((one) => one.closest("tr")?.dataset.run ?? "");
  const view = current();
  const now = view.show ?? shown;
  change({ show: now.includes(run) ? now.filter((one) => one !== run) : [...now, run] });
}

/** @param {any} head @param {Column[]} columns @param {Shown} shown */
function header(head, columns, shown) {
  const { sort } = shown.view;
  const cell = (/** @type {string} */ id, /** @type {string} */ text, /** @type {string} */ className, /** @type {string[]} */ lines = []) => {
    const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : null;
    const button = el("button", { type: "button", class: "sort", "data-key": `sort ${id}`, onclick: () => change({ sort: sort === id ? `-${id}` : sort === `-${id}` ? "" : id }) },
      text, direction && el("span", { class: "arrow", "aria-hidden": "true" }, direction === "ascending" ? "↑" : "↓"));
    return el("th", { scope: "col", class: className, "aria-sort": direction ?? undefined }, button, lines.length > 0 && term("?", [text, ...lines].slice(1), "tipped what-is"));
  };
  const every = shown.listed.length > 0 && shown.listed.every(({ run }) => shown.slot.has(run.name));
  const all = el("input", { type: "checkbox", "aria-label": "Show all listed runs in the charts", "data-key": "show all", onchange: () =>
    change({ show: all.checked ? shown.listed.map(({ run }) => run.name) : null }) });
  all.checked = every;
  all.indeterminate = !every && shown.slot.size > 0;
  head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, all), cell("name", "Run", "name-col"), cell("verdict", "Verdict", "vd-col"),
    el("th", { scope: "col", class: "sp-col" }, term("Over epochs", tipOf("ctl_conditional"))),
    ...columns.map(({ id, label }) => cell(label ? `label:${id}` : id, label ? labelName(id) : wordOf(id).short ?? nameOf(id), cellClass(id, label), []))));
  roles(head);
}

/** @param {Shown} shown @returns {Column[]} */
function columnsOf(shown) {
  const kept = keptColumns();
  const labels = shown.labels.map(({ name }) => name);
  const known = (/** @type {string} */ id) => !id.startsWith("label:") || labels.includes(id.slice(6));
  if (kept) return kept.filter(known).map((id) => ({ id: id.replace(/^label:/, ""), label: id.startsWith("label:") }));
  const differing = shown.labels.filter(({ values }) => values.length > 1).slice(0, LABELS);
  return [...SCORES.map((id) => ({ id, label: false })), ...differing.map(({ name }) => ({ id: name, label: true }))];
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
    if (id === "verdict") return GRAVITY[kindOf(a.row)] - GRAVITY[kindOf(b.row)] || (a.row?.verdict?.since?.step ?? 0) - (b.row?.verdict?.since?.step ?? 0);
    if (label !== null) return byValue(a.run.labels[label] ?? "", b.run.labels[label] ?? "");
    return Number(a.row?.scores[id]?.value) - Number(b.row?.scores[id]?.value);
  };
  const known = (/** @type {Listed} */ { run, row }) => (label !== null ? label in run.labels : !columns.some((one) => one.id === id) || id === "name" || id === "verdict" || row?.scores[id]?.value !== undefined);
  const sorted = shown.listed.filter(known).sort((a, b) => sign * compare(a, b));
  return [...sorted, ...shown.listed.filter((one) => !known(one))];
}

/** One scale for the small curves of all rows. @param {Shown} shown */
function sparkScale(shown) {
  let [top, end] = [0.2, 0];
  for (const { row } of shown.searched) {
    if (!row?.spark) continue;
    for (const value of row.spark.values) top = Math.max(top, Math.min(1, value));
    end = Math.max(end, row.spark.steps.at(-1) ?? 0);
  }
  return { top, ends: new Map([["end", end]]), limit: shown.limitOf("ctl_conditional")?.limit ?? null };
}

