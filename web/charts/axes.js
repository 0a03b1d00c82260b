// Scales and ticks. Pure.

/** @typedef {{from: number, to: number, log: boolean, place: (value: number) => number, value: (place: number) => number}} Scale place: 0 to 1 */

/** @param {number} from @param {number} to @param {boolean} [log] @returns {Scale} */
export function scale(from, to, log = false) {
  if (log && from > 0) {
    const [low, high] = [Math.log(from), Math.log(to)];
    const width = high - low || 1;
    return { from, to, log, place: (value) => (Math.log(value) - low) / width, value: (place) => Math.exp(low + place * width) };
  }
  const width = to - from || 1;
  return { from, to, log: false, place: (value) => (value - from) / width, value: (place) => from + place * width };
}

/** The step of round numbers that gives about so many. @param {number} width @param {number} most */
function step(width, most) {
  const rough = width / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * (1 - 1e-9)) ?? 10 * power;
}

/** Round numbers in the range, at most about so many. @param {Scale} of @param {number} most @param {boolean} [whole] whole numbers only */
export function ticks({ from, to, log }, most, whole = false) {
  if (!(to > from)) return [from];
  if (log) {
    const found = [];
    const decades = Math.log10(to / from);
    const marks = decades <= most / 3 ? [1, 2, 5] : [1];
    const skip = Math.max(1, Math.ceil(decades / most));
    for (let power = Math.floor(Math.log10(from)); 10 ** power <= to * (1 + 1e-9); power += skip) {
      for (const mark of marks) {
        const value = Number((mark * 10 ** power).toPrecision(1));
        if (value >= from * (1 - 1e-9) && value <= to * (1 + 1e-9)) found.push(value);
      }
    }
    if (found.length >= 2) return found;
  }
  const by = whole ? Math.max(1, step(to - from, most)) : step(to - from, most);
  const found = [];
  for (let at = Math.ceil(from / by - 1e-9); at * by <= to + by * 1e-9; at += 1) found.push(Number((at * by).toPrecision(12)));
  return found;
}

/** The range extended to round numbers. @param {number} from @param {number} to @param {number} most @returns {[number, number]} */
export function rounded(from, to, most) {
  if (!(to > from)) return [from - 0.5, from + 0.5];
  const by = step(to - from, most);
  return [Number((Math.floor(from / by + 1e-9) * by).toPrecision(12)), Number((Math.ceil(to / by - 1e-9) * by).toPrecision(12))];
}

/** Texts with as many digits as tell neighbours apart. @param {number[]} values @param {boolean} log */
export function tickTexts(values, log) {
  const gap = values.length > 1 && !log ? Math.min(...values.slice(1).map((value, i) => Math.abs(value - values[i]))) : 0;
  const digits = gap > 0 ? Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)) : 0;
  return values.map((value) => {
    const text = log || gap === 0 ? String(Number(value.toPrecision(3)))
      : Math.abs(value) >= 1e4 ? value.toLocaleString("en").replaceAll(",", "\u202f") : value.toFixed(Math.min(8, digits));
    return text.replace("-", "−");
  });
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];

/** Ticks of a length of time in minutes. @param {Scale} of @param {number} most */
export function timeTicks({ from, to }, most) {
  const rough = ((to - from) * 60) / Math.max(1, most);
  const by = (SECONDS.find((one) => one >= rough) ?? SECONDS[SECONDS.length - 1]) / 60;
  const found = [];
  for (let at = Math.ceil(from / by - 1e-9); at * by <= to + by * 1e-9; at += 1) found.push(at * by);
  return found;
}

/** @param {number} minutes */
export function minuteText(minutes) {
  const seconds = Math.round(minutes * 60);
  if (seconds % 3600 === 0 && seconds) return `${seconds / 3600} h`;
  if (seconds % 60 === 0) return `${seconds / 60} min`;
  return seconds > 3600 ? `${(seconds / 3600).toFixed(1)} h` : `${seconds} s`;
}
