/**
 * Faults of environment variables and of the cache of the library: entry 32.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { execFileSync } from "node:child_process";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { type Carried, findIntact, keep } from "../../../src/backend/ffi/cache.ts";
import { findNative } from "../../../src/backend/cpu.ts";
import { moduleAt, runApart } from "../../native/support.ts";
import { fault } from "../support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-environment-"));
after(() => rmSync(folder, { recursive: true }));
const unix = process.platform !== "win32" ? false : "needs Unix";
const native = typeof findNative() !== "string" ? false : "needs the native library";

/** What the first op and `info()` throw with these variables, or what `info()` returns. */
function outcome(env: Record<string, string>): string[] {
  const program = `import { info, ones } from ${moduleAt("mod.ts")};
    for (const call of [() => ones([1000]).add(1).shape, () => info().backends, () => ones([9]).exp()]) {
      try { console.log(JSON.stringify(call())); }
      catch (error) { console.log(error.name + ": " + error.message); }
    }`;
  return runApart(program, env, ["-A"]).trim().split("\n");
}

fault({
  entry: 32,
  kind: "an environment variable with a value that it does not take is ignored, or means another",
  others: ["ROWMAJOR_THREADS", "ROWMAJOR_LEVEL", "ROWMAJOR_BLAS_ALWAYS", "ROWMAJOR_CUDA_BLOCKS"],
  skip: native,
}, () => {
  const count = "an integer from 0 to 256";
  const cases: [string, string, string][] = [
    ["THREADS", "1e3", count],
    ["THREADS", "four", count],
    ["THREADS", "-1", count],
    ["THREADS", "257", count],
    ["THREADS", " 2", count],
    ["LEVEL", "v9", "v2, v3 or v4"],
    ["LEVEL", "3", "v2, v3 or v4"],
    ["BLAS_ALWAYS", "true", "0 or 1"],
    ["CUDA_BLOCKS", "2", "0 or 1"],
  ];
  for (const [name, value, expected] of cases) {
    const variable = `ROWMAJOR_${name}`;
    for (const line of outcome({ [variable]: value })) {
      assertStringIncludes(line, `ArgumentError: ${variable} is "${value}": it takes ${expected}`);
    }
  }
  for (const value of ["", "0", "2", "256"]) {
    assertEquals(outcome({ ROWMAJOR_THREADS: value })[0], "[1000]");
  }
});

fault({
  entry: 32,
  kind: "an environment variable that names a FIFO hangs",
  others: ["ROWMAJOR_LIB", "ROWMAJOR_OPENBLAS", "ROWMAJOR_PTX", "ROWMAJOR_CUDA_LIB_DIR"],
  skip: native || unix,
}, () => {
  const fifo = join(folder, "fifo");
  execFileSync("mkfifo", [fifo]);
  const link = join(folder, "link");
  symlinkSync(fifo, link);
  for (const path of [fifo, link]) {
    const [shape, backends] = outcome({ ROWMAJOR_LIB: path });
    assertEquals(shape, "[1000]");
    assertStringIncludes(backends!, `"native":"${path} is not a regular file"`);
    assertStringIncludes(
      outcome({ ROWMAJOR_OPENBLAS: path })[1]!,
      `"openblas":"${path}: it is not a regular file"`,
    );
  }
  for (const name of ["ROWMAJOR_PTX", "ROWMAJOR_CUDA_LIB_DIR"]) {
    assertEquals(outcome({ [name]: fifo })[0], "[1000]");
  }
});

const bytes = new TextEncoder().encode("a library");
const FILES = [{
  name: "library.so",
  size: bytes.length,
  sha256: createHash("sha256").update(bytes).digest("hex"),
}] as const;
const carried: Carried = {
  files: FILES,
  content: () => ({ "library.so": brotliCompressSync(bytes).toString("base64") }),
};

/** What becomes of the library with `cache` as the named folder: its path, or a reason. */
async function kept(cache: string): Promise<string> {
  const before = process.env.ROWMAJOR_CACHE;
  process.env.ROWMAJOR_CACHE = cache;
  try {
    const intact = await findIntact(FILES);
    const [place] = keep(carried);
    const result = typeof place === "string" ? place : place!.reason;
    if (intact?.startsWith(cache)) assertEquals(intact, result);
    return result;
  } finally {
    if (before === undefined) delete process.env.ROWMAJOR_CACHE;
    else process.env.ROWMAJOR_CACHE = before;
  }
}

/** A new folder of that mode. */
function makeFolder(name: string, mode: number): string {
  const path = join(folder, name);
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

fault({
  entry: 32,
  kind: "the library is loaded from a place that another user can change",
  others: ["parents of the cache", "targets of links", "the subfolder", "the file itself"],
  skip: unix,
}, async () => {
  const good = await kept(join(folder, "good"));
  assertEquals(good, join(folder, "good", FILES[0].sha256, "library.so"));
  assertEquals(await kept(join(folder, "good")), good);

  for (const mode of [0o777, 0o775]) {
    const open = makeFolder(`open-${mode}`, mode);
    assertStringIncludes(await kept(join(open, "cache")), `others can write into ${open}`);
    mkdirSync(join(open, "deep"), { mode: 0o700 });
    assertStringIncludes(await kept(join(open, "deep", "cache")), `others can write into ${open}`);
    const link = join(folder, `link-${mode}`);
    symlinkSync(open, link);
    assertStringIncludes(await kept(join(link, "deep")), `others can write into ${open}`);
    assert(!existsSync(join(open, "deep", FILES[0].sha256)));
  }
  const sticky = makeFolder("sticky", 0o1777);
  assertStringIncludes(await kept(join(sticky, "cache")), "library.so");

  chmodSync(dirname(good), 0o777);
  assertStringIncludes(await kept(join(folder, "good")), `others can write into ${dirname(good)}`);
  chmodSync(dirname(good), 0o700);
  // A file that others could change, or a link, is replaced.
  chmodSync(good, 0o666);
  assertEquals(await kept(join(folder, "good")), good);
  assertEquals(lstatSync(good).mode & 0o777, 0o600);
  const elsewhere = join(folder, "elsewhere.so");
  writeFileSync(elsewhere, bytes);
  unlinkSync(good);
  symlinkSync(elsewhere, good);
  assertEquals(await kept(join(folder, "good")), good);
  assert(lstatSync(good).isFile());
  assertEquals(readFileSync(good), Buffer.from(bytes));

  const linked = join(folder, "linked");
  mkdirSync(linked, { mode: 0o700 });
  symlinkSync(dirname(good), join(linked, FILES[0].sha256));
  assertStringIncludes(await kept(linked), "is not a folder");
});

fault({
  entry: 32,
  kind: "the library is loaded from a place that belongs to another user",
  others: ["parents of the cache", "the subfolder", "the file itself"],
  skip: process.getuid?.() === 0 ? false : "needs root, who can give folders away",
}, async () => {
  const parent = makeFolder("foreign", 0o755);
  const cache = join(parent, "cache");
  const good = await kept(cache);
  assertStringIncludes(good, "library.so");
  chownSync(parent, 12345, 12345);
  assertStringIncludes(await kept(cache), `${parent} belongs to another user`);
  chownSync(parent, 0, 0);
  chownSync(dirname(good), 12345, 12345);
  assertStringIncludes(await kept(cache), `others can write into ${dirname(good)}`);
  chownSync(dirname(good), 0, 0);
  chownSync(good, 12345, 12345);
  assertEquals(await kept(cache), good);
  assertEquals(lstatSync(good).uid, 0);
});
