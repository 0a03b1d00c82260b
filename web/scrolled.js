// The place to which the page was scrolled, kept with each entry of the browser's history: Back returns to it, also where the
// content comes later.

/** Milliseconds for the content to come. */
const PATIENCE_MS = 5000;
/** Where the page is to be scrolled to, until it is long enough. @type {number|null} */
let goal = history.state?.y ?? null;
let since = performance.now();

/** Scrolls as near to the place as the content allows, as when a view has been opened. */
export function reach() {
  if (performance.now() - since > PATIENCE_MS) goal = null;
  if (goal === null) return;
  scrollTo(0, goal);
  if (Math.abs(scrollY - goal) < 2) goal = null;
}

/** Keeps the place, and returns to it as the content grows. @param {HTMLElement} content */
export function keepScroll(content) {
  history.scrollRestoration = "manual";
  addEventListener("scrollend", () => { if (goal === null) history.replaceState({ y: scrollY }, ""); });
  // An entry that was left before has its place, a new one begins at the top. `hashchange` comes a while later, when the
  // end of an earlier scroll may already have been kept with the wrong entry.
  addEventListener("popstate", () => {
    goal = history.state?.y ?? 0;
    since = performance.now();
  });
  for (const kind of ["wheel", "pointerdown", "keydown"]) addEventListener(kind, () => { goal = null; }, { passive: true });
  new ResizeObserver(reach).observe(content);
}

