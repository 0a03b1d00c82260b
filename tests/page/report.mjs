// Checks reports in a browser: node report.mjs FILE... prints a JSON object for each, with what is wrong in it.
import { pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";

const WIDTHS = [390, 1440];

/** In the page: markup that no report has, and what reaches beyond the window. */
function faults() {
  const found = [];
  for (const one of document.querySelectorAll("*")) {
    const within = `${one.tagName} ${one.className?.baseVal ?? one.className} '${one.textContent.slice(0, 40)}'`;
    if (/^(img|iframe|object|embed|base|form|video|audio)$/i.test(one.tagName)) found.push(`markup: ${within}`);
    for (const { name } of one.attributes) if (/^on/i.test(name)) found.push(`attribute ${name}: ${within}`);
  }
  const scripts = [...document.scripts].map(({ id, src }) => id + src);
  if (scripts.join() !== "answers,modules,") found.push(`scripts: ${scripts}`);
  if (document.querySelectorAll("style").length !== 4) found.push("another style sheet");
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push(`the page is ${scrollWidth} wide in a window of ${clientWidth}`);
  for (const one of document.querySelectorAll("main *")) {
    const { right, left, width } = one.getBoundingClientRect();
    // Tables scroll by themselves, and long names end within their boxes.
    const ends = one.parentElement.closest(".scroll, .chip, .name, .rows, .menu");
    if (width && !ends && (right > clientWidth + 1 || left < -1)) found.push(`from ${left} to ${right}: ${one.tagName} '${one.textContent.slice(0, 40)}'`);
  }
  return found;
}

const browser = await launch();
try {
  for (const file of process.argv.slice(2)) {
    const found = { file, title: "", text: "", faults: [] };
    for (const width of WIDTHS) {
      const context = await browser.newContext({ viewport: { width, height: 900 } });
      const page = await context.newPage();
      page.on("console", (message) => found.faults.push(`console: ${message.text()}`));
      page.on("pageerror", (error) => found.faults.push(`error: ${error.message}`));
      page.on("dialog", (dialog) => { found.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
      page.on("request", (request) => { if (!request.isNavigationRequest() && !request.url().startsWith("blob:")) found.faults.push(`fetched ${request.url()}`); });
      await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective}`)));
      await page.goto(pathToFileURL(file).href, { waitUntil: "commit" });
      await page.waitForFunction(() => !["", "…"].includes(document.querySelector(".verdict h1")?.textContent ?? "")
        && document.querySelector(".concepts tbody th"));
      await page.evaluate(() => document.querySelectorAll("details.panel").forEach((one) => { one.open = true; }));
      // Whoever points at a name, or moves through the page by keys, starts nothing either.
      await page.mouse.move(width / 2, 40);
      await page.keyboard.press("Tab");
      found.faults.push(...(await page.evaluate(faults)).map((fault) => `at ${width}: ${fault}`));
      found.title = await page.title();
      found.text = await page.evaluate(() => document.body.innerText);
      await context.close();
    }
    console.log(JSON.stringify(found));
  }
} finally {
  await browser.close();
}
