// Pictures of every state of the page on made-up runs: node pictures.mjs FOLDER
//
// Nothing in them is measured; docs/page.png is taken on real training (take_picture.sh).
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { launch, settled } from "./chromium.mjs";
import { serve, world } from "./mock.mjs";
import { small } from "./png.mjs";

const folder = process.argv[2];
if (!folder) {
  console.error("usage: node pictures.mjs FOLDER");
  process.exit(2);
}
await mkdir(folder, { recursive: true });
const all = Array.from({ length: 40 }, (_, i) => i);
const runs = () => world({ runs: 40, concepts: 112, points: 30, intervened: all, cem: [9], twins: [3], rename: (run) => {
  const r = Number(run.labels.seed);
  run.name = `cub-${["soft", "cem", "logit"][r % 3]}-${run.labels.lambda}-s${r}`;
  if (r === 12) run.state = "cannot_tell";
  if (r === 20) run.state = "possibly_leaking";
  if (r === 39) Object.assign(run, { points: 2, finished: false });
  if (r === 9) Object.assign(run, { finished: false, unscored: [300] });
} });
const LEAKY = "#/run/cub-soft-0.01-s9";
const browser = await launch();

/** @param {object} options */
async function picture(name, { hash = "#/", width = 1440, height = 900, dark = false, world: of = runs(), faults = [], full = false, act = async () => {} }) {
  const mock = await serve({ runs: of, faults });
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  await page.goto(`${mock.url}/${hash}`);
  await settled(page);
  await act(page, mock);
  if (full) {
    await page.setViewportSize({ width, height: await page.evaluate(() => document.documentElement.scrollHeight) });
    await page.waitForTimeout(600);
  }
  await writeFile(join(folder, `${name}.png`), await small(page, await page.screenshot()));
  await page.close();
  await mock.close().catch(() => {});
  console.log(name);
}

try {
  const grouped = "#/?group=lambda";
  await picture("page-runs", { hash: grouped, height: 1000 });
  await picture("page-runs-dark", { hash: grouped, height: 1000, dark: true });
  await picture("page-runs-390", { hash: grouped, width: 390, height: 844 });
  await picture("page-runs-768", { hash: grouped, width: 768 });
  await picture("page-runs-2560", { hash: grouped, width: 2560, height: 1100 });
  await picture("page-run", { hash: LEAKY, full: true });
  await picture("page-run-dark", { hash: LEAKY, dark: true, height: 1000 });
  await picture("page-run-390", { hash: LEAKY, width: 390, height: 844 });
  await picture("page-concepts", { hash: LEAKY, act: async (page) => {
    await page.getByRole("button", { name: "Small curves" }).click();
    await page.locator("#concepts").scrollIntoViewIfNeeded();
    await page.locator("#concepts").evaluate((one) => scrollTo(0, one.offsetTop - 60));
    await page.waitForTimeout(500);
  } });
  await picture("page-compare", { hash: "#/compare", full: true });
  await picture("page-compare-runs", { hash: "#/compare?by=runs" });
  await picture("page-sidecar", { hash: "#/sidecar" });
  await picture("page-empty", { world: [], height: 640 });
  await picture("page-disconnected", { hash: grouped, height: 640, act: async (page, mock) => { await mock.close(); await page.locator(".note").waitFor(); } });
  await picture("page-error", { height: 640, faults: ["/curves"] });
} finally {
  await browser.close();
}
