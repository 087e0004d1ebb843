/**
 * Measures loops that drop large results without disposing of them, in one turn of the event loop:
 * the memory that stays resident, and the time.
 *
 *     deno run -A bench/memory/dropped.ts [--mod=PATH] [--lib=PATH] [--time]
 *
 * Runs each loop on Deno and on Bun, in processes of their own: over tensors, and over plain
 * Float32Arrays. The resident memory of the tensors at the end may exceed the live bytes and what
 * the plain arrays hold by 256 MiB; more fails the run. `--lib` names another native library, and
 * `--mod` another checkout's mod.ts. `--time` prints times of ops only.
 *
 * @module
 */
import process from "node:process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, start } from "../../scripts/tools.ts";
import { median } from "../harness/suite.ts";

const { values } = parseArgs({
  options: {
    mod: { type: "string", default: join(root, "mod.ts") },
    lib: { type: "string" },
    loop: { type: "string" },
    plain: { type: "boolean", default: false },
    time: { type: "boolean", default: false },
  },
});

const LIMIT = 2 ** 28;

/** Lengths of the results of a loop, one after the other, in elements of 4 bytes. */
const LOOPS: Readonly<Record<string, { lengths: readonly number[]; turns: number }>> = {
  // 100 KB come from the runtime, 4 to 40 MB from the native library.
  "small and large": { lengths: [...Array(40).fill(25_000), 1e6, 2.5e6, 10e6], turns: 400 },
  // 280 MB, and 4 to 64 MB, have a length of their own in each turn.
  "many sizes": {
    lengths: [70e6, ...Array.from({ length: 16 }, (_, i) => (i + 1) * 1e6)],
    turns: 20,
  },
};

interface Array1 {
  add(x: number): unknown;
}

/** What makes an array of ones of a length: a tensor, or a plain array with an `add`. */
async function maker(): Promise<(length: number) => Array1> {
  if (!values.plain) {
    const { ones } = await import(values.mod!);
    return (length) => ones([length]);
  }
  return (length) => {
    const x = new Float32Array(length).fill(1);
    return {
      add(y) {
        const out = new Float32Array(length);
        for (let i = 0; i < length; i++) out[i] = x[i]! + y;
        return out;
      },
    };
  };
}

/** Runs a loop in this process. */
async function runLoop(name: string): Promise<void> {
  const { lengths, turns } = LOOPS[name]!;
  const make = await maker();
  const operands = new Map(lengths.map((length) => [length, make(length)]));
  const begin = performance.now();
  for (let turn = 0; turn < turns; turn++) {
    for (const length of lengths) operands.get(length)!.add(turn);
  }
  const milliseconds = performance.now() - begin;
  const resident = process.memoryUsage().rss;
  const live = [...operands.keys()].reduce((sum, length) => sum + 4 * length, 0);
  console.log(JSON.stringify({ resident, live, milliseconds }));
}

/** Times ops whose results are dropped, in this process. */
async function runTimes(): Promise<void> {
  const { ones } = await import(values.mod!);
  const results: string[] = [];
  for (const length of [1e5, 1e6, 1e7]) {
    const kept = Array.from({ length: 4 }, () => ones([length]));
    const x = kept[0];
    const times: number[] = [];
    const rounds = Math.max(60, 2e8 / length);
    for (let i = 0; i < rounds; i++) {
      const begin = performance.now();
      x.add(i).mul(2);
      times.push(performance.now() - begin);
    }
    const mean = times.slice(rounds / 4).reduce((a, b) => a + b) / (rounds * 3 / 4);
    results.push(
      `${length.toExponential(0)}: ${median(times).toFixed(3)} (mean ${mean.toFixed(3)})`,
    );
  }
  console.log(results.join("  "), ` resident ${(process.memoryUsage().rss / 1e6).toFixed(0)} MB`);
}

/** The output of this script with other arguments in a runtime. */
async function apart(runtime: "deno" | "bun", args: readonly string[]): Promise<string> {
  const script = [join(root, "bench", "memory", "dropped.ts"), `--mod=${values.mod}`, ...args];
  const lines: string[] = [];
  const env = { ...process.env };
  if (values.lib !== undefined) env.ROWMAJOR_LIB = values.lib;
  const all = runtime === "deno" ? ["run", "-A", "--no-check", ...script] : script;
  const code = await start(findTool(runtime), all, { env, onLine: (line) => lines.push(line) });
  if (code !== 0) throw new Error(lines.join("\n"));
  return lines.at(-1)!;
}

if (values.loop === "times") await runTimes();
else if (values.loop !== undefined) await runLoop(values.loop);
else {
  await ensureInstalled();
  for (const runtime of ["deno", "bun"] as const) {
    if (values.time) {
      console.log(`${runtime}: ms of x.add(i).mul(2): ${await apart(runtime, ["--loop=times"])}`);
      continue;
    }
    for (const name of Object.keys(LOOPS)) {
      const tensors = JSON.parse(await apart(runtime, [`--loop=${name}`]));
      const plain = JSON.parse(await apart(runtime, [`--loop=${name}`, "--plain"]));
      const most = tensors.live + LIMIT + plain.resident;
      const [held, live, holds, limit] = [tensors.resident, tensors.live, plain.resident, most]
        .map((bytes) => `${(bytes / 1e6).toFixed(0)} MB`);
      console.log(
        `${runtime}, ${name}: ${held} resident with tensors (${
          tensors.milliseconds.toFixed(0)
        } ms), ${holds} with plain arrays; ${live} live, so at most ${limit}`,
      );
      if (tensors.resident > most) process.exitCode = 1;
    }
  }
}
