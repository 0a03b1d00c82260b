// The place to which the page was scrolled, kept with each entry of the browser's history: Back returns to it, also where the
// content comes later.

/** Where the page is to be scrolled to, until it is long enough. @type {number|null} */
let goal = history.state?.y ?? null;

/** Scrolls as near to the place as the content allows, as when a view has been opened. */
export function reach() {
  if (goal === null) return;
  scrollTo(0, goal);
  if (Math.abs(scrollY - goal) < 2) goal = null;
}

/** Keeps the place, and returns to it as the content grows. @param {HTMLElement} content */
export function keepScroll(content) {
  history.scrollRestoration = "manual";
  addEventListener("scrollend", () => { if (goal === null) history.replaceState({ y: scrollY }, ""); });
  // An entry that was left before has its place, a new one begins at the top.
  addEventListener("hashchange", () => { goal = history.state?.y ?? 0; });
  for (const kind of ["wheel", "pointerdown", "keydown"]) addEventListener(kind, () => { goal = null; }, { passive: true });
  new ResizeObserver(reach).observe(content);
}

