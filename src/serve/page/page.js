// @ts-check
/// <reference lib="dom" />
// The program of the page: a chat, a search of pasted text, and drawn digits. It shows what models
// write as text only, and asks no other server.
"use strict";

/** @type {(id: string) => any} */
const get = (id) => document.getElementById(id);

/** Makes an element with a text. @type {(tag: string, className: string, text?: string) => any} */
function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

/** An item of the browser's storage, which its settings may refuse. */
class Item {
  /** @param {"localStorage" | "sessionStorage"} kind @param {string} name */
  constructor(kind, name) {
    this.kind = kind;
    this.name = name;
    this.value = "";
    try {
      this.value = globalThis[kind].getItem(name) ?? "";
    } catch { /* The value lives as long as the page. */ }
  }

  /** @param {string} value */
  set(value) {
    this.value = value;
    try {
      globalThis[this.kind].setItem(this.name, value);
    } catch { /* As above. */ }
  }
}

const theme = new Item("localStorage", "rowmajor-theme");
const key = new Item("sessionStorage", "rowmajor-key");

// ---- Themes ----

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => theme.value === "" ? prefersDark.matches : theme.value === "dark";

function showTheme() {
  if (theme.value !== "") document.documentElement.dataset.theme = theme.value;
  get("theme").setAttribute("aria-pressed", String(isDark()));
}
prefersDark.addEventListener("change", showTheme);
get("theme").addEventListener("click", () => {
  theme.set(isDark() ? "light" : "dark");
  showTheme();
});
showTheme();

// ---- The server ----

/** Shows how the server is; a text that stays is not announced again. @param {string} text */
function showHealth(text, isBad = false) {
  const health = get("health");
  health.classList.toggle("bad", isBad);
  if (health.textContent !== text) health.textContent = text;
}

async function checkHealth() {
  try {
    const { ok, status } = await fetch("readyz");
    showHealth(ok ? "Ready" : status === 503 ? "Not ready" : `Error ${status}`, !ok);
  } catch {
    showHealth("No answer", true);
  }
}

/** The message of what was thrown. @type {(error: any) => string} */
const textOf = (error) => error.message;

/** The message in an answer that is no success. @param {Response} response */
async function messageOf(response) {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return error.message ?? String(error);
  } catch {
    return text.trim() || response.statusText;
  }
}

/**
 * Asks the server, with the key if there is one. An error has the message of the server.
 *
 * @param {string} path
 * @param {{ body?: unknown, signal?: AbortSignal }} options
 */
async function ask(path, { body, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (key.value !== "") headers.authorization = `Bearer ${key.value}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  let response;
  try {
    response = await fetch(path, { method, headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    showHealth("No answer", true);
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  const message = await messageOf(response);
  if (response.status === 401) askForKey();
  else if (response.status === 503) checkHealth();
  throw new Error(`Error ${response.status}: ${message}`);
}

/** @param {string} path @param {{ body?: unknown, signal?: AbortSignal }} [options] */
const askJson = async (path, options) => (await ask(path, options)).json();

/** The texts of server-sent events. @param {ReadableStream<Uint8Array>} body */
async function* eventsOf(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = events.pop() ?? "";
      for (const event of events) {
        const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// ---- Screens ----

const tabs = [...get("tabs").children];
/** The screen of a tab. @type {(tab: any) => any} */
const screenOf = (tab) => get(tab.getAttribute("aria-controls"));
/** Tabs of the models that the server has. @type {any[]} */
let shown = [];

/** @param {any} tab */
function select(tab) {
  for (const other of tabs) {
    const isSelected = other === tab;
    other.setAttribute("aria-selected", String(isSelected));
    other.tabIndex = isSelected ? 0 : -1;
    screenOf(other).hidden = !isSelected;
  }
  document.title = `${tab.textContent} – rowmajor`;
  history.replaceState(null, "", `#${screenOf(tab).id}`);
  scrollTo(0, 0);
  if (tab === tabs[0] && turns.length > 0) toEnd();
}

/** The tab of the page's address. */
const wantedTab = () => shown.find((tab) => `#${screenOf(tab).id}` === location.hash);

/** Shows only one of the screens that are no tab. @param {string | undefined} id */
function showAlone(id) {
  for (const name of ["notice", "key"]) get(name).hidden = name !== id;
  for (const tab of tabs) screenOf(tab).hidden = true;
  get("tabs").hidden = id !== undefined || shown.length < 2;
}

/** @param {string} title @param {string} text */
function showNotice(title, text) {
  showAlone("notice");
  get("notice-title").textContent = title;
  get("notice-text").textContent = text;
}

function askForKey() {
  showAlone("key");
  get("key-error").textContent = key.value === "" ? "" : "The server does not accept this key.";
  get("change-key").hidden = true;
  get("key-field").focus();
}

/** Reads which models there are, and shows their screens. */
async function start() {
  /** @type {{ chat: string[], embeddings: string[], digits?: string }} */
  let models;
  try {
    models = await askJson("page.json");
  } catch (error) {
    if (get("key").hidden) showNotice("The page cannot begin", textOf(error));
    return;
  }
  const { chat, embeddings, digits } = models;
  offer("chat-model", chat);
  offer("search-model", embeddings);
  get("search-model-field").hidden = embeddings.length < 2;
  digitModel = digits;
  const has = [chat.length > 0, embeddings.length > 0, digits !== undefined];
  tabs.forEach((tab, i) => tab.hidden = !has[i]);
  shown = tabs.filter((tab) => !tab.hidden);
  get("change-key").hidden = key.value === "";
  const hadNoFocus = document.activeElement === document.body || !get("key").hidden;
  showAlone(undefined);
  const first = wantedTab() ?? shown[0];
  if (first === undefined) {
    return showNotice(
      "No model for this page",
      "The server has none for chats, embeddings or digits.",
    );
  }
  select(first);
  if (hadNoFocus) screenOf(first).querySelector("#message, #query, #paper").focus();
}

/** Fills a list of models. @param {string} id @param {string[]} names */
function offer(id, names) {
  const list = get(id), before = list.value;
  list.replaceChildren(...names.map((name) => new Option(name, name, false, name === before)));
}

for (const tab of tabs) tab.addEventListener("click", () => select(tab));
get("tabs").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const at = shown.indexOf(document.activeElement);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const tab = shown.at(to % shown.length);
  select(tab);
  tab.focus();
});
addEventListener("hashchange", () => {
  const tab = wantedTab();
  if (tab !== undefined && get("key").hidden) select(tab);
});
get("key").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const given = get("key-field").value.trim();
  if (!/^[\x21-\x7e]+$/.test(given)) {
    get("key-error").textContent = "A key has visible ASCII characters only.";
    return;
  }
  key.set(given);
  get("key-field").value = "";
  start();
});
get("change-key").addEventListener("click", () => {
  key.set("");
  askForKey();
});
get("again").addEventListener("click", start);

// ---- Chat ----

/** @type {{ role: string, content: string }[]} */
let turns = [];
/** Ends the answer that arrives. @type {AbortController | undefined} */
let answering;

const IDEAS = [
  "Explain row-major order in two sentences.",
  "Write a haiku about matrices.",
  "What is a good name for a cat?",
];

/** A text in parts: paragraphs, and code between fences. @param {string} text */
function partsOf(text) {
  /** @type {{ tag: string, text: string }[]} */
  const parts = [];
  let at = 0;
  const add = (/** @type {string} */ tag, /** @type {string} */ part) => {
    const trimmed = part.replace(/^\n+|\s+$/g, "");
    if (trimmed !== "") parts.push({ tag, text: trimmed });
  };
  for (const code of text.matchAll(/^```[^\n`]*\n([^]*?)(?:^```[ \t]*$|(?![^]))/gm)) {
    add("p", text.slice(at, code.index));
    add("pre", code[1] ?? "");
    at = code.index + code[0].length;
  }
  add("p", text.slice(at));
  return parts;
}

/**
 * Shows a text, always as text. Parts that did not change stay, and so does a selection in them.
 *
 * @param {any} box
 * @param {string} text
 */
function render(box, text) {
  const parts = partsOf(text);
  parts.forEach(({ tag, text }, i) => {
    let part = box.children[i];
    if (part?.localName !== tag) {
      const made = make(tag, "");
      if (tag === "pre") {
        // Long lines scroll, also by keys.
        made.tabIndex = 0;
        made.setAttribute("role", "group");
        made.setAttribute("aria-label", "Code");
      }
      if (part === undefined) box.append(made);
      else part.replaceWith(made);
      part = made;
    }
    if (part.source === text) return;
    part.source = text;
    /** @type {string[]} */
    const pieces = tag === "pre" ? [text] : text.split(/`([^`\n]+)`/);
    part.replaceChildren(
      ...pieces.map((piece, j) => j % 2 === 0 ? piece : make("code", "", piece)),
    );
  });
  while (box.children.length > parts.length) box.lastElementChild.remove();
}

/** Adds a turn to the conversation. @param {string} role @param {string} name */
function addTurn(role, name) {
  const turn = make("div", `turn ${role}`);
  const text = make("div", "text");
  turn.append(make("h3", role === "user" ? "unseen" : "", name), text);
  get("log").append(turn);
  get("welcome").hidden = true;
  return { turn, text };
}

/** Says texts to those who listen to the page: whole sentences, as tokens would be read one by one. */
class Speech {
  #said = 0;

  constructor() {
    get("speech").replaceChildren();
  }

  /** @param {string} text */
  follow(text, isWhole = false) {
    const rest = text.slice(this.#said);
    const part = isWhole ? rest : /^[^]{80,}(?:[.!?:]\s|\n)/.exec(rest)?.[0] ?? "";
    if (part !== "") get("speech").append(make("p", "", part));
    this.#said += part.length;
  }
}

function toEnd() {
  scrollTo({ top: document.documentElement.scrollHeight });
}

const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;

/** @param {boolean} isBusy */
function setBusy(isBusy) {
  const hadFocus = [get("send"), get("stop")].includes(document.activeElement);
  get("send").hidden = isBusy;
  get("stop").hidden = !isBusy;
  if (hadFocus) (isBusy ? get("stop") : get("message")).focus();
}

/** The figures of an answer. @param {any} figures */
function figuresOf({ begin, first, last, count, usage, reason }) {
  const tokens = usage?.completion_tokens ?? count;
  const facts = [`${usage ? "" : "about "}${tokens} ${tokens === 1 ? "token" : "tokens"}`];
  if (tokens > 1 && last > first) {
    facts.push(`${((tokens - 1) / (last - first) * 1000).toFixed(1)} tokens/s`);
  }
  if (first !== undefined) facts.push(`first after ${((first - begin) / 1000).toFixed(2)} s`);
  if (usage !== undefined) facts.push(`prompt of ${usage.prompt_tokens}`);
  if (reason === "length") facts.push("ended at the limit of tokens");
  if (reason === "stopped") facts.push("stopped");
  return facts.join(" · ");
}

/** Sends a message, and shows the answer while it arrives. @param {string} content */
async function say(content) {
  const abort = answering = new AbortController();
  const { signal } = abort;
  const model = get("chat-model").value, system = get("system").value.trim();
  const messages = [
    ...system === "" ? [] : [{ role: "system", content: system }],
    ...turns,
    { role: "user", content },
  ];
  const question = addTurn("user", "You");
  render(question.text, content);
  const { turn, text } = addTurn("assistant", model);
  turn.classList.add("busy");
  setBusy(true);
  toEnd();
  const speech = new Speech();
  let answer = "", frame = 0;
  /** @type {any} */
  const figures = { begin: performance.now(), count: 0 };
  const show = () => {
    frame = 0;
    const follows = isAtEnd();
    render(text, answer);
    if (follows) toEnd();
  };
  /** @type {any} */
  let failure;
  try {
    const body = {
      model,
      messages,
      temperature: Number(get("temperature").value),
      stream: true,
      stream_options: { include_usage: true },
    };
    const response = await ask("v1/chat/completions", { signal, body });
    for await (const event of eventsOf(/** @type {any} */ (response.body))) {
      if (event === "[DONE]") break;
      const { choices: [choice] = [], usage, error } = JSON.parse(event);
      if (error) throw new Error(`Error: ${error.message ?? error}`);
      if (usage) figures.usage = usage;
      figures.reason = choice?.finish_reason ?? figures.reason;
      const part = choice?.delta?.content;
      if (!part) continue;
      figures.last = performance.now();
      figures.first ??= figures.last;
      figures.count++;
      answer += part;
      speech.follow(answer);
      frame ||= requestAnimationFrame(show);
    }
    if (figures.reason === undefined) throw new Error("The answer ended early.");
  } catch (error) {
    if (signal.aborted) figures.reason = "stopped";
    else failure = error;
  }
  // A conversation that was cleared meanwhile takes no answer.
  if (answering !== abort) return;
  answering = undefined;
  cancelAnimationFrame(frame);
  turn.classList.remove("busy");
  show();
  setBusy(false);
  speech.follow(answer, true);
  if (answer !== "" || failure === undefined && figures.reason !== "stopped") {
    turns.push({ role: "user", content }, { role: "assistant", content: answer });
    text.after(make("p", "hint", figuresOf(figures)));
  } else {
    // The question is not lost, and may be sent again.
    question.turn.remove();
    if (failure === undefined) turn.remove();
    if (get("message").value === "") get("message").value = content;
    get("welcome").hidden = get("log").children.length > 0;
  }
  if (failure !== undefined) {
    const alert = make("p", "error", failure.message);
    alert.setAttribute("role", "alert");
    turn.append(alert);
  }
  toEnd();
}

get("composer").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const content = get("message").value.trim();
  if (content === "" || answering !== undefined) return;
  get("message").value = "";
  say(content);
});
get("message").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  get("composer").requestSubmit();
});
get("stop").addEventListener("click", () => answering?.abort());
get("chat").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Escape") answering?.abort();
});
get("clear-chat").addEventListener("click", () => {
  const abort = answering;
  answering = undefined;
  abort?.abort();
  turns = [];
  get("log").replaceChildren();
  get("speech").replaceChildren();
  get("welcome").hidden = false;
  setBusy(false);
  get("message").focus();
});
get("ideas").append(...IDEAS.map((idea) => {
  const button = make("button", "", idea);
  button.type = "button";
  button.addEventListener("click", () => {
    get("message").focus();
    say(idea);
  });
  return button;
}));
function showTemperature() {
  get("temperature-value").textContent = Number(get("temperature").value).toFixed(1);
}
get("temperature").addEventListener("input", showTemperature);
showTemperature();
const isWide = matchMedia("(min-width: 60.01rem)");
const fold = () => get("settings").open = isWide.matches;
isWide.addEventListener("change", fold);
fold();

// ---- Search ----

const PASSAGE = 400, MOST_PASSAGES = 2000, AT_ONCE = 32, RESULTS = 10;

/** The passages of the text whose vectors are known. @type {any} */
let index;
/** @type {AbortController | undefined} */
let searching;

const SAMPLE = [
  "Row-major order puts the elements of a row next to each other in memory.",
  "The Atlantic puffin spends most of the year on the open sea, and digs a burrow to breed.",
  "To bake a sourdough bread, feed the starter in the evening and knead the dough next morning.",
  "A bicycle's chain wears out sooner if it is dry: clean it, and put a drop of oil on each link.",
  "The moon's gravity raises the tides; twice a month the sun makes them stronger.",
  "Tomatoes taste better when they ripen on the plant, in full sun.",
  "A hash table finds an entry in constant time, unless many keys share one place.",
  "Violins are tuned in fifths, from the G below middle C up to E.",
].join("\n\n");

/** Passages: paragraphs, or lines if no line is blank; long ones in groups of sentences. @param {string} text */
function passagesOf(text) {
  const separator = /\n\s*\n/.test(text.trim()) ? /\n\s*\n/ : /\n/;
  const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });
  /** @type {string[]} */
  const passages = [];
  for (const paragraph of text.split(separator)) {
    let passage = "";
    for (const { segment } of sentences.segment(paragraph.trim())) {
      if (passage !== "" && passage.length + segment.length > PASSAGE) {
        passages.push(passage);
        passage = "";
      }
      passage += segment;
    }
    passages.push(passage);
  }
  return passages.map((passage) => passage.trim()).filter((passage) => passage !== "");
}

/** A vector of length 1, of numbers or of their bytes in base64. @param {string | number[]} given */
function vectorOf(given) {
  const vector = typeof given === "string"
    ? new Float32Array(Uint8Array.from(atob(given), (char) => char.charCodeAt(0)).buffer)
    : Float32Array.from(given);
  const length = Math.hypot(...vector) || 1;
  return vector.map((x) => x / length);
}

/** @param {string[]} input @param {string} model @param {AbortSignal} signal */
async function embed(input, model, signal) {
  const body = { model, input, encoding_format: "base64" };
  const { data } = await askJson("v1/embeddings", { body, signal });
  /** @type {Float32Array[]} */
  const vectors = [];
  for (const { index, embedding } of data) vectors[index] = vectorOf(embedding);
  return vectors;
}

/** @param {string} text */
function showSearch(text) {
  get("search-status").textContent = text;
}

/** The passages of the text and their vectors, which are kept. @param {AbortSignal} signal */
async function indexText(signal) {
  const model = get("search-model").value, text = get("text").value;
  if (index?.model === model && index.text === text) return index;
  const passages = passagesOf(text);
  if (passages.length === 0) throw new Error("Paste a text first.");
  if (passages.length > MOST_PASSAGES) {
    throw new Error(`The text has ${passages.length} passages, more than ${MOST_PASSAGES}.`);
  }
  const vectors = [];
  for (let at = 0; at < passages.length; at += AT_ONCE) {
    if (at > 0) showSearch(`Reading: ${at} of ${passages.length} passages`);
    vectors.push(...await embed(passages.slice(at, at + AT_ONCE), model, signal));
  }
  return index = { model, text, passages, vectors };
}

async function find() {
  searching?.abort();
  const { signal } = searching = new AbortController();
  const query = get("query").value.trim();
  get("results").replaceChildren();
  if (query === "") return showSearch("Write what to search for.");
  showSearch("Searching");
  try {
    const begin = performance.now();
    const { model, passages, vectors } = await indexText(signal);
    const [wanted] = await embed([query], model, signal);
    const scores = vectors.map((/** @type {Float32Array} */ vector) =>
      vector.reduce((sum, x, i) => sum + x * (wanted?.[i] ?? 0), 0)
    );
    const best = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, RESULTS);
    if (signal.aborted) return;
    get("results").append(...best.map((i, rank) => resultOf(rank, scores[i], passages[i])));
    const ms = Math.round(performance.now() - begin);
    const counted = `${passages.length} ${passages.length === 1 ? "passage" : "passages"}`;
    showSearch(`${counted}, ${wanted?.length} numbers each, ${ms} ms`);
  } catch (error) {
    if (!signal.aborted) showSearch(textOf(error));
  }
}

/** @param {number} rank @param {number} score @param {string} passage */
function resultOf(rank, score, passage) {
  const item = document.createElement("li");
  const line = make("div", "score");
  const bar = make("span", "bar");
  bar.style.setProperty("--share", String(Math.max(0, Math.min(score, 1))));
  line.append(make("span", "", `${rank + 1}`), bar, make("span", "number", score.toFixed(3)));
  item.append(line, make("p", "", passage));
  return item;
}

function countPassages() {
  const { length } = passagesOf(get("text").value);
  get("passages").textContent = length === 0
    ? ""
    : `${length} ${length === 1 ? "passage" : "passages"}`;
}
get("query-form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  find();
});
get("text").addEventListener("input", countPassages);
get("sample").addEventListener("click", () => {
  get("text").value = SAMPLE;
  countPassages();
  if (get("query").value === "") get("query").value = "seabirds";
  get("query").focus();
});

// ---- Digits ----

const paper = get("paper");
const ink = paper.getContext("2d", { willReadFrequently: true });
const SIZE = 280, WIDTH = 28, CELLS = 8, STEP = 10;
const HINT = "Draw a digit from 0 to 9.";

/** @type {string | undefined} */
let digitModel;
/** The input of the model, once it was asked for. @type {Promise<any> | undefined} */
let digitInput;
/** An answer that comes after a newer question is of no use. */
let question = 0;
/** The end of the line that is drawn, by a pointer. @type {number[] | undefined} */
let last;
/** The pen of the keyboard. */
const pen = { x: SIZE / 2, y: SIZE / 2, isDown: false };
/** @type {any} */
let pause;

const rows = Array.from({ length: 10 }, (_, digit) => {
  const row = get("shares").insertRow();
  const head = row.appendChild(make("th", "", `${digit}`));
  head.scope = "row";
  const cell = row.insertCell();
  const bar = make("span", "bar"), share = make("span", "share");
  cell.append(bar, share);
  return { row, bar, share };
});

/**
 * The drawing as the model takes it: the digit is cropped and scaled to a square of 8 x 8 cells, and
 * each one counts its ink in sixteenths. Undefined if the paper is blank.
 */
function pixelsOfPaper() {
  const { data } = ink.getImageData(0, 0, SIZE, SIZE);
  const isBlack = (/** @type {number} */ x, /** @type {number} */ y) =>
    (data[4 * (y * SIZE + x) + 3] ?? 0) >= 128;
  let top = SIZE, left = SIZE, bottom = -1, right = -1;
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) {
      if (!isBlack(x, y)) continue;
      top = Math.min(top, y);
      bottom = y;
      left = Math.min(left, x);
      right = Math.max(right, x);
    }
  }
  if (bottom < 0) return undefined;
  const side = Math.max(bottom - top, right - left) + 1;
  const step = side / CELLS;
  const startX = (left + right + 1 - side) / 2, startY = (top + bottom + 1 - side) / 2;
  const pixels = Array(CELLS * CELLS).fill(0);
  // The length that a pixel shares with a cell.
  const common = (/** @type {number} */ at, /** @type {number} */ start, /** @type {number} */ i) =>
    Math.max(0, Math.min(at + 1, start + (i + 1) * step) - Math.max(at, start + i * step));
  for (let y = top; y <= bottom; y++) {
    for (let x = left; x <= right; x++) {
      if (!isBlack(x, y)) continue;
      for (let i = 0; i < CELLS; i++) {
        const high = common(y, startY, i);
        if (high === 0) continue;
        for (let j = 0; j < CELLS; j++) pixels[i * CELLS + j] += high * common(x, startX, j);
      }
    }
  }
  return pixels.map((area) => Math.round(area / step ** 2 * 16) / 16);
}

/** Probabilities, also of a model that gives scores. @param {number[]} numbers */
function sharesOf(numbers) {
  const sum = numbers.reduce((a, b) => a + b, 0);
  if (Math.min(...numbers) >= 0 && Math.abs(sum - 1) < 0.01) return numbers;
  const powers = numbers.map((x) => Math.exp(x - Math.max(...numbers)));
  const all = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / all);
}

/** @param {number[] | undefined} shares */
function showShares(shares) {
  const best = shares?.indexOf(Math.max(...shares));
  rows.forEach(({ row, bar, share }, i) => {
    const x = shares?.[i] ?? 0;
    bar.style.setProperty("--share", String(x));
    share.textContent = shares === undefined ? "" : `${(x * 100).toFixed(1)} %`;
    row.className = i === best ? "best" : "";
  });
  get("answer").textContent = shares === undefined
    ? HINT
    : `It is ${best === 8 ? "an" : "a"} ${best}.`;
}

/** @param {number[] | undefined} pixels */
function showSeen(pixels) {
  const view = get("seen").getContext("2d");
  view.clearRect(0, 0, CELLS, CELLS);
  pixels?.forEach((share, i) => {
    view.fillStyle = `rgb(16 32 29 / ${share})`;
    view.fillRect(i % CELLS, Math.floor(i / CELLS), 1, 1);
  });
}

async function classify() {
  const mine = ++question;
  const pixels = pixelsOfPaper();
  showSeen(pixels);
  if (pixels === undefined) return showShares(undefined);
  const path = `v2/models/${encodeURIComponent(digitModel ?? "")}`;
  try {
    digitInput ??= askJson(path).then(({ inputs: [input] }) => input);
    const { name, shape } = await digitInput;
    // Of any number of images, one.
    const sizes = shape.map((/** @type {number} */ size) => size < 0 ? 1 : size);
    const inputs = [{ name, shape: sizes, datatype: "FP32", data: pixels }];
    const { outputs } = await askJson(`${path}/infer`, { body: { inputs } });
    const shares = sharesOf(outputs[0].data.flat());
    if (mine === question) showShares(shares);
  } catch (error) {
    digitInput = undefined;
    if (mine !== question) return;
    showShares(undefined);
    get("answer").textContent = textOf(error);
  }
}

/** @param {number[]} from @param {number[]} to */
function drawLine(from, to) {
  ink.strokeStyle = "#10201d";
  ink.lineWidth = WIDTH;
  ink.lineCap = ink.lineJoin = "round";
  ink.beginPath();
  ink.moveTo(from[0], from[1]);
  ink.lineTo(to[0], to[1]);
  ink.stroke();
}

/** @param {string} [note] */
function showPen(note) {
  const { style, classList } = get("pen");
  style.left = `${pen.x / SIZE * 100}%`;
  style.top = `${pen.y / SIZE * 100}%`;
  classList.toggle("down", pen.isDown);
  if (note !== undefined) get("pen-status").textContent = note;
}

function clearPaper() {
  ink.clearRect(0, 0, SIZE, SIZE);
  Object.assign(pen, { x: SIZE / 2, y: SIZE / 2, isDown: false });
  showPen("");
  classify();
}

/** @type {Record<string, number[]>} */
const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-1, -1],
  PageUp: [1, -1],
  End: [-1, 1],
  PageDown: [1, 1],
};
paper.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const move = MOVES[event.key];
  const before = [pen.x, pen.y];
  if (move !== undefined) {
    const inside = (/** @type {number} */ at) =>
      Math.max(WIDTH / 2, Math.min(at, SIZE - WIDTH / 2));
    pen.x = inside(pen.x + (move[0] ?? 0) * STEP);
    pen.y = inside(pen.y + (move[1] ?? 0) * STEP);
    showPen();
  } else if (event.key === " ") {
    pen.isDown = !pen.isDown;
    showPen(pen.isDown ? "The pen is down." : "The pen is up.");
  } else if (event.key === "Delete" || event.key === "Backspace") clearPaper();
  else return;
  event.preventDefault();
  if (!pen.isDown) return;
  drawLine(before, [pen.x, pen.y]);
  clearTimeout(pause);
  pause = setTimeout(classify, 150);
});

/** The place of a pointer on the paper. @param {PointerEvent} event */
function placeOf({ clientX, clientY }) {
  const { left, top, width, height } = paper.getBoundingClientRect();
  return [(clientX - left) / width * SIZE, (clientY - top) / height * SIZE];
}
paper.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
  if (event.button !== 0) return;
  paper.setPointerCapture(event.pointerId);
  last = placeOf(event);
  drawLine(last, last);
});
paper.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
  if (last === undefined) return;
  const place = placeOf(event);
  drawLine(last, place);
  last = place;
});
for (const name of ["pointerup", "pointercancel"]) {
  paper.addEventListener(name, () => {
    if (last !== undefined) classify();
    last = undefined;
  });
}
get("clear-paper").addEventListener("click", clearPaper);
showShares(undefined);

// ---- Begin ----

start();
checkHealth();
setInterval(() => document.hidden || checkHealth(), 30_000);
document.addEventListener("visibilitychange", () => document.hidden || checkHealth());
