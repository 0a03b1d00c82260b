// The head of a run's page: its name and facts, and the buttons that change it.
import { options } from "./overview.js";
import { carried } from "../data/api.js";
import { isHidden, isPinned, titleOf, toggleHidden, togglePin } from "../data/prefs.js";
import { isScored } from "../data/shown.js";
import { remarks } from "./notes.js";
import { address, change, current } from "../data/state.js";
import { count, el, icon } from "../text.js";
import { labelName, momentText, runStateText, updatedText, waitingOf, waitingText } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Row, Run } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

export function runHead() {
  const crumb = el("div", { class: "small dim" });
  const chips = el("div", { class: "chips" });
  const split = el("select", { "aria-label": "Data", onchange: () => change({ split: split.value, zoom: null }) });
  const pin = el("button", { class: "btn", onclick: () => togglePin(current().run) });
  const hide = el("button", { class: "btn", onclick: () => toggleHidden(current().run) });
  const said = remarks(() => current().run);
  const compare = el("a", { class: "btn" }, "Compare");
  const isNew = watcher();
  return {
    root: el("div", { class: "head run" }, el("div", {}, crumb, chips, said.note),
      el("div", { class: "row" }, el("label", { class: "pick" }, "Data ", split), pin, hide, said.edit, compare, said.remove)),
    /** @param {Shown} shown @param {Row|undefined} row */
    draw(shown, row) {
      const { run: name, split: chosen } = shown.view;
      const run = shown.lines[0]?.run;
      options(split, (run?.splits ?? []).map((one) => [one.split, one.split]), chosen);
      const [title, pinned, hidden] = [titleOf(name), isPinned(name), isHidden(name)];
      if (!run || !isNew(name, title, run?.note, row?.step, pinned, hidden, run.state, run.reason, run.updated, chosen,
        waitingOf(run, chosen))) return;
      said.draw(run);
      crumb.replaceChildren(...(carried ? [] : [el("a", { href: address({}) }, "Runs"), " / "]), el("b", { class: "ink" }, title),
        title === name || carried?.of_files ? "" : ` (${name})`);
      chips.replaceChildren(...(hidden ? [el("span", { class: "chip" }, "hidden from the list of runs, in this browser")] : []), ...facts(run, row, chosen));
      pin.replaceChildren(icon("pin"), el("span", { class: "word" }, pinned ? "Unpin" : "Pin"));
      pin.setAttribute("aria-label", pinned ? "Unpin this run" : "Pin this run");
      hide.replaceChildren(icon("eye"), el("span", { class: "word" }, hidden ? "Show again" : "Hide"));
      hide.setAttribute("aria-label", hidden ? "List this run again" : "Hide this run");
      const other = shown.runs.find((one) => one.name !== name && isScored(one, chosen));
      compare.hidden = !other || !isScored(run, chosen);
      compare.setAttribute("href", address({ page: "compare", by: "runs", split: chosen, a: name, b: other?.name ?? "" }));
    },
  };
}

/** @param {Run} run @param {Row|undefined} row @param {string} split */
function facts(run, row, split) {
  const chip = (/** @type {(Node|string|false)[]} */ ...parts) => el("span", { class: "chip" }, ...parts);
  const strong = (/** @type {string} */ text) => el("b", {}, text);
  const at = momentText(row);
  const waiting = waitingOf(run, split);
  const word = el("span", { class: run.state === "training" ? "live" : `state ${run.state}` }, runStateText(run));
  const said = [chip(word, waiting === 0 && at && (run.state === "training" ? at : ` at ${at}`)), ...(run.reason ? [chip(run.reason)] : [])];
  return [...(carried?.of_files ? [] : said), ...(waiting > 0 ? [chip(`${at && `scored up to ${at}, `}${waitingText(waiting)}`)] : []),
    ...Object.entries(run.labels).map(([key, value]) => chip(`${labelName(key)} `, strong(value))),
    chip(strong(count(run.concepts.length)), " concepts"), ...(row?.rows ? [chip(strong(count(row.rows)), ` ${split} rows`)] : []),
    ...(run.world_size > 1 ? [chip(strong(String(run.world_size)), " ranks")] : []), ...(carried?.of_files ? [] : [chip(updatedText(run))])];
}
