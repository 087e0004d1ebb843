/**
 * Stages the published packages, with the native libraries of all targets inside, below
 * zig-out/package: `jsr` and `npm`, which it also packs as a tarball. `deno` is the latter for
 * programs of Deno that link to it. All are JavaScript in a few files, with declarations: a runtime
 * opens each module by itself, and the sources are more than two hundred. The package
 * `onnxruntime-node-rowmajor` takes the place of onnxruntime-node.
 *
 * The sources stay unchanged, except for src/backend/ffi/embedded.ts, which lists the contents of a
 * package and is generated here. `--host` stages for this machine only; `--check` runs Deno's check
 * for JSR on the first package, and TypeScript on the declarations of the second. The packages point
 * to their repository if `SITE_REPOSITORY` is the address of one.
 *
 * @module
 */

import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Buffer } from "node:buffer";
import process from "node:process";
import { brotliCompressSync, constants } from "node:zlib";
import { type CarriedFile, COMPRESSED_SUFFIX } from "../../src/backend/ffi/cache.ts";
import { ensureInstalled, ENTRIES, findTool, root, start } from "../tools.ts";
import { bundle } from "./bundle.ts";
import { findKept, keep } from "./kept.ts";

/** The targets, and the name of the library on each. */
export const TARGETS: Readonly<Record<string, string>> = {
  "linux-x64": "librowmajor.so",
  "linux-arm64": "librowmajor.so",
  "darwin-x64": "librowmajor.dylib",
  "darwin-arm64": "librowmajor.dylib",
  "win32-x64": "rowmajor.dll",
};

/** Kernels for graphics cards without NVRTC, which all libraries except those of macOS use. */
const KERNELS = "rowmajor-ptx.bin";
/** The kernels as a WebAssembly module, for hosts that open no library. */
const WASM = "rowmajor.wasm";
/** The folder of staged modules that contain libraries, from the root of a package. */
const SHIM = "src/backend/ffi";

/** The documents of a package. */
const TEXTS = ["README.md", "CHANGELOG.md", "LICENSE"];

/** A file of a package. */
export interface Packed extends CarriedFile {
  /** Its path. */
  readonly path: string;
  /** The quality of its compression; the best one by default. */
  readonly quality?: number;
}

/** The files for each target, the library first. */
export type Libraries = Readonly<Record<string, readonly Packed[]>>;

/** Packages that a program installs if it uses an entry point, and their versions. */
const PEERS: Readonly<Record<string, string>> = {
  "@bufbuild/protobuf": "^2.17.0",
  "@huggingface/hub": "^2.17.0",
  "@huggingface/jinja": "^0.5.11",
  "@huggingface/tokenizers": "^0.2.0",
  "@mlc-ai/web-xgrammar": "^0.1.27",
  "fast-png": "^8.0.0",
  "jpeg-js": "^0.4.4",
  "prom-client": "^15.1.3",
};

/** A file in the format of packages. */
export function packed(path: string, name: string): Packed {
  const bytes = readFileSync(path);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { path, name, size: bytes.length, sha256 };
}

/** The target of this machine. */
export const HOST: string = `${process.platform}-${process.arch}`;

/** A package has a library for each target, so none may have more bytes: 30 kB below the 3 MB that a
 * library may ever have, as room for what comes next (docs/adr/0028-room-in-the-packages.md). */
export const MOST_LIBRARY_BYTES = 2.97e6;

/** No package may have more bytes in its files: 0.5 MB below the 14 MB that it may ever have. */
const MOST_PACKAGE_BYTES = 13.5e6;

/** Throws for the library of a target that is too large. */
export function checkLibrarySize(target: string, size: number): void {
  if (size <= MOST_LIBRARY_BYTES) return;
  throw new Error(`The library for ${target} has ${size} bytes, more than ${MOST_LIBRARY_BYTES}`);
}

/** The output of `zig build all`; with `only`, for that target, which is this machine's. */
export function builtLibraries(only?: string): Libraries {
  const lib = join(root, "zig-out", "lib");
  const libraries: Record<string, Packed[]> = {};
  for (const [target, name] of Object.entries(TARGETS)) {
    if (only !== undefined && only !== target) continue;
    const path = target === HOST && only !== undefined ? join(lib, name) : join(lib, target, name);
    const library = packed(path, name);
    checkLibrarySize(target, library.size);
    libraries[target] = [library];
    const kernels = join(lib, KERNELS);
    if (!target.startsWith("darwin") && existsSync(kernels)) {
      libraries[target].push(packed(kernels, KERNELS));
    }
  }
  return libraries;
}

/**
 * A document for the page of a package, where paths lead nowhere: links and pictures point to the
 * repository, or links become text and pictures are left out.
 */
export function textOf(document: string, repository: string | undefined): string {
  return document
    .replace(
      /^!\[([^\]]*)\]\((?!\w+:)([^)\s]+)\)\n\n/gm,
      (_, label, path) =>
        repository === undefined ? "" : `![${label}](${repository}/raw/main/${path})\n\n`,
    )
    .replace(
      /(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)/g,
      (_, label, path) =>
        repository === undefined ? label : `[${label}](${repository}/blob/main/${path})`,
    );
}

/** Copies the documents. */
function copyTexts(folder: string): void {
  for (const name of TEXTS) {
    const text = readFileSync(join(root, name), "utf8");
    writeFileSync(join(folder, name), textOf(text, process.env.SITE_REPOSITORY));
  }
}

/** Copies the sources and the documents. */
function copySources(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["mod.ts", "src"]) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  copyTexts(folder);
}

/**
 * The quality of compression where its time counts more than 0.1 MB: half a second for a library.
 */
export const FAST_QUALITY = 9;

/**
 * A file in Brotli. The best quality takes a quarter less than deflate does, and eight seconds for a
 * library.
 */
function brotliOf({ path, sha256, quality = constants.BROTLI_MAX_QUALITY }: Packed): Buffer {
  const hash = `${sha256}-${quality}`;
  const folder = findKept("brotli", hash) ?? keep("brotli", hash, (folder) => {
    const params = {
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
      [constants.BROTLI_PARAM_QUALITY]: quality,
    };
    writeFileSync(join(folder, "file.br"), brotliCompressSync(readFileSync(path), { params }));
  });
  return readFileSync(join(folder, "file.br"));
}

const contents = new Map<string, string>();

/** The WebAssembly module that `zig build` has made. */
const wasmFile = (): Packed => packed(join(root, "zig-out", "wasm", WASM), WASM);

function contentOf(file: Packed): string {
  const key = `${file.sha256}-${file.quality}`;
  let text = contents.get(key);
  if (text === undefined) {
    text = brotliOf(file).toString("base64");
    contents.set(key, text);
  }
  return text;
}

/** The declarations of a module that contains files. */
const CONTENT_TYPES = `/**
 * Files of a package by their names, in Brotli, as base64.
 *
 * @module
 */

/** The files. */
export declare const content: Readonly<Record<string, string>>;
`;

/** Writes a module for each target that contains its files; `head` is its first line. */
function writeModules(
  folder: string,
  libraries: Libraries,
  extension: ".ts" | ".js",
  head = "",
): void {
  mkdirSync(folder, { recursive: true });
  const type = extension === ".ts" ? ": Readonly<Record<string, string>>" : "";
  const write = (name: string, what: string, imports: string, properties: string) =>
    writeFileSync(
      join(folder, name + extension),
      `${head}/**\n * ${what}: files by their names, in Brotli, as base64.\n *\n * @module\n */\n` +
        `${imports}/** The files. */\nexport const content${type} = {${properties}};\n`,
    );
  for (const [target, [library, kernels]] of Object.entries(libraries)) {
    const property = (file: Packed) => `\n  "${file.name}": "${contentOf(file)}",\n`;
    if (kernels !== undefined) {
      write("kernels", "Kernels for graphics cards without NVRTC", "", property(kernels));
    }
    write(
      target,
      `The native library for ${target}`,
      kernels && `import { content as kernels } from "./kernels${extension}";\n` || "",
      property(library!) + (kernels ? "  ...kernels,\n" : ""),
    );
  }
}

/** The table of the files of all targets, as source text. */
function tableOf(libraries: Libraries): string {
  const lines = Object.entries(libraries).map(([target, files]) => {
    const entries = files.map(({ name, size, sha256 }) =>
      `    { name: "${name}", size: ${size}, sha256: "${sha256}" },\n`
    );
    return `  "${target}": [\n${entries.join("")}  ],\n`;
  });
  return `{\n${lines.join("")}}`;
}

const HEAD = "// Written by scripts/release/package.ts.\n";

/** embedded.ts of the package on JSR, which downloads the library of its machine on first use. */
function embeddedForJsr(libraries: Libraries): string {
  return `${HEAD}import {
  type Carried,
  type CarriedFile,
  findIntact,
  importContent,
  isWanted,
} from "./cache.ts";
import { host } from "./runtime.ts";

import { wasm } from "./wasm.ts";

const FILES: Readonly<Record<string, readonly CarriedFile[]>> = ${tableOf(libraries)};

const target = \`\${host.platform}-\${host.arch}\`;
const files = FILES[target] ?? [];
const intact = await findIntact(files);
const name = \`\${target}\${import.meta.url.slice(-3)}\`;
const content = intact === undefined && isWanted(files)
  ? await importContent(
    new URL(\`./native/\${name}\`, import.meta.url),
    () => import(\`./native/\${name}\`),
  )
  : undefined;

/** What the package carries for this machine. */
export const embedded: Carried | undefined = { files, intact, content: () => content, wasm };
`;
}

/** embedded.ts of an executable, which contains the library of `target`. */
function embeddedForExecutable(target: string, libraries: Libraries): string {
  return `${HEAD}import { type Carried, type CarriedFile, findIntact } from "./cache.ts";
import { content } from "./native/${target}.ts";
import { wasm } from "./wasm.ts";

const FILES: Readonly<Record<string, readonly CarriedFile[]>> = ${tableOf(libraries)};

const files = FILES["${target}"]!;

/** What the executable carries. */
export const embedded: Carried | undefined = {
  files,
  intact: await findIntact(files),
  content: () => content,
  wasm,
};
`;
}

/** A module that contains the WebAssembly module. Engines skip the text of a function. */
function wasmModule(quality?: number): string {
  const content = contentOf(quality === undefined ? wasmFile() : { ...wasmFile(), quality });
  return `${HEAD}/** The WebAssembly module, in Brotli, as base64. */
export const wasm = (): string => "${content}";
`;
}

/** Targets whose library is compressed in the package for npm, and unpacked into the cache. */
const COMPRESSED: readonly string[] = ["darwin-x64"];

/** The path of a file of the package for npm, from its root. */
function placeOf({ name }: CarriedFile, target: string, compressed: readonly string[]): string {
  if (name === KERNELS) return `lib/${KERNELS}`;
  return `lib/${target}/${name}${compressed.includes(target) ? COMPRESSED_SUFFIX : ""}`;
}

/** embedded.js of the package for npm, whose libraries are files. */
function embeddedForNpm(libraries: Libraries, compressed: readonly string[]): string {
  const urls = Object.entries(libraries).map(([target, files]) => {
    const lines = files.map((file) =>
      `    "${file.name}": new URL("./${placeOf(file, target, compressed)}", import.meta.url),\n`
    );
    return `  "${target}": () => ({\n${lines.join("")}  }),\n`;
  });
  return `${HEAD}import { bundled, wasm } from "${BUNDLED}";

const FILES = ${tableOf(libraries)};

const OWN = {\n${urls.join("")}};

/** The target of this machine. Deno takes 12 ms to load \`process\` for the first that reads it. */
function targetOf() {
  if ("Deno" in globalThis) {
    const { os, arch } = Deno.build;
    return \`\${os === "windows" ? "win32" : os}-\${arch === "x86_64" ? "x64" : "arm64"}\`;
  }
  const { process: { platform, arch } = { platform: "", arch: "" } } = globalThis;
  return \`\${platform}-\${arch}\`;
}

const target = targetOf();

/** The files of the package; none in a bundle whose format has no import.meta. */
const packaged = () => import.meta.url === undefined ? undefined : OWN[target]?.();

/** What the package carries for this machine. */
export const embedded = {
  files: FILES[target] ?? [],
  own: () => bundled(packaged()),
  content: () => undefined,
  wasm: () => wasm(import.meta.url),
};
`;
}

/** What `embedded.js` imports: package.json says which module that is in which runtime. */
const BUNDLED = "#bundled";

/** The modules of that name. */
const BUNDLED_MODULES = { bun: "./bundled-bun.js", default: "./bundled.js" };

/** The file with the WebAssembly module: one that Deno loads without permissions, as it is code. */
const WASM_CONTENT = "./lib/wasm.cjs";

/** The module without Bun: bundles of others have no files. */
const BUNDLED_ELSEWHERE = `${HEAD}
/** The files of the package. */
export const bundled = (packaged) => packaged;

/** The WebAssembly module; none in a bundle whose format has no import.meta, and in browsers. */
export const wasm = (url) => {
  const load = globalThis.process?.getBuiltinModule?.("node:module").createRequire;
  return url === undefined || load === undefined ? undefined : load(url)("${WASM_CONTENT}");
};
`;

/** The file of the command. Node before 24.2 does not tell a module whether it is the main one. */
const COMMAND = "./rowmajor.js";

/** What is in it. */
const COMMAND_TEXT = `#!/usr/bin/env node
${HEAD}import process from "node:process";
import { main } from "./src/command/main.js";

process.exitCode = await main(process.argv.slice(2));
`;

/** The same for programs of Deno that import a package by a path: it loads files by permission. */
const BUNDLED_FOR_DENO = `${HEAD}import { wasm as content } from "./lib/wasm.js";

/** The files of the package. */
export const bundled = (packaged) => packaged;

/** The WebAssembly module. */
export const wasm = () => content();
`;

/**
 * The module for Bun. Its bundler puts a file into an executable, or beside a bundle, if a module
 * requires it, and leaves out branches of other targets than that of an executable. Elsewhere Bun
 * would run such a file.
 */
function bundledForBun(libraries: Libraries, compressed: readonly string[]): string {
  const branches = Object.entries(libraries).map(([target, files]) => {
    const [platform, arch] = target.split("-");
    const lines = files.map((file) =>
      `      "${file.name}": require("./${placeOf(file, target, compressed)}"),\n`
    );
    return `  if (process.platform === "${platform}" && process.arch === "${arch}") {
    return {\n${lines.join("")}    };
  }\n`;
  });
  return `${HEAD}import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";

/** The paths of the files in an executable, or, from the module's, of those of a bundle. */
function paths() {
${branches.join("")}  return {};
}

const urlOf = (path) => isAbsolute(path) ? pathToFileURL(path) : new URL(path, import.meta.url);

/** The files of the package, of an executable, or of a bundle. */
export function bundled(packaged) {
  const isPackage = !Bun.isStandaloneExecutable &&
    Object.values(packaged ?? {}).some((url) => existsSync(url));
  if (isPackage) return packaged;
  const entries = Object.entries(paths());
  return Object.fromEntries(entries.map(([name, path]) => [name, urlOf(path)]));
}

/** The WebAssembly module. */
export const wasm = () => require("${WASM_CONTENT}");
`;
}

/** The fields of package.json that packages have too. */
interface Manifest {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly keywords: readonly string[];
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(path, JSON.stringify(value, null, 2) + "\n");
}

/** Stages the package for JSR in `folder`. */
export async function stageJsr(folder: string, libraries: Libraries): Promise<void> {
  const sources = sourcesFolder();
  copySources(sources);
  writeFileSync(join(sources, SHIM, "embedded.ts"), embeddedForJsr(libraries));
  writeFileSync(join(sources, SHIM, "wasm.ts"), wasmModule());
  await compileSources(sources, folder);
  declareForDeno(folder);
  const native = join(folder, "native");
  writeModules(native, libraries, ".js", selfTypes("content.d.ts"));
  writeFileSync(join(native, "content.d.ts"), CONTENT_TYPES);
  configureDeno(folder, Object.keys(libraries).map((target) => `./native/${target}`));
}

/** Writes the configuration of a package of Deno; `modules` are exports beside the entry points. */
function configureDeno(folder: string, modules: readonly string[] = []): void {
  const { version, license } = manifest();
  const entries = Object.entries(ENTRIES).map(([name, path]) => [name, `./${scriptOf(path)}`]);
  const exports = Object.fromEntries([...entries, ...modules.map((path) => [path, `${path}.js`])]);
  // Deno loads one of them only for a program that imports its entry point.
  const imports = Object.fromEntries(
    Object.entries(PEERS).map(([name, range]) => [name, `npm:${name}@${range}`]),
  );
  const name = "@rowmajor/tensor";
  writeJson(join(folder, "deno.json"), { name, version, license, exports, imports });
}

/**
 * Stages the sources with the library of one target in `folder`, for an executable, in which a
 * runtime takes a hundred times the room of the library.
 */
export function stageForExecutable(folder: string, target: string, libraries: Libraries): void {
  copySources(folder);
  const files = libraries[target]!.map((file) => ({ ...file, quality: FAST_QUALITY }));
  const one = { [target]: files };
  writeFileSync(join(folder, SHIM, "embedded.ts"), embeddedForExecutable(target, one));
  writeFileSync(join(folder, SHIM, "wasm.ts"), wasmModule(FAST_QUALITY));
  writeModules(join(folder, SHIM, "native"), one, ".ts");
}

/**
 * Stages the package for npm in `folder`, and returns the path of the tarball next to it. The
 * libraries of the targets `compressed` are.
 */
export async function stageNpm(
  folder: string,
  libraries: Libraries,
  compressed: readonly string[] = COMPRESSED,
): Promise<string> {
  const sources = sourcesFolder();
  copySources(sources);
  await compileSources(sources, folder, ["--external=*/embedded.ts"]);
  const core = join(folder, "core.js");
  const text = readFileSync(core, "utf8");
  writeFileSync(core, text.replace(/"[^"]*\/embedded\.ts"/g, '"./embedded.js"'));
  declareFiles(folder);
  writeFileSync(join(folder, "embedded.js"), embeddedForNpm(libraries, compressed));
  writeFileSync(join(folder, BUNDLED_MODULES.default), BUNDLED_ELSEWHERE);
  writeFileSync(join(folder, BUNDLED_MODULES.bun), bundledForBun(libraries, compressed));
  writeFileSync(join(folder, COMMAND), COMMAND_TEXT, { mode: 0o755 });
  mkdirSync(join(folder, "lib"));
  writeFileSync(join(folder, WASM_CONTENT), `module.exports = "${contentOf(wasmFile())}";\n`);
  for (const [target, files] of Object.entries(libraries)) {
    for (const file of files) {
      const to = join(folder, placeOf(file, target, compressed));
      mkdirSync(dirname(to), { recursive: true });
      if (to.endsWith(COMPRESSED_SUFFIX)) writeFileSync(to, brotliOf(file));
      else cpSync(file.path, to);
    }
  }
  const { version, description, license, keywords } = manifest();
  const repository = process.env.SITE_REPOSITORY;
  const exports = Object.fromEntries(
    Object.entries(ENTRIES).map(([name, path]) => [name, {
      types: `./${path.replace(/ts$/, "d.ts")}`,
      default: `./${scriptOf(path)}`,
    }]),
  );
  writeJson(join(folder, "package.json"), {
    name: "@rowmajor/tensor",
    version,
    description,
    keywords,
    license,
    ...repository === undefined ? {} : {
      homepage: `${repository}#readme`,
      repository: { type: "git", url: `git+${repository}.git` },
      bugs: `${repository}/issues`,
    },
    type: "module",
    exports: { ...exports, "./wasm.cjs": WASM_CONTENT, "./package.json": "./package.json" },
    imports: { [BUNDLED]: BUNDLED_MODULES },
    types: "./mod.d.ts",
    bin: { rowmajor: COMMAND },
    // Older ones lack process.getBuiltinModule.
    engines: { node: "^20.16 || >=22.3" },
    peerDependencies: PEERS,
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(PEERS).map((name) => [name, { optional: true }]),
    ),
    // The declarations are in src, and only the entry points import them.
    files: ["*.js", "*.js.map", "*.d.ts", "src", "lib", "CHANGELOG.md"],
  });
  await run("bun", ["pm", "pack", "--quiet", "--destination", ".."], folder);
  return join(folder, "..", `rowmajor-tensor-${version}.tgz`);
}

/**
 * Stages the package that takes the place of onnxruntime-node by `overrides`, in `folder`, and returns
 * the path of the tarball next to it.
 */
export async function stageReplacement(folder: string): Promise<string> {
  const { version, license } = manifest();
  const name = "onnxruntime-node-rowmajor";
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(root, "scripts", "release", "replacement"), folder, { recursive: true });
  const readme = join(folder, "README.md");
  writeFileSync(readme, readFileSync(readme, "utf8").replaceAll("VERSION", version));
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  const [types, main] = ["./index.d.ts", "./index.cjs"];
  writeJson(join(folder, "package.json"), {
    name,
    version,
    description: "@rowmajor/tensor in the place of onnxruntime-node",
    license,
    main,
    types,
    exports: {
      ".": { types, default: main },
      "./package.json": "./package.json",
    },
    dependencies: { "@bufbuild/protobuf": PEERS["@bufbuild/protobuf"] },
    // A copy that a program has, such as a file, is the one in use.
    peerDependencies: { "@rowmajor/tensor": version },
  });
  await run("bun", ["pm", "pack", "--quiet", "--destination", ".."], folder);
  return join(folder, "..", `${name}-${version}.tgz`);
}

/**
 * Stages what Deno links to, or imports by a path, in `folder`: the package for npm that is staged
 * in `npm`, whose library is a file.
 */
export function stageDeno(folder: string, npm: string): void {
  rmSync(folder, { recursive: true, force: true });
  const others = [BUNDLED_MODULES.bun, COMMAND, "package.json", WASM_CONTENT]
    .map((path) => join(npm, path));
  cpSync(npm, folder, { recursive: true, filter: (path) => !others.includes(path) });
  const embedded = join(folder, "embedded.js");
  const text = readFileSync(embedded, "utf8");
  writeFileSync(embedded, text.replace(`"${BUNDLED}"`, `"${BUNDLED_MODULES.default}"`));
  writeFileSync(join(folder, BUNDLED_MODULES.default), BUNDLED_FOR_DENO);
  writeFileSync(
    join(folder, "lib", "wasm.js"),
    `export const wasm = () => "${contentOf(wasmFile())}";\n`,
  );
  declareForDeno(folder);
  configureDeno(folder);
}

/** The path of the JavaScript of a module. */
const scriptOf = (path: string): string => path.replace(/ts$/, "js");

/** The comment by which Deno finds the declarations of a module. */
const selfTypes = (name: string): string => `// @ts-self-types="./${name}"\n`;

/** Adds the comments and specifiers by which Deno finds declarations. */
function declareForDeno(folder: string): void {
  for (const entry of Object.values(ENTRIES)) {
    const path = join(folder, scriptOf(entry));
    const types = selfTypes(`${basename(entry, ".ts")}.d.ts`);
    writeFileSync(path, types + readFileSync(path, "utf8"));
    const map = `${path}.map`;
    if (!existsSync(map)) continue;
    const mapped = JSON.parse(readFileSync(map, "utf8"));
    writeFileSync(map, JSON.stringify({ ...mapped, mappings: `;${mapped.mappings}` }));
  }
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, name);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace(/(["'])(\.\.?\/[^"'\n]*)\.js\1/g, "$1$2.d.ts$1"));
  }
}

/**
 * A fresh folder for sources, wherever the package is staged: TypeScript writes declarations of no module
 * that another one imports from a folder of node_modules.
 */
function sourcesFolder(): string {
  const parent = join(root, "zig-out");
  mkdirSync(parent, { recursive: true });
  return join(mkdtempSync(join(parent, "staging-")), "package-sources");
}

/** Makes the JavaScript and the declarations in `folder`, and removes the sources. */
async function compileSources(
  sources: string,
  folder: string,
  options: readonly string[] = [],
): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyTexts(folder);
  await declare(sources, folder);
  pruneDeclarations(folder);
  const settings = [`--outdir=${folder}`, "--root=.", "--target=node", "--format=esm"];
  // Shorter names and no indentation: half the size, and 3 ms less for an import.
  settings.push(
    "--minify",
    "--sourcemap=linked",
    ...Object.keys(PEERS).map((name) => `--external=${name}`),
  );
  const build = (...args: string[]): Promise<void> =>
    run("bun", ["build", ...args, ...settings, ...options], sources);
  await bundle(sources, folder, Object.values(ENTRIES), build);
  rmSync(dirname(sources), { recursive: true });
}

/** The modules that differ between packages, whose declarations no entry point needs. */
const EMBEDDED = ["embedded", "wasm"].map((name) => join(SHIM, name));

/** A hash of the modules of a folder that all packages have, of the compiler and of its options. */
function hashOf(folder: string, options: unknown): string {
  const { version } = JSON.parse(
    readFileSync(join(root, "node_modules", "typescript", "package.json"), "utf8"),
  );
  const hash = createHash("sha256").update(JSON.stringify([version, options]));
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()) {
    if (!path.endsWith(".ts") || EMBEDDED.includes(path.slice(0, -3))) continue;
    hash.update(`${path} `).update(readFileSync(join(folder, path)));
  }
  return hash.digest("hex");
}

/** Writes the declarations of all modules that the entry points reach. */
async function declare(sources: string, folder: string): Promise<void> {
  const { compilerOptions } = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8"));
  const options = {
    ...compilerOptions,
    ...{ noEmit: false, declaration: true, emitDeclarationOnly: true, noCheck: true },
    // Editors offer no internals.
    stripInternal: true,
    ...{ rewriteRelativeImportExtensions: true, rootDir: ".", paths: {} },
  };
  const hash = hashOf(sources, options);
  let kept = findKept("types", hash);
  if (kept === undefined) {
    const made = `${sources}-declarations`;
    writeJson(join(sources, "tsconfig.json"), {
      compilerOptions: {
        ...options,
        ...{ outDir: made, typeRoots: [join(root, "node_modules", "@types")] },
      },
      files: Object.values(ENTRIES),
    });
    await run("deno", ["run", "-A", "npm:typescript/tsc", "-p", sources], root);
    for (const path of EMBEDDED) rmSync(join(made, `${path}.d.ts`), { force: true });
    kept = keep("types", hash, (to) => cpSync(made, to, { recursive: true }));
    rmSync(made, { recursive: true });
  }
  cpSync(kept, folder, { recursive: true });
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, name);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace(/(["'])(\.\.?\/[^"'\n]*)\.ts\1/g, "$1$2.js$1"));
  }
}

/** Removes the declarations that no entry point needs; throws if one is missing that an entry point needs. */
function pruneDeclarations(folder: string): void {
  const needed = new Set<string>();
  const visit = (path: string): void => {
    if (needed.has(path)) return;
    if (!existsSync(path)) throw new Error(`${path} is missing`);
    needed.add(path);
    for (const [, to] of readFileSync(path, "utf8").matchAll(/["'](\.\.?\/[^"'\n]*)\.js["']/g)) {
      visit(join(dirname(path), `${to}.d.ts`));
    }
  };
  for (const entry of Object.values(ENTRIES)) visit(join(folder, entry.replace(/ts$/, "d.ts")));
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const path = join(folder, name);
    if (name.endsWith(".d.ts") && !needed.has(path)) rmSync(path);
  }
}

/** The types of files that Bun imports `with { type: "file" }`: their paths. */
const FILE_TYPES = ["safetensors", "gguf", "npy", "npz", "onnx"].map((extension) =>
  `declare module "*.${extension}" {\n  const path: string;\n  export default path;\n}\n`
).join("");

/** Declares files for the programs that import a module. */
function declareFiles(folder: string): void {
  writeFileSync(join(folder, "files.d.ts"), FILE_TYPES);
  for (const entry of [".", "./io", "./nn", "./llm", "./onnx"]) {
    const path = ENTRIES[entry]!;
    const declarations = join(folder, path.replace(/ts$/, "d.ts"));
    const up = "../".repeat(path.split("/").length - 1) || "./";
    const text = readFileSync(declarations, "utf8");
    writeFileSync(declarations, `/// <reference path="${up}files.d.ts" />\n${text}`);
  }
}

/** Throws unless the declarations of a staged package compile by themselves. */
async function checkTypes(folder: string): Promise<void> {
  const compilerOptions = {
    ...{ target: "esnext", module: "nodenext", lib: ["esnext", "dom"], types: [] },
    ...{ strict: true, noEmit: true },
  };
  const files = Object.values(ENTRIES).map((path) => path.replace(/ts$/, "d.ts"));
  const path = `${folder}-tsconfig.json`;
  writeJson(path, { compilerOptions, files: files.map((file) => join(folder, file)) });
  await run("deno", ["run", "-A", "npm:typescript/tsc", "-p", path], root);
  rmSync(path);
}

/** Runs a tool whose output matters only if it fails. */
async function run(tool: "bun" | "deno", args: string[], cwd: string): Promise<void> {
  const lines: string[] = [];
  const code = await start(findTool(tool), args, { cwd, onLine: (line) => lines.push(line) });
  if (code !== 0) throw new Error(`${tool} ${args[0]} exited with ${code}:\n${lines.join("\n")}`);
}

/** The total size of the files of a folder, in bytes. */
export function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => statSync(join(folder, path)))
    .reduce((sum, entry) => sum + (entry.isFile() ? entry.size : 0), 0);
}

async function main(): Promise<number> {
  await ensureInstalled();
  const only = process.argv.includes("--host") ? HOST : undefined;
  const built = await start(findTool("zig"), only ? ["build"] : ["build", "all"]);
  if (built !== 0) return built;
  const libraries = builtLibraries(only);
  const out = join(root, "zig-out", "package");
  const [jsr, npm, deno] = [join(out, "jsr"), join(out, "npm"), join(out, "deno")];
  await stageJsr(jsr, libraries);
  const tarball = await stageNpm(npm, libraries);
  stageDeno(deno, npm);
  console.log(await stageReplacement(join(out, "onnxruntime-node-rowmajor")));
  if (process.argv.includes("--check")) {
    await run("deno", ["publish", "--dry-run", "--allow-dirty"], jsr);
    await checkTypes(npm);
  }
  for (const path of [jsr, npm, deno]) {
    const size = sizeOf(path);
    console.log(`${path}: ${size} bytes`);
    if (size > MOST_PACKAGE_BYTES) throw new Error(`more than ${MOST_PACKAGE_BYTES} bytes`);
  }
  console.log(`${tarball}: ${statSync(tarball).size} bytes`);
  return 0;
}

if (import.meta.main) process.exit(await main());
