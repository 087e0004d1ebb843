/**
 * The types of models: a shape that does not fit in src/llm/blocks does not compile.
 *
 * Compiles copies of those files, each with one mistake, in one run of the compiler.
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

/** What is wrong → the file of blocks, how it says that, and what the mistake makes of it. */
const MISTAKES: Readonly<
  Record<string, readonly [file: string, right: string, wrong: string]>
> = {
  "a norm of another size": [
    "decoder",
    "weights.rmsNorm(names.norm, hidden, model.norm)",
    "weights.rmsNorm(names.norm, vocabulary, model.norm)",
  ],
  "sizes of a linear layer exchanged": [
    "mlp",
    "w.linear(names.down, hidden, intermediate, BIAS)",
    "w.linear(names.down, intermediate, hidden, BIAS)",
  ],
  "a fused layer of other inputs": [
    "attention",
    "w.linear(names.k, keys, hidden, BIAS)",
    "w.linear(names.k, hidden, keys, BIAS)",
  ],
  "the columns of keys for those of queries": [
    "attention",
    "w.linear(names.attentionOutput, hidden, queries, BIAS)",
    "w.linear(names.attentionOutput, hidden, sizes.keys, BIAS)",
  ],
  "norms of queries and keys exchanged": ["attention", "qNorm(q), heads)", "kNorm(q), heads)"],
  "another layer's input": [
    "mlp",
    "const [gate, up] = gateUp(x);",
    "const [gate, up] = gateUp(down(x));",
  ],
  "a product of different sizes": ["mlp", "activation(gate).mul(up)", "activation(gate).mul(x)"],
  "a result of another size": [
    "mlp",
    "return down(activation(gate).mul(up), { add })",
    "return gate",
  ],
  "rows in the place of their transpose": [
    "decoder",
    "let x: State = embedding(",
    "let x: State = norm(",
  ],
  "ids of one axis": [
    "decoder",
    "ids: Tensor<DType, [number, number]>",
    "ids: Tensor<DType, [number]>",
  ],
  "an output that is not of hidden states": [
    "decoder",
    "weights.linear(head, vocabulary, hidden,",
    "weights.linear(head, hidden, vocabulary,",
  ],
};
const FILES = [...new Set(Object.values(MISTAKES).map(([file]) => file))];

it("a shape that does not fit in the model does not compile", { timeout: 300_000 }, () => {
  const folder = join(root, "src", "llm", "blocks");
  const textOf = (file: string): string => readFileSync(join(folder, `${file}.ts`), "utf8");
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
    for (const file of FILES) write(file, textOf(file));
    const mistakes = Object.entries(MISTAKES);
    mistakes.forEach(([name, [file, right, wrong]], i) => {
      const text = textOf(file);
      assert(text.split(right).length === 2, `${file}.ts does not have ${right} once: ${name}`);
      write(`wrong${i}`, text.replace(right, wrong));
    });
    const files = [...FILES, ...mistakes.map((_, i) => `wrong${i}`)].map((name) => `${name}.ts`);
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
