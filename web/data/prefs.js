// The memory of this browser: scheme, pinned and hidden runs, the colour slots of runs. Titles are the sidecar's.
import { onceMade } from "../scheduler.js";

/** @import { Run } from "./api.js" */

/** @typedef {{theme: "light"|"dark"|null, pinned: string[], hidden: string[], slots: Record<string, number>, columns: string[]|null,
 *   notify: boolean}} Prefs */

const KEY = "conceptwatch";
/** Slots of more runs than this are forgotten, the oldest first. */
const SLOTS = 500;
/** @type {Prefs} */
const prefs = { theme: null, pinned: [], hidden: [], slots: {}, columns: null, notify: false };
/** @type {() => void} */
let changed = () => {};
/** A count of changes to runs, columns and titles. */
let version = 0;
export const prefsAt = () => version;

try {
  Object.assign(prefs, JSON.parse(localStorage.getItem(KEY) ?? "{}"));
} catch {
  // The browser keeps nothing, or the value is of another version.
}

function write() {
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs));
  } catch {
    // Private windows may refuse; the page works without.
  }
}

function keep() {
  version += 1;
  write();
  changed();
}

/** @param {() => void} listener */
export const onPrefs = (listener) => { changed = listener; };
export const isPinned = (/** @type {string} */ run) => prefs.pinned.includes(run);
export const isHidden = (/** @type {string} */ run) => prefs.hidden.includes(run);
export const columns = () => prefs.columns;
export const notifies = () => prefs.notify;
/** @param {boolean} on */
export function keepNotify(on) { prefs.notify = on; write(); }

/** @type {Map<string, string>} */
const titles = new Map();
/** A title or, without one, the name of a run. */
export const titleOf = (/** @type {string} */ run) => titles.get(run) ?? run;
/** Takes the titles of runs. @param {Run[]} runs */
export function nameRuns(runs) {
  for (const { name, title } of runs) {
    if ((title ?? "") !== (titles.get(name) ?? "")) version += 1;
    if (title) titles.set(name, title);
    else titles.delete(name);
  }
}

const toggled = (/** @type {string[]} */ list, /** @type {string} */ one) => (list.includes(one) ? list.filter((other) => other !== one) : [...list, one]);

/** @param {string} run */
export function togglePin(run) { prefs.pinned = toggled(prefs.pinned, run); keep(); }
/** @param {string} run */
export function toggleHidden(run) { prefs.hidden = toggled(prefs.hidden, run); keep(); }
/** @param {string[]|null} ids */
export function keepColumns(ids) { prefs.columns = ids; keep(); }

/** @param {string} run */
export const slotOf = (run) => prefs.slots[run];
/** @param {string} run @param {number} slot */
export function keepSlot(run, slot) {
  prefs.slots[run] = slot;
  const names = Object.keys(prefs.slots);
  for (const name of names.slice(0, Math.max(0, names.length - SLOTS))) delete prefs.slots[name];
  // Once for all runs that are shown together.
  onceMade(write);
}

export const isDark = () => (prefs.theme ? prefs.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

export function applyTheme() {
  if (prefs.theme) document.documentElement.dataset.theme = prefs.theme;
  else delete document.documentElement.dataset.theme;
}

export function switchTheme() {
  prefs.theme = isDark() ? "light" : "dark";
  applyTheme();
  write();
  changed();
}
