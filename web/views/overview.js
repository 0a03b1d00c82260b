// The page of all runs: how many leak, which, and their curves.
import { answers } from "../data/answers.js";
import { curveControls, curves } from "../charts/curves.js";
import { MARKS, hueOf, lookOf } from "../palette.js";
import { titleOf } from "../data/prefs.js";
import { PROJECT, hintOf } from "../data/query.js";
import { runTable } from "./runtable.js";
import { closing } from "../saving.js";
import { address, change, current } from "../data/state.js";
import { store } from "../data/store.js";
import { count, el, icon, plural, tell } from "../text.js";
import { FIRST, STATES, LOOKS, PUBLISHED, SHORT, allScores, stateOf, labelName, labelText, momentText, nameOf, leastText, withNumbers } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Run } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 * @import { View } from "../data/state.js"
 * @import { VerdictState } from "../labels.js"
 */

/** Labels that say nothing of a model. */
const NO_SETTING = ["seed", "fold", "host", "date"];
/** Beside the table of so few runs, charts would leave most of the window empty: they stand below it. */
const FEW = 8;
/** A key of more runs would be longer than the charts. */
const KEYED = 8;

/** Scores whose curves the overview draws. @param {View} view @param {Set<string>} valued those that its runs have */
export const overviewScores = (view, valued) => (view.scores.length ? view.scores : withNumbers(FIRST, valued));

/** @param {() => void} again draws the page again */
export function overview(again) {
  const headline = headlinePanel(again);
  const listing = el("section", { class: "panel listing", "aria-label": "Runs" });
  const table = runTable(listing);
  const bar = searchBar(table.picker, table.menu);
  const charts = selectedRuns(again);
  const root = el("div", {}, headline.root, bar.root, el("div", { class: "split" }, listing, charts.root));

  /** @param {Shown} shown */
  function draw(shown) {
    const { view, searched, runs } = shown;
    // A run that was chosen for the charts stays in them, whatever is searched for.
    const none = searched.length === 0 && view.q !== "" && runs.length > 0;
    headline.draw(shown, none);
    bar.draw(shown, none);
    charts.root.hidden = none && shown.lines.length === 0;
    table.draw(shown);
    charts.draw(shown);
    // By the number of all runs: with that of the runs found, charts would change their place while one types.
    root.classList.toggle("few", runs.length <= FEW);
    root.classList.toggle("without-published", !shown.scores.some((one) => PUBLISHED.includes(one)));
    root.classList.toggle("stale", shown.down);
  }

  return { root, draw };
}

/** The sentence about all runs, and the verdicts to choose from. @param {() => void} again draws the page again */
function headlinePanel(again) {
  const title = el("h1", {});
  const lead = el("p", {});
  const tabs = ["", ...STATES].map(tab);
  const least = answers("compare", again);
  const isNew = watcher();
  return {
    root: el("div", { class: "head" }, el("div", {}, title, lead),
      el("div", { class: "tabs", role: "group", "aria-label": "Verdicts" }, ...tabs.map(({ root }) => root))),
    /** @param {Shown} shown @param {boolean} none whether the search finds nothing */
    draw(shown, none) {
      const { view, searched, counts, known } = shown;
      tell(title, none ? `No run matches “${view.q}”` : headline(shown));
      // The comparison is of all runs, a search leaves some.
      const label = known === searched.length && view.q === "" ? setting(shown) : null;
      const report = label ? least({ by: label, split: view.split, where: whereOf(view, "") }, shown.rested()).body : null;
      const range = report?.least?.values;
      const compared = (report?.groups ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ { runs }) => sum + runs.length, 0);
      const scored = (/** @type {Run} */ run) => run.splits.some(({ split, points }) => split === view.split && points > 0);
      const labelled = range && label ? searched.filter(({ run }) => label in run.labels && scored(run)).length : 0;
      const live = counts.leaking === 0 ? undefined : searched.find((one) => one.live && stateOf(one.row) === "leaking");
      if (!isNew(none, counts, view.verdict, searched.length, live?.run.name, live?.row?.verdict, label, range, compared, labelled, view.split)) return;
      for (const one of tabs) one.draw(one.state ? counts[one.state] : searched.length, view.verdict);
      if (none) {
        const clear = el("button", { class: "btn small-btn", onclick: () => change({ q: "" }) }, "Clear the search");
        lead.replaceChildren(`The search leaves out ${shown.runs.length === 1 ? "the only run" : `all ${plural(shown.runs.length, "run")}`}. `, clear);
        return;
      }
      const said = live?.row?.verdict;
      lead.replaceChildren(...(live ? [el("a", { href: address({ page: "run", run: live.run.name }) }, titleOf(live.run.name)),
        ` is training and has leaked since ${momentText(said?.since)}${said?.stop_advised_by ? "; stopping is advised" : ""}. `] : []),
      ...(range?.length && label ? [
        compared < labelled ? `Among ${compared} runs with the same concepts and task, leakage is least where ` : "Leakage is least where ",
        el("a", { href: address({ page: "compare", by: "label", label }) },
          `${labelName(label)} is ${leastText(report.least)}`), "."] : []));
    },
  };
}

/** How many of the runs leak. @param {Shown} shown */
function headline({ searched, counts, known }) {
  const { leaking, possibly_leaking: possible, sound, nothing_found: nothing, too_early: early } = counts;
  const all = searched.length;
  if (all === 0) return "No run is listed";
  if (known === 0 && all > 0) return "Loading runs …";
  if (leaking > 0) return `${count(leaking)} of ${plural(all, "run")} ${leaking === 1 ? "leaks" : "leak"}`;
  if (possible > 0) return `${count(possible)} of ${plural(all, "run")} possibly ${possible === 1 ? "leaks" : "leak"}`;
  if (sound === 0 && nothing === 0) return `${plural(all, "run")}, no verdict yet`;
  const clean = sound + nothing;
  const rest = all - clean;
  const unjudged = `${count(rest)} cannot be judged${early > 0 || known < all ? " yet" : ""}`;
  if (rest > 0) return `${count(clean)} of ${plural(all, "run")} ${clean > 1 ? "are" : "is"} ${nothing ? "without a finding" : "sound"}; ${unjudged}`;
  if (sound < all) return `No leakage found in ${plural(all, "run")}`;
  return all === 1 ? "The run is sound" : `All ${count(all)} runs are sound`;
}

/**
 * The controls of the list: search, groups, split and hidden runs.
 * @param {HTMLElement} columns the menu of columns @param {HTMLElement} menu saves the table
 */
function searchBar(columns, menu) {
  const search = el("input", { type: "search", id: "search", placeholder: "Search, or lambda<1 leakage>0.2", "aria-label": "Search runs and labels",
    oninput: () => change({ q: search.value }) });
  const project = projectPicker();
  const group = el("select", { "aria-label": "Group by", onchange: () => change({ group: group.value }) });
  const split = el("select", { "aria-label": "Data", onchange: () => change({ split: split.value }) });
  const hint = el("p", { class: "small hint", role: "status", hidden: true });
  const hidden = el("button", { class: "btn quiet desk", onclick: () => change({ all: !current().all }) });
  const drawn = el("span", { class: "dim small desk end" });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || current().page !== "runs") return;
    if (/^(input|select|textarea)$/i.test(document.activeElement?.tagName ?? "")) return;
    event.preventDefault();
    search.focus();
  });
  return {
    root: el("div", { class: "bar" }, el("label", { class: "field" }, icon("find"), search, el("kbd", { class: "desk" }, "/")),
      project.root, el("label", { class: "pick" }, "Group by ", group), el("label", { class: "pick" }, "Data ", split), columns, menu, hidden, drawn, hint),
    /** @param {Shown} shown @param {boolean} none whether the search finds nothing */
    draw(shown, none) {
      const { view, labels, splits } = shown;
      project.draw(shown);
      options(group, [["", "nothing"], ...labels.map(({ name }) => [name, labelText(name)])], view.group);
      options(split, (splits.includes(view.split) ? splits : [view.split, ...splits]).map((one) => [one, one]), view.split);
      if (search !== document.activeElement && search.value !== view.q) search.value = view.q;
      const advice = hintOf(view.q, labels.map((one) => one.name), !none);
      tell(hint, advice);
      hint.hidden = advice === "";
      hidden.hidden = shown.hidden === 0;
      tell(hidden, view.all ? "Leave out hidden runs" : `${shown.hidden} hidden`);
      tell(drawn, shown.loaded < shown.total ? `${count(shown.loaded)} of ${count(shown.total)} runs loaded …`
        : `${count(shown.lines.length)} of ${count(shown.listed.length)} in the charts`);
    },
  };
}

/** The project whose runs are shown, where there are several. */
export function projectPicker() {
  const select = el("select", { "aria-label": "Project", onchange: () => change({ project: select.value, show: null }) });
  const root = el("label", { class: "pick" }, "Project ", select);
  return {
    root,
    /** @param {Shown} shown */
    draw({ view, projects }) {
      const known = !view.project || projects.includes(view.project) ? projects : [view.project, ...projects];
      root.hidden = known.length < 2;
      options(select, [["", "all"], ...known.map((one) => [one, one])], view.project);
    },
  };
}

/** The conditions on labels that a comparison is asked for, as the API takes them. @param {View} view @param {string} where */
export function whereOf(view, where) {
  const conditions = [...where.split(/\s+/).filter(Boolean), ...(view.project ? [`${PROJECT}=${view.project}`] : [])];
  return conditions.join(",") || null;
}

/** The curves of the selected runs, and their key. @param {() => void} again draws the page again */
function selectedRuns(again) {
  const controls = el("div", { class: "end" });
  const key = el("div", { class: "key" });
  const grid = el("div", { class: "charts" });
  const below = el("div", { class: "charts published" });
  const picker = scorePicker(again);
  const drawControls = curveControls(controls);
  const means = el("button", { class: "btn small-btn", onclick: () => change({ means: !current().means }) });
  controls.prepend(means, picker.root);
  const drawCurves = curves(grid, "overview");
  const drawBelow = curves(below, "overview");
  const isNewKey = watcher();

  /** @param {Shown} shown */
  function drawKey({ lines, groups }) {
    if (!isNewKey(groups?.map(({ name, slot, members }) => [name, slot, members.length]), lines.map(({ run, slot }) => [run.name, titleOf(run.name), slot]))) {
      return;
    }
    if (groups) {
      key.replaceChildren(...groups.map(({ name, slot, members }) =>
        el("span", { class: `c${hueOf(slot)}` }, icon(MARKS[lookOf(slot)], "mk"), `${name}, ${plural(members.length, "run")}`)),
      el("span", { class: "dim" }, "Means with 95 % intervals over runs."));
      return;
    }
    key.replaceChildren(...(lines.length > KEYED ? [el("span", { class: "dim" },
      `${lines.length} runs: point at a curve to read names. Bands are left out above 8 runs.`)]
      : lines.map(({ run, slot }) => el("span", { class: `c${hueOf(slot)}` }, icon(MARKS[lookOf(slot)], "mk"),
        el("a", { href: address({ page: "run", run: run.name }) }, titleOf(run.name))))));
  }

  return {
    root: el("aside", { class: "panel aside", "aria-label": "Curves of the selected runs" }, el("header", {}, el("h2", {}, "Selected runs"), controls, key),
      grid,
      el("header", { class: "sub" }, el("h2", {}, "As published"),
        el("p", {}, "For comparison with papers and for rules that stop when ICL rises; the verdict rests on the curves above.")), below),
    /** @param {Shown} shown */
    draw(shown) {
      drawKey(shown);
      drawControls();
      means.hidden = shown.view.group === "";
      tell(means, `Means by ${labelName(shown.view.group)}`);
      means.setAttribute("aria-pressed", String(shown.groups !== null));
      picker.draw(shown);
      const { scores } = shown;
      drawCurves(shown, scores.filter((one) => !PUBLISHED.includes(one)));
      drawBelow(shown, scores.filter((one) => PUBLISHED.includes(one)));
    },
  };
}

/** A verdict with how many runs have it. @param {string} state of verdict, or "" for all */
function tab(state) {
  const known = /** @type {VerdictState} */ (state);
  const number = el("b", {});
  const root = el("button", { title: state === "nothing_found" ? "No leakage was found, and too little is known to call the run sound" : null,
    onclick: () => change({ verdict: state === current().verdict ? "" : state }) },
    state && icon(LOOKS[known], `i look-${LOOKS[known]}`), `${state ? SHORT[known] : "All"} `, number);
  return {
    state, root,
    /** @param {number} n @param {string} chosen */
    draw(n, chosen) {
      number.textContent = count(n);
      // Rare.
      root.hidden = state === "nothing_found" && n === 0 && chosen !== state;
      root.setAttribute("aria-pressed", String(state === chosen));
    },
  };
}

/** @param {any} select @param {(string[])[]} entries @param {string} value */
export function options(select, entries, value) {
  const now = JSON.stringify(entries);
  if (select.dataset.entries !== now) {
    select.dataset.entries = now;
    select.replaceChildren(...entries.map(([one, text]) => el("option", { value: one }, text)));
  }
  if (select.value !== value) select.value = value;
}

/** The label that tells models apart, whose groups can be compared. @param {Shown} shown */
export function setting(shown) {
  const found = shown.labels.find(({ name, values }) => values.length > 1 && values.length < shown.runs.length && !NO_SETTING.includes(name));
  return found && shown.runs.length <= 300 ? found.name : shown.labels.find(({ name, values }) => name === "lambda" && values.length > 1)?.name ?? null;
}

/** The menu of scores that have a chart. @param {() => void} again draws the page again */
function scorePicker(again) {
  const box = el("div", { class: "menu-box wide" });
  const root = closing(el("details", { class: "menu" }, el("summary", { class: "btn quiet small-btn" }, "Scores"), box));
  root.addEventListener("toggle", again);
  const isNew = watcher();
  return {
    root,
    /** @param {Shown} shown */
    draw(shown) {
      const on = shown.scores;
      if (!root.open || !isNew(on, store.runs?.length, root.open)) return;
      box.replaceChildren(el("button", { class: "entry", onclick: () => change({ scores: [] }) }, "The usual ones"),
        ...allScores().map((id) => {
          const check = el("input", { type: "checkbox", value: id,
            onchange: () => change({ scores: check.checked ? [...on, id] : on.filter((one) => one !== id) }) });
          check.checked = on.includes(id);
          return el("label", { class: "entry" }, check, nameOf(id));
        }));
    },
  };
}
