/**
 * The calls of the shim by the CUDA backend: the kernels of plans, the sizes of their arguments,
 * and errors before any launch.
 *
 * A shim that only notes its calls replaces a device, so that these tests run everywhere. Results
 * of kernels do not matter here.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { Arguments, CudaDevice } from "../../src/backend/cuda/device.ts";
import { fold } from "../../src/backend/cuda/reduce.ts";
import { map } from "../../src/backend/cuda/maps.ts";
import { usualOf } from "../../src/backend/cuda/source/mod.ts";
import { addDivisor } from "../../src/backend/cuda/walks.ts";
import type { Shim } from "../../src/backend/ffi/abi.ts";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { NativeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import type { MapOp } from "../../src/table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN, TABLE } from "../../src/table/table.ts";
import { planMap, planReduce } from "../../src/base/plan.ts";
import { allocate } from "../../src/memory/pool.ts";
import { Storage } from "../../src/memory/storage.ts";
import { generator } from "../ops/table/operands.ts";

/** A storage that claims to be on a device. */
class Remote extends Storage {
  constructor(readonly dtype: DType, readonly size: number, readonly at: number = 512) {
    super(new DTYPE[dtype].array(0), DTYPE[dtype], true, false);
  }
  override get device(): string {
    return "cuda";
  }
  override get address(): number {
    return this.at;
  }
  override get length(): number {
    return this.size;
  }
}

interface Launch {
  readonly name: string;
  readonly call: readonly number[];
  readonly args: Float64Array;
}

/** A device that notes launches and compilations. */
function recorder(): { device: CudaDevice; launches: Launch[]; sources: string[] } {
  const launches: Launch[] = [];
  const sources: string[] = [];
  const kernels: string[] = [];
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes).replace(/\0$/, "");
  const shim = {
    rm_cuda_compile(_: number, source: Uint8Array, names: Uint8Array, handles: Float64Array) {
      sources.push(text(source));
      text(names).split("\n").forEach((name, i) => handles[i] = kernels.push(name));
      return 0;
    },
    rm_cuda_launch(_: number, call: Float64Array, args: Float64Array) {
      launches.push({
        name: kernels[call[0]! - 1]!,
        call: Array.from(call),
        args: args.slice(0, call[7]! / 8),
      });
      return 0;
    },
    rm_cuda_memory(_what: number, _: number, numbers: Float64Array) {
      numbers[0] = 1 << 20;
      return 0;
    },
  };
  return { device: new CudaDevice(shim as unknown as Shim, 0), launches, sources };
}

const dense = (...shape: number[]): Layout => Layout.contiguous(shape);

/** Runs an op on two float32 operands; returns the launches. */
function launchAdd(out: Layout, a: Layout, b: Layout, options: {
  readonly row?: MapOp;
  readonly dtypes?: readonly [out: DType, a: DType, b: DType];
  readonly at?: number;
  readonly huge?: boolean;
} = {}): Launch {
  const { row = MAP.add, dtypes = ["float32", "float32", "float32"], at, huge } = options;
  const { device, launches } = recorder();
  const plan = planMap(out, a, b, null);
  if (huge) plan.needsInt64Index = true;
  const [o, x, y] = dtypes.map((dtype) => new Remote(dtype, 1e6, at)) as [Remote, Remote, Remote];
  map(device, row, "float32", plan, o, x, y, null);
  assertEquals(launches.length, 1);
  return launches[0]!;
}

test("each kind of plan has its kernel", () => {
  const square = dense(64, 64);
  const names = (...args: Parameters<typeof launchAdd>): string => launchAdd(...args).name;
  assertEquals(names(square, square, square), "add_f32_contiguous");
  assertEquals(names(square, square, dense()), "add_f32_contiguous");
  assertEquals(names(square, square, dense(64)), "add_f32_vectorized");
  assertEquals(names(square, square, dense(64, 1)), "add_f32_vectorized");
  assertEquals(names(square, square, square.transpose()), "add_f32_tiled");
  // Rows of 63 elements are not whole packs.
  assertEquals(names(dense(64, 63), dense(64, 63), dense(63)), "add_f32_strided");
  // Their offsets are not multiples of a pack either.
  const shifted = new Layout([64, 64], [64, 1], 1);
  assertEquals(names(shifted, square, dense(64)), "add_f32_strided");
  assertEquals(
    names(square, square, square, { dtypes: ["float32", "float32", "int8"] }),
    "add_f32_casting",
  );
  assertEquals(
    names(square, square, square, { dtypes: ["float64", "float32", "float32"] }),
    "add_f32_casting",
  );
  assertEquals(names(square, square, square.transpose(), { huge: true }), "add_f32_generic");
  const deep = Layout.contiguous(Array.from({ length: 10 }, () => 2));
  const turned = deep.transpose();
  assertEquals(names(deep, deep, turned), "add_f32_generic");
  const less = { row: MAP.less, dtypes: ["bool", "float32", "float32"] } as const;
  assertEquals(names(square, square, square, less), "less_f32_contiguous");
});

test("packs are moved at once only where all operands allow it", () => {
  const line = dense(4096);
  const flags = (...operands: [Layout, Layout, Layout]): number =>
    Number(new BigInt64Array(launchAdd(...operands).args.buffer)[1]);
  const from = (offset: number): Layout => new Layout([4096], [1], offset);
  assertEquals(flags(line, line, line), 1 | 2 | 8);
  assertEquals(flags(line, line, dense()), 1 | 8);
  assertEquals(flags(line, line, from(4)), 1 | 2 | 8);
  assertEquals(flags(line, line, from(1)), 1 | 2);
  assertEquals(flags(from(2), line, line), 1 | 2);
});

test("a scalar of the CPU travels by value, as the dtype that is computed in", () => {
  const { device, launches } = recorder();
  const scalar = allocate("int32", 1, true);
  scalar.array[0] = 3;
  const plan = planMap(dense(8), dense(8), dense(), null);
  map(
    device,
    MAP.add,
    "float32",
    plan,
    new Remote("float32", 8),
    new Remote("float32", 8),
    scalar,
    null,
  );
  const { name, args } = launches[0]!;
  assertEquals(name, "add_f32_contiguous");
  // Length, flags, 4 attributes, the output, then pairs of an address and an element.
  assertEquals(new BigInt64Array(args.buffer)[9], 0n);
  assertEquals(new Float32Array(args.buffer)[20], 3);
});

test("plans without elements launch nothing, but for what they give", () => {
  const { device, launches } = recorder();
  const none = new Remote("float32", 0);
  map(
    device,
    MAP.neg,
    "float32",
    planMap(dense(0, 3), dense(0, 3), null, null),
    none,
    none,
    null,
    null,
  );
  fold(
    device,
    SCAN.cumulativeSum,
    planReduce(dense(0, 3), dense(0, 3), null, [false, true], true),
    none,
    none,
    null,
  );
  fold(
    device,
    REDUCE.sum,
    planReduce(dense(0, 1), dense(0, 3), null, [false, true], false),
    none,
    none,
    null,
  );
  assertEquals(launches.length, 0);
  // The sum of no elements is 0, and a kernel has to write it.
  const plan = planReduce(dense(3, 1), dense(3, 0), null, [false, true], false);
  fold(device, REDUCE.sum, plan, new Remote("float32", 3), none, null);
  assertEquals(launches.length, 1);
});

test("a plan that leaves its storage is refused, and nothing is launched", () => {
  const { device, launches } = recorder();
  const [short, long] = [new Remote("float32", 9), new Remote("float32", 100)];
  const plan = () => planMap(dense(10), dense(10), null, null);
  for (const [out, a] of [[short, long], [long, short]] as const) {
    assertThrows(
      () => map(device, MAP.neg, "float32", plan(), out, a, null, null),
      NativeError,
      "reaches",
    );
  }
  const sum = () => planReduce(dense(1), dense(10), null, [true], false);
  assertThrows(() => fold(device, REDUCE.sum, sum(), long, short, null), NativeError, "reaches");
  assertThrows(
    () => fold(device, ARG_REDUCE.argmax, sum(), long, short, null),
    NativeError,
    "reaches",
  );
  const scanned = planReduce(dense(10), dense(10), null, [true], true);
  assertThrows(
    () => fold(device, SCAN.cumulativeSum, scanned, short, long, null),
    NativeError,
    "reaches",
  );
  assertEquals(launches.length, 0);
});

test("arguments are as large as the structs of the headers, which fit into a launch", () => {
  const sizes: [Launch, number][] = [];
  const square = dense(64, 64);
  // Bytes before the axes, and of each axis for three operands.
  const [strided, axis] = [8 * (2 + 4 + 7 + 3 + 1), 8 * (3 + 3)];
  sizes.push([launchAdd(square, square, square), 8 * (2 + 4 + 7)]);
  sizes.push([launchAdd(square, square, dense(64)), strided + 8 * axis]);
  sizes.push([launchAdd(dense(9, 63), dense(9, 63), dense(63)), strided + 8 * axis]);
  sizes.push([launchAdd(square, square, square.transpose(), { huge: true }), strided + 64 * axis]);
  const tiled = 8 * (1 + 4 + 7 + 2 + 6 + 6 + 1);
  sizes.push([launchAdd(square, square, square.transpose()), tiled + 8 * axis]);
  const { device, launches } = recorder();
  const many = new Remote("float32", 1 << 22);
  for (const huge of [false, true]) {
    const plan = planReduce(dense(1), dense(1 << 22), null, [true], false);
    plan.needsInt64Index = huge;
    fold(device, REDUCE.sum, plan, many, many, null);
    const scanned = planReduce(dense(1 << 22), dense(1 << 22), null, [true], true);
    scanned.needsInt64Index = huge;
    fold(device, SCAN.cumulativeSum, scanned, many, many, null);
  }
  assertEquals(launches.map(({ name }) => name), [
    "sum_f32_f32_along",
    "sum_f32_f32_parts",
    "cumulativeSum_f32_f32_reduce_along",
    "cumulativeSum_f32_f32_along",
    "sum_f32_f32_along_generic",
    "sum_f32_f32_parts_generic",
    "cumulativeSum_f32_f32_reduce_along_generic",
    "cumulativeSum_f32_f32_along_generic",
  ]);
  launches.forEach((launch, i) => {
    const scans = i % 4 === 3;
    const axes = i < 4 ? 8 : 64;
    sizes.push([launch, scans ? 8 * 12 + axes * 8 * (3 + 2) : 8 * 16 + axes * axis]);
  });
  for (const [{ name, call }, bytes] of sizes) {
    assertEquals(call[7], bytes, name);
    assert(bytes <= 4096, name);
  }
});

test("elements that an input repeats are counted in 64 bits where 32 are too few", () => {
  const names = (repeats: number): string[] => {
    const { device, launches } = recorder();
    const a = new Layout([repeats, 1 << 16], [0, 1], 0);
    const plan = planReduce(dense(1, 1), a, null, [true, true], false);
    assert(!plan.needsInt64Index, "nothing lies far away");
    const many = new Remote("float32", 1 << 16);
    fold(device, REDUCE.sum, plan, many, many, null);
    return launches.map(({ name }) => name);
  };
  const [along, parts] = ["sum_f32_f32_along", "sum_f32_f32_parts"];
  assertEquals(names(1 << 13), [along, parts]);
  assertEquals(names(1 << 16), [`${along}_generic`, `${parts}_generic`]);
});

test("how a fold is cut depends on sizes only", () => {
  const cuts = (offset: number): number[] => {
    const { device, launches } = recorder();
    const plan = planReduce(dense(1), new Layout([1 << 20], [1], offset), null, [true], false);
    fold(
      device,
      REDUCE.sum,
      plan,
      new Remote("float32", 1),
      new Remote("float32", 1 << 21),
      null,
    );
    return launches.flatMap(({ call, args }) => [
      ...call.slice(1, 7),
      ...Array.from(new BigInt64Array(args.buffer).slice(0, 5), Number),
    ]);
  };
  const aligned = cuts(0);
  assertEquals(cuts(1), aligned);
  // 64 parts of 4 rounds each.
  assertEquals(aligned.slice(0, 2), [1, 64]);
});

test("divisions by multiply-high are exact", () => {
  const random = generator(5);
  const args = new Arguments();
  const sizes = [1, 2, 3, 5, 7, 16, 31, 32, 33, 1000, 65535, 65536, 65537, 2 ** 30, 2 ** 31 - 1];
  for (let i = 0; i < 300; i++) {
    sizes.push(1 + Math.floor(random() * 2 ** Math.ceil(random() * 31)));
  }
  for (const size of sizes) {
    for (const wide of [false, true]) {
      args.clear();
      addDivisor(args, size, wide);
      const [by, factor, shift] = new BigUint64Array(args.data.buffer);
      assertEquals(Number(by), size);
      const bits = wide ? 64n : 32n;
      assert(factor! < 1n << bits);
      const most = wide ? 2 ** 53 - 1 : 2 ** 31 - 1;
      const around = Math.floor(random() * (most / size)) * size;
      for (const n of [0, 1, size - 1, size, around, around + size - 1, most]) {
        if (n < 0 || n > most) continue;
        const quotient = ((BigInt(n) * factor! >> bits) + BigInt(n)) >> shift!;
        assertEquals(Number(quotient), Math.floor(n / size), `${n} / ${size}`);
      }
    }
  }
});

test("the kernels of a family are defined in its source, each under a name of its own", () => {
  const all = new Set<string>();
  for (const row of TABLE) {
    const { source, names } = usualOf(row);
    assert(names.length > 0, row.name);
    for (const name of names) {
      assert(!all.has(name), name);
      all.add(name);
      const struct = name.replace(/_(across_packed|[a-z0-9]+)$/, "");
      assert(source.includes(`struct ${struct} `), name);
      assert(source.includes(`(${struct})\n`), name);
    }
  }
  const { names } = usualOf(MAP.add, ["float32", "bool"]);
  assertEquals(names.map((name) => name.replace(/_[a-z]+$/, "")), names.map(() => "add_f32"));
});
