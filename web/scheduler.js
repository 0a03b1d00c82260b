// Work that need not be in the next frame: done after it in short turns, between which the browser takes inputs and paints. So an
// input is answered at once, however many curves are to be drawn because of it.

/** @typedef {() => Iterator<void>|void} Work a generator may be left at each yield, and dropped there */

/**
 * Milliseconds from when the page has made a frame until it is on the screen. Other threads see to it, which on few cores
 * would wait for turns.
 */
const SCREEN_MS = 24;
/** Milliseconds of a turn: with the browser's own work after it, it fits a frame. */
const TURN_MS = 6;
/** @type {Map<any, Work>} in the order in which it was asked for */
const waiting = new Map();
/** @type {{key: any, rest: Iterator<void>}|null} */
let begun = null;
let due = false;

/**
 * Does something after the next frame. Earlier work of the same key is dropped, also where it has begun.
 * @param {any} key @param {Work} work
 */
export function afterFrame(key, work) {
  if (begun?.key === key) begun = null;
  waiting.delete(key);
  waiting.set(key, work);
  awaitFrame();
}

/** @type {Set<() => void>} */
const brief = new Set();

/** Does something brief right after the next frame has been made, so that a reload does not come before it. @param {() => void} work */
export function onceMade(work) {
  if (brief.has(work)) return;
  brief.add(work);
  requestAnimationFrame(() => setTimeout(() => {
    brief.delete(work);
    work();
  }));
}

/** Waits for a frame before the next turn, as when something is to be answered in it. */
export function awaitFrame() {
  if (due || (begun === null && waiting.size === 0)) return;
  due = true;
  // The first timer fires when the frame has been made, however long that takes.
  requestAnimationFrame(() => setTimeout(() => setTimeout(turn, SCREEN_MS)));
}

function turn() {
  due = false;
  const end = performance.now() + TURN_MS;
  try {
    while (performance.now() < end && step());
  } finally {
    // One that fails does not keep the others from their turns.
    if (begun !== null || waiting.size > 0) next();
  }
}

/** Does at once all that waits, as when the page is printed: nothing comes after that. */
export function finishAll() {
  while (step());
}

/** The next turn, unless a frame comes first. */
function next() {
  setTimeout(() => { if (!due) turn(); });
}

/** Continues the work that has begun, or begins the next. Returns whether there was any. */
function step() {
  if (begun !== null) {
    const { rest } = begun;
    const now = begun;
    let done = true;
    try {
      done = rest.next().done ?? false;
    } finally {
      if (done && begun === now) begun = null;
    }
    return true;
  }
  const [found] = waiting;
  if (found === undefined) return false;
  const [key, work] = found;
  waiting.delete(key);
  const rest = work();
  if (rest) begun = { key, rest };
  return true;
}

/** Returns a function that tells whether its arguments differ from those before: a panel that has not changed is not drawn again. */
export function watcher() {
  let before = "";
  return (/** @type {any[]} */ ...of) => {
    const now = JSON.stringify(of);
    const changed = now !== before;
    before = now;
    return changed;
  };
}
