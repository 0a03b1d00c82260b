// The Pareto front of runs. Pure.

/**
 * Returns the points that no other beats: none has at least as much of x and less of y. In the order of x.
 * @template {{x: number, y: number}} T @param {T[]} all @returns {T[]}
 */
export function frontOf(all) {
  let least = Infinity;
  return all.toSorted((a, b) => b.x - a.x || a.y - b.y).filter(({ y }) => {
    if (y >= least) return false;
    least = y;
    return true;
  }).reverse();
}
