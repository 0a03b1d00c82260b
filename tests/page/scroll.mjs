// How a page scrolls through all runs: node scroll.mjs URL [SECONDS]
//
// Asks for the end of the list, which needs the last run with its verdict, and then goes down from the first run a window at a
// time. Prints the seconds of both, how many runs were in the window, and the times between frames as JSON.
import { launch } from "./chromium.mjs";

const PATIENCE_MS = Number(process.argv[3] ?? 240) * 1000;

const url = process.argv[2].replace(/\/$/, "");
const { total } = await (await fetch(`${url}/api/v1/runs?limit=1`)).json();
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  const begun = Date.now();
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(() => document.querySelectorAll(".runs tr[data-run]").length > 0, null, { timeout: 60_000 });
  const first = (Date.now() - begun) / 1000;
  // The page holds all runs when it says how many there are.
  await page.waitForFunction((total) => Number(document.querySelector(".tabs button b")?.textContent.replace(/\D/g, "")) === total, total,
    { timeout: PATIENCE_MS });
  const listed = (Date.now() - begun) / 1000;
  const pressed = Date.now();
  await page.locator("h1").click();
  await page.keyboard.press("End");
  await page.waitForFunction((total) => {
    const last = document.querySelector(`.runs tr[aria-rowindex="${total + 1}"]`);
    return last && !/no evaluation/.test(last.querySelector(".vd").textContent);
  }, total, { timeout: PATIENCE_MS });
  const end = (Date.now() - pressed) / 1000;
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForTimeout(200);
  const { seen, frames, seconds } = await page.evaluate(async (patience) => {
    const [seen, frames, begun] = [new Set(), [], performance.now()];
    let before = begun;
    const frame = async () => { const now = await new Promise(requestAnimationFrame); frames.push(now - before); before = now; };
    for (let done = false; !done && performance.now() - begun < patience;) {
      await frame();
      await frame();
      for (const row of document.querySelectorAll(".runs tr[data-run]")) {
        const { top, bottom } = row.getBoundingClientRect();
        if (top >= 0 && bottom <= innerHeight) seen.add(row.dataset.run);
      }
      done = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
      scrollBy(0, innerHeight - 200);
    }
    return { seen: seen.size, frames: frames.toSorted((a, b) => a - b), seconds: (performance.now() - begun) / 1000 };
  }, PATIENCE_MS);
  const p99 = frames[Math.round((frames.length - 1) * 0.99)];
  const rows = await page.evaluate(() => document.querySelectorAll(".runs tr").length);
  console.log(JSON.stringify({ runs: seen, total, rows, first_seconds: first, listed_seconds: listed, end_seconds: end, seconds, frame_p99_ms: p99,
    longest_frame_ms: frames.at(-1), complaints }));
  if (complaints.length > 0) process.exitCode = 1;
} finally {
  await browser.close();
}
