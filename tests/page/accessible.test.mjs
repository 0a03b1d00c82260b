// The page for everyone: no rule of axe-core is broken, nothing leaves the window, at every width and in both schemes.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";
import { serve } from "./mock.mjs";
import { CUB, HOSTILE, eventually, open, runHash, scene, withBrowser } from "./scene.mjs";

withBrowser();
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [390, 768, 1440, 2560];
const LEAKY = "cub/soft-seed1-lambda-0.01";
const VIEWS = { runs: "#/?group=lambda", run: runHash(LEAKY), compare: "#/compare", pair: "#/compare?by=runs", sidecar: "#/sidecar" };

/** The rules that the page breaks, with the elements at fault. */
async function broken(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document,
    { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  return violations.map(({ id, nodes }) =>
    `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary.split("\n")[1] ?? ""}`).join(" | ")}`);
}

/** Returns the elements that are wider than the window. */
const outside = (page) => page.evaluate(() => {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  return [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((one) =>
    one.outerHTML.slice(0, 120));
});

const world = { runs: 9, concepts: 30, intervened: [0, 1, 2, 3, 4, 5, 6, 7, 8], cem: [1],
  labels: { note: HOSTILE, encoder: "a rather long value of a label that nobody would choose" }, rename: (run) => {
  run.concepts = [CUB, HOSTILE, ...run.concepts.slice(2)];
  run.unscored = [100];
} };

for (const dark of [false, true]) {
  for (const [name, hash] of Object.entries(VIEWS)) {
    test(`${name}, ${dark ? "dark" : "light"}: no rule of axe-core is broken and nothing leaves the window`, async (t) => {
      const { page } = await scene(t, { ...world, hash, dark });
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await page.waitForTimeout(150);
        assert.deepEqual(await outside(page), [], `${width} pixels`);
        assert.deepEqual(await broken(page), [], `${width} pixels`);
      }
    });
  }
}

test("states without values are accessible, too", async (t) => {
  const mock = await serve({ runs: [] });
  const { page, close } = await open(mock.url);
  t.after(async () => { await close(); await mock.close(); });
  assert.deepEqual(await broken(page), []);
  const down = await scene(t, { runs: 2 });
  await down.mock.close();
  await eventually("the note", async () => (await down.page.locator(".note").count()) === 1);
  assert.deepEqual(await broken(down.page), []);
  assert.deepEqual(await outside(down.page), []);
  const faulty = await scene(t, { runs: 2, faults: ["/curves"], width: 390 });
  assert.deepEqual(await broken(faulty.page), []);
  assert.deepEqual(await outside(faulty.page), []);
});

test("curves stand out in both schemes, and differ without colour", async (t) => {
  for (const dark of [false, true]) {
    const { page } = await scene(t, { dark });
    const ratios = await page.evaluate(() => {
      const channels = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).match(/[\d.]+/g).map(Number).slice(0, 3);
      const luminance = (name) => channels(name).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c,
        i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const ratio = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
      const heat = ["--raised", "--h1", "--h2", "--h3", "--h4", "--h5"].map(luminance);
      return { curves: [1, 2, 3, 4, 5, 6].map((i) => ratio(`--s${i}`, "--surface")),
        text: ["--ink", "--ink-2", "--ink-3", "--leak", "--warn", "--ok", "--accent"].map((name) => ratio(name, "--surface")),
        controls: ratio("--edge", "--surface"), heat: heat.slice(1).every((one, i) => (one - heat[i]) * (heat[2] - heat[1]) > 0 || i === 0) };
    });
    assert.ok(Math.min(...ratios.curves) >= 4.5, `curves ${ratios.curves}`);
    assert.ok(Math.min(...ratios.text) >= 4.5, `text ${ratios.text}`);
    assert.ok(ratios.controls >= 3 && ratios.heat, JSON.stringify(ratios));
  }
});

test("a scheme that is chosen stays", async (t) => {
  const { page } = await scene(t);
  await page.getByRole("button", { name: "Switch between light and dark" }).click();
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(14, 17, 22)");
  await page.reload();
  await page.locator("h1").waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
});

test("a change of verdict is said to those who cannot see it", async (t) => {
  const { page, mock } = await scene(t);
  mock.runs.find(({ lambda }) => lambda === 5).state = "possibly_leaking";
  mock.grow("tabulartoy-lambda-5");
  await eventually("what is said", async () => (await page.locator("#told").textContent()) === "tabulartoy-lambda-5: Possibly leaking");
});
