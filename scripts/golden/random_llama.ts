/**
 * Writes tests/golden/models/random_llama.json: the best tokens of node-llama-cpp after prompts, by
 * models with random weights in the formats that no model of models/ has.
 *
 *     npm install node-llama-cpp       # in a folder
 *     random_llama.ts --peer=FOLDER
 *
 * With --keep=FOLDER it leaves the models there.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { runPeer } from "../../bench/suites/llama_peer.ts";
import { randomLlama, WIDE } from "../../tests/support/llama.ts";
import { root } from "../tools.ts";

const FORMATS = ["q4_k", "q5_k", "q6_k", "iq4_nl"] as const;
const PROMPTS = 8, LENGTH = 12, COUNT = 24;

const { values: { peer, keep } } = parseArgs({
  options: { peer: { type: "string" }, keep: { type: "string" } },
});
if (peer === undefined) {
  console.error("Cannot run node-llama-cpp: --peer=FOLDER is missing");
  process.exit(2);
}
/** Numbers that look random, of tokens that are text. */
const prompts = Array.from(
  { length: PROMPTS },
  (_, i) =>
    Array.from({ length: LENGTH }, (_, j) => 2 + (i + 1) * (j + 3) * 7919 % (WIDE.vocabulary - 2)),
);
mkdirSync(join(root, "tmp"), { recursive: true });
const folder = keep ?? mkdtempSync(join(root, "tmp", "llama-"));
const results: string[] = [];
try {
  for (const format of FORMATS) {
    const bytes = randomLlama(format);
    const model = join(folder, `${format}.gguf`);
    writeFileSync(model, bytes);
    const lines = runPeer(peer, { model, threads: 1, count: COUNT, prompts });
    const rows = lines.map(({ tokens, margins }) =>
      `   {"tokens": ${JSON.stringify(tokens)}, "margins": ${JSON.stringify(margins)}}`
    );
    const hash = createHash("sha256").update(bytes).digest("hex");
    results.push(
      `  "${format}": {\n   "sha256": "${hash}",\n   "greedy": [\n${rows.join(",\n")}\n   ]\n  }`,
    );
  }
} finally {
  if (keep === undefined) rmSync(folder, { recursive: true });
}
const given = prompts.map((ids) => `  ${JSON.stringify(ids)}`).join(",\n");
writeFileSync(
  join(root, "tests", "golden", "models", "random_llama.json"),
  `{\n "prompts": [\n${given}\n ],\n "formats": {\n${results.join(",\n")}\n }\n}\n`,
);
