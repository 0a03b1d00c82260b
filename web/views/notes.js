// The title and the note that people give a run, and the dialog that removes it. The sidecar keeps them for everyone who reads the run.
import { address } from "../data/state.js";
import { remark, removeRun, store } from "../data/store.js";
import { el } from "../text.js";

/** @import { Run } from "../data/api.js" */

/** @param {() => string} name of the run on the page */
export function remarks(name) {
  const note = el("p", { class: "said", hidden: true });
  const edit = el("button", { class: "btn", "aria-label": "Title, note", onclick: open },
    el("span", {}, "Title", el("span", { class: "word" }, ", note")));
  const remove = el("button", { class: "btn", "aria-label": "Remove this run",
    onclick: () => ask(`Remove ${name()} with its curves? They cannot be brought back.`) }, "Remove");

  function open() {
    const of = name();
    const run = store.runs?.find((one) => one.name === of);
    const title = el("input", { id: "remark-title", value: run?.title ?? "", maxlength: "200", placeholder: of });
    const text = el("textarea", { id: "remark-note", rows: "6", maxlength: "10000" });
    text.value = run?.note ?? "";
    show("Title and note", "Save", () => remark(of, { title: title.value, note: text.value }),
      el("label", { for: "remark-title" }, "Title, shown in place of the name"), title, el("label", { for: "remark-note" }, "Note"), text);
  }

  /** @param {string} question */
  function ask(question) {
    const of = name();
    show("Remove this run", "Remove", async () => {
      await removeRun(of);
      location.hash = address({});
    }, el("p", {}, question));
  }

  return {
    note, edit, remove,
    /** @param {Run} run */
    draw(run) {
      note.hidden = !run.note;
      note.textContent = run.note ?? "";
      remove.hidden = run.open;
    },
  };
}

/**
 * Opens a box that stays until its action has been done.
 * @param {string} head @param {string} act @param {() => Promise<void>} done @param {...Node} content
 */
function show(head, act, done, ...content) {
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const box = el("dialog", { class: "panel editor", "aria-label": head },
    el("form", { onsubmit: async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await done();
        box.close();
      } catch (error) {
        fault.hidden = false;
        fault.textContent = error instanceof Error ? error.message : String(error);
      }
    } }, el("h2", {}, head), ...content, fault,
    el("div", { class: "row" }, el("button", { class: "btn quiet", onclick: () => box.close() }, "Cancel"),
      el("button", { type: "submit", class: "btn" }, act))));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
