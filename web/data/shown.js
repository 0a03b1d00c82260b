// The one object that panels draw from.
import { isDark, isHidden, isPinned, prefsAt, titleOf } from "./prefs.js";
import { slots } from "../palette.js";
import { PROJECT, byValue, labelsOf, matcher } from "./query.js";
import { curvesOf, limitOf, store } from "./store.js";
import { STATES, labelName, stateOf, valuedIn } from "../labels.js";

/**
 * @import { Alert, Row, Run } from "./api.js"
 * @import { Series } from "./series.js"
 * @import { Along, View } from "./state.js"
 * @typedef {{run: Run, row: Row|undefined, live: boolean}} Listed
 * @typedef {{run: Run, slot: number, series: Series|null, fault: string|null}} Drawn
 * @typedef {object} Shown
 * @property {View} view
 * @property {Along} along the axis that the shown runs allow
 * @property {Run[]} runs those of the project at hand, newest first
 * @property {string[]} projects of all runs at hand
 * @property {number} loaded how many runs are at hand
 * @property {number} total all that the sidecar has
 * @property {Listed[]} listed those that the search and the verdict leave, without hidden ones; first those that need a person
 * @property {Listed[]} searched the same for all verdicts
 * @property {object} of the search behind these: another object where any of them may have changed
 * @property {Record<string, number>} counts of `searched` by verdict
 * @property {number} known of `searched`, how many have a row
 * @property {() => string} rested names and steps of `searched`
 * @property {number} hidden how many are hidden
 * @property {string[]} scores whose curves are drawn
 * @property {Map<string, Row>} rows
 * @property {Drawn[]} lines runs in the charts
 * @property {{name: string, slot: number, members: string[]}[]|null} groups of these, where the charts draw their means
 * @property {Map<string, number>} slot look of each run in the charts
 * @property {{name: string, values: string[]}[]} labels
 * @property {string[]} splits
 * @property {boolean} down whether the sidecar does not answer
 * @property {string} theme
 * @property {number} alertsVersion
 * @property {typeof limitOf} limitOf
 */

/** Runs in the charts unless others are chosen, and runs over whose curves means are taken. */
const DRAWN = 5;
const MEANT = 200;

/** @param {Run} run */
export const isLive = (run) => run.state === "training";

/** Whether a run has evaluations of a split. @param {Run} run @param {string} split */
export const isScored = (run, split) => run.splits.some((one) => one.split === split && one.last_step !== null);

/** States in the order of the list: first those that need a person. @type {Run["state"][]} */
const NEEDY = ["failed", "stalled", "lost", "training"];

/**
 * The runs in the order of the list: those that leak and alert, those that are in trouble, those in training, the others.
 * @param {Listed[]} listed @param {Alert[]} standings
 */
function byNeed(listed, standings) {
  const firing = new Set(standings.filter(({ state }) => state === "firing").map(({ run }) => run));
  const need = (/** @type {Listed} */ { run, row }) => {
    if (firing.has(run.name) && stateOf(row) === "leaking") return -1;
    const at = NEEDY.indexOf(run.state);
    return at < 0 ? NEEDY.length : at;
  };
  return listed.map((one) => ({ one, need: need(one) })).sort((a, b) => a.need - b.need).map(({ one }) => one);
}

/**
 * @typedef {{inputs: any[], runs: Run[], projects: string[], splits: string[], labels: {name: string, values: string[]}[]}} OfRuns
 * @typedef {{inputs: any[], searched: Listed[], listed: Listed[], counts: Record<string, number>, known: number, hidden: number, usual: string[],
 *   rested: () => string}} Found
 */
/** @type {OfRuns|null} */
let ofRuns = null;
/** @type {Found|null} */
let found = null;

const same = (/** @type {any[]} */ a, /** @type {any[]} */ b) => a.every((one, i) => one === b[i]);

/** Returns the facts about the runs of a project, the same until one comes, changes or goes. @param {string} project @returns {OfRuns} */
function runsOf(project) {
  const inputs = [store.runs, project];
  if (ofRuns && same(ofRuns.inputs, inputs)) return ofRuns;
  const all = store.runs ?? [];
  const projects = [...new Set(all.flatMap((run) => run.labels[PROJECT] ?? []))].sort(byValue);
  const runs = project ? all.filter((run) => run.labels[PROJECT] === project) : all;
  const splits = new Set();
  for (const run of runs) for (const { split } of run.splits) splits.add(split);
  ofRuns = { inputs, runs, projects, splits: [...splits].sort(), labels: labelsOf(runs) };
  return ofRuns;
}

/** Returns the runs that the search finds, the same until one of them or the search changes. @param {Run[]} runs @param {View} view @returns {Found} */
function find(runs, view) {
  const inputs = [runs, store.rowsAt, store.standings, view.q, view.verdict, view.all, prefsAt()];
  if (found && same(found.inputs, inputs)) return found;
  const matches = matcher(view.q);
  const searched = byNeed(runs.map((run) => ({ run, row: store.rows.get(run.name), live: isLive(run) }))
    .filter(({ run, row }) => (view.all || !isHidden(run.name)) && matches(run, titleOf(run.name), row)), store.standings);
  const listed = searched.filter(({ row }) => !view.verdict || stateOf(row) === view.verdict);
  /** @type {Record<string, number>} */
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  let known = 0;
  for (const { row } of searched) {
    if (!row) continue;
    known += 1;
    counts[stateOf(row)] += 1;
  }
  let rested = "";
  found = { inputs, searched, listed, counts, known, hidden: runs.filter((run) => isHidden(run.name)).length, usual: usual(listed.length ? listed : searched),
    rested: () => { rested ||= JSON.stringify(searched.map(({ row }) => [row?.name, row?.step])); return rested; } };
  return found;
}

/**
 * @param {View} view @param {(valued: Set<string>) => string[]} scoresOf whose curves are drawn, given which the chosen runs have
 * @returns {Shown}
 */
export function shownOf(view, scoresOf) {
  const { runs, projects, splits, labels } = runsOf(view.project);
  const of = find(runs, view);
  const { searched, listed, counts, known: withRow, hidden, rested } = of;
  const grouped = view.page === "runs" && view.means && view.group !== "";
  const usual = grouped ? listed.slice(0, MEANT).map(({ run }) => run.name) : of.usual;
  const names = view.page === "run" ? [view.run] : view.show ?? usual;
  const chosen = names.flatMap((name) => store.runs?.find((run) => run.name === name) ?? []);
  const scores = scoresOf(valuedIn(chosen.flatMap(({ name }) => store.rows.get(name) ?? [])));
  const groups = grouped ? groupsOf(chosen, view.group) : null;
  const slot = groups ? new Map(groups.flatMap((group) => group.members.map((name) => [name, group.slot]))) : slots(chosen.map((run) => run.name));
  const lines = chosen.map((run) => {
    const { series, fault } = curvesOf(run.name, view.split, scores);
    return { run, slot: slot.get(run.name) ?? 0, series, fault };
  });
  const known = lines.filter(({ series }) => series && series.step.length > 0);
  const epochs = known.length === 0 || known.some(({ series }) => series?.epoch.some((epoch) => epoch !== null));
  return {
    view, along: view.along === "epoch" && !epochs ? "step" : view.along, runs, projects, loaded: store.runs?.length ?? 0, total: store.total, listed, searched, of, counts, known: withRow, rested,
    hidden, scores, rows: store.rows, lines, groups, slot, labels, splits,
    down: store.connection.state === "down", theme: isDark() ? "dark" : "light", alertsVersion: store.changes.length, limitOf,
  };
}

/** The runs by their value of a label. @param {Run[]} runs @param {string} label */
function groupsOf(runs, label) {
  /** @type {Map<string, string[]>} */
  const by = new Map();
  for (const { name, labels } of runs) if (label in labels) by.set(labels[label], [...(by.get(labels[label]) ?? []), name]);
  const values = [...by.keys()].sort(byValue);
  const nameOf = (/** @type {string} */ value) => `${labelName(label)} = ${value}`;
  const slot = slots(values.map(nameOf));
  return values.map((value) => ({ name: nameOf(value), slot: slot.get(nameOf(value)) ?? 0, members: by.get(value) ?? [] }));
}

/** Pinned runs, then those in training, then the newest. @param {Listed[]} listed */
function usual(listed) {
  const rank = (/** @type {Listed} */ one) => (isPinned(one.run.name) ? 0 : one.live ? 1 : 2);
  const ranked = listed.filter(({ row }) => !row || row.evaluations > 0).map((one, i) => ({ one, i }));
  ranked.sort((a, b) => rank(a.one) - rank(b.one) || a.i - b.i);
  return ranked.slice(0, DRAWN).map(({ one }) => one.run.name);
}
