/**
 * The CUDA kernels without an entry in the op table (sorting, indexing, random numbers, products,
 * softmax and norms) on the emulator, against the JavaScript backend and formulas in doubles:
 * around the sizes at which the backend changes kernels, with threads that run in any order.
 * `npm test` takes half of the cases of indexing, products, and rows.
 *
 * Skipped without the emulator or the native library; see cuda/support/device.ts for real devices.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type MatrixBatch, matrixBatch } from "../../../src/ops/matmul/problem.ts";
import type { RowKernel } from "../../../src/ops/softmax_norm/problem.ts";
import type { CudaDevice } from "../../../src/backend/cuda/device.ts";
import { usualFamilies } from "../../../src/backend/cuda/families.ts";
import { matmul } from "../../../src/backend/cuda/matmul.ts";
import { CudaMemory } from "../../../src/backend/cuda/memory.ts";
import { scatterAdd } from "../../../src/backend/cuda/move.ts";
import { addCountsUp, sort } from "../../../src/backend/cuda/sort.ts";
import { JsBackend } from "../../../src/backend/js/backend.ts";
import { type Shim, STATUS } from "../../../src/backend/ffi/abi.ts";
import { DTYPE, type DType, DTYPES, finfo } from "../../../src/base/dtype.ts";
import { readElement, writeElement } from "../../../src/memory/element.ts";
import { IndexError } from "../../../src/base/errors.ts";
import { Layout } from "../../../src/base/layout.ts";
import { type Plan, planMap } from "../../../src/base/plan.ts";
import type { Distribution } from "../../../src/ops/random/op.ts";
import { DeviceStorage, download, upload } from "../../../src/memory/device.ts";
import { allocate } from "../../../src/memory/pool.ts";
import type { Storage } from "../../../src/memory/storage.ts";
import { BackendCalls } from "../../calls.ts";
import { cudaCalls } from "../support/calls.ts";
import { isSampled } from "../../support/amount.ts";
import { FamilyDevice, onHardware, prepareEmulator } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";
import { emulatorCopy, whyNoEmulator } from "../../emulator/build.ts";
import { shim } from "../../native/support.ts";
import { generator } from "../../ops/table/operands.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-kernels-"));
after(() => rmSync(folder, { recursive: true }));

function open(): Shim | string {
  const reason = onHardware ? undefined : whyNoEmulator();
  if (reason !== undefined) return reason;
  if (shim === undefined) return "there is no native library";
  if (onHardware) return shim;
  emulatorCopy(folder);
  const name = new TextEncoder().encode(`${folder}\0`);
  if (shim.rm_cuda_open(name, new Float64Array(3)) !== STATUS.ok) {
    throw new Error("the shim cannot open the emulator");
  }
  prepareEmulator(folder, true);
  return shim;
}

const launched = recordKernels();
const emulator = open();
if (typeof emulator === "string") console.log(`CUDA kernels are not tested: ${emulator}`);

/** The environment of a test of kernels. */
interface Site {
  readonly device: CudaDevice;
  /** Calls on that device. */
  readonly cuda: BackendCalls;
  /** Its memory. */
  readonly memory: CudaMemory;
  /** Which of the three runs it is. */
  readonly turn: number;
}

/** Runs a test three times, as orders of threads differ. */
function check(
  what: string,
  run: (site: Site) => void,
  changed?: (shim: Shim) => Shim,
): void {
  if (typeof emulator === "string") {
    test.skip(what, () => {});
    return;
  }
  test(what, () => {
    const device = new FamilyDevice(changed?.(emulator) ?? emulator, 0, usualFamilies());
    const [cuda, memory] = [cudaCalls(device), new CudaMemory(device)];
    for (let turn = 0; turn < 3; turn++) {
      run({ device, cuda, memory, turn });
      memory.synchronize();
    }
  });
}

const js = new BackendCalls(new JsBackend(), new JsBackend());

/** A copy of `storage` on the device. */
function send(memory: CudaMemory, storage: Storage): DeviceStorage {
  const made = new DeviceStorage(memory, storage.info, storage.length, false);
  if (storage.length > 0) upload(made, 0, storage.array);
  return made;
}

function bytesOf(storage: Storage): Uint8Array {
  const { buffer, byteOffset, byteLength } = download(storage, 0, storage.length);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Throws unless both hold the same bits. */
function assertBits(actual: Storage, expected: Storage, what: string): void {
  const [a, b] = [bytesOf(actual), bytesOf(expected)];
  const at = b.findIndex((byte, i) => byte !== a[i]);
  if (at < 0 && a.length === b.length) return;
  const element = Math.floor(at / expected.info.bytes);
  throw new Error(`${what}: byte ${at}, of element ${element} of ${expected.length}, differs`);
}

/** Elements of any bits (bools of 0 and 1), from a seed. */
function anything(dtype: DType, length: number, seed: number): Storage {
  const storage = allocate(dtype, length, false);
  const draw = generator(seed);
  const bytes = bytesOf(storage);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = Math.floor(draw() * 256) & (dtype === "bool" ? 1 : 255);
  }
  const array = new DTYPE[dtype].array(bytes.buffer as ArrayBuffer, bytes.byteOffset, length);
  // By words, as copies of floats may change NaN.
  new Uint8Array(storage.array.buffer, storage.array.byteOffset, bytes.length).set(
    new Uint8Array(array.buffer, array.byteOffset, bytes.length),
  );
  return storage;
}

function filled(dtype: DType, length: number, at: (i: number) => number): Storage {
  const storage = allocate(dtype, length, false);
  for (let i = 0; i < length; i++) {
    writeElement(storage, i, DTYPE[dtype].wide ? BigInt(at(i)) : at(i));
  }
  return storage;
}

// ---- sorting -----------------------------------------------------------------------------------

check(
  "Sorting: every dtype, runs of any length, values and orders",
  ({ device, cuda, memory, turn }) => {
    const sizes = [[1, 1], [700, 3], [5, 33], [3, 512], [2, 513], [1, 2049], [1, 4097], [2, 5000]];
    // Long runs of one dtype for each size of elements.
    const few = ["int8", "bfloat16", "float32", "int64"];
    for (const dtype of DTYPES) {
      const { bytes } = DTYPE[dtype];
      sizes.forEach(([runs, size], k) => {
        if (size! > 500 && (k % 3 !== turn || !few.includes(dtype))) return;
        const n = runs! * size!, offset = k % 2 === 0 ? 0 : 5;
        // Many of them equal in every other case.
        const values = anything(dtype, n + offset, k + 1);
        if (k % 2 === 0) {
          const view = new Uint8Array(values.array.buffer, values.array.byteOffset, n * bytes);
          for (let i = 0; i < view.length; i++) view[i]! &= i % bytes === bytes - 1 ? 0x83 : 1;
        }
        for (const descending of [false, true]) {
          const what = `${dtype}, ${runs} of ${size}, ${descending}`;
          const order = allocate("int32", n, false);
          js.sort(values, offset, runs!, size!, descending, order);
          const there = send(memory, values);
          const indices = new DeviceStorage(memory, DTYPE.int32, n, false);
          cuda.sort(there, offset, runs!, size!, descending, indices);
          assertBits(indices, order, `the order of ${what}`);
          assertBits(there, values, `what has been ordered of ${what}`);
          // In place: a call would copy the values first, on the device that dispatch knows.
          sort(device, there, offset, runs!, size!, descending, null);
          const [from, to] = [bytesOf(values), bytesOf(values)];
          for (let i = 0; i < n; i++) {
            const run = i - i % size!, source = offset + run + Number(readElement(order, i));
            for (let b = 0; b < bytes; b++) {
              to[(offset + i) * bytes + b] = from[source * bytes + b]!;
            }
          }
          assertEquals(bytesOf(there), to, what);
          there.free();
          indices.free();
        }
      });
    }
  },
);

check(
  "Counts: sums of those before, in rows of few and of more than a block has threads",
  ({ device, memory, turn }) => {
    for (const length of [1, 2, 16, 17, 33, 256, 257, 1024, 1025, 2500, 5000]) {
      const rows = length <= 16 ? 300 : 3;
      const counts = filled("int64", rows * length, (i) => (i * 7 + turn) % 11);
      const [there, totals] = [send(memory, counts), send(memory, filled("int64", rows, () => -1))];
      addCountsUp(device, there.address, totals.address, rows, length);
      for (let row = 0; row < rows; row++) {
        let sum = 0n;
        for (let i = row * length; i < (row + 1) * length; i++) {
          const count = BigInt(Number(readElement(counts, i)));
          writeElement(counts, i, sum);
          sum += count;
        }
        assertEquals((download(totals, row, 1) as BigInt64Array)[0], sum);
      }
      assertBits(there, counts, `rows of ${length}`);
    }
  },
);

// ---- indexing ----------------------------------------------------------------------------------

const KINDS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] as const;

check(
  "Positions: indexes of every dtype; those out of range are noted",
  ({ device, cuda, memory }) => {
    for (const dtype of KINDS) {
      for (const wide of ["int32", "int64"] as const) {
        for (const shape of [[1], [300], [3, 5], [2, 3, 4, 2, 3, 2]]) {
          const target = Layout.contiguous(shape);
          const n = target.size;
          const low = DTYPE[dtype].kind === "i" ? -50 : 0;
          const index = filled(dtype, 2 * n, (i) => low + (i * 37) % (50 - low));
          const strided = new Layout(shape, target.strides.map((stride) => 2 * stride), 1);
          const positions = filled(wide, n, (i) => i);
          const [there, from] = [send(memory, positions), send(memory, index)];
          assertEquals(
            cuda.ravelIndex(planMap(target, strided, null, null), there, from, 50, 3),
            -1,
          );
          js.ravelIndex(planMap(target, strided, null, null), positions, index, 50, 3);
          assertBits(there, positions, `${wide} by ${dtype} [${shape}]`);
          there.free();
          from.free();
        }
      }
    }
    device.checkFaults();
    const line = Layout.contiguous([6]);
    const [there, index] = [
      send(memory, filled("int32", 6, () => 0)),
      send(memory, filled("int64", 6, (i) => [1, 2, -7, 5, 2 ** 40, 0][i]!)),
    ];
    for (let i = 0; i < 2; i++) {
      cuda.ravelIndex(planMap(line, line, null, null), there, index, 5, 1);
    }
    assertThrows(() => device.checkFaults(), IndexError, "Cannot index axis of size 5 at -7");
    device.checkFaults();
    const least = -(2 ** 31);
    assertEquals(Array.from(download(there, 0, 6) as Int32Array), [2, 4, least, least, least, 0]);
  },
);

interface Moved {
  readonly name: string;
  readonly block: Layout;
  readonly dense: Layout;
  /** The distance between picks, and between positions. */
  readonly step: number;
  readonly stride: number;
}

/** Blocks of several kinds along an axis of 37, gathered `count` times, from `offset` on. */
function blocks(count: number, offset: number): Moved[] {
  const run = (n: number): Moved => ({
    name: `rows of ${n}`,
    block: new Layout([n], [1], offset),
    dense: new Layout([n], [1], 0),
    step: n,
    stride: n,
  });
  const sizes = [2, 3, 2, 3, 2, 2], order = [5, 0, 3, 2, 4, 1];
  const shapes = [37, count].map((n) => Layout.contiguous([...sizes.slice(0, 4), n, 2, 2]));
  const deep = (layout: Layout, from: number): Layout => {
    const strides = layout.strides.filter((_, axis) => axis !== 4);
    return new Layout(order.map((i) => sizes[i]!), order.map((i) => strides[i]!), from);
  };
  return [
    {
      name: "elements",
      block: new Layout([], [], offset),
      dense: new Layout([], [], 0),
      step: 1,
      stride: 1,
    },
    run(3),
    run(16),
    run(100),
    run(5000),
    {
      name: "columns",
      block: new Layout([6], [37], offset),
      dense: new Layout([6], [count], 0),
      step: 1,
      stride: 1,
    },
    {
      name: "deep blocks",
      block: deep(shapes[0]!, offset),
      dense: deep(shapes[1]!, 0),
      step: shapes[1]!.strides[4]!,
      stride: shapes[0]!.strides[4]!,
    },
  ];
}

check("Gather and scatter: any block, any alignment, later picks win", ({ cuda, memory, turn }) => {
  // JavaScript may change NaN as it copies.
  const dtypes = ["uint8", "float16", "uint32", "int64"] as const;
  for (const dtype of dtypes) {
    for (const count of [1, 40, 300]) {
      for (const { name, block, dense, step, stride } of blocks(count, count === 40 ? 3 : 0)) {
        if (name === "rows of 5000" && count > 40) continue;
        const what = `${name} of ${dtype}, ${count} times`;
        if (!isSampled(`${what}, turn ${turn}`, 2)) continue;
        const reach = (layout: Layout): number =>
          layout.shape.reduce((end, n, i) => end + (n - 1) * layout.strides[i]!, layout.offset);
        const source = anything(dtype, reach(block) + 36 * stride + 1, 1);
        const target = anything(dtype, reach(dense) + (count - 1) * step + 1, 2);
        const indices = filled(turn === 1 ? "int64" : "int16", count, (i) => {
          const index = (i * 29 + turn) % 37 % 20;
          return i % 3 === 0 ? index - 37 : index;
        });
        const [from, to, at] = [source, target, indices].map((one) => send(memory, one));
        const axis = { offset: 0, count, size: 37, stride };
        const [here, there] = [{ ...axis, indices }, { ...axis, indices: at! }];
        cuda.gather(planMap(dense, block, null, null), to!, from!, there, step);
        js.gather(planMap(dense, block, null, null), target, source, here, step);
        assertBits(to!, target, `gather ${what}`);
        const values = anything(dtype, target.length, 3);
        const sent = send(memory, values);
        cuda.scatter(planMap(block, dense, null, null), from!, sent, there, step, false);
        js.scatter(planMap(block, dense, null, null), source, values, here, step, false);
        assertBits(from!, source, `scatter ${what}`);
        // One element for all.
        const one = anything(dtype, 1, 4),
          still = new Layout(block.shape, block.shape.map(() => 0), 0);
        const only = send(memory, one);
        cuda.scatter(planMap(block, still, null, null), from!, only, there, 0, false);
        js.scatter(planMap(block, still, null, null), source, one, here, 0, false);
        assertBits(from!, source, `scatter a scalar to ${what}`);
        for (const storage of [from!, to!, at!, sent, only]) storage.free();
      }
    }
  }
});

check(
  "Scatter: few picks from a long axis; those out of range are skipped",
  ({ device, cuda, memory }) => {
    const [size, count, stride] = [100_000, 1000, 2];
    const target = filled("int32", size * stride, () => 0);
    const values = filled("int32", count, (i) => i + 1);
    const index = (i: number): number => i % 7 === 0 ? size : (i * i) % 300 * 300;
    const [there, given, indices] = [target, values, filled("int32", count, index)]
      .map((one) => send(memory, one));
    const one = new Layout([], [], 0);
    const picks = { indices: indices!, offset: 0, count, size, stride };
    cuda.scatter(planMap(one, one, null, null), there!, given!, picks, 1, false);
    for (let i = 0; i < count; i++) if (i % 7 !== 0) target.array[index(i) * stride] = i + 1;
    assertThrows(
      () => device.checkFaults(),
      IndexError,
      `Cannot index axis of size ${size} at ${size}`,
    );
    assertBits(there!, target, "scatter");
  },
);

/** Integers of any bits, and floats few of whose sums need rounding in any dtype. */
function addends(dtype: DType, length: number, seed: number): Storage {
  if (DTYPE[dtype].kind !== "f") return anything(dtype, length, seed);
  const draw = generator(seed);
  return filled(dtype, length, () => [-1, -0, 0, 1][Math.floor(draw() * 4)]!);
}

/**
 * The distribution of picks along an axis of 37: all places, one place, and half of them at one.
 */
const PATTERNS: readonly ((i: number) => number)[] = [
  (i) => i * 29 % 37 % 20 - (i % 3 === 0 ? 37 : 0),
  () => 5,
  (i) => i % 2 === 0 ? -3 : i * 11 % 37,
];

check(
  "Scatters that add: any block, runs that end where chunks of 32 picks do or go on over many",
  ({ device, cuda, memory, turn }) => {
    const one = new Layout([], [], 0);
    let number = turn;
    for (const dtype of DTYPES) {
      if (dtype === "bool") continue;
      for (const count of [1, 31, 64, 65, 1100]) {
        for (const { name, block, dense, step, stride } of blocks(count, count === 31 ? 3 : 0)) {
          const short = name === "elements" || name === "rows of 3";
          if (count > 100 && !short && number % 7 > 0 || name === "rows of 5000" && count > 40) {
            number++;
            continue;
          }
          const pattern = number++ % PATTERNS.length;
          const what = `${name} of ${dtype}, ${count} times, pattern ${pattern}`;
          if (!isSampled(`${what}, turn ${turn}`, 3)) continue;
          const reach = (layout: Layout): number =>
            layout.shape.reduce((end, n, i) => end + (n - 1) * layout.strides[i]!, layout.offset);
          const target = addends(dtype, reach(block) + 36 * stride + 1, 1);
          const values = addends(dtype, reach(dense) + (count - 1) * step + 1, 2);
          const indices = filled(turn === 1 ? "int64" : "int16", count, PATTERNS[pattern]!);
          const [to, from, at] = [target, values, indices].map((one) => send(memory, one));
          const axis = { offset: 0, count, size: 37, stride };
          const [here, there] = [{ ...axis, indices }, { ...axis, indices: at! }];
          cuda.scatter(planMap(block, dense, null, null), to!, from!, there, step, true);
          js.scatter(planMap(block, dense, null, null), target, values, here, step, true);
          assertBits(to!, target, what);
          // One element for all: 16-bit floats can count that many ones.
          const still = new Layout(block.shape, block.shape.map(() => 0), 0);
          here.count = there.count = Math.min(count, 100);
          cuda.scatter(planMap(block, still, null, null), to!, from!, there, 0, true);
          js.scatter(planMap(block, still, null, null), target, values, here, 0, true);
          assertBits(to!, target, `a scalar to ${what}`);
          for (const storage of [to!, from!, at!]) storage.free();
        }
      }
      // None equal, in another order.
      const count = 700, n = 1009, plan = (): Plan => planMap(one, one, null, null);
      const [target, values] = [addends(dtype, n, 3), addends(dtype, count, 4)];
      const indices = filled("int32", count, (i) => i * 555 % n);
      const [to, from, at] = [target, values, indices].map((one) => send(memory, one));
      const axis = { offset: 0, count, size: n, stride: 1 };
      cuda.scatter(plan(), to!, from!, { ...axis, indices: at! }, 1, true);
      js.scatter(plan(), target, values, { ...axis, indices }, 1, true);
      assertBits(to!, target, `${dtype}, none equal`);
      for (const storage of [to!, from!, at!]) storage.free();
    }
    device.checkFaults();
  },
);

check(
  "Scatters that add: thousands of picks, more at once than have room, and axes beyond int32",
  ({ device, cuda, memory }) => {
    const one = new Layout([], [], 0), count = 20_000, n = 50;
    const target = filled("int32", 3 * n, (i) => i);
    const values = filled("int32", count, (i) => i);
    const indices = filled("int64", count, (i) => i < 9000 ? 7 : i * i % n);
    const [to, from, at] = [target, values, indices].map((one) => send(memory, one));
    const plan = (): Plan => planMap(one, one, null, null);
    const axis = { offset: 0, count, size: n, stride: 3 };
    cuda.scatter(plan(), to!, from!, { ...axis, indices: at! }, 1, true);
    js.scatter(plan(), target, values, { ...axis, indices }, 1, true);
    assertBits(to!, target, "all at once");
    scatterAdd(device, plan(), to!, from!, { ...axis, indices: at! }, 1, 7001);
    js.scatter(plan(), target, values, { ...axis, indices }, 1, true);
    assertBits(to!, target, "in parts");
    // No pick has a target.
    scatterAdd(device, plan(), to!, from!, { ...axis, indices: at!, size: 2 ** 33 }, 1);
    js.scatter(plan(), target, values, { ...axis, indices }, 1, true);
    assertBits(to!, target, "along an axis beyond int32");
    device.checkFaults();
  },
);

check(
  "Scatters that add: picks out of range are skipped, and noted",
  ({ device, cuda, memory }) => {
    for (const count of [1, 40, 1000]) {
      const size = 5, block = Layout.contiguous([3]);
      const index = (i: number): number => i % 3 === 0 ? 2 ** 40 : i * 7 % 11 - 6;
      const target = filled("float32", size * 3, () => 1);
      const values = filled("float32", count * 3, (i) => i % 7);
      const indices = filled("int64", count, index);
      const [to, from, at] = [target, values, indices].map((one) => send(memory, one));
      const picks = { indices: at!, offset: 0, count, size, stride: 3 };
      cuda.scatter(planMap(block, block, null, null), to!, from!, picks, 3, true);
      for (let i = 0; i < count; i++) {
        const place = index(i) < 0 ? index(i) + size : index(i);
        if (place < 0 || place >= size) continue;
        for (let e = 0; e < 3; e++) {
          target.array[place * 3 + e]! = target.array[place * 3 + e] as number + (3 * i + e) % 7;
        }
      }
      const message = `Cannot index axis of size ${size} at ${2 ** 40}`;
      assertThrows(() => device.checkFaults(), IndexError, message);
      assertBits(to!, target, `${count} picks`);
      // Nothing to add, or nothing to add to: bad indexes are still errors.
      const nothing = new Layout([0], [1], 0);
      cuda.scatter(planMap(nothing, nothing, null, null), to!, from!, picks, 3, true);
      assertThrows(() => device.checkFaults(), IndexError, message);
      const none = { ...picks, size: 0 };
      cuda.scatter(planMap(block, block, null, null), to!, from!, none, 3, true);
      assertThrows(() => device.checkFaults(), IndexError, "Cannot index axis of size 0");
      cuda.scatter(planMap(block, block, null, null), to!, from!, { ...picks, count: 0 }, 3, true);
      device.checkFaults();
      assertBits(to!, target, `${count} picks, nothing more`);
    }
  },
);

const sums = new Map<DType, Uint8Array>();

check(
  "Scatters that add: floats are near what doubles give, and the same every time",
  ({ cuda, memory, turn }) => {
    const count = 3000, size = 3, columns = 4;
    for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
      const draw = generator(11);
      const target = filled(dtype, size * columns, () => draw());
      const values = filled(dtype, count * columns, () => draw() * (draw() - 0.3));
      const indices = filled("int32", count, (i) => i % 10 === 0 ? i % 3 : 1);
      const want = Array.from({ length: target.length }, (_, i) => Number(readElement(target, i)));
      const scale = want.map(Math.abs);
      for (let i = 0; i < count * columns; i++) {
        const x = Number(readElement(values, i));
        const at = Number(readElement(indices, Math.floor(i / columns))) * columns + i % columns;
        want[at]! += x;
        scale[at]! += Math.abs(x);
      }
      const [to, from, at] = [target, values, indices].map((one) => send(memory, one));
      const row = Layout.contiguous([columns]);
      const picks = { indices: at!, offset: 0, count, size, stride: columns };
      cuda.scatter(planMap(row, row, null, null), to!, from!, picks, columns, true);
      const got = allocate(dtype, target.length, false);
      got.array.set(download(to!, 0, target.length) as never);
      want.forEach((y, i) => {
        const z = Number(readElement(got, i)), { eps } = finfo(dtype);
        // 16-bit floats are added in float32 and rounded once.
        const near = DTYPE[dtype].bytes === 2
          ? Math.abs(z - y) <= eps * Math.abs(y) + 1e-5 * scale[i]!
          : Math.abs(z - y) <= 8 * eps * scale[i]!;
        assert(near, `${dtype}, element ${i}: ${z}, not ${y}`);
      });
      if (turn === 0) sums.set(dtype, bytesOf(to!));
      else assertEquals(bytesOf(to!), sums.get(dtype), `${dtype}, turn ${turn}`);
    }
  },
);

check("Nonzero: every dtype, around the size of a tile", ({ cuda, memory }) => {
  for (const dtype of DTYPES) {
    for (const length of [1, 33, 4095, 4097, 9000]) {
      // -0 is zero.
      const x = filled(
        dtype,
        length + 3,
        (i) => i * 7 % 5 === 0 ? 1 : DTYPE[dtype].kind === "f" ? -0 : 0,
      );
      const count = Array.from({ length }, (_, i) => (i + 3) * 7 % 5 === 0).filter(Boolean).length;
      const expected = allocate("int32", count, false);
      js.nonzero(expected, x, 3, length);
      const out = new DeviceStorage(memory, DTYPE.int32, count, false);
      cuda.nonzero(out, send(memory, x), 3, length);
      assertBits(out, expected, `${dtype}, ${length}`);
    }
  }
});

// ---- random numbers ----------------------------------------------------------------------------

check("Random numbers are those of JavaScript, normal ones but for 4 units", ({ cuda, memory }) => {
  for (const dtype of DTYPES) {
    const { kind, bytes, min, max } = DTYPE[dtype];
    const [low, end] = kind === "f" ? [0n, 0n] : [BigInt(min), BigInt(max) + 1n];
    for (const length of [0, 1, 2, 5, 17, 1025]) {
      const cases: [Distribution, bigint, bigint][] = kind === "f"
        ? [["uniform", 0n, 0n], ["normal", 0n, 0n]]
        : [["integers", low, end]];
      if (bytes > 2 && kind !== "f") cases.push(["integers", low + 5n, low + 70_000n]);
      // One word of random bits is enough for the first of them.
      if (bytes > 2 && kind !== "f") {
        cases.push(["integers", low, low + 2n ** 16n], ["integers", low, low + 2n ** 16n + 1n]);
      }
      if (bytes > 4 && kind !== "f") cases.push(["integers", low, low + 2n ** 40n + 7n]);
      if (dtype === "uint32") cases.push(["bits", 0n, 0n]);
      for (const [what, from, to] of cases) {
        const expected = allocate(dtype, length, false);
        const made = new DeviceStorage(memory, DTYPE[dtype], length, false);
        js.random(expected, what, 1234567, -89, from, to);
        cuda.random(made, what, 1234567, -89, from, to);
        if (what !== "normal") assertBits(made, expected, `${what} of ${dtype}, ${length}`);
        else {
          const copy = allocate(dtype, length, false);
          copy.array.set(download(made, 0, length) as never);
          for (let i = 0; i < length; i++) {
            const [x, y] = [Number(readElement(copy, i)), Number(readElement(expected, i))];
            const near = Math.abs(x - y) <= 4 * finfo(dtype).eps * Math.abs(y);
            assert(near, `normal of ${dtype}, ${length}: ${x}, not ${y}`);
          }
        }
        made.free();
      }
    }
  }
});

// ---- products ----------------------------------------------------------------------------------

const noBlas = (shim: Shim): Shim => ({ ...shim, rm_cuda_matmul: () => STATUS.notFound });

check(
  "Products without cuBLAS: every dtype, around tiles, any strides and batches",
  ({ cuda, memory, turn }) => {
    const sizes = [[1, 1, 1, 1], [3, 5, 7, 2], [65, 63, 17, 1], [1, 130, 33, 4], [130, 1, 20, 2]];
    for (const dtype of DTYPES) {
      if (dtype === "bool") continue;
      const { kind } = DTYPE[dtype];
      for (const [m, n, k, batch] of sizes as [number, number, number, number][]) {
        const what = `${dtype}, ${batch} of [${m}, ${k}] @ [${k}, ${n}]`;
        if (!isSampled(`${what}, turn ${turn}`, 2)) continue;
        const matrices = (rows: number, columns: number, style: number): MatrixBatch => {
          const [row, column, size] = [
            [columns, 1, rows * columns],
            [1, rows, rows * columns],
            [2 * columns, 2, 2 * rows * columns],
          ][style % 3] as [number, number, number];
          // No constant step where there are four.
          const [shape, strides] = batch === 4 ? [[2, 2], [3 * size, size]] : [[batch], [size]];
          const draw = generator(style + rows);
          const element = (): number =>
            kind === "f" ? Math.floor(draw() * 9) - 4 : Math.floor(draw() * 100);
          const storage = filled(dtype, (batch + 1) * size + 1, element);
          const steps = [...strides, row, column];
          return matrixBatch(storage, new Layout([...shape, rows, columns], steps, 1));
        };
        const [c, a, b] = [
          matrices(m, n, turn),
          matrices(m, k, turn + 1),
          matrices(k, n, turn + 2),
        ];
        const [x, y, z] = [c, a, b].map((one) => ({ ...one, storage: send(memory, one.storage) }));
        cuda.matmul(x!, y!, z!);
        js.matmul(c, a, b);
        assertBits(x!.storage, c.storage, what);
      }
    }
  },
  noBlas,
);

check("Products of bytes are 32-bit integers, where cuBLAS can read them", ({ device, memory }) => {
  const draw = generator(7);
  /** Whether cuBLAS computed the product of `batch` int8 matrices that begin at `from`. */
  const served = (
    [m, n, k]: readonly [number, number, number],
    { from = 0, byColumns = false, batch = 1, step = 1 } = {},
  ): boolean => {
    const matrices = (dtype: DType, rows: number, columns: number): MatrixBatch => {
      const size = rows * columns;
      const storage = filled(dtype, from + (batch * step + 1) * size, () => draw() * 256 - 128);
      const strides = [step * size, ...byColumns ? [1, rows] : [columns, 1]];
      return matrixBatch(storage, new Layout([batch, rows, columns], strides, from));
    };
    const [c, a, b] = [matrices("int32", m, n), matrices("int8", m, k), matrices("int8", k, n)];
    const [x, y, z] = [c, a, b].map((one) => ({ ...one, storage: send(memory, one.storage) }));
    const made = matmul(device, { m, n, k, c: x!, a: y!, b: z! });
    if (made) {
      const wide = ({ storage, ...where }: MatrixBatch): MatrixBatch => {
        const cast = allocate("int32", storage.length, false);
        for (let i = 0; i < cast.length; i++) writeElement(cast, i, readElement(storage, i));
        return { ...where, storage: cast };
      };
      js.matmul(c, wide(a), wide(b));
    }
    assertBits(x!.storage, c.storage, `[${m}, ${k}] @ [${k}, ${n}]`);
    return made;
  };
  const all = [
    served([8, 4, 16]),
    served([1, 4, 300]),
    served([12, 20, 8], { byColumns: true, from: 4 }),
    served([4, 8, 4], { batch: 3, step: 2 }),
    // With a copy of b by columns, whose columns may be of any number.
    served([40, 6, 8]),
    served([33, 5, 12], { batch: 3, step: 2, from: 4 }),
  ];
  // For a real device, the documentation only says which products have no kernel.
  if (!onHardware) assertEquals(all, all.map(() => true));
  // Rows, offsets and steps that are not multiples of four bytes.
  assert(!served([8, 4, 6]));
  assert(!served([8, 6, 4]));
  assert(!served([8, 4, 8], { from: 2 }));
});

// ---- along rows --------------------------------------------------------------------------------

/** A row's result in doubles, and the scale of its terms. */
function exact(kernel: RowKernel, row: readonly number[]): { want: number[]; scale: number[] } {
  const n = row.length;
  // With the rounding error of each addition.
  const sum = (values: readonly number[]): number => {
    let [all, lost] = [0, 0];
    for (const x of values) {
      const next = all + x;
      lost += Math.abs(all) >= Math.abs(x) ? all - next + x : x - next + all;
      all = next;
    }
    return all + lost;
  };
  if (kernel === "softmax" || kernel === "logSoftmax") {
    const most = row.reduce((p, q) => Math.max(p, q));
    const powers = row.map((x) => Math.exp(x - most)), all = sum(powers);
    const want = kernel === "softmax"
      ? powers.map((x) => x / all)
      : row.map((x) => x - most - Math.log(all));
    return { want, scale: kernel === "softmax" ? want : want.map((x) => 1 + Math.abs(x)) };
  }
  const mean = kernel === "layerNorm" ? sum(row) / n : 0;
  const by = 1 / Math.sqrt(sum(row.map((x) => (x - mean) ** 2)) / n + 1e-5);
  const want = row.map((x) => (x - mean) * by);
  return { want, scale: want.map((x) => 1 + Math.abs(x)) };
}

check("Softmax and norms: rows in lanes, in a block, and in parts", ({ cuda, memory, turn }) => {
  const columns = [1, 7, 64, 65, 129, 513, 1024, 1025, 12_200, 17_000, 24_500, 33_000];
  for (const dtype of ["bfloat16", "float32", "float64"] as const) {
    for (const kernel of ["softmax", "logSoftmax", "layerNorm", "rmsNorm"] as const) {
      columns.forEach((n, k) => {
        if (n > 600 && k % 3 !== turn) return;
        if (!isSampled(`${kernel} of ${dtype}, ${n}, turn ${turn}`, 2)) return;
        const rows = n < 100 ? 37 : 2, offset = n % 8 === 0 ? 16 : 3;
        const draw = generator(n);
        const x = filled(dtype, rows * n + offset, () => 3 + 8 * draw());
        const [from, out] = [
          send(memory, x),
          new DeviceStorage(memory, DTYPE[dtype], rows * n, false),
        ];
        const plain = { weight: null, bias: null, epsilon: 1e-5 };
        assert(cuda.alongRows(kernel, rows, n, out, from, offset, plain));
        const got = allocate(dtype, rows * n, false);
        got.array.set(download(out, 0, rows * n) as never);
        for (let r = 0; r < rows; r++) {
          const row = Array.from(
            { length: n },
            (_, i) => Number(readElement(x, offset + r * n + i)),
          );
          const { want, scale } = exact(kernel, row);
          const units = dtype === "bfloat16" ? 1 : 12;
          want.forEach((y, i) => {
            const z = Number(readElement(got, r * n + i));
            const near = Math.abs(z - y) <= units * finfo(dtype).eps * scale[i]!;
            assert(near, `${kernel} of ${dtype}, row ${r}, element ${i} of ${n}: ${z}, not ${y}`);
          });
        }
        from.free();
        out.free();
      });
    }
  }
});

check("Softmax of rows with infinities and NaN, also in parts", ({ cuda, memory }) => {
  for (const n of [5, 600, 40_000]) {
    const rows = [
      (i: number): number => 2 * i < n ? -Infinity : 0,
      (): number => -Infinity,
      (i: number): number => i === n - 1 ? NaN : 0,
      (i: number): number => i === 1 ? Infinity : 0,
    ];
    const x = filled("float32", rows.length * n, (i) => rows[Math.floor(i / n)]!(i % n));
    const there = send(memory, x);
    const plain = { weight: null, bias: null, epsilon: 0 };
    assert(cuda.alongRows("softmax", rows.length, n, there, there, 0, plain));
    const got = download(there, 0, rows.length * n) as Float32Array;
    assertEquals([got[0], got[n - 1]], [0, Math.fround(1 / (n - Math.ceil(n / 2)))]);
    assert(got.subarray(n).every((value) => value !== value), `rows of ${n} are not all NaN`);
  }
});

check("Softmax of rows whose greatest element is in any warp of a block", ({ cuda, memory }) => {
  // Without the greatest one, its power would be infinite.
  const n = 4000, rows = 32;
  const placeOf = (row: number): number => Math.floor((row + 0.5) * n / rows);
  const x = filled("float32", rows * n, (i) => i % n === placeOf(Math.floor(i / n)) ? 200 : 0);
  const there = send(memory, x);
  const plain = { weight: null, bias: null, epsilon: 0 };
  assert(cuda.alongRows("softmax", rows, n, there, there, 0, plain));
  const got = download(there, 0, rows * n) as Float32Array;
  const want = Float32Array.from(got, (_, i) => i % n === placeOf(Math.floor(i / n)) ? 1 : 0);
  assertEquals(got, want);
  there.free();
});

check("Every kernel here is one of those that are compiled for all architectures", () => {
  assertListed(launched, 150);
});
