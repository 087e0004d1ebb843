/**
 * Opens the page of a folder in Chromium, and prints its title once it has one: `open.mjs FOLDER`.
 *
 * @module
 */
import chromium from "@sparticuz/chromium";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import process from "node:process";
import puppeteer from "puppeteer-core";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };

const server = createServer(({ url }, response) => {
  const name = url === "/" ? "/index.html" : url;
  try {
    const content = readFileSync(join(process.argv[2], name));
    response.writeHead(200, { "content-type": TYPES[extname(name)] }).end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const browser = await puppeteer.launch({
  executablePath: await chromium.executablePath(),
  args: [...chromium.args, "--no-sandbox"],
  headless: "shell",
});
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(error.message));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction("document.title !== ''", { timeout: 60_000 });
  console.log(await page.title());
} finally {
  await browser.close();
  server.close();
}
