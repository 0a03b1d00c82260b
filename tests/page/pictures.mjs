// The pictures of the guide to the page (docs/page.md), on made-up runs: node pictures.mjs FOLDER
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
const WIDTH = 1440;
const LEAKY = "#/run/cub-soft-0.01-s9";
const browser = await launch();

/** @param {object} options */
async function picture(name, { hash, height = 900, full = false, act = async () => {} }) {
  const mock = await serve({ runs: runs() });
  const page = await browser.newPage({ viewport: { width: WIDTH, height }, colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(`${mock.url}/${hash}`);
  await settled(page);
  await act(page);
  if (full) {
    await page.setViewportSize({ width: WIDTH, height: await page.evaluate(() => document.documentElement.scrollHeight) });
    await page.waitForTimeout(600);
  }
  await writeFile(join(folder, `${name}.png`), await small(page, await page.screenshot()));
  await page.close();
  await mock.close().catch(() => {});
  console.log(name);
}

try {
  await picture("page-runs", { hash: "#/?group=lambda", height: 1000 });
  await picture("page-run", { hash: LEAKY, full: true });
  await picture("page-concepts", { hash: LEAKY, act: async (page) => {
    await page.getByRole("button", { name: "Small curves" }).click();
    await page.locator("#concepts").scrollIntoViewIfNeeded();
    await page.locator("#concepts").evaluate((one) => scrollTo(0, one.offsetTop - 60));
    await page.waitForTimeout(500);
  } });
  await picture("page-compare", { hash: "#/compare", full: true });
} finally {
  await browser.close();
}
