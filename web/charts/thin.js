// Curves with more points than pixels, and smooth ones. Pure.

/**
 * The places to draw: of all that fall on one pixel the lowest and the highest, so that no spike is lost, and the ends
 * of gaps.
 * @param {number[]} x in pixels, ascending; NaN: no place
 * @param {(number|null)[]} y
 * @returns {number[]}
 */
export function thin(x, y) {
  /** @type {number[]} */
  const kept = [];
  let at = 0;
  while (at < x.length) {
    if (y[at] === null || Number.isNaN(x[at])) {
      // One hole stands for all that follow it.
      if (kept.length === 0 || y[kept[kept.length - 1]] !== null) kept.push(at);
      at += 1;
      continue;
    }
    const pixel = Math.floor(x[at]);
    let [low, high, end] = [at, at, at];
    while (end + 1 < x.length && y[end + 1] !== null && Math.floor(x[end + 1]) === pixel) {
      end += 1;
      if (Number(y[end]) < Number(y[low])) low = end;
      if (Number(y[end]) > Number(y[high])) high = end;
    }
    if (low === high) kept.push(low);
    else kept.push(Math.min(low, high), Math.max(low, high));
    at = end + 1;
  }
  return kept;
}

/**
 * An exponential moving average, which starts at the first value and again after each gap.
 * @param {(number|null)[]} y @param {number} weight of the earlier values, 0 to 0.95
 */
export function smooth(y, weight) {
  let [mean, mass] = [0, 0];
  return y.map((value) => {
    if (value === null) {
      [mean, mass] = [0, 0];
      return null;
    }
    mean = weight * mean + (1 - weight) * value;
    mass = weight * mass + 1 - weight;
    return mean / mass;
  });
}
