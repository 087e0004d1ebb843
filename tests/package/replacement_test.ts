/**
 * The package onnxruntime-node-rowmajor in the place of onnxruntime-node, and the plugin for
 * executables of Bun.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after } from "node:test";
import { stageNpm, stageReplacement } from "../../scripts/release/package.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { floats, makeModel } from "../onnx/make.ts";
import { check, librariesIn, run, temporary } from "./support.ts";

const stage = temporary();
after(() => stage[Symbol.dispose]());
const project = join(stage.path, "project");
const env = { HOME: stage.path, TMPDIR: stage.path, TEMP: stage.path };
const bun = findTool("bun");

/** A project whose onnxruntime-node is the replacement, as `overrides` make it. */
let installed: Promise<void> | undefined;
function install(): Promise<void> {
  return installed ??= (async () => {
    const modules = join(project, "node_modules");
    mkdirSync(modules, { recursive: true });
    await stageNpm(join(modules, "@rowmajor", "tensor"), librariesIn(stage.path));
    const staged = join(stage.path, "onnxruntime-node-rowmajor");
    await stageReplacement(staged);
    cpSync(staged, join(modules, "onnxruntime-node"), { recursive: true });
    cpSync(staged, join(modules, "onnxruntime-node-rowmajor"), { recursive: true });
    symlinkSync(join(root, "node_modules", "@bufbuild"), join(modules, "@bufbuild"), "junction");
    writeFileSync(join(project, "package.json"), '{ "type": "module" }');
    const model = makeModel({
      inputs: [["x", "float32", ["n", 2]]],
      outputs: [["y", "float32"]],
      nodes: [["MatMul", ["x", "w"], ["y"]]],
      tensors: [floats("w", [2, 1], [1, 10])],
    });
    writeFileSync(join(project, "model.onnx"), model);
  })();
}

check("onnxruntime-node-rowmajor uses the copy of the library that a program has", async () => {
  await install();
  const { dependencies, peerDependencies } = JSON.parse(
    readFileSync(join(project, "node_modules", "onnxruntime-node", "package.json"), "utf8"),
  );
  assertEquals(Object.keys(dependencies), ["@bufbuild/protobuf"]);
  assertEquals(Object.keys(peerDependencies), ["@rowmajor/tensor"]);
});

check("a package that is staged in node_modules has all declarations", async () => {
  await install();
  const types = join(project, "node_modules", "@rowmajor", "tensor", "src");
  for (const path of ["onnx/session", "onnx/model", "base/errors"]) {
    assert(existsSync(join(types, `${path}.d.ts`)), path);
  }
});

/** Runs the model, without a word about the library. */
const USE = `
  const model = new URL("./model.onnx", import.meta.url).pathname;
  const session = await ort.InferenceSession.create(process.argv[2] ?? model);
  const x = new ort.Tensor("float32", Float32Array.of(1, 2, 3, 4), [2, 2]);
  const { y } = await session.run({ x });
  console.log(y.dims.join(), Array.from(y.data).join());
`;

check(
  "onnxruntime-node-rowmajor: a program that requires or imports onnxruntime-node runs",
  async () => {
    await install();
    const required =
      `import { createRequire } from "node:module"; import process from "node:process";
    const ort = createRequire(import.meta.url)("onnxruntime-node"); ${USE}`;
    const imported =
      `import * as ort from "onnxruntime-node"; import process from "node:process"; ${USE}`;
    for (const [name, text] of Object.entries({ required, imported })) {
      writeFileSync(join(project, `${name}.mjs`), text);
      for (const [path, args] of [[bun, []], [findTool("deno"), ["run", "-A"]]] as const) {
        const found = await run(path, [...args, `${name}.mjs`], { cwd: project, env });
        assertEquals([found.code, found.stdout], [0, "2,1 21,43\n"], found.stderr);
      }
    }
  },
);

check("an executable of Bun has a module for sharp, and runs ONNX files", async () => {
  await install();
  // As transformers.js does: sharp is imported, onnxruntime-node is required when it runs.
  writeFileSync(
    join(project, "main.mjs"),
    `import "@rowmajor/tensor/onnx/register";
    import { createRequire } from "node:module";
    import sharp from "sharp";
    const ort = createRequire(import.meta.url)("onnxruntime-node"); ${USE}
    try { sharp(); } catch (error) { console.log(error.message); }`,
  );
  const out = join(stage.path, process.platform === "win32" ? "app.exe" : "app");
  writeFileSync(
    join(project, "build.mjs"),
    `import { plugin } from "@rowmajor/tensor/onnx/bun";
    const { success, logs } = await Bun.build({
      entrypoints: ["./main.mjs"],
      compile: { outfile: ${JSON.stringify(out)} },
      plugins: [plugin],
    });
    if (!success) throw new AggregateError(logs);`,
  );
  const built = await run(bun, ["build.mjs"], { cwd: project, env });
  assertEquals(built.code, 0, built.stderr);
  const empty = join(stage.path, "empty");
  mkdirSync(empty);
  cpSync(join(project, "model.onnx"), join(empty, "model.onnx"));
  const found = await run(out, ["model.onnx"], { cwd: empty, env });
  assertEquals(
    [found.code, found.stdout],
    [
      0,
      "2,1 21,43\nCannot decode or resize a picture in this executable: it has no sharp; " +
      "pass a RawImage of the size that the model takes\n",
    ],
    found.stderr,
  );
});
