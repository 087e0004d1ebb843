/**
 * Faults of types: entries 8 and 20 to 24. The programs in tests/faults/types compile, with an error
 * where they say so; the compiler runs once for all of them.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { findTool, root } from "../../../scripts/tools.ts";
import { fault } from "../support.ts";

const folder = join(root, "tests", "faults", "types");

let output: string | undefined;

/** The compiler's complaints about a program in tests/faults/types. */
function complaints(program: string): string[] {
  if (output === undefined) {
    const files = readdirSync(folder).filter((name) => name.endsWith("_types.ts")).map((name) =>
      join(folder, name)
    );
    const { stderr, error } = spawnSync(
      findTool("deno"),
      ["check", "--quiet", "--config", join(root, "deno.json"), ...files],
      { env: { ...process.env, NO_COLOR: "1" }, encoding: "utf8" },
    );
    if (error) throw error;
    output = stderr;
  }
  const parts = output.split(/^(?=TS\d+ \[ERROR\])/m).filter((part) => part.includes("[ERROR]"));
  assert(parts.every((part) => part.includes("_types.ts")), output);
  return parts.filter((part) => part.includes(program));
}

fault({
  entry: 8,
  kind: "methods repeat the dtype rules of the op table, and casts hide what differs",
  others: ["in-place ops", "reductions", "comparisons", "the generated table of types"],
}, () => {
  const text = readFileSync(join(root, "src", "tensor", "tensor.ts"), "utf8");
  const casts = text.match(/\bas (never|any)\b/g) ?? [];
  assert(casts.length <= 10, `${casts.length} casts to never`);
});

fault({
  entry: 20,
  kind: "results whose number is known are lists",
  others: ["nonzero", "split", "meshgrid", "broadcastTensors"],
}, () => assertEquals(complaints("counts_types.ts"), []));

fault({
  entry: 21,
  kind: "a conditional type that waits for a type parameter accepts no argument",
  others: ["comparisons", "ops in place", "int32 beside float32", "sizes that are parameters"],
}, () => assertEquals(complaints("scalars_types.ts"), []));

fault({
  entry: 22,
  kind: "texts with values in them lose the rank",
  others: ["sliceAxis", "an index in a text", "one text for several axes"],
}, () => assertEquals(complaints("patterns_types.ts"), []));

fault({
  entry: 23,
  kind: "a parameter that is only read refuses writable tensors",
  others: ["in-place ops on tensors that may be read-only", "an assignable layout"],
}, () => assertEquals(complaints("access_types.ts"), []));
