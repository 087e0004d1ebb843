/**
 * Executables of the command, and of the digits demo with the model inside, both with the library:
 * built by Bun, and by Deno if possible, and run elsewhere, leaving nothing behind except the cache.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { io, ones } from "../../mod.ts";
import { builtLibraries, HOST } from "../../scripts/release/package.ts";
import { KIND_BYTES } from "../../src/io/kinds.ts";
import { root } from "../../scripts/tools.ts";
import { endAnswering, startServe } from "../command/child.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { ggufMetadata, type GgufValue, writeGguf } from "../support/gguf.ts";
import { randomLlama } from "../support/llama.ts";
import { check, inDeno, makeExecutable, run, temporary } from "./support.ts";
import { floats, makeModel } from "../onnx/make.ts";

/**
 * The arguments of `deno task executable` in docs/install.md, except for the name of the
 * executable.
 */
const documented = /^deno task executable (.*) --out=digits$/m.exec(
  readFileSync(join(root, "docs", "install.md"), "utf8"),
)![1]!.split(" ");

/** Builds a program with this runtime, and runs it twice without the repository. */
async function makeAndRun(
  flags: readonly string[],
  program: readonly string[] = documented,
  expected: readonly string[] = ["accuracy: 97.8%"],
): Promise<void> {
  using folder = temporary();
  const [elsewhere, temp, cache] = ["elsewhere", "temporary", "cache"].map((name) =>
    join(folder.path, name)
  );
  for (const path of [elsewhere!, temp!]) mkdirSync(path);
  const out = join(elsewhere!, process.platform === "win32" ? "digits.exe" : "digits");
  await makeExecutable(out, [...program, ...flags]);
  const library = builtLibraries(HOST)[HOST]![0]!;
  chmodSync(elsewhere!, 0o555);
  using _ = { [Symbol.dispose]: () => chmodSync(elsewhere!, 0o755) };
  const env = { TMPDIR: temp!, TEMP: temp!, TMP: temp!, HOME: elsewhere!, ROWMAJOR_CACHE: cache! };
  const seen: unknown[] = [];
  for (let n = 0; n < 2; n++) {
    const { code, stdout, stderr } = await run(out, [], { cwd: elsewhere!, env });
    assertEquals([code, stderr], [0, ""]);
    for (const line of expected) assertStringIncludes(stdout, line);
    seen.push([
      [elsewhere!, temp!, cache!].map((path) => readdirSync(path, { recursive: true }).sort()),
      statSync(join(cache!, library.sha256, library.name)).ino,
    ]);
  }
  console.log(`executable: ${statSync(out).size} bytes, the library is kept, nothing is left`);
  assertEquals(seen[1], seen[0]);
  assertEquals(readdirSync(temp!), []);
}

/** A program that uses optional packages and an included file, and what it prints. */
const SEVERAL = [
  "tests/package/programs/several.ts",
  "--include=examples/digits/model.safetensors=weights/model.safetensors",
];
const SEEN = ["[8,8,1] 2016 [8,8,3]", "bias1 float32 [128]"];

/** A file of each format, with several tensors; the GGUF file is a small Llama. */
function embeddedFiles(): Record<string, Uint8Array> {
  const tensors = Object.fromEntries(
    Array.from({ length: 20 }, (_, i) => [`t${i}.weight`, ones([30, 10 + i])]),
  );
  const values: Record<string, GgufValue> = {
    "general.architecture": ["string", "llama"],
    "llama.block_count": ["uint32", 1],
    "llama.context_length": ["uint32", 64],
    "llama.embedding_length": ["uint32", 32],
    "llama.feed_forward_length": ["uint32", 64],
    "llama.attention.head_count": ["uint32", 2],
    "llama.attention.head_count_kv": ["uint32", 2],
    "llama.attention.layer_norm_rms_epsilon": ["float32", 1e-5],
    "llama.rope.freq_base": ["float32", 1e4],
  };
  const shapes: Record<string, number[]> = {
    ...{ token_embd: [16, 32], output_norm: [32], output: [16, 32] },
    ...{ "blk.0.attn_norm": [32], "blk.0.ffn_norm": [32] },
    ...Object.fromEntries(
      ["q", "k", "v", "output"].map((name) => [`blk.0.attn_${name}`, [32, 32]]),
    ),
    ...{ "blk.0.ffn_gate": [64, 32], "blk.0.ffn_up": [64, 32], "blk.0.ffn_down": [32, 64] },
  };
  const weights = Object.entries(shapes).map(([name, shape]) => ({
    ...{ name: `${name}.weight`, type: 0, shape },
    bytes: new Uint8Array(4 * shape.reduce((a, b) => a * b)),
  }));
  return {
    safetensors: io.encodeSafetensors(tensors),
    npz: io.encodeNpz(tensors),
    npy: io.encodeNpy(ones([1000])),
    model: makeModel({
      outputs: [["y", "float32"]],
      nodes: [["Identity", ["w"], ["y"]]],
      tensors: [floats("w", [4096], Array(4096).fill(1))],
    }),
    gguf: writeGguf(ggufMetadata(values), Object.keys(values).length, weights),
  };
}

if (inDeno) {
  // Deno embeds a program in its smaller runtime, denort, which it downloads unless a file is
  // named.
  const named = process.env.DENORT_BIN !== undefined;
  if (!named) console.log("deno compile is not tested: DENORT_BIN does not name a denort");
  (named ? check : test.skip)(
    "deno compile makes the demo (needs DENORT_BIN)",
    () => makeAndRun([]),
  );
  (named ? check : test.skip)(
    "deno compile includes packages and the files that options name (needs DENORT_BIN)",
    () => makeAndRun([], SEVERAL, SEEN),
  );
} else {
  check("bun build --compile makes the demo", () => makeAndRun([]));
  check(
    "bun build --compile --minify includes packages and the files that options name",
    () => makeAndRun(["--minify"], SEVERAL, SEEN),
  );
  check(
    "bun build --compile --bytecode makes the demo, as an ES module",
    () => makeAndRun(["--bytecode", "--format=esm"]),
  );
  check("bun build --compile runs an engine with a constraint, its model inside", async () => {
    using folder = temporary();
    const model = join(folder.path, "model.gguf");
    const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
    writeFileSync(model, randomLlama("q8_0", sizes));
    const program = ["tests/package/programs/constrained.ts", `--include=${model}=model.gguf`];
    await makeAndRun([], program, ['native {"ok":true,"level":3}']);
  });
  check("bun build --compile makes the command, which serves from an empty folder", async () => {
    using folder = temporary();
    const out = join(folder.path, process.platform === "win32" ? "rowmajor.exe" : "rowmajor");
    await makeExecutable(out, ["src/command/main.ts"]);
    const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
    const model = join(folder.path, "tiny.gguf");
    writeFileSync(model, randomLlama("q8_0", sizes));
    const empty = join(folder.path, "empty");
    mkdirSync(empty);
    const env = { HOME: empty, ROWMAJOR_CACHE: join(folder.path, "cache") };
    await using server = await startServe(out, ["serve", "--port=0", model], { cwd: empty, env });
    assertEquals(await endAnswering(server), 0, server.said.stderr);
    assertStringIncludes(server.said.stderr, "bun, backend native");
    // The packages are inside.
    assertStringIncludes(server.said.stderr, "metrics at /metrics");
    assertEquals(readdirSync(empty), []);
  });
  if (RUNS_ALL) {
    check("bun build --compile --minify makes the demo", () => makeAndRun(["--minify"]));
    check("bun build --compile includes packages and files", () => makeAndRun([], SEVERAL, SEEN));
  }
  test("a file inside an executable is read once, by whatever opens it", async () => {
    using folder = temporary();
    const files = embeddedFiles();
    for (const [name, bytes] of Object.entries(files)) {
      writeFileSync(join(folder.path, `file.${name}`), bytes);
    }
    const names = Object.keys(files);
    const openAll = join(root, "tests", "package", "programs", "embedded_files.ts");
    const main = join(folder.path, "main.ts");
    writeFileSync(
      main,
      `import { openAll } from ${JSON.stringify(openAll)};
      ${
        names.map((name) => `import ${name} from "./file.${name}" with { type: "file" };`).join(
          "\n",
        )
      }
      await openAll({ ${names} });`,
    );
    const out = join(folder.path, "program");
    const built = await run(
      process.execPath,
      ["build", "--compile", `--outfile=${out}`, main],
      { cwd: root },
    );
    assertEquals(built.code, 0, built.stderr);
    // The files inside are meant, not those outside.
    for (const name of names) rmSync(join(folder.path, `file.${name}`));
    const { code, stdout, stderr } = await run(out, [], { cwd: folder.path });
    assertEquals([code, stderr], [0, ""]);
    const counts = JSON.parse(stdout) as Record<string, number>;
    assertEquals(Object.keys(counts).length, 10);
    for (const [opener, bytes] of Object.entries(counts)) {
      // An opener may read the first bytes twice: by them it knows the kind of a file.
      const { length } = files[opener.split(" ")[0]!]!;
      assert(bytes >= length && bytes <= length + KIND_BYTES, `${opener}: ${bytes} of ${length}`);
    }
  });
}
