/**
 * The example's page in a browser: draws digits, and reads their classes.
 *
 * Uses Chromium or Chrome if one is installed; ROWMAJOR_CHROMIUM names another one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { type Browser, chromium } from "playwright-core";
import { makeClassifier } from "../../examples/digits/classifier.ts";
import { loadLargeModel } from "../../examples/digits/large.ts";
import { makeApp } from "../../examples/server/app.ts";
import { listen } from "../../examples/server/listen.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The browser's program, or undefined. */
function findBrowser(): string | undefined {
  const { ROWMAJOR_CHROMIUM, PATH = "" } = process.env;
  if (ROWMAJOR_CHROMIUM !== undefined) return ROWMAJOR_CHROMIUM;
  const places = [
    ...PATH.split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name))),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
  ];
  return places.find((path) => existsSync(path));
}

/** Lines to draw, each of points in the canvas's coordinates, for some digits. */
const DRAWINGS: Record<number, [number, number][][]> = {
  0: [Array.from({ length: 13 }, (_, i) => {
    const angle = i * Math.PI / 6;
    return [126 + 55 * Math.sin(angle), 126 - 90 * Math.cos(angle)];
  })],
  4: [[[115, 35], [65, 145], [185, 145]], [[150, 90], [150, 220]]],
  // The sevens of the data set are crossed.
  7: [[[75, 50], [175, 45], [110, 215]], [[90, 130], [165, 130]]],
};

const program = findBrowser();
if (program === undefined) {
  console.log("server page: not clicked through, as no Chromium is installed");
}

test("server page: drawn digits are read", {
  skip: program === undefined ? "no Chromium is installed" : false,
  timeout: 120_000,
}, async () => {
  const app = makeApp(makeClassifier(await loadLargeModel()));
  const listener = listen(app.handle, {
    hostname: "127.0.0.1",
    port: 0,
    maxBodyBytes: 1e6,
    idleSeconds: 15,
  });
  let browser: Browser | undefined;
  try {
    // In containers the browser's own sandbox is unavailable; the page is trusted.
    const args = ["--no-sandbox", "--disable-dev-shm-usage"];
    browser = await chromium.launch({ executablePath: program, args });
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    await page.goto(`http://127.0.0.1:${listener.port}/`);
    const hint = await page.textContent("#status");
    const paper = (await page.locator("#paper").boundingBox())!;
    for (const [digit, lines] of Object.entries(DRAWINGS)) {
      await page.click("#clear");
      assertEquals(await page.textContent("#status"), hint);
      for (const [first, ...rest] of lines) {
        await page.mouse.move(paper.x + first![0], paper.y + first![1]);
        await page.mouse.down();
        for (const [x, y] of rest) await page.mouse.move(paper.x + x, paper.y + y);
        await page.mouse.up();
      }
      await page.getByText(`It is a ${digit}.`).waitFor({ timeout: 10_000 });
      assertEquals(await page.textContent(".best td"), digit);
      const shares = (await page.locator("#answers td:last-child").allTextContents()).map(
        (text) => Number(/^(\d+\.\d)%$/.exec(text)![1]),
      );
      assertEquals(shares.length, 10);
      assertEquals(shares.indexOf(Math.max(...shares)), Number(digit));
      assert(Math.abs(shares.reduce((sum, share) => sum + share) - 100) < 1, `${shares}`);
    }
    // The page also shows the server's message while it rejects requests.
    app.drain();
    await page.mouse.click(paper.x + 126, paper.y + 126);
    await page.getByText("the server is shutting down").waitFor();
    // The browser itself notes the 503, and nothing else.
    assertEquals(complaints.filter((text) => !text.includes("503")), []);
  } finally {
    await browser?.close();
    await listener.stop();
  }
});
