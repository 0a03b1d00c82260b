// The browser of the page's tests and pictures.
import { chromium } from "playwright-core";

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** A headless Chromium; CONCEPTWATCH_CHROMIUM names another program than Debian's. */
export const launch = () => chromium.launch({
  executablePath: process.env.CONCEPTWATCH_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: QUIET,
});

/** Waits until every chart of the page that has data is drawn and no fetch is under way. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("#empty:not([hidden]), .chart .plot .xy"), null, { timeout: 30_000 });
  await page.waitForTimeout(1500);
}
