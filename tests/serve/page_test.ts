/**
 * The page at / in a browser: chats, searches and digits by pointer and by keyboard, what it does with
 * errors and keys, its themes and widths, and axe-core's rules of accessibility.
 *
 * Uses Chromium or Chrome if one is installed; ROWMAJOR_CHROMIUM names another one.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { loadLargeModel, probabilities } from "../../examples/digits/large.ts";
import type { Images } from "../../examples/digits/model.ts";
import { toPixels } from "../../examples/digits/pictures.ts";
import { compile } from "../../src/compile/mod.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import { inferenceRoutes } from "../../src/serve/inference.ts";
import { openaiRoutes } from "../../src/serve/openai.ts";
import { pageRoutes } from "../../src/serve/page/routes.ts";
import { root } from "../../scripts/tools.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { openChat, openEmbedder } from "./models.ts";
import { type PageService, type PageServiceOptions, startPageService } from "./page_service.ts";

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

const program = findBrowser();
if (program === undefined) {
  console.log("page: not clicked through, as no Chromium is installed");
}
const options = {
  skip: program === undefined ? "no Chromium is installed" : false,
  timeout: 120_000,
};

let browser: Promise<Browser> | undefined;
after(async () => (await browser)?.close());

const ALL = { chat: ["tiny", "other"], embeddings: ["words", "numbers"], digits: "digits" };

/** What a test opens, and expects. */
interface Expected {
  readonly path?: string;
  /** Statuses of requests that fail; 0 for those without an answer. */
  readonly failures?: readonly number[];
}

/** Opens the page of a service, and checks that nothing else was loaded, and nothing complained. */
async function withPage(
  given: PageServiceOptions,
  { path = "", failures = [], ...context }: Expected & BrowserContextOptions,
  use: (page: Page, service: PageService) => Promise<void>,
): Promise<void> {
  // In containers the browser's own sandbox is unavailable; the page is trusted.
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  browser ??= chromium.launch({ executablePath: program!, args });
  const service = await startPageService(given);
  const page = await (await browser).newPage(context);
  page.setDefaultTimeout(15_000);
  const complaints: string[] = [], elsewhere: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser itself notes failed requests.
    const [noted, status = "0"] =
      /^Failed to load resource: (?:.* status of (\d+)|net::ERR)/.exec(message.text()) ?? [];
    if (noted === undefined || !failures.includes(Number(status))) complaints.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(service.url)) elsewhere.push(request.url().slice(0, 200));
  });
  try {
    await page.goto(service.url + path);
    await use(page, service);
    assertEquals(complaints, []);
    assertEquals(elsewhere.filter((url) => !url.startsWith("data:image/svg+xml")), []);
  } finally {
    await page.close();
    await service.stop();
  }
}

/** The id of the element that has the focus. */
const focused = (page: Page): Promise<string> => page.evaluate("document.activeElement.id");

test("page: one document below 40 kB, whose policy allows only its own script and style", async () => {
  const [route, names] = pageRoutes({ chat: ["a"], embeddings: [] });
  assertEquals([route!.path, route!.isOpen, names!.path, names!.isOpen], [
    "/",
    true,
    "/page.json",
    undefined,
  ]);
  const response = await route!.answer({} as Parameters<typeof route.answer>[0]);
  const text = await response.text();
  assert(new TextEncoder().encode(text).length < 40_000, `${text.length} characters`);
  const policy = response.headers.get("content-security-policy")!;
  for (const [tag, directive] of [["style", "style-src"], ["script", "script-src"]]) {
    const inside = [...text.matchAll(new RegExp(`<${tag}>([^]*?)</${tag}>`, "g"))];
    assertEquals(inside.length, 1);
    const hash = createHash("sha256").update(inside[0]![1]!).digest("base64");
    assert(policy.includes(`${directive} 'sha256-${hash}';`), directive);
  }
  assertMatch(policy, /^default-src 'none'; connect-src 'self'; img-src data:; /);
  assert(!/unsafe|\*|https?:/.test(policy));
  // No address but those of this server; SVG has one that names its elements.
  assertEquals(text.replaceAll("http://www.w3.org/2000/svg", "").match(/https?:|\/\/\w/g), null);
  assert(!/innerHTML|insertAdjacentHTML|document\.write|eval\(/.test(text));
});

const CODE = "Look:\n\n```c\nx = 1 < 2; // <b>no tag</b>\n```\nand `y <i>` then.";

test(
  "page: a chat streams, shows code and figures, and stops",
  options,
  async () => {
    const words = (text: string) => text.match(/\S+\s*/g)!;
    const sentence =
      "One of many sentences that this answer has, which is long enough to be read. ";
    const answers = {
      "code?": ["<img src=x onerror=alert(1)> ", ...words(CODE)],
      "more?": [...words(sentence.repeat(4)), 300, "The end."],
      "forever?": ["It ", "goes ", "on", "hold"],
      "fails?": ["It be", "fail"],
      "ends?": ["It be", "end"],
      "nothing?": [],
      "stuck?": ["hold"],
    };
    await withPage({ models: ALL, answers }, { failures: [400] }, async (page, service) => {
      const asked = () => service.asked["/v1/chat/completions"]!.at(-1)!;
      const last = page.locator(".turn.assistant").last();
      const send = async (text: string) => {
        await page.fill("#message", text);
        await page.keyboard.press("Enter");
      };
      await page.locator("#welcome").waitFor();
      await page.selectOption("#chat-model", "other");
      await page.fill("#system", " Be brief. ");
      await page.fill("#temperature", "0.2");
      assertEquals(await page.textContent("#temperature-value"), "0.2");
      // Shift and Enter make a line; a message without text is not sent.
      await page.click("#message");
      await page.keyboard.press("Enter");
      await page.keyboard.type("a");
      await page.keyboard.press("Shift+Enter");
      assertEquals(await page.inputValue("#message"), "a\n");
      assertEquals(service.asked["/v1/chat/completions"], undefined);

      await send("code?");
      await last.locator(".hint").waitFor();
      assertEquals(asked(), {
        model: "other",
        messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "code?" }],
        temperature: 0.2,
        stream: true,
        stream_options: { include_usage: true },
      });
      assertEquals(await last.locator("p, pre").allTextContents().then((all) => all.slice(0, 3)), [
        "<img src=x onerror=alert(1)> Look:",
        "x = 1 < 2; // <b>no tag</b>",
        "and y <i> then.",
      ]);
      assertEquals(await last.locator("code").allTextContents(), ["y <i>"]);
      assertEquals(await last.locator("img, b, i").count(), 0);
      assertMatch((await last.locator(".hint").textContent())!, /^\d+ tokens .*· prompt of 11$/);
      assertEquals(await last.locator("h3").textContent(), "other");
      assertEquals(await focused(page), "message");

      // Those who listen hear sentences, not tokens, and all of them.
      await page.evaluate(`{
      globalThis.heard = 0;
      const observer = new MutationObserver(() => heard++);
      observer.observe(document.getElementById("speech"), { childList: true });
    }`);
      await send("more?");
      await page.getByText("more?").waitFor();
      assertEquals(await page.isVisible("#send"), false);
      await last.locator(".hint").waitFor();
      assertEquals(await page.getAttribute("#log", "aria-live"), "off");
      assertEquals(await page.textContent("#speech"), `${sentence.repeat(4)}The end.`);
      const heard = await page.evaluate<number>("heard");
      assert(heard >= 2 && heard <= 6, `${heard} announcements of 61 tokens`);
      assertMatch(
        (await last.locator(".hint").textContent())!,
        /^61 tokens · \d+\.\d tokens\/s · first after \d\.\d\d s · prompt of 11$/,
      );
      assertEquals((asked().messages as { role: string }[]).map(({ role }) => role), [
        "system",
        "user",
        "assistant",
        "user",
      ]);

      // A stop ends the request, and keeps what there is.
      await send("forever?");
      await page.getByText("It goes on").waitFor();
      assertEquals(await page.isVisible("#send"), false);
      await page.fill("#message", "meanwhile");
      await page.keyboard.press("Enter");
      assertEquals(await page.inputValue("#message"), "meanwhile");
      await page.click("#stop");
      await last.locator(".hint").waitFor();
      assertMatch((await last.locator(".hint").textContent())!, /^about 3 tokens .*stopped$/);
      assertEquals(await focused(page), "message");
      while (service.stats.inFlight > 0) await page.waitForTimeout(10);
      assert(service.gone >= 1);

      // Escape stops before the first token: the question comes back.
      const turns = await page.locator(".turn").count();
      await send("stuck?");
      await page.locator(".turn.busy").waitFor();
      await page.keyboard.press("Escape");
      await page.locator("#send").waitFor();
      assertEquals(await page.locator(".turn").count(), turns);
      assertEquals(await page.inputValue("#message"), "stuck?");

      // Errors: of a request, inside a stream, and of a stream without its end.
      await send("unknown?");
      await last.getByText('Error 400: there is no answer to "unknown?"').waitFor();
      assertEquals(await page.inputValue("#message"), "unknown?");
      await send("fails?");
      await last.getByText("Error: the answer took too long").waitFor();
      assertEquals(await last.locator(".text").textContent(), "It be");
      await send("ends?");
      await last.getByText("The answer ended early.").waitFor();
      await send("nothing?");
      await last.locator(".hint").waitFor();
      assertMatch((await last.locator(".hint").textContent())!, /^0 tokens · prompt of 11$/);
      const sent = (asked().messages as { role: string; content: string }[]).map((x) => x.content);
      assertEquals(sent.slice(-6), ["It goes on", "fails?", "It be", "ends?", "It be", "nothing?"]);

      // A clear conversation has no turns, and takes no part of an answer that still arrives.
      await send("forever?");
      await page.getByText("It goes on").last().waitFor();
      await page.click("#clear-chat");
      assertEquals(await page.locator(".turn").count(), 0);
      assertEquals(await focused(page), "message");
      await page.fill("#system", "");
      await send("code?");
      await last.locator(".hint").waitFor();
      assertEquals(asked().messages, [{ role: "user", content: "code?" }]);
      assertEquals(await page.locator(".turn").count(), 2);
    });
  },
);

test("page: a search ranks passages of a text, which are embedded once", options, async () => {
  await withPage({ models: { ...ALL, chat: [] } }, {}, async (page, service) => {
    const embedded = () => service.asked["/v1/embeddings"] ?? [];
    const results = page.locator("#results li p");
    const status = page.locator("#search-status");
    assertEquals(await page.locator("[role=tab]:visible").allTextContents(), [
      "Search",
      "Draw a digit",
    ]);
    const find = async (text: string) => {
      await page.fill("#query", text);
      await page.keyboard.press("Enter");
    };
    await find(" ");
    await status.getByText("Write what to search for.").waitFor();
    await find("puffins");
    await status.getByText("Paste a text first.").waitFor();
    assertEquals(embedded().length, 0);
    const filler = Array.from({ length: 40 }, (_, i) => `Filler number ${i}.`);
    const text = ["Puffins dig burrows near the ocean.", ...filler, "Violins have four strings."];
    await page.fill("#text", text.join("\n\n"));
    assertEquals(await page.textContent("#passages"), "42 passages");
    await find("Which birds? Puffins near an ocean");
    await status.getByText(/^42 passages, 256 numbers each, \d+ ms$/).waitFor();
    assertEquals(await results.count(), 10);
    assertEquals(await results.first().textContent(), text[0]);
    const scores = (await page.locator("#results .number").allTextContents()).map(Number);
    assert(scores[0]! > 0.5 && scores[0]! <= 1, `${scores}`);
    assertEquals(scores, scores.toSorted((a, b) => b - a));
    assertEquals(embedded().map(({ input }) => (input as string[]).length), [32, 10, 1]);
    assertEquals(embedded()[0]!.encoding_format, "base64");
    assertEquals(embedded()[0]!.model, "words");
    // The passages are kept for the next question.
    await find("strings of a violin");
    await results.first().getByText(text.at(-1)!).waitFor();
    assertEquals(embedded().length, 4);
    // Another model, which answers with numbers, has other vectors, and the same ranks here.
    await page.selectOption("#search-model", "numbers");
    await find("strings of violins");
    await results.first().getByText(text.at(-1)!).waitFor();
    assertEquals(embedded().length, 7);
    // Lines are passages if no line is blank; long paragraphs are cut between sentences.
    await page.fill("#text", "one\ntwo\nthree");
    assertEquals(await page.textContent("#passages"), "3 passages");
    await page.fill(
      "#text",
      "This sentence has forty-three characters. ".repeat(20),
    );
    assertEquals(await page.textContent("#passages"), "3 passages");
    await page.evaluate("document.getElementById('text').value = 'a\\n\\n'.repeat(2001)");
    await find("a");
    await status.getByText("The text has 2001 passages, more than 2000.").waitFor();
    await page.click("#sample");
    assertEquals(await page.textContent("#passages"), "8 passages");
  });
});

/** Lines to draw, each of points in a square of 252, for some digits. */
const DRAWINGS: Record<number, [number, number][][]> = {
  0: [Array.from({ length: 13 }, (_, i) => {
    const angle = i * Math.PI / 6;
    return [126 + 55 * Math.sin(angle), 126 - 90 * Math.cos(angle)];
  })],
  4: [[[115, 35], [65, 145], [185, 145]], [[150, 90], [150, 220]]],
  // The sevens of the data set are crossed.
  7: [[[75, 50], [175, 45], [110, 215]], [[90, 130], [165, 130]]],
};

/** The pixels of the last request, and those that examples/digits makes of the same drawing. */
async function pixelsOf(page: Page, service: PageService): Promise<[number[], number[]]> {
  const ink = await page.evaluate<number[]>(`{
    const { data } = paper.getContext("2d").getImageData(0, 0, paper.width, paper.height);
    Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 3] / 255);
  }`);
  const [{ data }] = service.asked["/v2/models/digits/infer"]!.at(-1)!.inputs as [
    { data: number[] },
  ];
  const expected = toPixels({ width: 280, height: 280, ink: Float32Array.from(ink) });
  return [data, Array.from(expected, (x) => x / 16)];
}

/** Draws lines with the mouse. */
async function draw(page: Page, lines: readonly [number, number][][]): Promise<void> {
  const { x: left, y: top, width } = (await page.locator("#paper").boundingBox())!;
  const move = ([x, y]: [number, number]) =>
    page.mouse.move(left + x * width / 252, top + y * width / 252);
  for (const [first, ...rest] of lines) {
    await move(first!);
    await page.mouse.down();
    for (const point of rest) await move(point);
    await page.mouse.up();
  }
}

test("page: digits drawn by a pointer are read", options, async () => {
  const given = { models: { chat: [], embeddings: [], digits: "digits" } };
  await withPage(given, { failures: [503] }, async (page, service) => {
    // There is one screen, and no tab for it.
    assertEquals(await page.isVisible("#tabs"), false);
    const answer = page.locator("#answer");
    const hint = await answer.textContent();
    for (const [digit, lines] of Object.entries(DRAWINGS)) {
      await page.click("#clear-paper");
      assertEquals(await answer.textContent(), hint);
      await draw(page, lines);
      await answer.getByText(`It is a ${digit}.`).waitFor();
      assertEquals(await page.textContent("#shares .best th"), digit);
      const shares = (await page.locator("#shares .share").allTextContents()).map(
        (text) => Number(/^(\d+\.\d) %$/.exec(text)![1]),
      );
      assertEquals(shares.length, 10);
      assertEquals(shares.indexOf(Math.max(...shares)), Number(digit));
      assert(Math.abs(shares.reduce((sum, share) => sum + share) - 100) < 1, `${shares}`);
      const [pixels, expected] = await pixelsOf(page, service);
      assertEquals(pixels, expected);
      assertEquals(service.asked["/v2/models/digits/infer"]!.at(-1)!.inputs, [
        { name: "images", shape: [1, 64], datatype: "FP32", data: pixels },
      ]);
    }
    // The server's message is shown while it refuses requests, and in the line of its health.
    await service.drain();
    await page.click("#paper");
    await answer.getByText("Error 503: the service has ended").waitFor();
    await page.locator("#health.bad").getByText("Not ready").waitFor();
  });
});

test("page: models answer it by the APIs of this library", options, async () => {
  const chat = await openChat("none", 16_384);
  const embedder = await openEmbedder();
  const metrics = new Metrics(undefined);
  const openai = openaiRoutes({ chat: { tiny: chat }, embeddings: { vectors: embedder } }, metrics);
  const weights = await loadLargeModel();
  const program = compile((images: Images) => probabilities(weights, images));
  const digits = {
    inputs: [{ name: "images", dtype: "float32", shape: ["images", 64] }],
    outputs: [{ name: "probabilities", dtype: "float32", shape: ["images", 10] }],
    run: ({ images }: { images: Images }) => ({ probabilities: program(images) }),
  };
  const routes = [...openai.routes, ...inferenceRoutes({ digits }, metrics)];
  const models = { chat: ["tiny"], embeddings: ["vectors"], digits: "digits" };
  try {
    await withPage({ models, routes }, { failures: [400] }, async (page, service) => {
      const last = page.locator(".turn.assistant").last();
      // With random weights the likeliest tokens repeat, until the answer is stopped.
      await page.fill("#temperature", "0");
      await page.fill("#message", "Name a colour.");
      await page.keyboard.press("Enter");
      await last.locator("p").getByText(/[^]{20}/).waitFor();
      await page.click("#stop");
      await last.locator(".hint").getByText(/tokens\/s.*stopped$/).waitFor();
      while (service.stats.inFlight > 0) await page.waitForTimeout(10);
      await page.fill("#message", "word ".repeat(20_000));
      await page.keyboard.press("Enter");
      await last.locator(".error").getByText(/^Error 400: /).waitFor();
      await page.click("#tab-search");
      await page.fill("#text", "w1 w2 w3\n\nw9 w8 w7\n\nw4 w5");
      await page.fill("#query", "w9 w8 w7");
      await page.keyboard.press("Enter");
      await page.locator("#search-status").getByText("3 passages").waitFor();
      assertEquals(await page.locator("#results li p").first().textContent(), "w9 w8 w7");
      assertEquals(await page.locator("#results .number").first().textContent(), "1.000");
      await page.click("#tab-digit");
      await draw(page, DRAWINGS[4]!);
      await page.locator("#answer").getByText("It is a 4.").waitFor();
    });
  } finally {
    openai.dispose?.();
    for (const one of [chat, embedder]) one.dispose();
  }
});

test("page: a digit is drawn by the keyboard alone", options, async () => {
  await withPage({ models: ALL }, { path: "#digit" }, async (page, service) => {
    const press = async (key: string, count = 1) => {
      for (let i = 0; i < count; i++) await page.keyboard.press(key);
    };
    await page.locator("#tab-digit[aria-selected=true]").waitFor();
    await page.focus("#tab-digit");
    while (await focused(page) !== "paper") await press("Tab");
    assertEquals(await page.locator("#pen").isVisible(), true);
    // A four: down to the left, to the right; then a line down.
    await press("PageUp", 2);
    await press("ArrowUp", 8);
    await press(" ");
    assertEquals(await page.textContent("#pen-status"), "The pen is down.");
    await press("End", 7);
    await press("ArrowDown", 5);
    await press("ArrowRight", 13);
    await press(" ");
    assertEquals(await page.textContent("#pen-status"), "The pen is up.");
    await press("ArrowLeft", 4);
    await press("ArrowUp", 6);
    await press(" ");
    await press("ArrowDown", 14);
    await page.locator("#answer").getByText("It is a 4.").waitFor();
    const [pixels, expected] = await pixelsOf(page, service);
    assertEquals(pixels, expected);
    await press("Delete");
    await page.locator("#answer").getByText("Draw a digit from 0 to 9.").waitFor();
    assertEquals(await page.locator("#shares .best").count(), 0);
    // At its border the paper ends; the pen stays on it.
    await press("ArrowLeft", 40);
    await press(" ");
    await page.locator("#answer").getByText(/^It is an? \d\.$/).waitFor();
    assertEquals(await page.evaluate("document.getElementById('pen').style.left"), "5%");
  });
});

test("page: tabs follow the keys of their pattern, and the address", options, async () => {
  await withPage({ models: ALL }, { path: "#search" }, async (page) => {
    const selected = () => page.getAttribute("[role=tab][aria-selected=true]", "id");
    const visible = () =>
      page.locator("[role=tabpanel]:visible").evaluateAll((all) => all.map(({ id }) => id));
    await page.locator("#search").waitFor();
    await page.focus("#tab-search");
    const order: (string | null)[] = [];
    for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End", "ArrowLeft"]) {
      await page.keyboard.press(key);
      assertEquals(await focused(page), await selected());
      assertEquals([`tab-${(await visible()).join()}`], [await selected()]);
      assertEquals(new URL(page.url()).hash, `#${await visible()}`);
      order.push(await selected());
    }
    const [chat, search, digit] = ["tab-chat", "tab-search", "tab-digit"];
    assertEquals(order, [digit, chat, digit, chat, digit, search]);
    // One of them is in the order of Tab.
    assertEquals(await page.locator("[role=tab][tabindex='0']").count(), 1);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Tab");
    assertEquals(await focused(page), search);
    await page.evaluate("location.hash = '#chat'");
    await page.locator("#chat").waitFor();
    assertEquals(await page.title(), "Chat – rowmajor");
    // All that takes the focus shows it.
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press("Tab");
      const style = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
      // After the last one the browser's own controls have it.
      const isInPage = await page.evaluate("document.activeElement !== document.body");
      assertEquals(style, isInPage ? "solid" : "none", await focused(page));
    }
  });
});

test("page: a server with keys asks for one, and takes it for this tab", options, async () => {
  const models = { chat: ["tiny"], embeddings: [] };
  const answers = { "hello?": ["Hello."] };
  await withPage(
    { models, answers, keys: ["right-key"] },
    { failures: [401] },
    async (page) => {
      await page.locator("#key").waitFor();
      assertEquals(await focused(page), "key-field");
      assertEquals(await page.locator("#chat").isVisible(), false);
      assert(!(await page.content()).includes("tiny"));
      await page.keyboard.type("wröng");
      await page.keyboard.press("Enter");
      await page.getByText("A key has visible ASCII characters only.").waitFor();
      await page.fill("#key-field", "wrong-key");
      await page.keyboard.press("Enter");
      await page.getByText("The server does not accept this key.").waitFor();
      await page.fill("#key-field", " right-key ");
      await page.keyboard.press("Enter");
      await page.locator("#welcome").waitFor();
      assertEquals(await focused(page), "message");
      await page.keyboard.type("hello?");
      await page.keyboard.press("Enter");
      await page.locator(".turn .hint").waitFor();
      // A key that is valid no more is asked for again, and no message is lost.
      await page.evaluate("key.set('old-key')");
      await page.keyboard.type("hello?");
      await page.keyboard.press("Enter");
      await page.getByText("The server does not accept this key.").waitFor();
      await page.fill("#key-field", "right-key");
      await page.keyboard.press("Enter");
      await page.locator("#chat").waitFor();
      assertEquals(await page.inputValue("#message"), "hello?");
      await page.keyboard.press("Enter");
      await page.locator(".turn .hint").nth(1).waitFor();
      await page.reload();
      await page.locator("#welcome").waitFor();
      assertEquals(await page.evaluate("localStorage.length"), 0);
      await page.click("#change-key");
      await page.locator("#key").waitFor();
      await page.reload();
      await page.locator("#key").waitFor();
    },
  );
});

test("page: without models or without an answer it says so", options, async () => {
  await withPage(
    { models: { chat: [], embeddings: [] } },
    { failures: [0] },
    async (page, service) => {
      await page.getByText("No model for this page").waitFor();
      await page.locator("#health").getByText("Ready").waitFor();
      await service.stop();
      await page.route("**/page.json", (route) => route.abort());
      await page.click("#again");
      await page.getByText("The server does not answer.").waitFor();
      await page.locator("#health.bad").getByText("No answer").waitFor();
    },
  );
});

/** A rule of axe-core that does not hold, and where. */
interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

const axe = program === undefined
  ? ""
  : readFileSync(join(root, "node_modules", "axe-core", "axe.min.js"), "utf8");

/** What axe-core finds. */
async function violationsIn(page: Page): Promise<string[]> {
  // The policy of the page bars scripts of others: this one is of the debugger.
  await page.evaluate(`if (!globalThis.axe) { ${axe} }`);
  const found = await page.evaluate("axe.run().then(({ violations }) => violations)");
  return (found as Violation[]).flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`)
  );
}

const WIDTHS = { light: [360, 1440], dark: [768] };

for (const colorScheme of ["light", "dark"] as const) {
  const widths = RUNS_ALL ? [360, 768, 1440] : WIDTHS[colorScheme];
  test(
    `page: axe-core finds nothing in ${colorScheme} colors`,
    options,
    async () => {
      const answers = { "code?": [CODE], "forever?": ["It ", "goes ", "on", "hold"] };
      const context = { colorScheme, failures: [400, 401], reducedMotion: "reduce" } as const;
      await withPage({ models: ALL, answers }, context, async (page) => {
        const broken: string[] = [];
        const check = async (what: string) => {
          for (const width of widths) {
            await page.setViewportSize({ width, height: 800 });
            const wide = await page.evaluate<number>("document.documentElement.scrollWidth");
            if (wide > width) broken.push(`${what} at ${width} px is ${wide} px wide`);
            broken.push(
              ...(await violationsIn(page)).map((text) => `${what}, ${width} px: ${text}`),
            );
          }
        };
        await page.locator("#welcome").waitFor();
        const groundOf = () =>
          page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
        const ground = await groundOf();
        const [red] = ground.match(/\d+/)!;
        assertEquals(Number(red) > 128, colorScheme === "light", ground);
        await check("welcome");
        await page.fill("#message", "code?");
        await page.keyboard.press("Enter");
        await page.locator(".turn .hint").waitFor();
        await page.fill("#message", "unknown?");
        await page.keyboard.press("Enter");
        await page.locator(".turn .error").waitFor();
        await page.fill("#message", "forever?");
        await page.keyboard.press("Enter");
        await page.getByText("It goes on").waitFor();
        const cursor = "getComputedStyle(document.querySelector('.turn.busy p'), '::after')";
        assertEquals(await page.evaluate(`${cursor}.content`), '""');
        assertEquals(await page.evaluate(`${cursor}.animationName`), "none");
        await page.evaluate("document.querySelector('details').open = true");
        await check("chat");
        await page.keyboard.press("Escape");
        await page.click("#tab-search");
        await page.click("#sample");
        await page.keyboard.press("Enter");
        await page.locator("#results li").first().waitFor();
        await check("search");
        await page.click("#tab-digit");
        await page.click("#paper");
        await page.locator("#shares .best").waitFor();
        await check("digit");
        // The other theme by the button, which the browser keeps.
        const pressed = () => page.getAttribute("#theme", "aria-pressed");
        assertEquals(await pressed(), String(colorScheme === "dark"));
        await page.click("#theme");
        assertEquals(await pressed(), String(colorScheme === "light"));
        await page.reload();
        await page.locator("#digit").waitFor();
        assertEquals(await pressed(), String(colorScheme === "light"));
        assert(await groundOf() !== ground);
        await page.evaluate("sessionStorage.setItem('rowmajor-key', 'x')");
        await page.route(
          "**/page.json",
          (route) => route.fulfill({ status: 401, json: { error: { message: "no" } } }),
        );
        await page.reload();
        await page.locator("#key-error").getByText("does not accept").waitFor();
        await check("key");
        assertEquals(broken, []);
      });
    },
  );
}
