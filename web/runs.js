// The list of runs: which are shown, in which colour, and how each is doing.
import { runColor } from "./palette.js";
import { breakable, count, el, labelText, localTime } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {{root: HTMLElement, group: HTMLElement, box: HTMLInputElement, swatch: HTMLElement, state: HTMLElement, labels: HTMLElement,
 *   step: HTMLElement}} Row
 * @typedef {object} Choices what the list tells its owner
 * @property {(names: string[]|null) => void} show null: the newest, as they come
 * @property {(name: string|null) => void} point the row under the pointer or focus
 */

/** From this many runs on there is a box to filter them. */
const FILTER_FROM = 9;

/**
 * @param {HTMLElement} host
 * @param {Choices} choices
 */
export function runList(host, choices) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  /** @type {string[]} */
  let shown = [];
  const filter = el("input", {
    type: "search", id: "filter", placeholder: "filter: name or label=value", "aria-label": "Filter runs by name or label",
    oninput: () => applyFilter(),
  });
  const list = el("ul", { class: "runs" });
  const summary = el("span", { class: "dim" });
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick) =>
    el("button", { type: "button", class: "small", title, onclick }, text);
  const visible = () => [...rows].filter(([, row]) => !row.root.hidden).map(([name]) => name);
  host.replaceChildren(
    el("div", { class: "panel-head" }, el("h2", {}, "Runs"), summary),
    el("div", { class: "buttons" },
      button("all", "Show every run of the list", () => choices.show(visible())),
      button("none", "Show no run", () => choices.show([])),
      button("newest", "Show the newest runs, and new ones as they start", () => choices.show(null))),
    filter, list);

  function applyFilter() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [name, row] of rows) {
      const text = `${name} ${row.labels.textContent}`.toLowerCase();
      row.root.hidden = !words.every((/** @type {string} */ word) => text.includes(word));
    }
  }

  /** @param {string} name @returns {Row} */
  function create(name) {
    const box = el("input", {
      type: "checkbox",
      onchange: () => choices.show(box.checked ? [...shown, name] : shown.filter((other) => other !== name)),
    });
    const [swatch, state, labels, step] = ["swatch", "state", "labels", "dim step"].map((kind) => el("span", { class: kind }));
    const only = el("button", { type: "button", class: "small only", title: `Show only ${name}`, "aria-label": `Show only ${name}`, onclick: () => choices.show([name]) }, "only");
    const group = el("div", { class: "group", hidden: true });
    const root = el("li", { "data-run": name, onpointerenter: () => choices.point(box.checked ? name : null), onpointerleave: () => choices.point(null) },
      group, el("label", {}, box, swatch, el("span", { class: "name" }, ...breakable(name)), state), only,
      el("div", { class: "run-line" }, labels, step));
    return { root, group, box, swatch, state, labels, step };
  }

  /**
   * @param {Run[]} all newest first
   * @param {string[]} names of the shown runs
   * @param {string} split
   * @param {string|null} group the label that they stand together by
   */
  return function draw(all, names, split, group) {
    shown = names;
    const valueOf = (/** @type {Run} */ run) => (group === null ? "" : run.labels[group] ?? "");
    const byValue = (/** @type {Run} */ a, /** @type {Run} */ b) =>
      Number(valueOf(a)) - Number(valueOf(b)) || valueOf(a).localeCompare(valueOf(b), "en", { numeric: true });
    const runs = group === null ? all : all.toSorted(byValue);
    summary.textContent = `${names.length} of ${runs.length} shown`;
    filter.hidden = runs.length < FILTER_FROM;
    for (const [name, row] of rows) {
      if (runs.some((run) => run.name === name)) continue;
      row.root.remove();
      rows.delete(name);
    }
    for (const [place, run] of runs.entries()) {
      const row = rows.get(run.name) ?? create(run.name);
      rows.set(run.name, row);
      if (list.children[place] !== row.root) list.insertBefore(row.root, list.children[place] ?? null);
      const head = group !== null && (place === 0 || valueOf(runs[place - 1]) !== valueOf(run));
      row.group.hidden = !head;
      row.group.textContent = head ? (group in run.labels ? `${group} = ${valueOf(run)}` : `without ${group}`) : "";
      row.box.checked = names.includes(run.name);
      row.swatch.style.setProperty("--color", row.box.checked ? runColor(run.name) : "transparent");
      // Without data since the sidecar started, nobody knows whether the run still trains.
      const silent = run.splits.length > 0 && run.splits.every((one) => one.rows_received === null);
      row.state.textContent = run.finished ? "finished" : silent ? "silent" : "live";
      row.state.title = !run.finished && silent ? "nothing received since the sidecar started" : "";
      row.state.classList.toggle("live", row.state.textContent === "live");
      const labels = labelText(run.labels);
      row.labels.textContent = labels;
      const here = run.splits.find((one) => one.split === split);
      row.step.textContent = here?.last_step === null || here === undefined ? "" : `step ${count(here.last_step)}`;
      const dropped = run.splits.reduce((sum, one) => sum + (one.rows_dropped ?? 0), 0);
      row.root.title = [run.name, `started ${localTime(run.started)}`, `${run.concepts.length} concepts, ${run.activation_kind} activations`,
        run.world_size > 1 && `${run.world_size} ranks`, labels, dropped > 0 && `${count(dropped)} rows dropped`].filter(Boolean).join("\n");
    }
    applyFilter();
  };
}
