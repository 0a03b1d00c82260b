// One line on the sidecar and the connection to it, and the alerts that stand.
import { count, duration, el, localTime, memory } from "./text.js";

/**
 * @typedef {import("./api.js").Status} Status
 * @typedef {import("./api.js").Alert} Alert
 * @typedef {"connecting"|"live"|"reconnecting"} Connection
 */

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
      fact("samples", memory(status.memory_bytes), "Memory that the samples of unfinished runs take"),
      fact("up", duration(status.uptime_seconds), "Since the sidecar started"),
      fact("estimator", status.estimator, "How mutual information is estimated"),
      fact("catalogue", String(status.catalogue_version), "Points of different versions may not be comparable"),
      fact("", `v${status.version}`, "Version of the sidecar"),
    ].filter((one) => one !== false) : []));
  };
}

/** @param {HTMLElement} host */
export function alertList(host) {
  /** @type {Map<string, Alert>} */
  const standing = new Map();
  /** @param {Alert} alert */
  return function take(alert) {
    const key = JSON.stringify([alert.rule, alert.run, alert.split, alert.score]);
    if (alert.state === "inactive") standing.delete(key);
    else standing.set(key, alert);
    host.hidden = standing.size === 0;
    host.replaceChildren(...[...standing.values()].map((one) => el("div", { class: `alert ${one.state}` },
      el("strong", {}, `${one.rule} ${one.state}`), el("span", {}, `${one.run} · ${one.split} · ${one.score} · step ${count(one.step)}`),
      el("span", {}, one.evidence), el("span", { class: "dim" }, `since ${localTime(one.since)}`))));
  };
}
