/**
 * Trains a small transformer on a text, and has it write one.
 *
 *     deno run -A examples/characters/main.ts [FILE] [--steps=600]
 *     bun examples/characters/main.ts [FILE] [--steps=600]
 *
 * FILE is the guide for contributors by default.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { random } from "../../mod.ts";
import { learn, write } from "./model.ts";

const { values, positionals: [file] } = parseArgs({
  allowPositionals: true,
  options: { steps: { type: "string", default: "600" } },
});
const text = readFileSync(file ?? new URL("../../CONTRIBUTING.md", import.meta.url), "utf8");
const sizes = { context: 64, width: 96, heads: 4, layers: 2 };
const writer = await learn(text, sizes, { steps: Number(values.steps) }, (step, loss) => {
  if (step % 100 === 0) console.log(`step ${step}: loss ${loss.toFixed(3)}`);
});
console.log(write(writer, text.slice(0, 20), 400, random.key(7)));
const { user, system } = process.cpuUsage();
console.log(`\nseconds of processors: ${((user + system) / 1e6).toFixed(1)}`);
