/**
 * Small models of each kind in a folder, and the command in this process.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after } from "node:test";
import { main } from "../../src/command/command.ts";
import { withoutProgress } from "../example_program.ts";
import { writeModel } from "../embed/model.ts";
import { floats, makeModel } from "../onnx/make.ts";
import { rerankerFiles, TEMPLATES } from "../serve/models.ts";
import { randomLlama } from "../support/llama.ts";

/** The paths of the models. */
export interface ModelPaths {
  /** The folder of all. */
  readonly folder: string;
  /** A GGUF file, whose tokens are bytes and pairs of letters. */
  readonly chat: string;
  /** A folder with safetensors, for texts such as "the cat". */
  readonly embed: string;
  /** A folder with safetensors, for texts such as "w1 w2". */
  readonly rerank: string;
  /** A file that doubles 64 numbers, and gives the first 10. */
  readonly onnx: string;
}

/** Writes the models to a folder that is removed after the tests of a file. */
export async function writeModels(): Promise<ModelPaths> {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-command-"));
  after(() => rmSync(folder, { recursive: true }));
  const paths: ModelPaths = {
    folder,
    chat: join(folder, "talk.gguf"),
    embed: join(folder, "texts"),
    rerank: join(folder, "ranks"),
    onnx: join(folder, "twice.onnx"),
  };
  const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
  writeFileSync(paths.chat, randomLlama("q8_0", { ...sizes, template: TEMPLATES.none }));
  await writeModel(paths.embed);
  mkdirSync(paths.rerank);
  const files = rerankerFiles();
  const config = JSON.stringify({
    ...JSON.parse(String(files["config.json"])),
    architectures: ["RobertaForSequenceClassification"],
  });
  for (const [name, content] of Object.entries({ ...files, "config.json": config })) {
    writeFileSync(join(paths.rerank, name), content);
  }
  const ends = (name: string, value: number) => ({
    ...{ name, type: "int64" as const, dims: [1] },
    raw: new Uint8Array(new BigInt64Array([BigInt(value)]).buffer),
  });
  writeFileSync(
    paths.onnx,
    makeModel({
      inputs: [["x", "float32", ["n", 64]]],
      outputs: [["y", "float32", ["n", 10]]],
      nodes: [
        ["Mul", ["x", "two"], ["all"]],
        ["Slice", ["all", "from", "to", "axis"], ["y"]],
      ],
      tensors: [floats("two", [1], [2]), ends("from", 0), ends("to", 10), ends("axis", 1)],
    }),
  );
  return paths;
}

/** What a command printed, and its exit code. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command in this process. */
export async function run(...args: readonly string[]): Promise<Ran> {
  const { log } = console;
  const { stdout: { write }, stderr: { write: writeError } } = process;
  let stdout = "", stderr = "";
  console.log = (text: unknown) => void (stdout += `${text}\n`);
  process.stdout.write = (text: unknown) => {
    stdout += String(text);
    return true;
  };
  process.stderr.write = (text: unknown) => {
    stderr += String(text);
    return true;
  };
  try {
    const code = await main(args);
    return { code, stdout, stderr: withoutProgress(stderr) };
  } finally {
    console.log = log;
    process.stdout.write = write;
    process.stderr.write = writeError;
  }
}
