// The notes of a page that has nothing, not yet everything, or an error: what is known, why the rest is not, and the next
// step.
import { tryNow } from "../data/api.js";
import { load, retryCurves, store } from "../data/store.js";
import { clock, el, icon } from "../text.js";
import { watcher } from "../scheduler.js";

/** @param {string} look @param {(Node|string)[]} text @param {any} [button] @param {string} [role] */
export function note(look, text, button, role = look === "bad" ? "alert" : "status") {
  return el("div", { class: `note ${look}`, role }, icon(look === "bad" ? "leak" : look === "warn" ? "warn" : "ok"), el("p", {}, ...text),
    button && el("span", { class: "end" }, button));
}

const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) => el("button", { class: "btn", onclick }, text);

/** The notes above the page. @param {HTMLElement} host */
export function pageNotes(host) {
  const isNew = watcher();
  /** @param {{run: string, fault: string}[]} faults of curves */
  return function draw(faults) {
    const { connection, fault } = store;
    if (!isNew(connection.state === "down" ? connection.since : 0, fault, faults)) return;
    host.replaceChildren(...[
      connection.state === "down" && note("warn", [el("b", {}, `No connection to the sidecar since ${clock(connection.since)}. `),
        "Training is not affected: jobs keep what the sidecar has not stored. The page retries automatically; values below are as of then."],
          button("Try now", tryNow)),
      fault !== null && note("bad", [el("b", {}, "The sidecar refused to answer. "), el("br"), el("code", { class: "dim" }, fault)], button("Try again", load)),
      faults.length > 0 && note("bad", [el("b", {}, faults.length === 1 ? `The curves of ${faults[0].run} could not be loaded. `
        : `The curves of ${faults.length} runs could not be loaded. `),
        "Verdicts are complete.", el("br"), el("code", { class: "dim" }, faults[0].fault)], button("Try again", retryCurves)),
    ].filter((one) => one !== false));
  };
}

const CODE = `import conceptwatch

run = conceptwatch.init("my-run", concepts=concept_names, labels={"lambda": 0.1})
for epoch in range(epochs):
    train(model)
    with run.evaluation("val", step=step, epoch=epoch) as p:   # once an epoch
        for x, c, y in validation_batches:
            p.log(concept_activations=model.concepts(x), concept_labels=c, task_labels=y)
run.finish()`;

/** Without any run. */
export function empty() {
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(CODE).catch(() => {});
    copy.textContent = "Copied";
  });
  copy.classList.add("main");
  return el("section", { id: "empty", class: "empty panel" }, el("div", { class: "body" },
    el("h1", {}, "Waiting for a first run"),
    el("p", { class: "dim" }, "The sidecar is ready. Add these lines to the training script; the run appears here by itself after its first evaluation."),
    el("pre", { class: "code", tabindex: "0", "aria-label": "Python code" }, el("code", {}, CODE)),
    el("div", { class: "row" }, copy),
    el("p", { class: "small dim" }, "Log predictions and interventions, too, and the page says what the leakage does to the task: ",
      el("code", {}, "task_logits="), " in ", el("code", {}, "p.log"), " and ", el("code", {}, "head="), " in ", el("code", {}, "init"),
      ". For Lightning, Keras and Transformers there are callbacks: docs/integrations.md."),
    el("p", { class: "small dim" }, "No job at hand? ", el("code", {}, "conceptwatch demo"), " trains two small models and shows them here.")));
}

/** For an address of something that is not there. @param {string} what @param {string} name */
export const absent = (what, name) => el("section", { class: "empty panel" }, el("div", { class: "body" },
  el("h1", {}, `No ${what} “${name}”`), el("p", { class: "dim" }, "It may have been removed, or another sidecar has it."),
    el("p", {}, el("a", { href: "#/" }, "All runs"))));
