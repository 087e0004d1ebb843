/**
 * Hand-made faults, as a tired engineer makes them, where mutants of src cannot be: in C, in CUDA
 * sources, in code that only Bun runs, in packages, in distributed programs and in the site.
 *
 * @module
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { info } from "../../mod.ts";
import type { Runtime, Suite } from "../../tests/plan.ts";
import { root } from "../tools.ts";

/** Tests that are to notice a fault. */
export interface Run {
  readonly runtime: Runtime;
  /** The file's path from the root. */
  readonly file: string;
  /** A regular expression for the names of the tests, where the others of the file take long. */
  readonly filter?: string;
}

export const SUBJECTS = [
  "C",
  "CUDA source",
  "Bun only",
  "packages",
  "distributed",
  "site",
] as const;

/** One fault. */
export interface Fault {
  /** What is wrong. */
  readonly name: string;
  readonly subject: typeof SUBJECTS[number];
  /** The file's path from the root. */
  readonly file: string;
  /** A text that is once in the file, and what takes its place. */
  readonly from: string;
  readonly to: string;
  /** Whether the library of this machine has to be built again: it contains the CUDA headers too. */
  readonly builds: boolean;
  readonly tests: readonly Run[];
  /** Why this machine cannot judge it, or undefined if it can. */
  readonly missing?: () => string | undefined;
  /** What catches it: `all` is `npm run test:all` alone. */
  readonly suite: Suite;
}

type Rest = Pick<Fault, "from" | "to" | "tests" | "missing"> & { readonly suite?: Suite };

/** A fault; those in C and in CUDA headers are compiled. */
const fault =
  (subject: Fault["subject"]) =>
  (file: string, name: string, { suite = "test", ...rest }: Rest): Fault => ({
    ...{ subject, file, name, suite, ...rest },
    builds: file.startsWith("shim/"),
  });

const deno = (file: string, filter?: string): Run => ({
  runtime: "deno",
  file: `tests/${file}_test.ts`,
  ...filter !== undefined && { filter },
});
const bun = (file: string, filter?: string): Run => ({ ...deno(file, filter), runtime: "bun" });

const c = fault("C");
const cuda = fault("CUDA source");
const onlyBun = fault("Bun only");
const packages = fault("packages");
const distributed = fault("distributed");
const site = fault("site");

/** The site's own packages, with which one test builds it. */
function missingSite(): string | undefined {
  const path = "site/node_modules";
  return existsSync(join(root, path)) ? undefined : `there is no ${path}: deno task site`;
}

/** As tests/native/lapack_test.ts finds it. */
function missingOpenBlas(): string | undefined {
  const isThere = info().backends.lapack.startsWith("that of openblas") ||
    existsSync(process.env.ROWMAJOR_PYTHON ?? join(root, ".venv", "bin", "python"));
  return isThere ? undefined : "there is no OpenBLAS: ROWMAJOR_PYTHON names a Python with NumPy";
}

const C: readonly Fault[] = [
  c("shim/cpu/reduce/reduce_lanes.h", "the tail of a vector loop misses its last element", {
    from: "\n  for (; i < n; i++) {",
    to: "\n  for (; i + 1 < n; i++) {",
    tests: [deno("api/reductions")],
  }),
  c("shim/cpu/gemm/gemm.c", "the second matrices of a batch are where the first ones are", {
    from: ".b_at = plan + RM_MATMUL_FIELDS + 2 * batch,",
    to: ".b_at = plan + RM_MATMUL_FIELDS + batch,",
    tests: [deno("api/matmul")],
  }),
  c("shim/cpu/gemm/gemm.c", "a task of several blocks leaves out the last one", {
    from: "const ptrdiff_t end = rm_min(ctx->batch * blocks, (index + 1) * ctx->per_task);",
    to: "const ptrdiff_t end = rm_min(ctx->batch * blocks - 1, (index + 1) * ctx->per_task);",
    tests: [deno("api/matmul")],
  }),
  c("shim/core/buffers.c", "nobody checks whether there was memory for a buffer", {
    from: "  if (data == NULL) return NULL;\n  if (api.napi_create_external_arraybuffer(env, data,",
    to: "  if (api.napi_create_external_arraybuffer(env, data,",
    tests: [deno("native/buffers", "^memory that is not there")],
  }),
  c("shim/core/isa.c", "the best kernels run, whatever level was selected", {
    from: "(isa == 0 ? highest_isa() : isa) - LOWEST_ISA",
    to: "(isa != 0 ? highest_isa() : isa) - LOWEST_ISA",
    tests: [deno("native/load", "^ROWMAJOR_LEVEL|^an instruction set")],
  }),
  c("shim/cpu/quant/quantize.c", "halves are rounded towards zero", {
    from: "n = whole + (a - (float)whole >= 0.5f);",
    to: "n = whole + (a - (float)whole > 0.5f);",
    tests: [deno("ops/quantized")],
  }),
  c("shim/cpu/linalg/lapack.c", "LAPACK factors the other triangle", {
    from: 'p->ctx->flag ? "L" : "U", &n, p->a, &n, &info, 1);',
    to: 'p->ctx->flag ? "U" : "L", &n, p->a, &n, &info, 1);',
    tests: [deno("native/lapack")],
  }),
  c("shim/cpu/linalg/lapack.c", "right-hand sides begin one column too early in the workspace", {
    from: "p.b = memory + elements * bytes;",
    to: "p.b = memory + (elements - m) * bytes;",
    tests: [deno("native/lapack")],
    missing: missingOpenBlas,
  }),
  c("shim/cpu/linalg/lapack.c", "imaginary parts are written one element too early", {
    from: "char *const imaginary = p->reals + n * p->bytes;",
    to: "char *const imaginary = p->reals + (n - 1) * p->bytes;",
    tests: [deno("native/lapack")],
    missing: missingOpenBlas,
  }),
  c("shim/program/program.c", "the error of a call inside a program is lost", {
    from: "    if (status != RM_OK) return note_fault(frame, i, status, -1);\n    if (!call",
    to: "    if (status != RM_OK) continue;\n    if (!call",
    tests: [deno("program/program"), deno("compile/compile")],
  }),
  c("shim/program/program.c", "the index that a program found out of range is not reset", {
    from: "    attributes[0] = call->first_attribute;\n",
    to: "",
    tests: [deno("program/program"), deno("compile/compile")],
  }),
  c("shim/core/threads.c", "threads leave out the last task of a partition", {
    from: "thread->end = tasks / participants * (i + 1) + rm_min(i + 1, tasks % participants);",
    to: "thread->end = tasks / participants * (i + 1) + rm_min(i, tasks % participants);",
    tests: [deno("native/threads", "^the number of threads does not show in maps")],
  }),
  c("shim/core/threads.c", "one thread more runs than a program has set", {
    from: "void rm_set_threads(int count) { atomic_store(&thread_limit, clamp_threads(count)); }",
    to: "void rm_set_threads(int count) { atomic_store(&thread_limit, clamp_threads(count) + 1); }",
    tests: [deno("native/threads", "^the number of threads does not show in maps")],
  }),
  c("shim/cpu/conv/conv_pack.c", "padded rows are not zero", {
    from: "      fill_zeros(at, length, own);\n",
    to: "",
    tests: [deno("nn/conv")],
  }),
];

const CUDA: readonly Fault[] = [
  cuda("shim/cuda/kernels/matmul.h", "a block reads its tile before all have written it", {
    from: "      __syncthreads();\n#pragma unroll\n      for (int d = 0;",
    to: "#pragma unroll\n      for (int d = 0;",
    tests: [deno("cuda/kernels/kernels", "^Products")],
  }),
  cuda("shim/cuda/kernels/matmul.h", "a block overwrites its tile while others read it", {
    from: "      }\n      __syncthreads();\n    }\n#pragma unroll",
    to: "      }\n    }\n#pragma unroll",
    tests: [deno("cuda/kernels/kernels", "^Products")],
  }),
  cuda("shim/cuda/kernels/matmul.h", "the strides of the second matrix are swapped", {
    from: "from_b + depth * b.row, b.column, b.row, n - side",
    to: "from_b + depth * b.row, b.row, b.column, n - side",
    tests: [deno("cuda/kernels/kernels", "^Products")],
  }),
  cuda("shim/cuda/kernels/matmul.h", "a block writes the row beyond the last one", {
    from: "if (row < m && column < n) to[",
    to: "if (row <= m && column < n) to[",
    tests: [deno("cuda/kernels/kernels", "^Products")],
  }),
  cuda("shim/cuda/kernels/reduce.h", "lanes combine sums that others still write", {
    from: "      }\n      __syncthreads();\n    }\n  }\n  if constexpr (!SMALL) {",
    to: "      }\n    }\n  }\n  if constexpr (!SMALL) {",
    tests: [deno("cuda/table", "^sum: cuda")],
  }),
  cuda("shim/cuda/kernels/reduce.h", "a round leaves out the last pack", {
    from: "if (!GUARD || q + k * stride + WIDTH <= to) {",
    to: "if (!GUARD || q + k * stride + WIDTH < to) {",
    tests: [deno("cuda/table", "^sum: cuda")],
  }),
  cuda("shim/cuda/kernels/softmax_norm.h", "the maximum of a row leaves out the last warp", {
    from: "for (int w = 1; w < rm_warps(); w++) max_value",
    to: "for (int w = 1; w < rm_warps() - 1; w++) max_value",
    tests: [deno("cuda/kernels/kernels", "^Softmax")],
  }),
  cuda("shim/cuda/kernels/scan.h", "a lane adds its own element to what is before it", {
    from: "  if (inner == 0) before = Op::identity();\n  *all",
    to: "  *all",
    tests: [deno("cuda/kernels/long", "^along long axes on CUDA: cumulativeSum")],
  }),
  cuda("shim/cuda/launch.c", "the sizes of grid and block are mixed up", {
    from: "(unsigned)call[3], (unsigned)call[4], (unsigned)call[5],",
    to: "(unsigned)call[4], (unsigned)call[3], (unsigned)call[5],",
    tests: [deno("cuda/kernels/kernels", "^Products")],
  }),
  cuda("shim/cuda/memory/allocator.c", "memory that a graph writes serves others meanwhile", {
    from: "    if (graph != 0) b->graph = graph;\n    code = release_block",
    to: "    (void)graph;\n    code = release_block",
    tests: [deno("cuda/shim", "^graphs run again")],
  }),
  cuda("shim/cuda/graph.c", "a graph's memory is not given back with it", {
    from: "  rm_release_graph_memory(device, freed->number);\n",
    to: "",
    tests: [deno("cuda/shim", "^graphs run again")],
  }),
];

const BUN: readonly Fault[] = [
  onlyBun("src/backend/ffi/bun.ts", "numbers of 32 bits go to C as 64-bit ones", {
    from: 'type === "buffer" ? "ptr" : type);',
    to: 'type === "buffer" ? "ptr" : type === "i32" ? "f64" : type);',
    tests: [bun("native/load", "^an instruction set|^setBackend chooses")],
  }),
  onlyBun("src/backend/ffi/bun.ts", "an array is freed by the callback of the owner", {
    from: "return toArrayBuffer(numbers[0]!, 0, bytes, owner, bufferLost);",
    to: "return toArrayBuffer(numbers[0]!, 0, bytes, owner, ownerLost);",
    tests: [bun("native/buffers", "^results that live for a while|^live buffers keep")],
  }),
  onlyBun("src/backend/ffi/bun.ts", "an array that the runtime refuses keeps its memory", {
    from: "        shim.rm_buffers(BUFFERS.give, numbers);\n",
    to: "",
    tests: [bun("native/refused")],
  }),
  onlyBun("src/backend/ffi/bun.ts", "a view of a mapped file holds no reference", {
    from: "    shim.rm_files(FILES.hold, null, numbers);\n    try",
    to: "    shim.rm_files(FILES.release, null, numbers);\n    try",
    tests: [bun("io/mmap")],
  }),
  onlyBun("src/backend/ffi/bun.ts", "a new file of the cache may be read by others", {
    from: '{ flag: "wx", mode: 0o600 }',
    to: '{ flag: "wx", mode: 0o666 }',
    tests: [bun("package/cache")],
  }),
  onlyBun("src/backend/ffi/jsc.ts", "collections look at new objects only", {
    from: "if (!pays) this.#collector.edenGC();",
    to: "if (!pays || isMuch) this.#collector.edenGC();",
    tests: [bun("native/buffers", "^what is new|^what is alive|^where there are many")],
  }),
  onlyBun("src/memory/pool.ts", "small arrays of complex numbers have half their elements", {
    from:
      "if (array === Float32Array) return new Float32Array(length * entries);\n  if (array === Int32Array) return new Int32Array(length",
    to:
      "if (array === Float32Array) return new Float32Array(length);\n  if (array === Int32Array) return new Int32Array(length",
    tests: [bun("complex/complex")],
  }),
  onlyBun("src/io/file.ts", "a file inside an executable is looked for by its whole path", {
    from: "root[\\\\/](.*)$/.exec(String(path))?.[1];",
    to: "root([\\\\/].*)$/.exec(String(path))?.[1];",
    tests: [bun("package/executable", "a file inside an executable is read once")],
  }),
  onlyBun("src/backend/js/primitives.ts", "powers of integers are those of JavaScriptCore", {
    from: "    if (size > 1e-280 && size < 1e290) return powInteger(x, y);\n",
    to: "",
    tests: [bun("unit/primitives", "pow with integer exponents")],
  }),
];

const PACKAGES: readonly Fault[] = [
  packages("scripts/release/package.ts", "the package for npm leaves out the libraries", {
    from: 'files: ["*.js", "*.js.map", "*.d.ts", "src", "lib", "CHANGELOG.md"],',
    to: 'files: ["*.js", "*.js.map", "*.d.ts", "src", "CHANGELOG.md"],',
    tests: [bun("package/npm", "installs without scripts")],
  }),
  packages("scripts/release/package.ts", "only the first entry point is exported", {
    from:
      'exports: { ...exports, "./wasm.cjs": WASM_CONTENT, "./package.json": "./package.json" },',
    to: 'exports: { ".": exports["."], "./package.json": "./package.json" },',
    tests: [bun("package/npm")],
  }),
  packages("scripts/release/package.ts", "Bun gets the module without libraries", {
    from: '{ bun: "./bundled-bun.js", default: "./bundled.js" };',
    to: '{ default: "./bundled.js", bun: "./bundled-bun.js" };',
    tests: [bun("package/npm", "an executable of a program that uses it")],
  }),
  packages(
    "scripts/release/package.ts",
    "an executable does not look at the library in the cache",
    {
      from: "  intact: await findIntact(files),\n  content: () => content,",
      to: "  intact: undefined,\n  content: () => undefined,",
      tests: [bun("package/executable", "^bun build --compile makes the demo")],
    },
  ),
  packages("src/backend/ffi/cache.ts", "a damaged library of the cache is opened", {
    from:
      "if (areThere(path, files, entry.owner) && host.sha256(host.read(path)) === files[0]!.sha256) {",
    to: "if (areThere(path, files, entry.owner)) {",
    tests: [deno("package/cache", "^a damaged")],
  }),
  packages("src/backend/ffi/cache.ts", "the message names one permission too few", {
    from: "return `--allow-ffi=${folder} --allow-read=${folder} --allow-write=${folder}`;",
    to: "return `--allow-ffi=${folder} --allow-read=${folder}`;",
    tests: [deno("package/cache", "^a program that may not use")],
  }),
  packages("src/backend/ffi/cache.ts", "a folder that its group can write to is trusted", {
    from: "  if ((entry.mode & 0o022) !== 0) return `others can write into ${folder}`;\n  // If",
    to: "  if ((entry.mode & 0o002) !== 0) return `others can write into ${folder}`;\n  // If",
    suite: "all",
    tests: [deno("package/cache", "^a cache that cannot be trusted")],
  }),
];

const DISTRIBUTED: readonly Fault[] = [
  distributed("shim/distributed/world.c", "a rank that closes its world tells nobody", {
    from: "    if (rank == all->rank) continue;\n    int64_t *text",
    to: "    if (rank != all->rank) continue;\n    int64_t *text",
    tests: [deno("distributed/ends")],
  }),
  distributed("shim/distributed/reductions.c", "maxima of float32 are minima", {
    from: "SELECT(max_f32, float, GREATER, SAME)",
    to: "SELECT(max_f32, float, LESS, SAME)",
    tests: [deno("distributed/collectives", "collectives of 2 ranks")],
  }),
  distributed("shim/distributed/distributed.c", "deadlines are a thousand times later", {
    from: "request->since + (int64_t)(request->timeout * 1e6)",
    to: "request->since + (int64_t)(request->timeout * 1e9)",
    tests: [deno("distributed/failures", "calls that wait fail at the deadline")],
  }),
  distributed("shim/distributed/compare.c", "ranks do not compare the root of a broadcast", {
    from: "  for (int i = 0; i < RM_COMPARED; i++) {\n    if (request->most",
    to: "  for (int i = 0; i + 1 < RM_COMPARED; i++) {\n    if (request->most",
    tests: [deno("distributed/mismatches")],
  }),
  distributed("shim/distributed/world.c", "ranks do not agree on whether they compare", {
    from: "return done && most[0] + most[1] == 1;",
    to: "return done;",
    tests: [deno("distributed/failures", "some ranks compare")],
  }),
  distributed("src/distributed/gradients.ts", "ranks average gradients in orders of their own", {
    from: "for (const key of Object.keys(record).sort()) visit(record[key]);",
    to: "for (const key of Object.keys(record)) visit(record[key]);",
    tests: [deno("distributed/parallel", "2 ranks average")],
  }),
];

const SITE: readonly Fault[] = [
  site("scripts/site/pages.ts", "links to a folder's README lead nowhere", {
    from: '${target.replace(/\\bREADME\\.md/, "index.md")}',
    to: "${target}",
    tests: [deno("site/pages")],
  }),
  site("scripts/site/pages.ts", "dead links outside the site's base are found no more", {
    from: "      : undefined;\n      const target",
    to: "      : decodeURIComponent(url.pathname).slice(1);\n      const target",
    tests: [deno("site/pages")],
  }),
  site("docs/tour.md", "a link to another page has a letter too many", {
    from: "[Notebooks](jupyter.md)",
    to: "[Notebooks](jupiter.md)",
    tests: [deno("site/pages")],
  }),
  site("scripts/site/slug.ts", "anchors are not those of GitHub", {
    from: '.replaceAll(" ", "-");',
    to: '.replace(/ +/g, "-");',
    tests: [deno("site/pages")],
  }),
  site("scripts/site/api.ts", "text of the API is not escaped", {
    from: '      if (all === "<") return "&lt;";\n',
    to: "",
    tests: [deno("site/api")],
  }),
  site("site/.vitepress/config.ts", "the site has no base path", {
    from: 'base: process.env.SITE_BASE || "/",',
    to: 'base: "/",',
    suite: "all",
    tests: [deno("site/build")],
    missing: missingSite,
  }),
  site("site/.vitepress/config.ts", "the search has no words of the pages", {
    from:
      "processTerm: (term: string) => /^[\\d.,:×%+−-]*$/.test(term) ? null : term.toLowerCase(),",
    to: "processTerm: (term: string) => /^[\\d.,:×%+−-]*$/.test(term) ? term.toLowerCase() : null,",
    suite: "all",
    tests: [deno("site/build")],
    missing: missingSite,
  }),
];

/** All faults. */
export const FAULTS: readonly Fault[] = [
  ...C,
  ...CUDA,
  ...BUN,
  ...PACKAGES,
  ...DISTRIBUTED,
  ...SITE,
];
