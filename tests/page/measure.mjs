// How the page bears many runs and concepts: node measure.mjs [--runs 50] [--concepts 312] [--points 500]
//
// On the stand-in for the sidecar; prints what was transferred and the time between frames while four runs grow.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";
import { serve, world } from "./mock.mjs";

const text = (value) => ({ type: "string", default: value });
const { values } = parseArgs({ options: { runs: text("50"), concepts: text("312"), points: text("500") } });
const GROW_MS = 500;
const GROWTHS = 20;

const mock = await serve({ runs: world({ runs: Number(values.runs), concepts: Number(values.concepts), points: Number(values.points) }) });
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.addInitScript(() => performance.setResourceTimingBufferSize(10_000));
  const fetched = () => page.evaluate(() => performance.getEntriesByType("resource").reduce((sum, one) => sum + one.encodedBodySize, 0));
  let before = 0;
  const measured = async (what, act) => {
    const start = Date.now();
    await act();
    await settled(page);
    const seconds = (Date.now() - start) / 1000;
    const bytes = await fetched();
    console.log(`${what}: ${seconds.toFixed(1)} s until nothing more is fetched, ${((bytes - before) / 1e6).toFixed(1)} MB`);
    before = bytes;
  };
  await measured("the newest six runs", () => page.goto(`${mock.url}/`));
  await measured("all runs", () => page.getByRole("button", { name: "all", exact: true }).click());
  const frames = page.evaluate((ms) => new Promise((done) => {
    const [at, end] = [[], performance.now() + ms];
    const tick = (now) => {
      at.push(now);
      if (now < end) requestAnimationFrame(tick);
      else done(at);
    };
    requestAnimationFrame(tick);
  }), GROW_MS * GROWTHS);
  const live = mock.runs.filter((run) => !run.finished).slice(0, 4);
  for (let i = 0; i < GROWTHS; i += 1) {
    mock.grow(live[i % live.length].name);
    await page.waitForTimeout(GROW_MS);
  }
  const at = await frames;
  const gaps = at.slice(1).map((time, i) => time - at[i]).sort((a, b) => a - b);
  const [median, most] = [gaps[gaps.length >> 1], gaps.at(-1)];
  console.log(`between frames while points arrive: median ${median.toFixed(1)} ms, longest ${most.toFixed(0)} ms, ${gaps.filter((gap) => gap > 100).length} above 100 ms in ${gaps.length}`);
} finally {
  await browser.close();
  await mock.close();
}
