// Watches a page that is left open: node watch.mjs URL
//
// One line of JSON on standard output whenever it changes: the connection as the page states it, for each run the steps
// of its drawn CTL curve, and what the browser complained of. Ends with standard input.
import { createInterface } from "node:readline";
import { drawn, launch } from "./chromium.mjs";

const LOOK_MS = 100;

const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => {
    // Chromium itself reports every request that a stopped sidecar did not answer.
    if (message.type() === "error" && !message.text().includes("ERR_")) complaints.push(message.text());
  });
  await page.goto(`${process.argv[2]}/#/?along=step`);
  await drawn(page);
  let ended = false;
  createInterface({ input: process.stdin }).on("close", () => { ended = true; });
  for (let before = ""; !ended; await page.waitForTimeout(LOOK_MS)) {
    const seen = await page.evaluate(() => {
      const drawn = {};
      for (const { name, x, y } of document.querySelector('.chart[data-score="ctl"]')?.curves ?? []) drawn[name] = x.filter((_, i) => y[i] !== null);
      const state = document.querySelector(".connection")?.dataset.state ?? "loading";
      return { connection: state, drawn };
    });
    const now = JSON.stringify({ ...seen, complaints });
    if (now !== before) console.log(now);
    before = now;
  }
} finally {
  await browser.close();
}
