// One line on the sidecar's health and the connection to it.
import { count, duration, el, memory, percent } from "./text.js";

/**
 * @typedef {import("./api.js").Status} Status
 * @typedef {"connecting"|"live"|"reconnecting"} Connection
 */

/** @param {string} used @param {string|number|undefined} limit */
const of = (used, limit) => (limit ? `${used} of ${limit}` : used);

/** @param {HTMLElement} host */
export function statusLine(host) {
  const connection = el("span", { class: "connection", role: "status", "aria-live": "polite" });
  const facts = el("span", { class: "facts" });
  host.replaceChildren(connection, facts);
  /** @param {Connection} state @param {Status|null} status @param {number} lost events missed since the page opened */
  return function draw(state, status, lost) {
    if (connection.textContent !== state) connection.textContent = state;
    connection.dataset.state = state;
    const fact = (/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ title, bad = false) =>
      el("span", { title, class: bad ? "bad" : false }, el("span", { class: "dim" }, `${name} `), text);
    facts.replaceChildren(...(status ? [
      fact("lag", duration(status.lag_seconds), "How far the scores are behind the data", status.lag_seconds > 30),
      fact("dropped", `${count(status.rows_dropped)} rows`, "Rows refused or dropped by policy since the start", status.rows_dropped > 0),
      fact("skipped", `${count(status.points_skipped)} points`, "Points replaced by a later one before they were scored"),
      lost > 0 && fact("missed", `${count(lost)} events`, "Events this page was too slow to read; the values were fetched again"),
      typeof status.staleness_seconds === "number" && fact("newest", `${duration(status.staleness_seconds)} old`, "Age of the newest point of the running split that has waited longest"),
      fact("samples", of(memory(status.memory_bytes), status.memory_limit_bytes && memory(status.memory_limit_bytes)),
        "Memory that the samples of unfinished runs take, and may take", status.memory_bytes > 0.9 * (status.memory_limit_bytes ?? Infinity)),
      typeof status.cpu_seconds === "number" && fact("cpu", of(percent(status.cpu_seconds / status.uptime_seconds), percent(status.cpu_share)),
        "CPU-seconds per second that scoring has taken on average, and may take"),
      fact("up", duration(status.uptime_seconds), "Since the sidecar started"),
      fact("estimator", status.estimator, "How mutual information is estimated"),
      fact("catalogue", String(status.catalogue_version), "Points of different versions may not be comparable"),
      fact("", `v${status.version}`, "Version of the sidecar"),
    ].filter((one) => one !== false) : []));
  };
}
