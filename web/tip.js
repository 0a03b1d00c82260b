// The box with explanations, beside the pointer or below the element that has the focus. Escape closes it.
import { el } from "./text.js";

const told = /** @type {HTMLElement} */ (document.getElementById("told"));
const box = /** @type {HTMLElement} */ (document.getElementById("tip"));
let described = /** @type {Element|null} */ (null);

/** @param {number} x @param {number} y @param {...(Node|string)} content */
export function showTip(x, y, ...content) {
  // Only the content of an element in full screen is seen.
  const host = document.fullscreenElement ?? document.body;
  if (box.parentNode !== host) host.append(box);
  box.replaceChildren(...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  box.style.top = `${y + 16 + height > innerHeight ? Math.max(8, y - height - 12) : y + 16}px`;
}

/** Says something to those who cannot see it. @param {string} text */
export const say = (text) => { told.textContent = text; };

/** Says what the box says, as where keys have opened it. */
export const sayTip = () => say(box.innerText.replaceAll(/\s*\n\s*/g, ". ").replaceAll("\t", " "));

export function hideTip() {
  box.hidden = true;
  described?.removeAttribute("aria-describedby");
  described = null;
}

addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", hideTip, { passive: true, capture: true });

/**
 * Gives an element a tip, for pointer and keyboard.
 * @param {any} node @param {() => (Node|string)[]} content
 */
export function tipped(node, content) {
  const show = () => {
    const { left, bottom } = node.getBoundingClientRect();
    showTip(left - 14, bottom - 12, ...content());
    described = node;
    node.setAttribute("aria-describedby", "tip");
  };
  node.addEventListener("pointerenter", show);
  node.addEventListener("focus", show);
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("blur", hideTip);
  // On a screen without a pointer a tap shows it.
  node.addEventListener("click", show);
  return node;
}

/** A word with an explanation. @param {string} text @param {string[]} lines @param {string} [className] */
export function term(text, lines, className = "tipped") {
  if (!lines.length) return el("span", {}, text);
  return tipped(el("button", { class: className }, text), () => [el("b", {}, text), ...lines.map((line) => el("p", {}, line))]);
}
