/**
 * The types of the model: a shape that does not fit in src/llm/llama.ts does not compile.
 *
 * Compiles copies of that file, each with one mistake, in one run of the compiler.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { findTool, root } from "../../scripts/tools.ts";

/** What is wrong → how the file says it, and what the mistake makes of that. */
const MISTAKES: Readonly<Record<string, readonly [right: string, wrong: string]>> = {
  "a norm of another size": [
    "w.rmsNorm(names.firstNorm, hidden, norm)",
    "w.rmsNorm(names.firstNorm, intermediate, norm)",
  ],
  "sizes of a linear layer exchanged": [
    "w.linear(names.down, hidden, intermediate, bias)",
    "w.linear(names.down, intermediate, hidden, bias)",
  ],
  "a fused layer of other inputs": [
    "w.linear(names.k, keys, hidden, bias)",
    "w.linear(names.k, hidden, keys, bias)",
  ],
  "the columns of keys for those of queries": [
    "seen.asShape([x.shape[0], queries])",
    "seen.asShape([x.shape[0], keys])",
  ],
  "another layer's input": ["gateUp(second(y))", "gateUp(second(gate))"],
  "a product of different sizes": ["gate.silu().mul(up)", "gate.silu().mul(y)"],
  "a result of another size": ["x: down(gate.silu().mul(up), { add: y })", "x: gate"],
  "rows in the place of their transpose": ["let x: State = embedding(", "let x: State = norm("],
  "ids of two axes": ["ids: Tensor<DType, [number]>", "ids: Tensor<DType, [number, number]>"],
  "an output that is not of hidden states": [
    "weights.linear(head, vocabulary, hidden,",
    "weights.linear(head, hidden, vocabulary,",
  ],
};

it("a shape that does not fit in the model does not compile", { timeout: 300_000 }, () => {
  const folder = join(root, "src", "llm");
  const text = readFileSync(join(folder, "llama.ts"), "utf8");
  const temporary = mkdtempSync(join(tmpdir(), "rowmajor-llama-"));
  try {
    const write = (name: string, code: string): void => {
      const here = code.replace(
        /(from|import)(\s*\(?)"(\.[^"]*)"/g,
        (_, word, gap, path) => `${word}${gap}${JSON.stringify(join(folder, path))}`,
      );
      assert(here !== code);
      writeFileSync(join(temporary, `${name}.ts`), here);
    };
    write("right", text);
    const mistakes = Object.entries(MISTAKES);
    mistakes.forEach(([name, [right, wrong]], i) => {
      assert(text.split(right).length === 2, `llama.ts does not have ${right} once: ${name}`);
      write(`wrong${i}`, text.replace(right, wrong));
    });
    const files = ["right", ...mistakes.map((_, i) => `wrong${i}`)].map((name) => `${name}.ts`);
    const config = {
      extends: join(root, "tsconfig.json"),
      compilerOptions: { typeRoots: [join(root, "node_modules", "@types")] },
      files,
      include: [],
    };
    writeFileSync(join(temporary, "tsconfig.json"), JSON.stringify(config));
    const tsc = join(root, "node_modules", "typescript-7.0", "bin", "tsc");
    // Several checkers would each check what they share.
    const args = [tsc, "--singleThreaded", "--pretty", "false", "-p", temporary];
    const { stdout, error } = spawnSync(findTool("bun"), args, { cwd: root, encoding: "utf8" });
    if (error) throw error;
    // Only the copies: a wrong path or option is a fault elsewhere.
    const faulty = stdout.split("\n").filter((line) => /error TS\d+/.test(line))
      .map((line) => /(\w+)\.ts\(\d+,\d+\): error /.exec(line)?.[1] ?? line);
    assertEquals(
      [...new Set(faulty)].toSorted(),
      mistakes.map((_, i) => `wrong${i}`).toSorted(),
      stdout,
    );
  } finally {
    rmSync(temporary, { recursive: true });
  }
});
