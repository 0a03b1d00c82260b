// A picture of the page: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0]
// Height 0 takes the whole page.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";

const { values, positionals: [url, out] } = parseArgs({ allowPositionals: true, options: {
  dark: { type: "boolean", default: false }, width: { type: "string", default: "1440" }, height: { type: "string", default: "0" },
} });
if (!url || !out) {
  console.error("usage: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0]");
  process.exit(2);
}
const browser = await launch();
try {
  const [width, height] = [Number(values.width), Number(values.height)];
  const page = await browser.newPage({ viewport: { width, height: height || 900 }, colorScheme: values.dark ? "dark" : "light" });
  page.on("console", (message) => { if (message.type() === "error") console.error(message.text()); });
  page.on("pageerror", (error) => console.error(error.stack));
  await page.goto(url);
  await settled(page);
  if (!height) {
    const full = await page.evaluate(() => document.querySelector("main").scrollHeight + document.querySelector("header").offsetHeight + 2);
    await page.setViewportSize({ width, height: Math.max(600, full) });
    await page.waitForTimeout(800);
  }
  await page.screenshot({ path: out });
} finally {
  await browser.close();
}
