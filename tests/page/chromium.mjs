// The browser of the page's tests and pictures.
import { chromium } from "playwright-core";

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** A headless Chromium; CONCEPTWATCH_CHROMIUM names another program than Debian's. */
export const launch = () => chromium.launch({
  executablePath: process.env.CONCEPTWATCH_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: QUIET,
});

/** Waits until a chart, or the page without runs, is drawn. */
export const drawn = (page) =>
  page.waitForFunction(() => document.querySelector("#empty:not([hidden]), .chart .scatterlayer .trace"), null, { timeout: 30_000 });

/** Waits until that is so and nothing more is fetched for a while; not for ever on a page that keeps growing. */
export async function settled(page) {
  await drawn(page);
  const end = Date.now() + 15_000;
  const fetched = () => page.evaluate(() => performance.getEntriesByType("resource").length);
  for (let before = -1, now = await fetched(); now !== before && Date.now() < end; now = await fetched()) {
    before = now;
    await page.waitForTimeout(700);
  }
}
