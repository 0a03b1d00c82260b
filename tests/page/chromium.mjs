// The browser of the page's tests and pictures.
import { chromium } from "playwright-core";

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** A headless Chromium; CONCEPTWATCH_CHROMIUM names another program than Debian's. */
export const launch = () => chromium.launch({
  executablePath: process.env.CONCEPTWATCH_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: QUIET,
});

/** Waits until the page has something to show: a curve, a page without runs, or a fault. */
export const drawn = (page) => page.waitForFunction(() => document.querySelector("#empty, .note, .sidecar dd, .compare h1, .empty h1")
  || [...document.querySelectorAll(".chart")].some((chart) => chart.curves?.length), null, { timeout: 30_000 });

/** Waits until that is so and nothing more is fetched for a while; not for ever on a page that keeps growing. */
export async function settled(page) {
  await drawn(page);
  const end = Date.now() + 15_000;
  const fetched = () => page.evaluate(() => performance.getEntriesByType("resource").length);
  for (let before = -1, now = await fetched(); now !== before && Date.now() < end; now = await fetched()) {
    before = now;
    await page.waitForTimeout(500);
  }
}
