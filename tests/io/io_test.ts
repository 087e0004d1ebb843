/**
 * The public namespace `io`: writes tensors and views to files and reads them.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import vm from "node:vm";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { arange, DisposedError, DTypeError, FormatError, io, tensor } from "../../mod.ts";
import { golden, goldenFile } from "./golden.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-io-"));
after(() => rmSync(folder, { recursive: true }));

describe("io: tensors", () => {
  for (const { name, bytes, arrays, same } of golden(".npy")) {
    if (!same) continue;
    it(`${name} becomes a tensor and the same file again`, () => {
      const x = io.decodeNpy(bytes);
      const raw = arrays.get("")!;
      assertEquals([x.dtype, [...x.shape]], [raw.dtype, raw.shape]);
      assertEquals(io.encodeNpy(x), bytes);
    });
  }

  it("have the values that NumPy saved", () => {
    const values = io.decodeNpy(goldenFile("float32.npy").bytes).toArray();
    const expected = [[-1.5, Math.fround(0.1), Infinity], [NaN, -0, 65504]];
    assertEquals(values, expected);
    assertEquals(io.decodeNpy(goldenFile("fortran_cube.npy").bytes).slice("1, 2").toArray(), [
      20,
      21,
      22,
      23,
    ]);
    assertEquals(io.decodeNpy(goldenFile("rank0.npy").bytes).item(), -2.5);
  });

  it("do not share memory with the bytes they came from", () => {
    const bytes = goldenFile("rank1.npy").bytes;
    const x = io.decodeNpy(bytes);
    bytes.fill(255, 128);
    assertEquals(x.toArray(), [0, 1, 2, 3, 4]);
  });

  it("are written in row-major order, whatever view they are", () => {
    const x = tensor([[0, 1, 2], [3, 4, 5]], { dtype: "int32" });
    const view = x.slice("::-1, 1:");
    const expected = [[4, 5], [1, 2]];
    assertEquals(io.decodeNpy(io.encodeNpy(view)).toArray(), expected);
    assertEquals(io.decodeNpz(io.encodeNpz({ view })).view.toArray(), expected);
    assertEquals(
      io.decodeSafetensors(io.encodeSafetensors({ view })).get("view").toArray(),
      expected,
    );
  });

  it("of bfloat16 go to safetensors, and to npy not", () => {
    const x = tensor([1, -2.5], { dtype: "bfloat16" });
    assertEquals(io.decodeSafetensors(io.encodeSafetensors({ x })).get("x").toArray(), [1, -2.5]);
    assertThrows(() => io.encodeNpy(x), DTypeError, "bfloat16");
    const { bytes } = goldenFile("bfloat16.npy");
    assertEquals(io.decodeNpy(bytes, { bfloat16: true }).dtype, "bfloat16");
  });

  it("are read from bytes of another realm", () => {
    const realm = vm.createContext({});
    const inRealm = (bytes: Uint8Array): Uint8Array => {
      const made = vm.runInContext(`new Uint8Array(${bytes.length})`, realm) as Uint8Array;
      made.set(bytes);
      return made;
    };
    assertEquals(io.decodeNpy(inRealm(io.encodeNpy(arange(3)))).toArray(), [0, 1, 2]);
    assertEquals(io.decodeNpz(inRealm(io.encodeNpz({ a: arange(3) }))).a!.toArray(), [0, 1, 2]);
    const tensors = inRealm(io.encodeSafetensors({ a: arange(2) }));
    assertEquals(io.decodeSafetensors(tensors).get("a").toArray(), [0, 1]);
  });

  it("that are gone, and what is no tensor, are refused by name", () => {
    const x = tensor([1]);
    x.dispose();
    assertThrows(() => io.encodeNpy(x), DisposedError, "encodeNpy");
    // @ts-expect-error: the wrong type is the point
    assertThrows(() => io.encodeSafetensors({ x: [1] }), DTypeError, "encodeSafetensors");
  });
});

describe("io: records", () => {
  it("keep every name a plain name", () => {
    const { bytes, arrays, metadata } = goldenFile("all.safetensors");
    const file = io.decodeSafetensors(bytes);
    assertEquals([...file.names].sort(), [...arrays.keys()].sort());
    assertEquals({ ...file.metadata }, metadata);
    assertEquals([file.info("int8").dtype, file.info("int8").shape], ["int8", [2, 3]]);
    const record = Object.fromEntries(file.names.map((name) => [name, file.get(name)]));
    assertEquals(io.encodeSafetensors(record, { metadata }), bytes);
    assertThrows(() => file.get("toString"), FormatError, '"toString"');

    const npz = io.decodeNpz(io.encodeNpz(Object.fromEntries([["__proto__", tensor([7])]])));
    assertEquals(Object.getPrototypeOf(npz), null);
    assertEquals(npz["__proto__"].toArray(), [7]);
    assertEquals(io.decodeNpz(goldenFile("deflated.npz").bytes, { names: ["2"] })["2"].shape, []);
  });
});

describe("io: what is no argument is refused, by the name of the function", () => {
  const x = tensor([1]);
  const bytes = io.encodeNpy(x);
  const loose = io as unknown as Record<string, (...args: unknown[]) => unknown>;
  const cases: [op: string, args: unknown[], message: string][] = [
    ["decodeNpy", [bytes, null], "options come last"],
    ["decodeNpy", [bytes, { files: "x" }], 'with option "files"'],
    ["readNpy", ["x.npy", 5], "options come last"],
    ["decodeNpz", [bytes, { names: "x" }], 'with names "x": it takes an array of names'],
    ["readNpz", ["x.npz", { names: "x" }], 'with names "x": it takes an array of names'],
    ["readNpz", ["x.npz", { name: ["x"] }], 'with option "name"'],
    ["encodeNpz", [null], "expected tensors by name, as { x }, got null"],
    ["encodeNpz", [x], "expected tensors by name, as { x }, got a tensor"],
    ["encodeNpz", [{ x: [1] }], "expected a tensor"],
    ["writeNpz", ["x.npz", { x: [1] }], "expected a tensor"],
    ["writeNpz", ["x.npz", { x }, { compressed: true }], 'with option "compressed"'],
    ["writeNpy", ["x.npy", [1]], "expected a tensor"],
    ["decodeSafetensors", [bytes, null], "options come last"],
    [
      "encodeSafetensors",
      [{ x }, { metadata: { n: 5 } }],
      'with metadata "n" of 5: it takes strings',
    ],
    [
      "encodeSafetensors",
      [{ x }, { metadata: "n" }],
      'with metadata "n": it takes strings by name',
    ],
    ["encodeSafetensors", [{ x }, { metadata: null }], "with metadata null: it takes strings"],
    ["writeSafetensors", ["x", { x }, { metadata: { n: null } }], 'with metadata "n" of null'],
  ];
  for (const [op, args, message] of cases) {
    it(`${op}: ${message}`, async () => {
      const run = async (): Promise<unknown> => await loose[op](...args);
      const error = await assertRejects(run, TypeError, message);
      assert(error.message.startsWith(`Cannot ${op}`), error.message);
    });
  }

  it("maps and arrays of tensors, which have no names", async () => {
    const map = new Map([["a", tensor([1])]]);
    for (const given of [map, [tensor([1])]]) {
      for (const op of ["encodeNpz", "encodeSafetensors"]) {
        assertThrows(() => loose[op](given), DTypeError, "tensors by name");
      }
      for (const op of ["writeNpz", "writeSafetensors"]) {
        const write = async (): Promise<unknown> => await loose[op](join(folder, "map"), given);
        await assertRejects(write, DTypeError, "tensors by name");
      }
    }
  });

  it("bytes that are none", () => {
    for (const op of ["decodeNpy", "decodeNpz", "decodeSafetensors"]) {
      for (const given of [null, undefined, "x", [1], new ArrayBuffer(8), new Float32Array(9)]) {
        assertThrows(() => loose[op](given), TypeError, "expected a Uint8Array");
      }
    }
  });
});

describe("io: files", () => {
  const path = (name: string): string => join(folder, name);
  const x = tensor([[1.5, 2], [3, 4]]);
  const y = tensor([1, 2, 3], { dtype: "uint8" });

  it("npy and npz are written and read", async () => {
    await io.writeNpy(path("x.npy"), x);
    assertEquals((await io.readNpy(path("x.npy"))).toArray(), x.toArray());
    await io.writeNpz(path("xy.npz"), { x, y }, { compress: true });
    const read = await io.readNpz(path("xy.npz"));
    assertEquals(Object.keys(read), ["x", "y"]);
    assertEquals(read.y.toArray(), [1, 2, 3]);
    const error = await assertRejects(() => io.readNpz(path("x.npy")), FormatError);
    assertEquals(error.file, path("x.npy"));
  });

  it("safetensors are opened, read by name, and closed by await using", async () => {
    await io.writeSafetensors(path("xy.safetensors"), { x, y }, { metadata: { made: "here" } });
    let leaked: io.SafetensorsFile;
    {
      await using file = await io.openSafetensors(path("xy.safetensors"));
      assertEquals([...file.names], ["x", "y"]);
      assertEquals(file.metadata.made, "here");
      assertEquals((await file.get("x")).toArray(), x.toArray());
      assert(file.info("y").end - file.info("y").begin === 3);
      leaked = file;
    }
    await assertRejects(() => leaked.get("x"), DisposedError, "closed");
    const file = await io.openSafetensors(path("xy.safetensors"));
    await file.close();
    await assertRejects(() => file.get("y"), DisposedError, "closed");
  });
});
