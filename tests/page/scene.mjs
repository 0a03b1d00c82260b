// The common ground of the page's tests: a browser, a made-up world, and ways to look at what is drawn.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { launch, settled } from "./chromium.mjs";
import { serve, world } from "./mock.mjs";

export const HOSTILE = "<img src=x onerror=alert(1)> & <b>bold</b> %{y} $x^2$";
export const CUB = "has_bill_shape::curved_(up_or_down)";
let browser;

/** Opens a browser for the tests of a file. */
export function withBrowser() {
  before(async () => { browser = await launch(); });
  after(() => browser?.close());
}

/** Opens the page and notes everything a browser complains about. */
export async function open(url, { hash = "", dark = false, width = 1440, height = 900 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  const page = await context.newPage();
  const complaints = [];
  const asked = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(`${message.text()} ${message.location().url}`); });
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("dialog", (dialog) => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => asked.push(request.url()));
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
  await page.goto(`${url}/${hash}`);
  await settled(page);
  // An answer that a route is still changing concerns no test any more.
  const close = () => page.unrouteAll({ behavior: "ignoreErrors" }).then(() => context.close());
  return { page, complaints, asked, close };
}

/** Serves a made-up world and opens the page on it; both end with the test. */
export async function scene(t, { hash, dark, width, height, faults, ...options } = {}) {
  const mock = await serve({ runs: world(options), faults });
  const view = await open(mock.url, { hash, dark, width, height });
  t.after(async () => {
    await view.close();
    await mock.close();
  });
  return { mock, ...view };
}

/** The address of a run's page. */
export const runHash = (run, query = "") => `#/run/${encodeURIComponent(run)}${query && `?${query}`}`;

/** The lines of a chart as they were given to it. */
export const lines = (page, score) => page.evaluate((score) => (document.querySelector(`.chart[data-score="${score}"]`)?.curves ?? [])
  .map(({ name, color, look, x, y, open, broken, gaps, alerts, superseded, from }) =>
    ({ name, color, look, x, y, open, broken, gaps, alerts, superseded, from })), score);

/** For each run in a chart, at how many places its line has a value. */
export const drawn = async (page, score = "ctl") => Object.fromEntries((await lines(page, score)).map(({ name, y }) =>
  [name, y.filter((value) => value !== null).length]));

/** How many pixels of a chart have the colour of a custom property. */
export const painted = (page, score, property) => page.evaluate(([score, property]) => {
  const canvas = document.querySelector(`.chart[data-score="${score}"] canvas`);
  const wanted = getComputedStyle(document.documentElement).getPropertyValue(property).match(/[\d.]+/g).map(Number);
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height }).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && wanted.every((part, k) => Math.abs(part - data[i + k]) < 12)) count += 1;
  return count;
}, [score, property]);

export const charts = (page) => page.locator(".chart:visible").evaluateAll((all) => all.map((one) => one.dataset.score));

/** Points at a place of a chart, 0 to 1, and returns what the box beside the pointer says. */
export async function pointAt(page, score, place) {
  const plot = page.locator(`.chart[data-score="${score}"] .plot`);
  await plot.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await plot.boundingBox();
  await page.mouse.move(x + 3, y + height / 2);
  await page.mouse.move(x + 36 + place * (width - 94), y + height / 2);
  return page.locator("#tip").innerText();
}

export async function eventually(what, check) {
  let last;
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((next) => setTimeout(next, 100))) {
    last = await check().catch((error) => error);
    if (last === true) return;
  }
  assert.fail(`${what}: ${last}`);
}
