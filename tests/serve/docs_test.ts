/**
 * docs/serving.md is correct: its commands run, and its defaults and metrics match the code.
 *
 * docs_test.ts runs the blocks of TypeScript. Commands of the other runtime run in its own run.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { encode } from "fast-png";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { loadDigits } from "../../examples/digits/digits.ts";
import * as prom from "prom-client";
import { info } from "../../mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import { LIMITS, makeService } from "../../src/serve/http/service.ts";
import { inferenceRoutes } from "../../src/serve/inference.ts";
import { openaiRoutes } from "../../src/serve/openai.ts";
import { OPENAI_LIMITS } from "../../src/serve/openai/limits.ts";
import { startServer } from "./child.ts";
import { openChat } from "./models.ts";

const SLOW = { timeout: 120_000 };
const runtime = "Deno" in globalThis ? "deno" : "bun";
const page = readFileSync(join(root, "docs", "serving.md"), "utf8");
/** The blocks of a language. */
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, "gm"))].map(([, text]) =>
    text
  );
/** The cells of the table below a heading. */
function table(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]!.split("\n## ")[0]!;
  return section.split("\n").filter((line) => line.startsWith("| ")).slice(2)
    .map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
}

/** Runs a command line without a shell; quotes hold words together. */
function run(line: string, cwd: string): SpawnSyncReturns<string> {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word);
  // A quote within a word, as in --name='value'.
  const args = line.includes("='")
    ? line.replace(/='([^']*)'/g, "=$1").split(" ")
    : words as string[];
  const [tool, ...rest] = args;
  const path = tool === "deno" || tool === "bun" ? findTool(tool) : tool!;
  return spawnSync(path, rest, {
    cwd,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
    timeout: 60_000,
  });
}

test("serving: the commands run as they are written", SLOW, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-serving-"));
  const server = await startServer(runtime);
  try {
    const { heldOut } = await loadDigits();
    const label = heldOut.labels.get(0);
    const [image] = heldOut.images.slice(":1").mul(16).toArray();
    const data = Uint8Array.from(image!, (ink) => ink * 255 / 16);
    writeFileSync(
      join(folder, "digit.png"),
      encode({ width: 8, height: 8, channels: 1, depth: 8, data }),
    );
    writeFileSync(join(folder, "digits.csv"), image!.join());
    const input = { name: "images", datatype: "FP32", shape: [1, 64] };
    const body = JSON.stringify({ inputs: [{ ...input, data: image!.map((ink) => ink / 16) }] });
    writeFileSync(join(folder, "digits.json"), body);
    const digitOf = (text: string): number => {
      const [{ data }] = JSON.parse(text).outputs;
      return data.indexOf(Math.max(...data));
    };
    const curl = spawnSync("curl", ["--version"]).status === 0;
    if (!curl) t.diagnostic("no curl here: its commands are not run");

    const make = "deno task executable ";
    const all = blocks("sh").flatMap((block) => block.trim().split("\n"));
    const lines = all.filter((line) => !line.startsWith(make));
    let ran = 0;
    for (const line of lines) {
      const [tool] = line.split(" ");
      if (tool === "curl" ? !curl : tool !== runtime) continue;
      ran++;
      const here = line.replaceAll("http://127.0.0.1:8000", server.url)
        .replace(/\bexamples\//g, `${root.replaceAll("\\", "/")}examples/`);
      const isServer = line.endsWith("server/main.ts");
      const { status, stdout, stderr } = run(isServer ? `${here} --help` : here, folder);
      assertEquals(status, 0, `${line}\n${stderr}`);
      if (isServer) assert(stdout.startsWith("usage: main.ts"));
      else if (tool === "curl") assertEquals(digitOf(stdout), label);
      else assert(new RegExp(`^${label} |"digit":${label},`).test(stdout), stdout);
    }
    assert(ran >= 2);
    if (runtime === "bun" && process.platform !== "win32") {
      // The executable contains everything.
      const out = join(folder, "digits-server");
      const words = all.find((line) => line.startsWith(make))!.slice(make.length).split(" ");
      assertEquals(words.pop(), "--out=digits-server");
      const made = spawnSync(
        process.execPath,
        [join(root, "scripts", "release", "executable.ts"), ...words, `--out=${out}`],
        { cwd: root, encoding: "utf8" },
      );
      assertEquals(made.status, 0, made.stderr);
      const help = spawnSync(out, ["--help"], { cwd: folder, encoding: "utf8" });
      assertEquals([help.status, help.stdout.split("\n")[0]], [0, "usage: main.ts [options]"]);
      const single = await startServer(out);
      try {
        // It carries the library that serves here, if one does. What it says elsewhere may come first.
        const [backend] = /^bun, backend .*$/m.exec(single.output()) ?? [single.output()];
        console.log(`executable: ${backend}`);
        assert(backend.startsWith(`bun, backend ${info().devices.cpu}`), backend);
        const headers = { "content-type": "application/json" };
        const url = `${single.url}/v2/models/digits/infer`;
        const answer = await fetch(url, { method: "POST", headers, body });
        assertEquals(digitOf(await answer.text()), label);
        assert((await (await fetch(single.url)).text()).startsWith("<!doctype html>"));
      } finally {
        await single.end();
      }
    }
  } finally {
    await server.end();
    rmSync(folder, { recursive: true });
  }
});

// Permissions are Deno's.
const testInDeno = runtime === "deno" ? test : () => {};
testInDeno("serving: the service's permissions are all that it needs", SLOW, async () => {
  const command = /(?<=^ExecStart=).*$/m.exec(blocks("ini")[0]!)![0].split(" ");
  const script = command.indexOf("examples/server/main.ts");
  assertEquals(command.slice(0, 3), ["/usr/local/bin/deno", "run", "--no-prompt"]);
  assertEquals(command.slice(script + 1), ["--port", "8000"]);
  const permissions = command.slice(3, script).map((flag) => flag.replace(":8000", ""));
  const server = await startServer("deno", [], permissions);
  try {
    // Under Linux at least, that process uses the same backend as this one, and names its library
    // if it is the one of this checkout.
    if (process.platform === "linux" && !process.env.ROWMAJOR_LIB) {
      // What it says elsewhere may come first.
      const backend = `deno, backend ${info().devices.cpu}`;
      assert(server.output().split("\n").some((line) => line.startsWith(backend)), server.output());
    }
  } finally {
    await server.end();
  }
});

test("serving: the tables name the defaults and the metrics that there are", async () => {
  const defaults = new Map(table("Defaults").map(([, value, , name]) => [name, value]));
  for (const [name, value] of Object.entries({ ...LIMITS, ...OPENAI_LIMITS })) {
    assertEquals(defaults.get(`\`limits.${name}\``), `${value}`, name);
  }

  using chat = await openChat();
  const metrics = new Metrics(prom);
  const api = openaiRoutes({ chat }, metrics);
  const routes = [...api.routes, ...inferenceRoutes({}, metrics)];
  using service = makeService({ routes, metrics, parts: [api] }, { metrics: prom });
  const response = await service.fetch(new Request("http://localhost/metrics"));
  const text = await response.text();
  const kinds = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, kind]) => [name, kind]);
  const told = table("Metrics").filter(([, kind]) => kind !== undefined && /^[a-z]+$/.test(kind))
    .map(([name, kind]) => [name!.replaceAll("`", ""), kind]);
  assertEquals(told.toSorted(), kinds.toSorted());
  const known = new Set(kinds.map(([name]) => name!));
  const alerts = readFileSync(join(root, "examples", "deploy", "alerts.yaml"), "utf8");
  const named = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => `\`${name}\``);
  assertEquals(table("Metrics").filter(([name]) => named.includes(name!)).length, named.length);
  for (const [, name] of alerts.matchAll(/\b(rowmajor_[a-z_]+?)(?:_bucket)?(?=[[{)])/g)) {
    assert(known.has(name!), `${name} is no metric`);
  }
  for (const [name] of page.matchAll(/\b(rowmajor|process)_[a-z_]+(?=[`{[ )])/g)) {
    assert(known.has(name), `${name} is no metric`);
  }
});
