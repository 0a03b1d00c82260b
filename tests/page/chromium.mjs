// The browser of the page's tests and pictures.
import { chromium } from "playwright-core";

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** A headless Chromium; CONCEPTWATCH_CHROMIUM names another program than Debian's. */
export const launch = () => chromium.launch({
  executablePath: process.env.CONCEPTWATCH_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: QUIET,
});

/** Waits until a chart, or the page without runs, is drawn and nothing more is fetched for a while. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("#empty:not([hidden]), .chart .scatterlayer .trace"), null, { timeout: 30_000 });
  const fetched = () => page.evaluate(() => performance.getEntriesByType("resource").length);
  for (let before = -1, now = await fetched(); now !== before; now = await fetched()) {
    before = now;
    await page.waitForTimeout(700);
  }
}
