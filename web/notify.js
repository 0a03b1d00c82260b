// Notifications of the browser about changed verdicts, for those who ask for them. They come while the page is out of sight.
import { keepNotify, notifies } from "./data/prefs.js";
import { address } from "./data/state.js";

/** Browsers have notifications only on this machine or over TLS. */
const can = "Notification" in globalThis && isSecureContext;
const allowed = () => can && notifies() && Notification.permission === "granted";

/** Makes the button that turns them on and off. @param {HTMLElement} button */
export function notifyButton(button) {
  const draw = () => button.setAttribute("aria-pressed", String(allowed()));
  button.hidden = !can;
  button.addEventListener("click", async () => {
    const on = allowed();
    if (!on && await Notification.requestPermission() !== "granted") return;
    keepNotify(!on);
    draw();
  });
  draw();
}

/** Tells of a verdict. @param {string} run @param {string} text */
export function notify(run, text) {
  if (!allowed() || !document.hidden) return;
  try {
    // A newer verdict on the run takes the place of the one before.
    const shown = new Notification("conceptwatch", { body: text, tag: run });
    shown.onclick = () => {
      focus();
      location.hash = address({ page: "run", run });
    };
  } catch {
    // Browsers of phones allow them to service workers alone.
  }
}
