/**
 * docs/serving.md is correct: its commands run, and its options, limits and metrics match the code.
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
import { MAX_SIDE } from "../../examples/digits/png.ts";
import { LIMITS, makeApp } from "../../examples/server/app.ts";
import { info } from "../../mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { startServer } from "./child.ts";

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
    writeFileSync(join(folder, "digits.json"), JSON.stringify({ images: [image] }));
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
      else assert(new RegExp(`^${label} |"digit":${label},`).test(stdout), stdout);
    }
    assert(ran >= 2);
    if (runtime === "bun" && process.platform !== "win32") {
      // The executable contains everything, and accepts the container's command line.
      const out = join(folder, "digits-server");
      const words = all.find((line) => line.startsWith(make))!.slice(make.length).split(" ");
      assertEquals(words.pop(), "--out=digits-server");
      const made = spawnSync(
        process.execPath,
        [join(root, "scripts", "release", "executable.ts"), ...words, `--out=${out}`],
        { cwd: root, encoding: "utf8" },
      );
      assertEquals(made.status, 0, made.stderr);
      const [, command] = /^CMD (\[.*\])$/m.exec(blocks("dockerfile")[0]!)!;
      const help = spawnSync(out, [...JSON.parse(command!), "--help"], {
        cwd: folder,
        encoding: "utf8",
      });
      assertEquals([help.status, help.stdout.split("\n")[0]], [0, "usage: main.ts [options]"]);
      const single = await startServer(out);
      try {
        // It carries the library that serves here, if one does. What it says elsewhere may come first.
        const [backend] = /^bun, backend .*$/m.exec(single.output()) ?? [single.output()];
        console.log(`executable: ${backend}`);
        assert(backend.startsWith(`bun, backend ${info().devices.cpu}`), backend);
        const body = JSON.stringify({ images: [image] });
        const headers = { "content-type": "application/json" };
        const answer = await fetch(`${single.url}/classify`, { method: "POST", headers, body });
        assertEquals((await answer.json()).results[0].digit, label);
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

test("serving: the tables name the limits, the options and the metrics that there are", async () => {
  const limits = table("Limits");
  const numbers = limits.map(([, limit]) => limit!.replaceAll(",", ""));
  const { maxBatch, maxWaitMs, queue, inFlight, perClient, bodyBytes, images } = LIMITS;
  const expected = [
    `${maxBatch}`,
    `${maxWaitMs} ms`,
    `${queue}`,
    `${inFlight}`,
    `${perClient}`,
    `${bodyBytes}`,
    `${images}`,
    `${MAX_SIDE} x ${MAX_SIDE}`,
    `${LIMITS.firstByteMs / 1000} s`,
    `${LIMITS.bodyMs / 1000} s`,
  ];
  assertEquals(numbers.slice(0, expected.length), expected);

  const source = readFileSync(join(root, "examples", "server", "main.ts"), "utf8");
  const [, usage] = /const USAGE = `([^]*?)`/.exec(source)!;
  const named = new Set([...page.matchAll(/`(--[a-z-]+)`/g)].map(([, name]) => name));
  named.delete("--help");
  for (const name of named) assert(usage!.includes(`  ${name} `), `${name} is no option`);

  const app = makeApp(() => []);
  const text = await app.metrics.text();
  const kinds = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, kind]) => [name, kind]);
  const told = table("Metrics").map(([name, kind]) => [name!.replaceAll("`", ""), kind]);
  assertEquals(told.toSorted(), kinds.toSorted());
});
