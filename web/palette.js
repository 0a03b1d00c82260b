// Colours of runs, and the page's colours for drawing on a canvas.
import { keepSlot, slotOf } from "./data/prefs.js";

/** Hues, and looks that tell runs apart without any. */
const HUES = 6;
export const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 2]];
export const MARKS = ["m1", "m4", "m3", "m5", "m2"];
const LOOKS = HUES * DASHES.length;

/** @param {string} name */
function hash(name) {
  let sum = 2166136261;
  for (let i = 0; i < name.length; i += 1) sum = Math.imul(sum ^ name.charCodeAt(i), 16777619);
  return sum >>> 0;
}

/**
 * The look of a run: kept once it was shown, so that it does not change as runs come and go. A new one gets the look
 * that its name suggests, or the next that no other shown run has.
 * @param {string[]} shown
 * @returns {Map<string, number>}
 */
export function slots(shown) {
  /** @type {Map<string, number>} */
  const found = new Map();
  const taken = new Set();
  for (const run of shown) {
    const slot = slotOf(run);
    if (slot === undefined) continue;
    found.set(run, slot);
    taken.add(slot);
  }
  for (const run of shown) {
    if (found.has(run)) continue;
    const first = hash(run) % HUES;
    // All hues are given out before one is used again with another mark.
    const slot = Array.from({ length: LOOKS }, (_, i) => (i < HUES ? (first + i) % HUES : i)).find((one) => !taken.has(one)) ?? hash(run) % LOOKS;
    found.set(run, slot);
    taken.add(slot);
    keepSlot(run, slot);
  }
  return found;
}

/** The number of a slot's hue, 1 to HUES. @param {number} slot */
export const hueOf = (slot) => (slot % HUES) + 1;
/** @param {number} slot */
export const lookOf = (slot) => (slot + Math.floor(slot / HUES)) % DASHES.length;

/** @type {Map<string, string>} */
const known = new Map();

/** Colours change with the scheme. */
export const forgetColors = () => known.clear();

/** A registered custom property of style.css, as a colour that a canvas takes. @param {string} name */
export function pageColor(name) {
  let color = known.get(name);
  if (color === undefined) {
    color = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    known.set(name, color);
  }
  return color;
}

/** Red, green and blue of a colour of the page. @param {string} name @returns {[number, number, number]} */
export function channels(name) {
  const color = pageColor(name);
  const hex = color.match(/^#([0-9a-f]{6})$/i)?.[1];
  if (hex) return [parseInt(hex.slice(0, 2), 16), parseInt(hex.slice(2, 4), 16), parseInt(hex.slice(4), 16)];
  const parts = color.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0];
  return [parts[0], parts[1], parts[2]];
}
