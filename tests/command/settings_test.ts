/**
 * What `rowmajor serve` is told: arguments, a file, keys, and the addresses that need them.
 *
 * @module
 */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readText } from "../../scripts/tools.ts";
import { UsageError } from "../../src/command/arguments.ts";
import { type ServeSettings, settingsOf } from "../../src/command/settings.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-settings-"));
after(() => rmSync(folder, { recursive: true }));

/** The settings of arguments, with some variables. */
async function of(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<ServeSettings> {
  return (await settingsOf(args, (name) => variables[name]))!;
}

function write(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

const modelsOf = ({ models }: ServeSettings) =>
  models.map(({ name, kind, source }) => [name, kind, source]);

test("models are paths with names and kinds", async () => {
  const settings = await of([
    "a.gguf",
    "org/model",
    "embeddings:./folder/b",
    "big=c/d.gguf",
    "r=rerank:e",
    "C:\\f.onnx",
  ]);
  assertEquals(modelsOf(settings), [
    ["a", undefined, "a.gguf"],
    ["org/model", undefined, "org/model"],
    ["b", "embeddings", "./folder/b"],
    ["big", undefined, "c/d.gguf"],
    ["r", "rerank", "e"],
    ["f", undefined, "C:\\f.onnx"],
  ]);
  const odd = write("a=b.gguf", "");
  assertEquals(modelsOf(await of([odd, "./x=y.gguf"])), [
    ["a=b", undefined, odd],
    ["x=y", undefined, "./x=y.gguf"],
  ]);
  const { host, port, keys, hosts, log, metrics, drainMs, graceMs, limits } = settings;
  assertEquals([host, port, keys, log, metrics], ["127.0.0.1", 8080, [], "text", undefined]);
  assertEquals([drainMs, graceMs, limits, settings.logPrompts], [500, 30_000, {}, false]);
  assertEquals(settings.models[0]!.engine.slots, undefined);
  assertEquals(hosts?.includes("localhost"), true);
});

test("options have their values", async () => {
  const settings = await of([
    ...["m.gguf", "--port=0", "--slots=4", "--context=512", "--queue=9", "--cache-tokens=4096"],
    ...["--speculate", "--int8", "--device=cuda", "--cache=q8_0", "--threads=3", "--log=json"],
    ...["--body-bytes=1000", "--per-key=2", "--most-choices=1", "--most-queue=7", "--no-metrics"],
    ...["--drain-ms=0", "--grace-ms=5", "--download", "--log-prompts"],
  ]);
  const { limits, openaiLimits, models: [model], ...rest } = settings;
  const sizes = { slots: 4, context: 512, cache: 4096, queue: 9, speculate: true };
  assertEquals(model!.engine, sizes);
  assertEquals(limits, { bodyBytes: 1000, perKey: 2 });
  assertEquals(openaiLimits, { choices: 1, queue: 7 });
  assertEquals([model!.int8, model!.device, model!.cache], [true, "cuda", "q8_0"]);
  const { port, threads, log, logPrompts, metrics, drainMs, graceMs, download } = rest;
  assertEquals([port, threads, log, logPrompts, metrics], [0, 3, "json", true, false]);
  assertEquals([drainMs, graceMs, download], [0, 5, true]);
});

test("keys come from files and variables, and those of arguments warn", async () => {
  const file = write("keys", "# of the team\nfirst\n\n  second  \n");
  const both = await of(["m", `--key-file=${file}`], { ROWMAJOR_KEYS: "third fourth" });
  assertEquals(both.keys, ["first", "second", "third", "fourth"]);
  assertEquals([both.hosts, both.warnings], [undefined, []]);
  const other = await of(["m", "--key-env=MINE"], { ROWMAJOR_KEYS: "no", MINE: "yes" });
  assertEquals(other.keys, ["yes"]);
  const seen = await of(["m", "--key=secret"]);
  assertEquals([seen.keys, seen.warnings.length], [["secret"], 1]);
  assertMatch(seen.warnings[0]!, /^--key: other users of this machine can see it/);
});

test("other machines need a key, or that the user says so", async () => {
  for (const host of ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org"]) {
    const why = "give --key-file or set ROWMAJOR_KEYS, or say --no-key";
    await assertRejects(() => of(["m", `--host=${host}`]), UsageError, why);
    assertEquals((await of(["m", `--host=${host}`], { ROWMAJOR_KEYS: "k" })).hosts, undefined);
  }
  for (const host of ["localhost", "127.0.0.2", "::1", "[::1]"]) await of(["m", `--host=${host}`]);
  const open = await of(["m", "--host=192.168.1.2", "--no-key", "--allow-host=models.local"]);
  assertEquals(open.hosts?.slice(-2), ["192.168.1.2", "models.local"]);
  assertEquals((await of(["m", "--host=::", "--no-key"])).hosts?.length, 3);
  const named = await of(["m", "--allow-host=a.example"], { ROWMAJOR_KEYS: "k" });
  assertEquals(named.hosts?.includes("a.example"), true);
});

test("a file has models and options, and arguments come before it", async () => {
  mkdirSync(join(folder, "local", "model"), { recursive: true });
  write("keys2", "of-file");
  const file = write("serve.json", {
    models: [
      "one.gguf",
      { path: "local/model", name: "own", kind: "embeddings", int8: true },
      { path: "org/model", cache: "q8_0" },
    ],
    port: 9000,
    log: "json",
    noMetrics: true,
    keyFile: "keys2",
    allowHost: ["a.example", "b.example"],
    limits: { bodyBytes: 5000, answerMs: 60_000, tokens: 99 },
    slots: 2,
  });
  const settings = await of([`--config=${file}`, "--port=1", "last.gguf"]);
  assertEquals(modelsOf(settings), [
    ["one", undefined, join(folder, "one.gguf")],
    ["own", "embeddings", join(folder, "local", "model")],
    ["org/model", undefined, "org/model"],
    ["last", undefined, "last.gguf"],
  ]);
  const [, own, hub] = settings.models;
  assertEquals([own!.int8, own!.cache, hub!.int8, hub!.cache], [
    true,
    undefined,
    undefined,
    "q8_0",
  ]);
  const { port, log, metrics, keys, hosts, limits } = settings;
  assertEquals([port, log, metrics, keys], [1, "json", false, ["of-file"]]);
  assertEquals(hosts?.slice(-2), ["a.example", "b.example"]);
  assertEquals([limits, hub!.engine.slots], [{ bodyBytes: 5000, answerMs: 60_000 }, 2]);
  assertEquals(settings.openaiLimits, { tokens: 99 });
});

test("options of a model come before those of the file and of arguments", async () => {
  const sizes = { slots: 2, context: 1024, cacheTokens: 4096, queue: 5, speculate: false };
  const file = write("sizes.json", {
    models: [{ path: "large.gguf", ...sizes, int8: false }, "small.gguf"],
    ...{ slots: 8, queue: 6, int8: true },
  });
  const { models: [large, small] } = await of([
    ...[`--config=${file}`, "--slots=9", "--speculate", "--cache-tokens=9000"],
  ]);
  const { cacheTokens: cache, ...rest } = sizes;
  assertEquals([large!.engine, large!.int8], [{ ...rest, cache }, false]);
  const common = { slots: 9, context: undefined, cache: 9000, queue: 6, speculate: true };
  assertEquals([small!.engine, small!.int8], [common, true]);
});

test("the file of the deployment has options that there are", async () => {
  const deployed = JSON.parse(readText("examples/deploy/serve.json"));
  const file = write("deployed.json", { ...deployed, keyFile: write("deployed-keys", "k") });
  const settings = await of([`--config=${file}`]);
  assertEquals([settings.port, settings.keys, settings.metrics], [deployed.port, ["k"], true]);
  assertEquals(settings.limits, deployed.limits);
});

test("what cannot be meant is a UsageError that names it", async () => {
  const config = (name: string, content: unknown) => `--config=${write(name, content)}`;
  for (
    const [args, message] of [
      [[], "there is no MODEL"],
      [["a.gguf", "b/a.gguf"], "two models are named a"],
      [["a", "--port=70000"], "--port 70000: expected an integer from 0 to 65535"],
      [["a", "--port="], "--port : expected an integer"],
      [["a", "--slots=0"], "--slots 0"],
      [["a", "--body-bytes=1e999"], "--body-bytes 1e999: expected an integer of at least 1"],
      [["a", "--log=xml"], "--log xml: expected text, json, off"],
      [["a", "--prot=1"], "Unknown option '--prot'"],
      [["a", "--metrics", "--no-metrics"], "--metrics and --no-metrics exclude each other"],
      [["a", "--key=with space"], "a key has more than visible ASCII characters"],
      [["a", "--key-file=nowhere"], "--key-file nowhere: there is no such file"],
      [["a", `--key-file=${folder}`], ": it is a folder"],
      [["a", `--key-file=${write("empty", "# none\n")}`], "there are no keys in it"],
      [["a", "--key-env=NONE"], "--key-env NONE: there are no keys in this variable"],
      [["a", "--allow-host=http://x"], "--allow-host http://x: expected a name"],
      [["--config=nowhere.json"], "--config nowhere.json: there is no such file"],
      [[config("a.json", "{")], "not JSON"],
      [[config("b.json", [])], "expected an object"],
      [[config("c.json", { models: {} })], "models are no list"],
      [[config("d.json", { models: [{}] })], "a model has no path"],
      [[config("e.json", { models: [1] })], "a model is neither a text nor an object"],
      [[config("f.json", { models: ["a"], prot: 1 })], "there is no option prot"],
      [[config("l.json", { models: ["a"], limits: { port: 1 } })], "there is no limit port"],
      [[config("g.json", { models: ["a"], key: "k" })], "there is no option key"],
      [[config("h.json", { models: [{ path: "a", port: 2 }] })], "a has no option port"],
      [[config("m.json", { models: [{ path: "a", slots: 0 }] })], "--slots 0: expected an integer"],
      [["a", "--no-key", "--host="], "--host : expected a name or an address"],
      [["a", "--no-key", "--host=a:80"], "--host a:80: expected a name or an address"],
      [["a", "--no-key", "--host=http://a"], "--host http://a: expected a name or an address"],
      [[config("i.json", { models: [{ path: "a", kind: "talk" }] })], "--kind talk: expected chat"],
      [[config("j.json", { models: ["a"], port: {} })], "port is no text, number, flag or list"],
      [[config("k.json", { models: ["a"], port: true })], "--port"],
    ] as const
  ) {
    const error = await assertRejects(() => of(args), UsageError, message);
    assertEquals((error as Error).message.includes("\n"), false);
  }
});
