// Everything the page knows of the sidecar: fetched once, then kept up to date by its events.
import { ApiError, changeRun, follow, get, tryNow } from "./api.js";
import { Silence, ahead } from "./marks.js";
import { nameRuns } from "./prefs.js";
import { PAGE, RowLoader } from "./rows.js";
import { HeldCurves } from "./held_curves.js";
import { nameScores } from "../labels.js";

/**
 * @import { Alert, Limit, Row, Run, Status } from "./api.js"
 * @typedef {{name: string, score?: string, split: string, above?: number, below?: number, rise?: number, scope?: string,
 *   advise_stop?: boolean, severity?: string, action?: string}} Rule
 * @typedef {{state: "loading"|"live"|"down", since: number}} Connection since: in seconds since 1970-01-01 UTC
 */

const STATUS_MS = 5000;
/** Answers to that in a row that may know of events where the stream stands still. */
const LATE = 3;
/** How long the page waits for the stream, which a proxy may hold back. */
const ALONE_MS = 1000;
/** Interval at which the states of unfinished runs are fetched: no event tells that a job fell silent or disconnected. */
const STATES_MS = 15_000;
/** Shortest time between two redraws, or two fetches of alerts. */
const SOON_MS = 250;

export const store = {
  /** @type {Run[]|null} newest first; null until they have come */
  runs: null,
  /** Runs that the sidecar has: those beyond the ones at hand are on their way. */
  total: 0,
  /** @type {Map<string, Row>} of the split on the page */
  rows: new Map(),
  rowsOf: "",
  /** How often rows have come. */
  rowsAt: 0,
  /** @type {Limit[]} */
  limits: [],
  leastRows: 500,
  /** @type {Rule[]} */
  rules: [],
  /** @type {Alert[]} */
  standings: [],
  /** @type {Alert[]} oldest first */
  changes: [],
  /** @type {Status|null} */
  status: null,
  /** @type {Connection} */
  connection: { state: "loading", since: Date.now() / 1000 },
  /** @type {string|null} why the page has nothing to show */
  fault: null,
  /** Which snapshot of the sidecar this is: another after each connection that was lost. */
  snapshot: 0,
};

/** @type {() => void} */
let changed = () => {};
// While many runs are fetched, not each is drawn as it comes.
const curves = new HeldCurves((more) => (more ? changedSoon() : changed()));
let split = "val";
/** Alerts, and runs with other changes, that came while a snapshot was in flight, which may be older. */
const during = { loads: 0, alerts: /** @type {[Alert, string][]} */ ([]), runs: /** @type {Set<string>} */ (new Set()) };
/** The marks of the newest message of the stream, and of the alerts' newest answer. */
const marks = { stream: "", alerts: "" };
const silence = new Silence(LATE);
/** The run on the page. */
let watched = "";
let soon = 0;
/** Draws after more has come. */
function changedSoon() {
  if (soon === 0) soon = setTimeout(() => { soon = 0; changed(); }, SOON_MS);
}

const rows = new RowLoader({
  take(of, found) {
    const first = store.rowsOf !== of;
    if (first) store.rows = new Map();
    store.rowsOf = of;
    for (const row of found) store.rows.set(row.name, row);
    store.rowsAt += 1;
    if (first || found.length < PAGE) changed();
    else changedSoon();
  },
  fault(error) {
    fault(error);
    changed();
  },
});
/** Runs in sight without a row: theirs is asked for before others. @param {string[]} runs */
export const wantRows = (runs) => rows.wanted(runs);

/** @param {() => void} listener */
export function begin(listener) {
  changed = listener;
  follow({
    // Every event since then comes, so the snapshot is taken afterwards.
    begin() {
      store.connection = { state: "live", since: now() };
      if (store.runs === null && during.loads === 0) load();
      else renew();
    },
    heard(mark) { marks.stream = mark; },
    down() {
      if (store.connection.state !== "down") store.connection = { state: "down", since: now() };
      changed();
    },
    point(point) {
      if (during.loads > 0) during.runs.add(point.run);
      curves.take(point);
      const run = store.runs?.find(({ name }) => name === point.run);
      const of = run?.splits.find((one) => one.split === point.split);
      if (of && run?.state !== "stalled") {
        of.points += of.last_step === point.step ? 0 : 1;
        of.last_step = Math.max(of.last_step ?? 0, point.step);
      } else {
        loadRun(point.run);
      }
      if (point.split === split) rows.gather(point.run);
      changed();
    },
    run(name) {
      loadRun(name);
      // A sidecar that takes up a run of an earlier process has its alerts again, which are no changes.
      alertsSoon();
    },
    alert(alert, mark) {
      if (during.loads > 0) during.alerts.push([alert, mark]);
      takeAlert(alert, mark);
      rows.gather(alert.run);
      changed();
    },
    lost: renew,
  });
  setTimeout(() => { if (store.runs === null && during.loads === 0) load(); }, ALONE_MS);
  setInterval(loadStatus, STATUS_MS);
  setInterval(loadStates, STATES_MS);
}

const now = () => Date.now() / 1000;

/** Fetches everything again: events were missed, and points among them come with the curves. */
function renew() {
  store.snapshot += 1;
  curves.outdate();
  load();
}

/** Takes a change of an alert, once, where it is not in the newest answer. @param {Alert} alert @param {string} mark */
function takeAlert(alert, mark) {
  if (ahead(mark, marks.alerts) <= 0) return;
  const same = (/** @type {Alert} */ one) => one.rule === alert.rule && one.run === alert.run && one.split === alert.split;
  store.standings = [...store.standings.filter((one) => !same(one)), alert];
  if (!store.changes.some((one) => same(one) && one.step === alert.step && one.state === alert.state)) store.changes.push(alert);
}

/** Fetches all but curves. */
export async function load() {
  store.fault = null;
  rows.all();
  await snapshot(async () => {
    const [catalogue, runs] = await Promise.all([get("catalogue"), get("runs", { limit: PAGE }), loadAlerts()]);
    nameScores(catalogue.scores, catalogue.of_task);
    Object.assign(store, { limits: catalogue.limits ?? [], leastRows: catalogue.rows ?? 500 });
    loadStatus();
    await loadRuns(runs);
  });
}

/** Takes a snapshot, or a part of one, and then what changed meanwhile. @param {() => Promise<void>} take */
async function snapshot(take) {
  during.loads += 1;
  try {
    await take();
  } catch (error) {
    fault(error);
  }
  during.loads -= 1;
  if (during.loads === 0) {
    during.alerts = [];
    for (const name of during.runs) loadRun(name);
    during.runs.clear();
  }
  changed();
}

async function loadAlerts() {
  let mark = "";
  const alerts = await get("alerts", {}, (of) => { mark = of; });
  if (ahead(marks.alerts, mark) > 0) return;
  marks.alerts = mark;
  Object.assign(store, { rules: alerts.rules, standings: alerts.standings, changes: alerts.changes });
  for (const [alert, at] of during.alerts) takeAlert(alert, at);
}

let alertsDue = 0;
/** Fetches the alerts, once for all that asks for them within a moment. */
function alertsSoon() {
  alertsDue ||= setTimeout(() => { alertsDue = 0; snapshot(loadAlerts); }, SOON_MS);
}

/** @param {unknown} error */
function fault(error) {
  // The connection line says that nothing answers; the next connection fetches again.
  if (error instanceof ApiError && error.code !== 0) store.fault = error.message;
  else if (!(error instanceof ApiError)) throw error;
}

/** How often a list of runs was begun: a newer one takes the place of those before. */
let lists = 0;

/** Takes a page of runs, and asks for those after it. @param {{runs: Run[], total: number, next: string|null}} page */
async function loadRuns(page) {
  const list = lists += 1;
  const before = store.runs;
  const found = [...page.runs];
  try {
    for (let [next, at] = [page.next, 0]; ; at += 1) {
      store.total = page.total;
      nameRuns(page.runs);
      rows.page(at, page.runs.map(({ name }) => name), next);
      // The list at hand stays until the new one is whole.
      if (before === null || next === null) store.runs = found.slice();
      if (at === 0 || next === null) changed();
      else changedSoon();
      if (next === null) return;
      page = await get("runs", { limit: PAGE, after: next });
      if (list !== lists) return;
      found.push(...page.runs);
      next = page.next;
    }
  } catch (error) {
    fault(error);
    changed();
  }
}

/** Asks for a run that has started, ended, changed or gone. @param {string} name */
async function loadRun(name) {
  if (during.loads > 0) during.runs.add(name);
  if (store.runs === null) return;
  try {
    keepRun(await get("run", { run: name }));
    rows.gather(name);
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) dropRun(name);
    else fault(error);
  }
  changed();
}

/** @param {string} run */
const isHeld = (run) => store.runs?.some(({ name }) => name === run);

/** Returns whether it differs from the one at hand. @param {Run} run */
function keepRun(run) {
  if (JSON.stringify(store.runs?.find(({ name }) => name === run.name)) === JSON.stringify(run)) return false;
  nameRuns([run]);
  const others = (store.runs ?? []).filter(({ name }) => name !== run.name);
  if (others.length === store.runs?.length) store.total += 1;
  const at = others.findIndex(({ started }) => started <= run.started);
  store.runs = at < 0 ? [...others, run] : [...others.slice(0, at), run, ...others.slice(at)];
  return true;
}

/** @param {string} name */
function dropRun(name) {
  const left = (store.runs ?? []).filter((run) => run.name !== name);
  if (left.length !== store.runs?.length) store.total -= 1;
  store.runs = left;
  store.rows.delete(name);
  store.rowsAt += 1;
  store.standings = store.standings.filter(({ run }) => run !== name);
  store.changes = store.changes.filter(({ run }) => run !== name);
}

/** Gives a run another title or note, for everyone who reads it. @param {string} run @param {{title?: string, note?: string}} fields */
export async function remark(run, fields) {
  keepRun(await changeRun("PATCH", run, fields));
  changed();
}

/** Removes a run with its curves. @param {string} run */
export async function removeRun(run) {
  await changeRun("DELETE", run);
  dropRun(run);
  changed();
}

/** Asks for the sidecar's counts, and for those of the run on the page while they may change: no event tells of them. */
async function loadStatus() {
  try {
    store.status = await get("status", {}, (mark) => { if (silence.take(mark, marks.stream)) tryNow(); });
    const run = store.runs?.find(({ name }) => name === watched);
    if (run && (!run.finished || run.splits.some((one) => one.passes_unsettled))) keepRun(await get("run", { run: watched }));
    changed();
  } catch {
    // As above.
  }
}

/** Asks for the runs down to the oldest that goes on, in one answer. */
async function loadStates() {
  const oldest = (store.runs ?? []).findLastIndex(({ state }) => state === "training" || state === "stalled");
  if (oldest < 0) return;
  try {
    const { runs } = await get("runs", { limit: oldest + 1 });
    // Runs that have begun or gone are told by events.
    for (const run of runs) if (isHeld(run.name) && keepRun(run)) rows.gather(run.name);
    changed();
  } catch (error) {
    fault(error);
  }
}

/** The run on the page, or "". @param {string} run */
export const watchRun = (run) => { watched = run; };

/** The split whose rows are shown. @param {string} of */
export function showSplit(of) {
  if (of === split) return;
  split = of;
  store.rows = new Map();
  store.rowsAt += 1;
  rows.show(of);
}

/**
 * Returns the curves of a run, which are asked for where they are missing.
 * @param {string} run @param {string} of split @param {string[]} scores
 */
export const curvesOf = (run, of, scores) => curves.of(run, of, scores, store.connection.state === "down");

/** Asks again for the curves that failed. */
export function retryCurves() {
  curves.retry();
  changed();
}

/** The limit at which a score is evidence, for the diagnosis. @param {string} score */
export const limitOf = (score) => store.limits.find((limit) => limit.score === score);

/** The alerts of a run on a split that began to fire. @param {string} run @param {string} of @param {string} score */
export const firedOf = (run, of, score) =>
  store.changes.filter((one) => one.run === run && one.split === of && one.state === "firing" && (one.score === score || one.score === `${score}_excess`));
