// Split, x axis, concept and scores: what the charts show.
import { change } from "./state.js";
import { el } from "./text.js";

/**
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./state.js").View} View
 */

/**
 * A labelled select whose options may change under it without losing the focus.
 * @param {string} label
 * @param {(value: string) => void} choose
 */
export function choice(label, choose) {
  const select = el("select", { "aria-label": label, onchange: () => choose(select.value) });
  const root = el("label", { class: "choice" }, el("span", {}, label), select);
  let known = "";
  /** @param {[value: string, text: string][]} options @param {string} value */
  const set = (options, value) => {
    const now = JSON.stringify(options);
    if (now !== known) select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
    known = now;
    select.value = value;
  };
  return { root, set };
}

/** @param {HTMLElement} host */
export function controls(host) {
  const split = choice("split", (value) => change({ split: value }));
  const axis = choice("x", (value) => change({ x: /** @type {any} */ (value) }));
  const concept = choice("concept", (value) => change({ concept: value || null }));
  const group = choice("group by", (value) => change({ group: value || null }));
  const picker = el("div", { class: "picker-box" });
  const chosen = el("span", { class: "dim" });
  const details = el("details", { class: "picker" }, el("summary", {}, "scores ", chosen), picker);
  const key = el("p", { class: "key" },
    el("span", {}, el("i", { class: "key-band" }), "±1.96 SE"),
    el("span", {}, el("i", { class: "key-hollow" }), "provisional"),
    el("span", {}, el("i", { class: "key-diamond" }, "◇"), "incomplete pass"),
    el("span", {}, el("i", { class: "key-cross" }, "×"), "undefined"),
    el("span", {}, el("i", { class: "key-alert" }, "▼"), "alert fired"),
    el("span", {}, el("i", { class: "key-limit" }), "limit"),
    el("span", {}, el("i", { class: "key-baseline" }), "baseline of rises"));
  host.replaceChildren(split.root, axis.root, concept.root, group.root, details, key);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    details.open = false;
    details.querySelector("summary")?.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    for (const open of document.querySelectorAll("details.picker[open], details.about[open]")) {
      if (!open.contains(/** @type {Node} */ (event.target))) open.removeAttribute("open");
    }
  });
  /** @type {Map<string, HTMLInputElement>} */
  let boxes = new Map();

  /** @param {Score[]} scores @param {() => string[]} now the chosen ones */
  function fillPicker(scores, now) {
    boxes = new Map(scores.map(({ id }) => [id, el("input", {
      type: "checkbox", value: id,
      onchange: () => {
        const wanted = new Set(now());
        if (boxes.get(id)?.checked) wanted.add(id);
        else wanted.delete(id);
        change({ scores: scores.map((score) => score.id).filter((one) => wanted.has(one)) });
      },
    })]));
    const families = [...new Set(scores.map((score) => score.family))];
    picker.replaceChildren(...families.map((family) => el("fieldset", {}, el("legend", {}, family),
      ...scores.filter((score) => score.family === family).map((score) =>
        el("label", { title: `${score.help}\n${score.paper} ${score.equation}`.trim() }, boxes.get(score.id), el("span", {}, score.title))))));
  }

  let view = /** @type {View|null} */ (null);
  let filled = "";
  /**
   * @param {View} now
   * @param {Score[]} scores
   * @param {Set<string>} available scores that the shown runs have
   * @param {string[]} splits
   * @param {string} splitNow
   * @param {string[]} concepts of the shown runs
   * @param {string[]} labels that runs have
   */
  return function draw(now, scores, available, splits, splitNow, concepts, labels) {
    view = now;
    split.set(splits.map((name) => [name, name]), splitNow);
    axis.set([["step", "step"], ["epoch", "epoch"], ["elapsed", "time since start"], ["time", "wall time"]], now.x);
    concept.set([["", "all"], ...concepts.map((name) => /** @type {[string, string]} */ ([name, name]))], now.concept ?? "");
    group.set([["", "nothing"], ...labels.map((name) => /** @type {[string, string]} */ ([name, name]))], now.group ?? "");
    group.root.hidden = labels.length === 0;
    const signature = scores.map((score) => score.id).join();
    if (signature !== filled) fillPicker(scores, () => view?.scores ?? []);
    filled = signature;
    for (const [id, box] of boxes) {
      box.checked = now.scores.includes(id);
      box.parentElement?.classList.toggle("absent", available.size > 0 && !available.has(id));
    }
    chosen.textContent = `${now.scores.length} of ${scores.length}`;
  };
}
