/**
 * Weights on the memory of mapped files: every format with files that are mapped and with files that
 * are read, writes, files that change; and the memory of opening, as Linux reports it.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it, test } from "node:test";
import {
  type AnyTensor,
  arange,
  FormatError,
  io,
  memory,
  ones,
  random,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import {
  found,
  inDeno,
  library,
  moduleAt,
  removeFolder,
  runApart,
  when,
} from "../native/support.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-mapped-"));
after(() => removeFolder(folder));

const onWindows = process.platform === "win32" && "Windows keeps mapped files from changes";
const key = random.key(1);
const TENSORS: Record<string, AnyTensor> = {
  "a.weight": random.normal(key, [6, 4]),
  "a.bias": arange(6),
  "e.weight": random.normal(key, [10, 4]).astype("float16"),
  "c.weight": random.normal(key, [3, 2, 3, 3]),
  mask: tensor([true, false, true]),
  ids: arange(5, { dtype: "int64" }),
  odd: arange(3, { dtype: "uint8" }),
  none: ones([0, 3]),
};

/** A size that ends files in their headers, of at least 128 bytes, and leaves their first pages. */
const SHORT = 97;

let files = 0;

/** A path for a new file or folder. */
const next = (end = ""): string => join(folder, `${files++}${end}`);

/** The bytes of a safetensors file whose tensors are not aligned. */
function unaligned(bytes: Uint8Array): Uint8Array {
  const made = new Uint8Array(bytes.length + 1);
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  made.set(bytes.subarray(0, 8 + length));
  made[8 + length] = 0x20;
  made.set(bytes.subarray(8 + length), 9 + length);
  new DataView(made.buffer).setBigUint64(0, BigInt(length + 1), true);
  return made;
}

interface Places {
  readonly file: string;
  readonly shifted: string;
  readonly shards: string;
  readonly arrays: string;
}

/** Writes the tensors in each of the ways that are mapped; the path of each. */
async function places(): Promise<Places> {
  const [file, shifted] = [next(".safetensors"), next(".safetensors")];
  const [shards, arrays] = [next(), next()];
  writeFileSync(shifted, unaligned(io.encodeSafetensors(TENSORS)));
  await io.writeSafetensors(file, TENSORS);
  for (const path of [shards, arrays]) mkdirSync(path);
  const { odd, ...rest } = TENSORS;
  await io.writeSafetensors(join(shards, "1.safetensors"), { odd: odd! });
  await io.writeSafetensors(join(shards, "2.safetensors"), rest);
  const map = Object.keys(TENSORS).map((name) => [name, `${name === "odd" ? 1 : 2}.safetensors`]);
  writeFileSync(
    join(shards, "model.safetensors.index.json"),
    JSON.stringify({ weight_map: Object.fromEntries(map) }),
  );
  for (const [name, x] of Object.entries(TENSORS)) {
    await io.writeNpy(join(arrays, `${name}.npy`), x);
  }
  return { file, shifted, shards, arrays };
}

describe("weights that are mapped", () => {
  for (const mmap of [true, false]) {
    const how = mmap && found ? "mapped" : "read";
    it(`are those of the file, ${how} with mmap ${mmap}`, async () => {
      for (const [place, path] of Object.entries(await places())) {
        for (const { name, on: target } of BACKENDS) {
          const device = (typeof target === "string" ? target : "cpu") as "cpu";
          using w = await nn.open(path, { mmap, device });
          on(target, () => {
            for (const [key, expected] of Object.entries(TENSORS)) {
              const x: Any = w.tensor(key);
              const about = `${place} ${name} ${key}`;
              assertEquals([x.dtype, x.shape, x.device], [expected.dtype, expected.shape, device]);
              assert(x.to("cpu").equals(expected), about);
              assertEquals(x.access, "write", about);
              if (x.size === 0) continue;
              // Bools are copied, and so is what is not aligned.
              const kept = key !== "mask" && (place !== "shifted" || key === "odd");
              const cow = mmap && found && device === "cpu" && kept;
              assertEquals(x.ownership, cow ? "cow" : "owned", about);
            }
          });
          w.done();
        }
        using cast = await nn.open(path, { mmap, dtype: "float32" });
        assert(cast.tensor("e.weight").equals(TENSORS["e.weight"]!.astype("float32")), place);
      }
    });

    it(`make layers, ${how} with mmap ${mmap}`, async () => {
      for (const path of Object.values(await places())) {
        using w = await nn.open(path, { mmap });
        const [a, e] = [w.linear("a", 6, 4), w.embedding("e", 10, 4, { dtype: "float32" })];
        const c = w.conv2d("c", 3, 2, 3, { bias: false });
        w.done({ ignore: ["mask", "ids", "odd", "none"] });
        const { "a.weight": weight, "a.bias": bias, "e.weight": table, "c.weight": kernel } = loose(
          TENSORS,
        );
        const ids = tensor([3, 9], { dtype: "int32" });
        assert(e(ids).equals(table.astype("float32").take(ids)));
        assert(a(e(ids)).sub(e(ids).linear(weight, bias)).abs().max().item() < 1e-5);
        const image: Any = random.normal(random.key(2), [1, 2, 5, 5]);
        assert(loose(c(image)).equals(nn.conv2d(image, kernel)));
        // Programs, in turn and off the event loop.
        using fast = compile((x: Any) => loose(a(e(x))).mul(loose(e.weight).sum()));
        const expected = fast(ids as never);
        assert((await fast.async(ids as never)).equals(expected));
      }
    });

    it(`are copied by a write, ${how} with mmap ${mmap}`, async () => {
      const { file } = await places();
      const before = readFileSync(file!);
      using w = await nn.open(file!, { mmap });
      const x: Any = w.tensor("a.weight");
      const e: Any = w.embedding("a", 6, 4);
      const row = e(tensor([0], { dtype: "int32" }));
      x.add_(1);
      assert(x.equals(TENSORS["a.weight"]!.add(1)));
      assert(e(tensor([0], { dtype: "int32" })).equals(row));
      assert(loose(await nn.open(file!, { mmap })).tensor("a.weight").equals(TENSORS["a.weight"]));
      assertEquals(readFileSync(file!), before);
    });

    it(`stay those of a file that another replaces, or say that it changed, mmap ${mmap}`, {
      skip: onWindows,
    }, async () => {
      const { file, arrays } = await places();
      const array = join(arrays, "a.bias.npy");
      using w = await nn.open(file, { mmap });
      using v = await nn.open(arrays, { mmap });
      await io.writeSafetensors(file, { "a.bias": ones([6]) });
      await io.writeNpy(array, ones([6]));
      for (const one of [w, v]) {
        if (mmap && found) assertEquals(String(one.tensor("a.bias")), String(TENSORS["a.bias"]));
        else assertThrows(() => one.tensor("a.bias"), FormatError, "the file has changed");
      }
      unlinkSync(array);
      if (mmap && found) assertEquals(String(v.tensor("a.bias")), String(TENSORS["a.bias"]));
    });

    it(`are a FormatError of a file that changes before their first use, mmap ${mmap}`, {
      skip: onWindows,
    }, async () => {
      const { file, arrays } = await places();
      using w = await nn.open(file, { mmap });
      using v = await nn.open(arrays, { mmap });
      const [a, c] = [w.linear("a", 6, 4), w.conv2d("c", 3, 2, 3, { bias: false })];
      for (const path of [file, join(arrays, "a.bias.npy")]) utimesSync(path, 1, 1);
      assertThrows(() => w.tensor("a.bias"), FormatError, "the file has changed");
      assertThrows(() => v.tensor("a.bias"), FormatError, "the file has changed");
      const before = memory().bytes;
      assertThrows(() => a.weight, FormatError, "the file has changed");
      truncateSync(file, 4);
      assertThrows(() => c.weight, FormatError, file);
      const error = assertThrows(() => w.done({ ignore: ["*"] }), FormatError) as FormatError;
      assertEquals(error.file, file);
      assertEquals(memory().bytes, before);
    });
  }

  it("are a FormatError if the file becomes shorter before the first use", {
    skip: !found && "needs the native library" || onWindows,
  }, async () => {
    const { file, arrays } = await places();
    const [w, v] = [await nn.open(file), await nn.open(arrays)];
    const [c, x, y]: Any[] = [
      w.conv2d("c", 3, 2, 3, { bias: false }),
      w.tensor("a.weight"),
      v.tensor("a.weight"),
    ];
    // Its weight stays where it is in the file.
    void c.weight;
    const out = ones([6, 4]);
    for (const path of [file, join(arrays, "a.weight.npy")]) truncateSync(path, SHORT);
    for (
      const use of [() => x.sum(), () => y.toArray(), () => x.add_(1), () => c(ones([1, 2, 3, 3]))]
    ) {
      assertThrows(use, FormatError, "the file has become shorter");
    }
    assertThrows(() => y.add(1, { out }), FormatError, "become shorter");
    assert(out.equals(ones([6, 4])));
    w.dispose();
    v.dispose();
  });

  it("end the leases of a run off the event loop if one of them throws", {
    skip: !found && "needs the native library" || onWindows,
  }, async () => {
    for (const { name, on: target } of BACKENDS) {
      if (typeof target === "string") continue;
      const { file } = await places();
      using w = await nn.open(file);
      const { weight }: Any = w.embedding("e", 10, 4);
      using sum: Any = compile((x: Any, y: Any) => x.add(y));
      const x: Any = ones([10, 4]);
      await on(target, () => sum.async(x, ones([10, 4], { dtype: "float16" })));
      truncateSync(file, SHORT);
      const run = (): Promise<unknown> => on(target, () => sum.async(x, weight));
      await assertRejects(run, FormatError, "the file has become shorter");
      assertEquals([x.storage.handles, x.storage.cows, sum.programs], [1, null, 1], name);
    }
  });

  it("belong to their layers after the file is closed", async () => {
    const { file } = await places();
    const w = await nn.open(file);
    const e = w.embedding("e", 10, 4);
    w.done({ ignore: ["*"] });
    const ids = tensor([9], { dtype: "int32" });
    assert(e(ids).equals(loose(TENSORS["e.weight"]).take(ids)));
    w.dispose();
    assertThrows(() => e(ids), Error, "disposed");
  });

  it("of arrays that are not as in memory, or not read, in a folder", async () => {
    const path = next();
    mkdirSync(path);
    const bytes = io.encodeNpy(arange(6).reshape([2, 3]));
    const text = (from: string, to: string): Uint8Array => {
      const made = bytes.slice();
      const at = new TextDecoder("latin1").decode(made).indexOf(from);
      assert(at > 0 && from.length === to.length);
      made.set(new TextEncoder().encode(to), at);
      return made;
    };
    writeFileSync(join(path, "fortran.npy"), text("False", "True "));
    writeFileSync(join(path, "big.NPY"), text("<f4", ">i4"));
    writeFileSync(join(path, "bits.npy"), io.encodeNpy(tensor([true, false])));
    writeFileSync(join(path, "object.npy"), text("<f4", "|O4"));
    writeFileSync(join(path, "short.npy"), bytes.subarray(0, bytes.length - 1));
    writeFileSync(join(path, "long.npy"), new Uint8Array([...bytes, 0]));
    writeFileSync(join(path, "bad.npy"), new Uint8Array(3));
    const mask = io.encodeNpy(tensor([true, false]));
    mask[mask.length - 1] = 2;
    writeFileSync(join(path, "mask.npy"), mask);
    using w = await nn.open(path);
    const { fortran, big } = { fortran: w.tensor("fortran"), big: w.tensor("big") };
    assert(fortran.equals(io.decodeNpy(text("False", "True "))));
    assert(big.equals(io.decodeNpy(text("<f4", ">i4"))));
    assertEquals(w.tensor("bits").toArray(), [true, false]);
    for (
      const [name, why] of [
        ["object", "not a dtype that is read"],
        ["short", "truncated: shape [2, 3] of float32 needs 24 bytes, but 23 are left"],
        ["long", "1 bytes follow the array"],
        ["bad", "truncated"],
      ]
    ) {
      const x: Any = w.tensor(name!);
      assertStringIncludes((assertThrows(() => x.neg(), FormatError) as Error).message, why!);
      assertEquals(w.info(name!)!.dtype, undefined);
    }
    assertThrows(() => w.tensor("mask"), FormatError, "bool byte is 2");
    assertThrows(() => w.done(), FormatError, "4 have a dtype that does not fit");
  });

  it("of arrays that are not as in memory are those of the file that was opened", {
    skip: !found && "needs the native library" || onWindows,
  }, async () => {
    const path = next();
    mkdirSync(path);
    const fortran = io.encodeNpy(arange(6).reshape([2, 3]));
    const at = new TextDecoder("latin1").decode(fortran).indexOf("False");
    fortran.set(new TextEncoder().encode("True "), at);
    const mask = io.encodeNpy(tensor([true, false]));
    for (const [name, bytes] of Object.entries({ fortran, mask })) {
      writeFileSync(join(path, `${name}.npy`), bytes);
    }
    using w = await nn.open(path);
    for (const name of ["fortran", "mask"]) await io.writeNpy(join(path, `${name}.npy`), ones([1]));
    assert(w.tensor("fortran").equals(io.decodeNpy(fortran)));
    assertEquals(w.tensor("mask").toArray(), [true, false]);
  });

  it("two arrays of one name in a folder are a FormatError", {
    skip: process.platform !== "linux" && "needs names that differ in case",
  }, async () => {
    const path = next();
    mkdirSync(path);
    for (const name of ["a.npy", "a.NPY"]) await io.writeNpy(join(path, name), ones([1]));
    const error = await assertRejects(() => nn.open(path), FormatError) as FormatError;
    assertStringIncludes(error.message, 'two tensors get the name "a"');
    assertEquals(error.file, path);
  });

  it("with an option that is no boolean are refused", async () => {
    await assertRejects(() => nn.open("none", { mmap: loose("no") }), TypeError, "mmap");
  });
});

// ---- memory -------------------------------------------------------------------------------------

const MIB = 2 ** 20;
/** Rows of a weight of 64 MiB. */
const ROWS = 16384;
const big = join(folder, "big.safetensors");
const arrays = join(folder, "big");

/** Files of two weights of 64 MiB, which take no room on a disk. */
function writeBig(): void {
  const size = 64 * MIB;
  const shape = `"dtype":"F32","shape":[${ROWS},1024]`;
  const entry = (name: string, at: number) =>
    `"${name}":{${shape},"data_offsets":[${at},${at + size}]}`;
  const header = `{${entry("e.weight", 0)},${entry("a.weight", size)}}`.padEnd(256);
  const start = new Uint8Array(8);
  start[1] = 1;
  const put = (path: string, parts: readonly Uint8Array[], size: number): void => {
    const file = openSync(path, "w");
    let at = 0;
    for (const part of parts) at += writeSync(file, part, 0, part.length, at);
    ftruncateSync(file, at + size);
    closeSync(file);
  };
  put(big, [start, new TextEncoder().encode(header)], 2 * size);
  mkdirSync(arrays);
  // A header of 128 bytes, the shape with as many blanks less as it is longer.
  const npy = io.encodeNpy(ones([1])).slice(0, 128);
  const text = new TextDecoder().decode(npy.subarray(10, 127));
  const longer = text.replace("(1,), }", `(${ROWS}, 1024), }`).slice(0, text.length);
  npy.set(new TextEncoder().encode(longer), 10);
  for (const name of ["e.weight", "a.weight"]) {
    put(join(arrays, `${name}.npy`), [npy], size);
  }
}
if (found) writeBig();

const BEGIN = `import * as rm from ${moduleAt("mod.ts")};
import * as nn from ${moduleAt("src/nn/mod.ts")};
import { compile } from ${moduleAt("src/compile/mod.ts")};
import { readFileSync } from "node:fs";
function check(what: boolean, said: unknown): void {
  if (!what) throw new Error(JSON.stringify(said));
}
/** Mebibytes of this process: all that are resident, and those of no file. */
function resident(): { all: number; own: number } {
  const text = readFileSync("/proc/self/status", "utf8");
  const of = (name: string) => parseInt(text.split(name + ":")[1]!) / 1024;
  return { all: of("VmRSS"), own: of("RssAnon") };
}
const path = ${JSON.stringify(big)}, arrays = ${JSON.stringify(arrays)};
/** Opens the weights, with layers that keep them as they are. */
async function open(path: string, options = {}): Promise<any[]> {
  const w: any = await nn.open(path, options);
  const e = w.embedding("e", ${ROWS}, 1024);
  const a = w.layer("a", { weight: [${ROWS}, 1024] }, ({ weight }: any, own: any) => {
    own(weight);
    return () => weight;
  });
  w.done();
  return [w, e, a];
}
// What the runtime and the library take at their first use.
if (!rm.info().files.startsWith("read")) rm.ones([70000]).sum();
(await nn.open(rm.io.encodeSafetensors({ x: rm.ones([2]) }))).dispose();
`;
const onLinux = { "Linux": process.platform === "linux" };
const run = (program: string, permissions: readonly string[] = ["-A"], env = {}): string =>
  runApart(BEGIN + program, env, permissions);

for (const place of ["path", "arrays"]) {
  // A process for each: the collector unmaps the memory of one file while another is measured.
  test(...when(onLinux, `opening weights of ${place} takes no memory of their size`, () => {
    run(`const where = ${place}, before = resident();
    const [w, e, a] = await open(where);
    const opened = resident();
    check(opened.all - before.all < 40, [where, before, opened]);
    // One weight of 64 MiB, as memory of the file.
    check(e.weight.max().item() === 0, "zeros");
    const used = resident();
    check(used.all - opened.all > 50, [where, opened, used]);
    check(used.own - before.own < 40, [where, before, used]);
    check(a().get(${ROWS} - 1, 1023) === 0 && resident().all - used.all < 20, resident());
    w.dispose();`);
  }));
}

test(...when(onLinux, "weights of a file that is read take memory of their size", () => {
  run(`const before = resident();
    const [w] = await open(path, { mmap: false });
    const read = resident();
    check(read.own - before.own > 110, [before, read]);
    w.dispose();`);
}));

test(...when(onLinux, "runs off the event loop copy no weights", () => {
  run(`const [w, e] = await open(path);
    const rows = compile((ids: any) => e(ids).add(1));
    const ids = rm.tensor([3, 4], { dtype: "int32" });
    rows(ids);
    const before = rm.memory().peakBytes;
    for (let i = 0; i < 3; i++) {
      const made: any = await rows.async(ids);
      check(made.get(1, 5) === 1, String(made));
    }
    check(rm.memory().peakBytes - before < 2 ** 20, [before, rm.memory()]);
    // A write is seen by later runs, and not by those that have begun.
    const begun = rows.async(ids);
    e.weight.add_(1);
    check((await begun as any).get(1, 5) === 1, "before");
    check((await rows.async(ids) as any).get(1, 5) === 2, "after");
    rows.dispose();
    w.dispose();`);
}));

const small = join(folder, "small.safetensors");
if (found) await io.writeSafetensors(small, { x: arange(3) });

test(
  ...when({ "Deno": inDeno }, "files are mapped with permission for the library, else read", () => {
    const program = `rm.setBackend("js");
    const w: any = await nn.open(${JSON.stringify(small)});
    const x = w.tensor("x");
    console.log(rm.info().files, x.ownership, x.get(2));`;
    const read = `--allow-read=${folder}`;
    assertEquals(run(program, [`--allow-ffi=${library}`, "--allow-env", read]), "mapped cow 2\n");
    const why = `read: not allowed to open ${library}: use --allow-ffi=${library}`;
    assertEquals(run(program, ["--allow-env", read]), `${why} owned 2\n`);
  }),
);

test(...when({}, "without a library, files are read", () => {
  const said = run(
    `rm.setBackend("js");
    const w: any = await nn.open(${JSON.stringify(small)});
    console.log(rm.info().files.slice(0, 6), w.tensor("x").ownership);`,
    ["-A"],
    { ROWMAJOR_LIB: "/nowhere/librowmajor.so" },
  );
  assertEquals(said, "read:  owned\n");
}));
