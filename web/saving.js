// Charts and tables as files: PNG of what is drawn, CSV of its data.
import { el } from "./text.js";

/** A name that every file system takes. @param {...(string|null)} parts */
const fileName = (...parts) => parts.filter(Boolean).join(" ").replaceAll(/[^A-Za-z0-9_.-]+/g, "-").slice(0, 100);

/** @param {string} name @param {Blob|string} content a blob or a data address */
function save(name, content) {
  const address = typeof content === "string" ? content : URL.createObjectURL(content);
  const link = el("a", { href: address, download: name });
  link.click();
  // The browser reads the blob after the click; a minute is more than it takes.
  if (typeof content !== "string") setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Quoted where it must be (RFC 4180); nothing is a formula to a spreadsheet. @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string[]} columns @param {any[][]} rows */
export const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n").concat("\n");

/**
 * Two small buttons that save a chart.
 * @param {() => {name: string, columns: string[], rows: any[][]}|null} table null: there is nothing yet
 * @param {() => any} plot the plotly element; null where the drawing is none
 */
export function saveButtons(table, plot) {
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick) =>
    el("button", { type: "button", class: "small save", title, "aria-label": title, onclick }, text);
  const asCsv = () => {
    const found = table();
    if (found) save(`${fileName(found.name)}.csv`, new Blob([csv(found.columns, found.rows)], { type: "text/csv" }));
  };
  const asPng = async () => {
    const [found, drawn] = [table(), plot()];
    if (!found || !drawn?.data) return;
    const { width, height } = drawn.getBoundingClientRect();
    const layout = drawn.layout ?? {};
    const size = { width: layout.width ?? width, height: layout.height ?? height };
    save(`${fileName(found.name)}.png`, await globalThis.Plotly.toImage(drawn, { format: "png", scale: 2, ...size }));
  };
  return el("span", { class: "saves" }, button("CSV", "Save the values as CSV", asCsv), plot() !== null && button("PNG", "Save the picture as PNG", asPng));
}
