// The choice of rows of a long list that are laid out: the visible ones and some around them; gaps stand in for the others. Pure.

/** Rows come and go in blocks, so that a small step changes nothing. */
const BLOCK = 8;

/**
 * The tops of rows, and the bottom of the last.
 * @param {number} count @param {(at: number) => number} heightOf
 */
export function topsOf(count, heightOf) {
  const tops = new Float64Array(count + 1);
  for (let at = 0; at < count; at += 1) tops[at + 1] = tops[at] + heightOf(at);
  return tops;
}

/** The row at a height; the first above all and the last below. @param {Float64Array} tops @param {number} y */
export function rowAt(tops, y) {
  let [low, high] = [0, Math.max(0, tops.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * The stretches of rows that are laid out, each from a row on to the one before another.
 * @param {Float64Array} tops @param {number} from @param {number} to heights between which rows are laid out
 * @param {number} held a row that is laid out wherever it is, with those beside it, such as one with the focus, from which Tab
 *   goes on; −1: none
 * @param {number} block rows that come and go together
 * @returns {[number, number][]}
 */
export function stretches(tops, from, to, held, block = BLOCK) {
  const count = tops.length - 1;
  if (count === 0) return [];
  const first = Math.floor(rowAt(tops, from) / block) * block;
  const end = Math.min(count, Math.ceil((rowAt(tops, to) + 1) / block) * block);
  if (held < 0 || held >= count) return [[first, end]];
  const [low, high] = [Math.max(0, held - 1), Math.min(count, held + 2)];
  if (high < first) return [[low, high], [first, end]];
  if (low > end) return [[first, end], [low, high]];
  return [[Math.min(low, first), Math.max(high, end)]];
}
