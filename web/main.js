// The page: which view is open, and when it is drawn.
import { compareView } from "./views/compare.js";
import { paintForPrint, redrawAll } from "./charts/linechart.js";
import { overview, overviewScores } from "./views/overview.js";
import { forgetColors } from "./palette.js";
import { applyTheme, onPrefs, switchTheme, titleOf } from "./data/prefs.js";
import { runScores, runView } from "./views/runview.js";
import { isLive, shownOf } from "./data/shown.js";
import { sidecarView } from "./views/sidecar.js";
import { address, current, onChange } from "./data/state.js";
import { absent, empty, pageNotes } from "./views/states.js";
import { begin, showSplit, store, watchRun } from "./data/store.js";
import { el, plural } from "./text.js";
import { hideTip, say } from "./tip.js";
import { keepScroll, reach } from "./scrolled.js";
import { awaitFrame } from "./scheduler.js";
import { SHORT, verdictOf } from "./labels.js";
import { notify, notifyButton } from "./notify.js";

/**
 * @import { Row } from "./data/api.js"
 * @import { Shown } from "./data/shown.js"
 * @import { View } from "./data/state.js"
 */

/** @typedef {{root: HTMLElement, draw: (shown: Shown) => void, close?: () => void}} Opened */

const content = /** @type {HTMLElement} */ (document.getElementById("content"));
const status = /** @type {HTMLElement} */ (document.getElementById("status"));
const drawNotes = pageNotes(/** @type {HTMLElement} */ (document.getElementById("notes")));
/** @type {Map<string, Opened>} views are made once, and run pages once for each run */
const views = new Map();
let open = "";
let frame = 0;

/** Draws soon, however much has changed until then. */
function schedule() {
  if (frame === 0) frame = requestAnimationFrame(draw);
  awaitFrame();
  // A page out of sight has no frames.
  if (document.hidden) tellVerdicts();
}

/** Links to the pages, which keep the choices for all pages. */
function drawNavigation() {
  for (const page of /** @type {const} */ (["runs", "compare"])) {
    const link = document.getElementById(`nav-${page}`);
    link?.setAttribute("href", address({ page }));
    if (current().page === page) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
}

function draw() {
  frame = 0;
  const view = current();
  drawNavigation();
  drawStatus();
  tellVerdicts();
  if (store.runs === null) {
    drawNotes([]);
    // The note above says what is wrong; nothing is loading.
    if (store.connection.state === "down" || store.fault !== null) content.replaceChildren();
    return;
  }
  content.removeAttribute("aria-busy");
  if (view.page === "sidecar") return show("sidecar", () => sidecarView());
  if (store.runs.length === 0) {
    drawNotes([]);
    return place("empty", open === "empty" ? null : empty());
  }
  showSplit(splitOf(view));
  watchRun(view.page === "run" ? view.run : "");
  if (view.page === "compare") return show("compare", () => compareView(schedule));
  if (view.page === "run") {
    if (!store.runs.some(({ name }) => name === view.run)) return place(`absent ${view.run}`, absent("run", view.run));
    return show(`run ${view.run}`, () => runView(schedule));
  }
  show("runs", () => overview(schedule));
}

/**
 * The split of the address, or the first that has evaluations where no run on the page has it. The address keeps its own,
 * which other runs may have.
 * @param {View} view
 */
function splitOf({ page, run, split }) {
  const splits = (store.runs ?? []).filter(({ name }) => page !== "run" || name === run).flatMap((one) => one.splits);
  const shown = splits.find((one) => one.split === split) ?? splits.find(({ points }) => points > 0) ?? splits[0];
  return shown?.split ?? split;
}

/** @param {string} name @param {() => Opened} make */
function show(name, make) {
  const opened = views.get(name) ?? make();
  if (!views.has(name) && name.startsWith("run ")) {
    for (const [other, one] of views) if (other.startsWith("run ")) { one.close?.(); views.delete(other); }
  }
  views.set(name, opened);
  const view = { ...current(), split: splitOf(current()) };
  const shown = shownOf(view, (valued) => (view.page === "run" ? runScores() : view.page === "runs" ? overviewScores(view, valued) : []));
  place(name, opened.root);
  opened.draw(shown);
  reach();
  drawNotes(shown.lines.flatMap(({ run, fault }) => (fault === null ? [] : [{ run: titleOf(run.name), fault }])));
}

/** @param {string} name @param {Node|null} root */
function place(name, root) {
  if (open === name || root === null) return;
  const moved = open !== "";
  open = name;
  content.replaceChildren(root);
  hideTip();
  if (moved) {
    reach();
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

/** @type {Map<string, {row: Row, state: string}>} the verdict of each run and split as last told */
const verdicts = new Map();
let statusText = "";

/** Shows in the corner how many runs train. */
function drawStatus() {
  const training = (store.runs ?? []).filter(isLive).length;
  const { state } = store.connection;
  const stores = !store.status?.unwritable;
  const known = !stores ? "not storing" : training ? `${training} training` : "idle";
  const text = state === "down" ? "offline" : state === "loading" ? "connecting" : known;
  if (text !== statusText) {
    statusText = text;
    const look = state === "live" && stores ? (training ? "live" : "live idle") : "live off";
    status.replaceChildren(el("span", { class: `${look} connection`, "data-state": state === "down" ? "reconnecting" : state }, text));
    status.setAttribute("aria-label", `Sidecar: ${text}. Its facts`);
  }
}

/** Puts the verdict on the shown run into the tab's title, and says a changed verdict to those who do not see it. */
function tellVerdicts() {
  const view = current();
  const row = view.page === "run" ? store.rows.get(view.run) : undefined;
  const title = { run: titleOf(view.run), compare: "Compare", sidecar: "Sidecar", runs: "" }[view.page];
  document.title = [row && SHORT[verdictOf(row, view.split).state], title, "conceptwatch"].filter(Boolean).join(" · ");
  const changed = [];
  for (const row of store.rows.values()) {
    const key = JSON.stringify([row.name, store.rowsOf]);
    const before = verdicts.get(key);
    if (before?.row === row) continue;
    const { state, text: now } = verdictOf(row, store.rowsOf);
    verdicts.set(key, { row, state });
    if (before === undefined || before.state === state) continue;
    changed.push(`${titleOf(row.name)}: ${now}`);
    notify(row.name, `${titleOf(row.name)}: ${now}`);
  }
  if (changed.length) say(changed.length > 3 ? `${plural(changed.length, "verdict")} changed` : changed.join(". "));
}

applyTheme();
document.getElementById("theme")?.addEventListener("click", switchTheme);
notifyButton(/** @type {HTMLElement} */ (document.getElementById("notify")));
const rescheme = () => {
  forgetColors();
  redrawAll();
  schedule();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rescheme);
onPrefs(rescheme);
addEventListener("beforeprint", paintForPrint);
addEventListener("afterprint", redrawAll);
keepScroll(content);
onChange(schedule);
begin(schedule);
