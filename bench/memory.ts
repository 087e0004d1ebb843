/**
 * Watches the resident memory of a program that classifies digits over and over.
 *
 *     deno run -A bench/memory.ts [--backend=js|native] [--passes=N]
 *
 * Runs 10,000 forward passes of the digits model on Deno and on Bun, each in a process of its own,
 * and samples the resident set every 500 passes. Prints its growth after the first 2000, in which
 * engines compile and pools fill; more than 10% fails the run. Knows nothing of time.
 *
 * @module
 */
import process from "node:process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadDigits } from "../examples/digits/digits.ts";
import { classify, loadModel } from "../examples/digits/model.ts";
import { memory, scope, setBackend } from "../mod.ts";
import { ensureInstalled, findTool, root, start } from "../scripts/tools.ts";
import { median } from "./report.ts";

const EVERY = 500;
const WARM_UP = 2000;
const LIMIT = 0.1;
/** Samples whose medians are compared: garbage collection makes the resident set fluctuate. */
const WINDOW = 4;

const { values } = parseArgs({
  options: {
    backend: { type: "string" },
    passes: { type: "string", default: "10000" },
    here: { type: "boolean" },
  },
});

/** Runs the passes in this runtime; true if memory has not grown by more than the limit. */
async function watch(passes: number): Promise<boolean> {
  if (values.backend !== undefined) setBackend(values.backend as "js" | "native");
  const { heldOut: { images } } = await loadDigits();
  const model = await loadModel();
  const resident: number[] = [];
  for (let pass = 1; pass <= passes; pass++) {
    scope(() => classify(model, images)).dispose();
    if (pass % EVERY !== 0) continue;
    // As a server does between two requests.
    await new Promise((resolve) => setTimeout(resolve, 0));
    const bytes = process.memoryUsage().rss;
    if (pass >= WARM_UP) resident.push(bytes);
  }
  const growth = median(resident.slice(-WINDOW)) / median(resident.slice(0, WINDOW)) - 1;
  const name = process.versions.bun ? "Bun" : "Deno";
  const megabytes = resident.map((bytes) => (bytes / 1e6).toFixed(0)).join(" ");
  console.log(`${name}: resident MB from pass ${WARM_UP} on, every ${EVERY}: ${megabytes}`);
  console.log(
    `${name}: ${(growth * 100).toFixed(1)}% growth; tensors hold ` +
      `${(memory().bytes / 1e6).toFixed(1)} MB`,
  );
  return growth <= LIMIT;
}

const passes = Number(values.passes);
if (!(passes >= WARM_UP + 2 * WINDOW * EVERY)) {
  console.error(`--passes must be at least ${WARM_UP + 2 * WINDOW * EVERY}`);
  process.exit(2);
}
if (values.here) {
  if (!await watch(passes)) process.exitCode = 1;
} else {
  await ensureInstalled();
  const script = [join(root, "bench", "memory.ts"), "--here", ...process.argv.slice(2)];
  const codes = [
    await start(findTool("deno"), ["run", "-A", "--no-check", ...script]),
    await start(findTool("bun"), script),
  ];
  const grown = codes.some((code) => code !== 0);
  console.log(
    grown ? `FAILED: more than ${LIMIT * 100}% growth` : `no growth above ${LIMIT * 100}%`,
  );
  if (grown) process.exitCode = 1;
}
