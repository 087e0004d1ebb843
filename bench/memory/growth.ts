/**
 * Watches the memory of programs that do the same over and over.
 *
 *     deno run -A bench/memory/growth.ts [--work=digits,program] [--backend=js|wasm|native] [--passes=N]
 *
 * `digits` classifies the held-out digits 10,000 times. `program` calls a compiled function of 100
 * small ops 1,000,000 times with `out`. Each runs on Deno and on Bun, in a process of its own, which
 * samples the resident set and the heap 20 times. Prints their growth after the first fifth, in
 * which engines compile and pools fill; more than 10% of the resident set, or of the heap of
 * `program`, fails the run. Knows nothing of time.
 *
 * @module
 */
import process from "node:process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadDigits } from "../../examples/digits/digits.ts";
import { classify, loadModel } from "../../examples/digits/model.ts";
import { type AnyTensor, memory, ones, scope, setBackend, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { ensureInstalled, findTool, root, start } from "../../scripts/tools.ts";
import { median } from "../harness/suite.ts";
import { PROGRAMS } from "../suites/programs.ts";

const SAMPLES = 20;
const WARM_UP = 4;
const LIMIT = 0.1;
/** Samples whose medians are compared: garbage collection makes both fluctuate. */
const WINDOW = 4;

/** What a process does, and how often if `--passes` does not say. */
interface Work {
  readonly passes: number;
  /** Whether the heap must be flat too. */
  readonly flatHeap: boolean;
  readonly make: () => Promise<() => void> | (() => void);
}

const WORK: Readonly<Record<string, Work>> = {
  digits: {
    passes: 10_000,
    // Handles of tensors fill it between two collections.
    flatHeap: false,
    make: async () => {
      const { heldOut: { images } } = await loadDigits();
      const model = await loadModel();
      return () => scope(() => classify(model, images)).dispose();
    },
  },
  program: {
    passes: 1_000_000,
    flatHeap: true,
    make: () => {
      const row = PROGRAMS.find(({ group }) => group === "small ops")!;
      const args = row.args.map((name) => ones(row.inputs[name]!.shape) as AnyTensor);
      const f = compile(row.program({}));
      const out = zeros([4, 4]) as AnyTensor;
      return () => f(...args, { out });
    },
  },
};

const { values } = parseArgs({
  options: {
    work: { type: "string", default: Object.keys(WORK).join() },
    backend: { type: "string" },
    passes: { type: "string" },
    here: { type: "boolean" },
  },
});

function growthOf(samples: readonly number[]): number {
  return median(samples.slice(-WINDOW)) / median(samples.slice(0, WINDOW)) - 1;
}

/** Does the work in this runtime; true if memory has not grown by more than the limit. */
async function watch(name: string): Promise<boolean> {
  const { passes: usual, flatHeap, make } = WORK[name]!;
  if (values.backend !== undefined) setBackend(values.backend as "js" | "native" | "wasm");
  const run = await make();
  const every = Math.ceil(Number(values.passes ?? usual) / SAMPLES);
  const [resident, heap]: [number[], number[]] = [[], []];
  for (let sample = 0; sample < SAMPLES; sample++) {
    for (let pass = 0; pass < every; pass++) run();
    // As a server does between two requests.
    await new Promise((resolve) => setTimeout(resolve, 0));
    const { rss, heapUsed } = process.memoryUsage();
    if (sample < WARM_UP) continue;
    resident.push(rss);
    heap.push(heapUsed);
  }
  const runtime = process.versions.bun ? "Bun" : "Deno";
  const grown = [["resident", resident], ["heap", heap]] as const;
  for (const [what, samples] of grown) {
    const megabytes = samples.map((bytes) => (bytes / 1e6).toFixed(0)).join(" ");
    console.log(
      `${runtime}, ${name}: ${what} MB every ${every} passes: ${megabytes}; ` +
        `${(growthOf(samples) * 100).toFixed(1)}% growth`,
    );
  }
  console.log(`${runtime}, ${name}: tensors hold ${(memory().bytes / 1e6).toFixed(1)} MB`);
  return growthOf(resident) <= LIMIT && !(flatHeap && growthOf(heap) > LIMIT);
}

const names = values.work.split(",");
if (!names.every((name) => name in WORK) || Number(values.passes ?? SAMPLES) < SAMPLES) {
  console.error(
    `usage: deno run -A bench/memory/growth.ts [--work=${
      Object.keys(WORK)
    }] [--backend=js|wasm|native] ` +
      `[--passes=N], N of at least ${SAMPLES}`,
  );
  process.exit(2);
}
if (values.here) {
  if (!await watch(names[0]!)) process.exitCode = 1;
} else {
  await ensureInstalled();
  const codes: (number | null)[] = [];
  for (const name of names) {
    // The last of two options counts.
    const given = [...process.argv.slice(2), "--here", `--work=${name}`];
    const script = [join(root, "bench", "memory", "growth.ts"), ...given];
    codes.push(await start(findTool("deno"), ["run", "-A", "--no-check", ...script]));
    codes.push(await start(findTool("bun"), script));
  }
  const grown = codes.some((code) => code !== 0);
  console.log(
    grown ? `FAILED: more than ${LIMIT * 100}% growth` : `no growth above ${LIMIT * 100}%`,
  );
  if (grown) process.exitCode = 1;
}
