/**
 * The types of the model: a shape that does not fit in src/llm/llama.ts does not compile.
 *
 * Compiles copies of that file, each with one mistake, in one run of the compiler.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import ts from "typescript";
import { root } from "../../scripts/tools.ts";

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
  const copies = new Map([[join(folder, "right.ts"), text]]);
  Object.entries(MISTAKES).forEach(([name, [right, wrong]], i) => {
    assert(text.split(right).length === 2, `llama.ts does not have ${right} once: ${name}`);
    copies.set(join(folder, `wrong${i}.ts`), text.replace(right, wrong));
  });
  const config = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => copies.has(path) || fileExists(path);
  host.readFile = (path) => copies.get(path) ?? readFile(path);
  const program = ts.createProgram([...copies.keys()], options, host);
  const counts = [...copies.keys()].map((path) => {
    const source = program.getSourceFile(path);
    assert(source !== undefined, `${path} is not compiled`);
    const faults = program.getSemanticDiagnostics(source);
    return Number(faults.length > 0);
  });
  const names = ["none", ...Object.keys(MISTAKES)];
  assertEquals(names.filter((_, i) => counts[i] === 0), ["none"]);
});
