// Charts and tables as files: PNG of the drawing, CSV of its data.
import { el, icon } from "./text.js";

/** @typedef {{name: string, columns: string[], rows: any[][]}} Table */

/** A name that every file system takes. @param {...(string|null)} parts */
const fileName = (...parts) => parts.filter(Boolean).join(" ").replaceAll(/[^A-Za-z0-9_.-]+/g, "-").slice(0, 100);

/** @param {string} name @param {Blob} content */
function save(name, content) {
  const address = URL.createObjectURL(content);
  const link = el("a", { href: address, download: name });
  link.click();
  // The browser reads the blob after the click; a minute is more than it takes.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** @param {string} name @param {string} kind @param {Blob} content */
export const saveAs = (name, kind, content) => save(`${fileName(name)}.${kind}`, content);

/** Quoted where it must be (RFC 4180); nothing is a formula to a spreadsheet. @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string[]} columns @param {any[][]} rows */
export const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n").concat("\n");

/** @param {Table} table */
const saveCsv = ({ name, columns, rows }) => saveAs(name, "csv", new Blob([csv(columns, rows)], { type: "text/csv" }));

/**
 * The drawing of a canvas on a ground of its own.
 * @param {string} name @param {HTMLCanvasElement} canvas @param {string} ground @param {string} title @param {string} ink
 */
export async function saveCanvas(name, canvas, ground, title, ink) {
  const head = Math.round((canvas.width / canvas.clientWidth || 1) * 28);
  const whole = el("canvas", { width: canvas.width, height: canvas.height + head });
  const context = whole.getContext("2d");
  context.fillStyle = ground;
  context.fillRect(0, 0, whole.width, whole.height);
  context.fillStyle = ink;
  context.font = `600 ${Math.round(head * 0.46)}px system-ui, sans-serif`;
  context.fillText(title, head / 3, head * 0.65);
  context.drawImage(canvas, 0, head);
  const blob = await new Promise((done) => whole.toBlob(done, "image/png"));
  if (blob) saveAs(name, "png", blob);
}

/**
 * A menu that saves a chart or shows its numbers.
 * @param {string} of the name of the content
 * @param {{csv?: () => Promise<Table|null>|Table|null, png?: () => void, svg?: () => void, full?: () => void, table?: () => void}} can
 */
export function saveMenu(of, can) {
  const entry = (/** @type {string} */ text, /** @type {() => void} */ act) =>
    el("button", { class: "entry", onclick: () => { menu.open = false; act(); } }, text);
  const menu = el("details", { class: "menu" },
    el("summary", { class: "btn quiet icon small-btn", "aria-label": `Save or list ${of}` }, icon("more")),
    el("div", { class: "menu-box" },
      can.table && entry("Show the numbers", can.table),
      can.full && entry("Full screen", can.full),
      can.csv && entry("Save as CSV", async () => { const table = await can.csv?.(); if (table) saveCsv(table); }),
      can.png && entry("Save as PNG", can.png),
      can.svg && entry("Save as SVG", can.svg)));
  closing(menu);
  return menu;
}

/** A box that Escape and a click elsewhere close. @param {HTMLDetailsElement} menu */
export function closing(menu) {
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(/** @type {Node} */ (event.relatedTarget))) menu.open = false;
  });
  addEventListener("pointerdown", (event) => { if (menu.open && !menu.contains(/** @type {Node} */ (event.target))) menu.open = false; });
  return menu;
}
