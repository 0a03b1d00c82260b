// Colours. Page colours live in style.css; here are those of data, in a set for each scheme.

const darkScheme = matchMedia("(prefers-color-scheme: dark)");

// Ten hues of equal lightness and contrast (OKLCH), then the same hues at a second lightness.
const LIGHT = [
  "#0f74c5", "#b45000", "#05893e", "#a8488d", "#008a8d", "#8059bb", "#b94548", "#877100", "#5a66c7", "#5e7f00",
  "#00447a", "#6e2b00", "#00521f", "#672654", "#005354", "#4c3173", "#722426", "#514200", "#333a7c", "#354b00",
];
const DARK = [
  "#6db6ff", "#f39762", "#6fc884", "#e88fcb", "#00cacb", "#be9df7", "#f98e8b", "#c4b345", "#99aaff", "#9ebf5f",
  "#3284d0", "#c06325", "#319751", "#b55b9a", "#00989a", "#8e6ac7", "#c65959", "#948100", "#6977d3", "#6d8e1c",
];
const SYMBOLS = ["circle", "square", "triangle-up", "star-triangle-down", "pentagon"];

/** Heat maps: zero is the page's neutral, leakage is warm, its opposite cold. */
const WARM = { light: ["#f6f7f9", "#fbd3a4", "#f08a33", "#bd4a04", "#6d2203"], dark: ["#1b2129", "#58300f", "#a9540f", "#ef8b35", "#ffdcae"] };
const COLD = { light: ["#0c2f5e", "#1f64a8", "#5ea3dc", "#b7d7f1"], dark: ["#bfe0ff", "#58a6e8", "#24649f", "#173a5c"] };

export const isDark = () => darkScheme.matches;

/** @param {() => void} listener called when the scheme changes */
export const onSchemeChange = (listener) => darkScheme.addEventListener("change", listener);

/** @type {Map<string, number>} the place in the palette of each run or group, kept for when it is shown again */
const places = new Map();
/** @type {Map<string, {group: string, nth: number}>} the group of each shown run, and its place in that; without groups each is its own */
const members = new Map();

/**
 * Gives every shown run or group a slot of its own, in order. A slot is kept while its run is shown.
 * @param {string[]} shown runs
 * @param {(run: string) => string} [groupOf] runs of one group share a colour and differ by marker
 */
export function allotColors(shown, groupOf = (run) => run) {
  members.clear();
  /** @type {Map<string, number>} */
  const sizes = new Map();
  for (const run of shown) {
    const group = groupOf(run);
    members.set(run, { group, nth: sizes.get(group) ?? 0 });
    sizes.set(group, (sizes.get(group) ?? 0) + 1);
  }
  const groups = [...sizes.keys()];
  /** @type {Map<number, string>} */
  const taken = new Map();
  for (const group of groups) {
    const place = places.get(group);
    if (place !== undefined && !taken.has(place)) taken.set(place, group);
  }
  for (const group of groups) {
    if (taken.get(places.get(group) ?? -1) === group) continue;
    let free = 0;
    while (taken.has(free)) free += 1;
    taken.set(free, group);
    places.set(group, free);
  }
}

const placeOf = (/** @type {string} */ run) => places.get(members.get(run)?.group ?? run) ?? 0;

/** @param {string} run one that is shown */
export const runColor = (run) => (isDark() ? DARK : LIGHT)[placeOf(run) % LIGHT.length];

/** Of what is no run. @param {number} place */
export const seriesColor = (place) => (isDark() ? DARK : LIGHT)[place % LIGHT.length];

/** Past the last colour, and within a group, runs differ by marker. @param {string} run */
export const runSymbol = (run) => SYMBOLS[(Math.floor(placeOf(run) / LIGHT.length) + (members.get(run)?.nth ?? 0)) % SYMBOLS.length];

/** @param {string} hex #rrggbb @param {number} alpha in [0, 1] */
export function translucent(hex, alpha) {
  const channel = (/** @type {number} */ at) => parseInt(hex.slice(at, at + 2), 16);
  return `rgba(${channel(1)},${channel(3)},${channel(5)},${alpha})`;
}

/** @param {string} name of a custom property in style.css */
export const pageColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A plotly colour scale anchored at 0.
 * @param {boolean} diverging from −limit to limit, else from 0 to limit
 * @returns {[number, string][]}
 */
export function heatScale(diverging) {
  const scheme = isDark() ? "dark" : "light";
  const colors = diverging ? [...COLD[scheme], ...WARM[scheme]] : WARM[scheme];
  return colors.map((color, i) => [i / (colors.length - 1), color]);
}
