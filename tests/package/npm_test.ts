/**
 * The package on npm: installed from its tarball in an empty project, it runs in Bun, in Deno and
 * in Node, has types, works in bundles, and includes its library in executables of Bun.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { HOST, stageDeno, stageNpm } from "../../scripts/release/package.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { endAnswering, startServe } from "../command/child.ts";
import { amount } from "../support/amount.ts";
import { randomLlama } from "../support/llama.ts";
import {
  check,
  globalsRead,
  librariesIn,
  program,
  report,
  run,
  temporary,
  told,
} from "./support.ts";

const bun = findTool("bun");
const stage = temporary();
after(() => {
  report();
  stage[Symbol.dispose]();
});
const project = join(stage.path, "project");
const cache = join(stage.path, "cache");
const env = { HOME: stage.path, ROWMAJOR_CACHE: cache, TMPDIR: stage.path, TEMP: stage.path };

/** Installs the package in a project, once. */
let installed: Promise<void> | undefined;
function install(): Promise<void> {
  return installed ??= (async () => {
    process.env.SITE_REPOSITORY = "https://example.org/me/it";
    const tarball = await stageNpm(join(stage.path, "npm"), librariesIn(stage.path));
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), '{ "type": "module" }');
    writeFileSync(join(project, "main.mjs"), program("@rowmajor/tensor"));
    const { code, stderr } = await run(bun, ["add", tarball], { cwd: project, env });
    assertEquals(code, 0, stderr);
  })();
}

check(
  "npm: installs without scripts and dependencies, and runs natively in Bun",
  async () => {
    await install();
    assertEquals(readdirSync(join(project, "node_modules")).sort(), [".bin", "@rowmajor"]);
    const outcome = await run(bun, ["main.mjs"], { cwd: project, env });
    assertEquals(told(outcome).cpu, "native");
    const manifest = JSON.parse(
      readFileSync(join(project, "node_modules/@rowmajor/tensor/package.json"), "utf8"),
    );
    assert(manifest.keywords.includes("tensor") && manifest.keywords.length >= 5);
    assertEquals(manifest.repository.url, "git+https://example.org/me/it.git");
    assertEquals(manifest.homepage, "https://example.org/me/it#readme");
    // Older module resolution finds it too.
    writeFileSync(
      join(project, "older.cjs"),
      `const { ones, info } = require("@rowmajor/tensor");
    console.log(ones([2]).sum().item(), info().devices.cpu);`,
    );
    const older = await run(bun, ["older.cjs"], { cwd: project, env });
    assertEquals(older.stdout, "2 native\n", older.stderr);
    assert(!existsSync(cache), "a package of files needs no cache");
  },
);

check(
  "npm: runs natively in Deno, and says why not without a permission",
  async () => {
    await install();
    const library = join(project, "node_modules", "@rowmajor", "tensor", "lib");
    for (
      const [permissions, cpu] of [[[`--allow-ffi=${library}`], "native"], [[], "wasm"]] as const
    ) {
      const args = ["run", "--quiet", "--no-prompt", ...permissions, "main.mjs"];
      const outcome = await run(findTool("deno"), args, { cwd: project, env });
      const { cpu: served, native } = told(outcome);
      assertEquals(served, cpu);
      if (cpu === "wasm") assertStringIncludes(native, "use --allow-ffi");
    }
    // By its path, without a folder of packages.
    const byPath = join(stage.path, "deno");
    stageDeno(byPath, join(stage.path, "npm"));
    writeFileSync(
      join(stage.path, "path.mjs"),
      program(pathToFileURL(join(byPath, "mod.js")).href),
    );
    const allowed = `--allow-ffi=${join(byPath, "lib")}`;
    const args = ["run", "--quiet", "--no-prompt", allowed, join(stage.path, "path.mjs")];
    const outcome = await run(findTool("deno"), args, { cwd: stage.path, env });
    assertEquals(told(outcome).cpu, "native");
    assert(!existsSync(cache));
    const [module, globals] = [join(byPath, "mod.js"), join(stage.path, "globals.mjs")];
    writeFileSync(globals, globalsRead(pathToFileURL(module).href));
    const { stdout } = await run(findTool("deno"), ["run", globals], { cwd: stage.path, env });
    assertEquals(JSON.parse(stdout), ["", "setImmediate"]);
  },
);

check(
  "npm: an uncaught error shows the program's line, and the library in one line",
  async () => {
    await install();
    writeFileSync(
      join(project, "wrong.mjs"),
      `import { ones } from "@rowmajor/tensor";
const y = ones([2, 3]).add(ones([4]));
console.log(y);`,
    );
    const commands: [string, string, string[]][] = [
      ["bun", bun, []],
      ["deno", findTool("deno"), ["run"]],
    ];
    if (spawnSync("node", ["--version"]).status === 0) {
      commands.push(["node", "node", []], ["node", "node", ["--enable-source-maps"]]);
    }
    for (const [runtime, path, args] of commands) {
      const { code, stderr } = await run(path, [...args, "wrong.mjs"], { cwd: project, env });
      assertEquals(code, 1, stderr);
      assertStringIncludes(stderr, "ShapeError: Cannot add shapes [2, 3] and [4]: axis -1");
      const frames = stderr.split("\n").filter((line) => /^ +at .*\.[mc]?[jt]s:/.test(line));
      const mine = frames.findIndex((line) => /wrong\.mjs:2:\d+\)?$/.test(line));
      assertEquals(mine, runtime === "bun" ? 0 : 1, stderr);
      assert(stderr.length < 2000, stderr);
      // Source maps name the module of the repository.
      const mapped = runtime === "deno" || args.includes("--enable-source-maps");
      if (mapped) assertMatch(frames[0]!, /\(rowmajor:src\/tensor\/tensor\.ts:\d+:\d+\)$/);
    }
    writeFileSync(
      join(project, "traced.mjs"),
      `import { ones } from "@rowmajor/tensor";
import { compile } from "@rowmajor/tensor/compile";
const f = compile((x) => x.matmul(x));
f(ones([2, 3]));`,
    );
    writeFileSync(join(project, "wrong.npy"), "not one");
    writeFileSync(
      join(project, "awaited.mjs"),
      `import { readNpy } from "@rowmajor/tensor/io";
await readNpy("wrong.npy");`,
    );
    // Node has the same frames as Deno.
    for (const [runtime, path, args] of commands.slice(0, amount(2, 4))) {
      const traced = (await run(path, [...args, "traced.mjs"], { cwd: project, env })).stderr;
      const own = traced.split("\n").filter((line) => /rowmajor:|@rowmajor.*:\d+:\d+/.test(line));
      // The method, and the compiled function. Bun has no frames of calls at the end of functions.
      assertEquals(own.length, runtime === "bun" ? 0 : 2, traced);
      const permission = runtime === "deno" ? ["-A"] : [];
      const options = { cwd: project, env };
      const { stderr } = await run(path, [...args, ...permission, "awaited.mjs"], options);
      assertStringIncludes(stderr, "FormatError: wrong.npy at byte 0: not an npy file");
      const inner = stderr.split("\n").filter((line) => /rowmajor:|@rowmajor.*:\d+:\d+/.test(line));
      assertEquals(inner.length, 1, stderr);
      assert(stderr.length < 2000, stderr);
    }
  },
);

/** The folder of the package that README's lines for Deno name. */
const LINKED = "../rowmajor/zig-out/package/deno";

check(
  "Deno: all entry points of a linked package, as README sets it up",
  async () => {
    await install();
    using folder = temporary();
    const linked = join(folder.path, LINKED.slice(3));
    stageDeno(linked, join(stage.path, "npm"));
    const app = join(folder.path, "app");
    mkdirSync(app);
    const row = readFileSync(join(root, "README.md"), "utf8").split("\n")
      .find((line) => line.includes(LINKED))!;
    const lines = Array.from(row.matchAll(/`("(?:links|imports)": [^`]+)`/g), ([, line]) => line);
    assertEquals(lines.length, 2);
    writeFileSync(join(app, "deno.json"), `{ ${lines.join(", ")} }`);
    const { exports } = JSON.parse(readFileSync(join(linked, "deno.json"), "utf8"));
    const names = Object.keys(exports).map((name) => `@rowmajor/tensor${name.slice(1)}`);
    const imports = names.map((name, i) => `import * as entry${i} from "${name}";\n`);
    writeFileSync(
      join(app, "main.ts"),
      `${imports.join("")}import { info, ones, type Tensor } from "@rowmajor/tensor";
import { compile } from "@rowmajor/tensor/compile";
import * as nn from "@rowmajor/tensor/nn";
const twice = compile((x: Tensor<"float32", [3]>) => nn.gelu(x.mul(2)));
const y: Tensor<"float32", [3]> = twice(ones([3]));
// @ts-expect-error: a shape of the package's declarations
const wrong: Tensor<"float32", [4]> = y;
const entries = [${names.map((_, i) => `entry${i}`)}];
console.log(entries.length, wrong.shape.join(), info().devices.cpu);
`,
    );
    // A registry that does not answer: the linked package needs none.
    const offline = {
      ...env,
      DENO_DIR: join(folder.path, "modules"),
      JSR_URL: "http://127.0.0.1:9",
    };
    const checked = await run(findTool("deno"), ["check", "--quiet", "main.ts"], {
      cwd: app,
      env: offline,
    });
    assertEquals([checked.code, checked.stderr], [0, ""]);
    const args = ["run", "--quiet", "--no-prompt", `--allow-ffi=${join(linked, "lib")}`, "main.ts"];
    const outcome = await run(findTool("deno"), args, { cwd: app, env: offline });
    assertEquals([outcome.stdout, outcome.stderr], [`${names.length} 3 native\n`, ""]);
  },
);

check(
  "npm: in an executable that Deno made the library is read, and kept",
  async () => {
    await install();
    // Files that Deno embeds in an executable are invisible to the system, which opens libraries.
    writeFileSync(
      join(project, "standalone.mjs"),
      `Object.defineProperty(Deno, "build", { value: { ...Deno.build, standalone: true } });
    await import("./main.mjs");`,
    );
    const kept = join(stage.path, "kept");
    const args = ["run", "--quiet", "--no-prompt", "-A", "standalone.mjs"];
    const outcome = await run(findTool("deno"), args, {
      cwd: project,
      env: { ...env, ROWMAJOR_CACHE: kept },
    });
    assertEquals(told(outcome).cpu, "native");
    assertEquals(readdirSync(kept).length, 1);
  },
);

const node = spawnSync("node", ["--version"], { encoding: "utf8" }).stdout?.trim() ?? "";
const hasNode = Number(/^v(\d+)/.exec(node)?.[1]) >= 20;
const askFfi = 'process.exit(require("node:module").isBuiltin("node:ffi") ? 0 : 1)';
const hasFfi = hasNode && spawnSync("node", ["--eval", askFfi]).status === 0;
if (!hasNode) console.log("The package is not tested in Node: there is none, or one older than 20");

(hasNode ? check : test.skip)(
  "npm: runs in Node, natively since 26.1, and says why not before (needs Node 20)",
  async () => {
    await install();
    const { cpu, native } = told(await run("node", ["main.mjs"], { cwd: project, env }));
    console.log(`Node ${node}: ${cpu}`);
    if (hasFfi) assertEquals(cpu, "native", native);
    else {
      assertEquals(cpu, "wasm");
      assertMatch(native, /^this Node has no node:ffi/);
    }
  },
);

check(
  "npm: types are there, of files too, and refuse what cannot work",
  async () => {
    await install();
    writeFileSync(
      join(project, "types.ts"),
      `import { ones, type types } from "@rowmajor/tensor";
    import { decodeNpy } from "@rowmajor/tensor/io";
    import { key, uniform } from "@rowmajor/tensor/random";
    import type { ShapeOf } from "@rowmajor/tensor/types";
    const device: types.Device = "cpu";
    const x = ones([3, 4], { device });
    const shape: readonly [3, 3] = x.matmul(x.T).shape;
    // @ts-expect-error: the inner sizes differ
    x.matmul(x);
    // @ts-expect-error: no such shape
    const wrong: readonly [4, 3] = uniform(key(1), [3, 4]).shape;
    // @ts-expect-error: no bytes
    decodeNpy("text");
    export const all: readonly (ShapeOf<typeof x> | readonly number[])[] = [shape, wrong];
    `,
    );
    writeFileSync(
      join(project, "opens.ts"),
      `import { io } from "@rowmajor/tensor";
    import path from "./model.safetensors" with { type: "file" };
    const typed: string = path;
    await using file = await io.openSafetensors(typed);
    console.log((await file.get("bias1")).shape.join());
    export {};`,
    );
    // Entry points declare files without the main one too.
    const names = ["safetensors", "gguf", "npy", "npz"];
    writeFileSync(
      join(project, "files.ts"),
      `import "@rowmajor/tensor/llm";\n` +
        names.map((name) =>
          `import ${name} from "./file.${name}" with { type: "file" };\n` +
          `${name} satisfies string;\n// @ts-expect-error: it is a string\n${name} satisfies number;\n`
        ).join(""),
    );
    const common = {
      ...{ target: "esnext", lib: ["esnext", "dom"], types: [] },
      ...{ strict: true, noEmit: true, skipLibCheck: true },
    };
    const tsc = join(root, "node_modules", "typescript-7.0", "bin", "tsc");
    for (
      const [module, file] of [
        ...[["nodenext", "types.ts"], ["preserve", "opens.ts"], ["preserve", "files.ts"]] as const,
      ]
    ) {
      const compilerOptions = { ...common, module };
      writeFileSync(
        join(project, "tsconfig.json"),
        JSON.stringify({ compilerOptions, files: [file] }),
      );
      const { code, stdout } = await run(bun, [tsc, "-p", "."], { cwd: project, env });
      assertEquals([code, stdout], [0, ""], file);
    }

    // The path that the program imports is inside its executable.
    copyFileSync(
      join(root, "examples/digits/model.safetensors"),
      join(project, "model.safetensors"),
    );
    const out = join(stage.path, process.platform === "win32" ? "opens.exe" : "opens");
    const build = ["build", "--compile", `--outfile=${out}`, "opens.ts"];
    const built = await run(bun, build, { cwd: project, env });
    assertEquals(built.code, 0, built.stderr);
    const empty = join(stage.path, "empty");
    mkdirSync(empty);
    assertEquals((await run(out, [], { cwd: empty, env })).stdout, "128\n");
  },
);

/** Names of its own that are those of the package, which a bundler then numbers. */
const BUNDLED = `import * as rm from "@rowmajor/tensor";
class ShapeError {} class Tensor {} class Slice {} class Layout {}
globalThis.kept = [ShapeError, Tensor, Slice, Layout];
const wrong = Object.entries(rm).filter(([name, value]) =>
  typeof value === "function" && /^class\\b/.test(String(value)) && value.name !== name);
const { error } = rm.attempt(() => rm.zeros([2, 3]).add(rm.zeros([4])));
const { devices, backends } = rm.info();
console.log(JSON.stringify({
  wrong: wrong.map(([name]) => name),
  name: error.name,
  head: error.stack.split("\\n")[0],
  sum: rm.arange(4).sum().item(),
  known: devices.cpu === "native" || typeof backends.native === "string",
  constructors: [rm.zeros([1]), rm.range(0, 1), rm.zeros([1]).storage].map((x) => x.constructor.name),
}));
`;

const FORMATS = ["esm", "cjs", "iife"] as const;

check(
  "npm: classes have their names in bundles, also without import.meta",
  async () => {
    await install();
    writeFileSync(join(project, "bundled.js"), BUNDLED);
    const expected = {
      wrong: [],
      name: "ShapeError",
      head: "ShapeError: Cannot add shapes [2, 3] and [4]: axis -1 has sizes 3 and 4",
      sum: 6,
      known: true,
      constructors: ["Tensor", "Range", "Storage"],
    };
    const output = async (path: string, args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await run(path, args, { cwd: project, env });
      assertEquals(code, 0, stderr);
      return stdout;
    };
    // The package is a bundle itself.
    assertEquals(JSON.parse(await output(bun, ["bundled.js"])), expected);
    for (const format of FORMATS) {
      for (const flags of [["--minify"], []].slice(0, amount(1, 2))) {
        const out = join(stage.path, `bundle.${format === "esm" ? "mjs" : "cjs"}`);
        const build = [
          "build",
          `--format=${format}`,
          "--target=node",
          ...flags,
          `--outfile=${out}`,
        ];
        await output(bun, [...build, "bundled.js"]);
        // As other bundlers write import.meta where a format has none.
        const text = readFileSync(out, "utf8");
        if (format !== "esm") writeFileSync(out, text.replaceAll("import.meta", "({})"));
        assertEquals(JSON.parse(await output(bun, [out])), expected, format);
        const deno = ["run", "-A", "--no-check", out];
        assertEquals(JSON.parse(await output(findTool("deno"), deno)), expected, format);
      }
    }
  },
);

check(
  "npm: an executable of a program that uses it has the library inside",
  async () => {
    await install();
    const away = join(stage.path, "away");
    mkdirSync(away);
    const bytecode = ["--minify", "--bytecode", "--format=esm"];
    for (const [flags, most] of [[[], 8], [bytecode, 12]] as const) {
      const out = join(away, process.platform === "win32" ? "program.exe" : "program");
      const args = ["build", "--compile", ...flags, `--outfile=${out}`, "main.mjs"];
      const built = await run(bun, args, { cwd: project, env });
      assertEquals(built.code, 0, built.stderr);
      assertEquals(told(await run(out, [], { cwd: away, env })).cpu, "native");
      // Those of other systems are not.
      const growth = statSync(out).size - statSync(bun).size;
      assert(growth < most * 2 ** 20, `${growth} bytes more than Bun`);
    }
    assertEquals(readdirSync(cache).length, 1);
    // A bundle has them beside it.
    for (const [k, flags] of [[], ["--bytecode", "--format=cjs"]].entries()) {
      const build = ["build", "--target=bun", ...flags, `--outdir=${join(away, "bundle")}`];
      const built = await run(bun, [...build, "main.mjs"], { cwd: project, env });
      assertEquals(built.code, 0, built.stderr);
      const moved = join(stage.path, `moved${k}`);
      renameSync(join(away, "bundle"), moved);
      assertEquals(existsSync(join(moved, "main.js.jsc")), flags.length > 0);
      const own = { ...env, ROWMAJOR_CACHE: join(away, "unused") };
      const outcome = await run(bun, ["main.js"], { cwd: moved, env: own });
      assertEquals(told(outcome).cpu, "native");
      assert(!existsSync(own.ROWMAJOR_CACHE), "the files beside a bundle need no cache");
    }
  },
);

check("npm: the command runs in Bun, in Deno and in Node, and serves", async () => {
  await install();
  const bin = join(project, "node_modules", ".bin", "rowmajor");
  const deno = findTool("deno");
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (
    const [path, args] of [
      [bun, ["x", "--bun", "rowmajor"]],
      [deno, ["run", "-A", "npm:@rowmajor/tensor/rowmajor"]],
      [deno, ["run", "-A", "node_modules/@rowmajor/tensor/src/command/main.js"]],
      ...hasNode ? [["node", [bin]] as const] : [],
    ] as const
  ) {
    const ran = await run(path, [...args, "--version"], { cwd: project, env });
    assertEquals([ran.code, ran.stdout], [0, `${version}\n`], ran.stderr);
  }
  const wrong = await run(bun, ["x", "--bun", "rowmajor", "serve"], { cwd: project, env });
  const stderr = "rowmajor serve: there is no MODEL; see rowmajor serve --help\n";
  assertEquals([wrong.code, wrong.stdout, wrong.stderr], [2, "", stderr]);
  // A module that imports the command does not run it.
  writeFileSync(join(project, "imports.mjs"), 'await import("@rowmajor/tensor/command");');
  for (const [path, args] of [[bun, []], [deno, ["run", "-A"]]] as const) {
    const ran = await run(path, [...args, "imports.mjs"], { cwd: project, env });
    assertEquals([ran.code, ran.stdout, ran.stderr], [0, "", ""]);
  }

  // What a model for chats needs is installed beside the package.
  const served = join(stage.path, "served");
  const modules = join(served, "node_modules");
  mkdirSync(modules, { recursive: true });
  cpSync(join(project, "node_modules", "@rowmajor"), join(modules, "@rowmajor"), {
    recursive: true,
    dereference: true,
  });
  symlinkSync(
    join(root, "node_modules", "@huggingface"),
    join(modules, "@huggingface"),
    "junction",
  );
  writeFileSync(join(served, "package.json"), "{}");
  const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
  writeFileSync(join(served, "tiny.gguf"), randomLlama("q8_0", sizes));
  const command = join(modules, "@rowmajor", "tensor", "rowmajor.js");
  // Those of docs/command.md.
  const library = join(modules, "@rowmajor", "tensor", "lib");
  const permissions = [
    ...["--allow-net=127.0.0.1", "--allow-read=tiny.gguf", "--allow-env=ROWMAJOR_KEYS"],
    `--allow-ffi=${library}`,
  ];
  for (
    const [runtime, path, args] of [
      ["bun", bun, [command]],
      ["deno", deno, ["run", "--no-prompt", ...permissions, command]],
      ...hasNode ? [["node", "node", [command]] as const] : [],
    ] as const
  ) {
    const own = ["serve", "tiny.gguf", "--port=0", "--slots=2", "--log=json"];
    await using server = await startServe(path, [...args, ...own], { cwd: served, env });
    assertEquals(await endAnswering(server), 0, server.said.stderr);
    const { stdout, stderr } = server.said;
    const backend = runtime === "node" && !hasFfi ? "wasm .*this Node has no node:ffi" : "native";
    assertMatch(stderr, new RegExp(`^${runtime}, backend ${backend}`, "m"));
    assertMatch(stderr, /^tiny: chat, .*tokens\/s$/m);
    assertMatch(stderr, /no metrics: prom-client is not installed$/m);
    assertMatch(stdout, /^\{.*"path":"\/v1\/chat\/completions","status":200,.*\}$/m);
  }
});

check("npm: a compressed library is unpacked into the cache", async () => {
  const folder = join(stage.path, "compressed");
  await stageNpm(folder, librariesIn(stage.path), [HOST]);
  assertEquals(readdirSync(join(folder, "lib", HOST)).map((name) => name.slice(-3)), [".br"]);
  const programs = join(stage.path, "uses");
  mkdirSync(join(programs, "node_modules", "@rowmajor"), { recursive: true });
  symlinkSync(folder, join(programs, "node_modules", "@rowmajor", "tensor"), "junction");
  writeFileSync(join(programs, "package.json"), '{ "type": "module" }');
  writeFileSync(join(programs, "main.mjs"), program("@rowmajor/tensor"));
  const own = { ...env, ROWMAJOR_CACHE: join(stage.path, "unpacked") };
  for (const path of [bun, findTool("deno")]) {
    const args = path === bun ? ["main.mjs"] : ["run", "-A", "main.mjs"];
    assertEquals(told(await run(path, args, { cwd: programs, env: own })).cpu, "native");
  }
  const out = join(stage.path, "one");
  const build = ["build", "--compile", `--outfile=${out}`, "main.mjs"];
  const built = await run(bun, build, { cwd: programs, env: own });
  assertEquals(built.code, 0, built.stderr);
  const fresh = { ...own, ROWMAJOR_CACHE: join(stage.path, "fresh") };
  assertEquals(told(await run(out, [], { cwd: stage.path, env: fresh })).cpu, "native");
});
