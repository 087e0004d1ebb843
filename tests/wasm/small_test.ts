/**
 * Which ops on few elements run in JavaScript, and that their results are those of the module.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { fromBuffer, linalg, ones, type Tensor, zeros } from "../../mod.ts";
import type { DType } from "../../src/base/dtype.ts";
import type { Backend } from "../../src/core/backend.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { WasmBackend } from "../../src/backend/wasm/backend.ts";
import { openWasm } from "../../src/backend/wasm/module.ts";
import { isSmall } from "../../src/backend/wasm/small.ts";
import type { Call } from "../../src/table/op.ts";
import { using } from "../ops/table/backends.ts";
import { generator } from "../ops/table/operands.ts";
import type { Any } from "../support.ts";
import { check, reason } from "./support.ts";

const opened = reason === null ? openWasm(2 ** 26) : null;
/** The module for all sizes. */
const module: WasmBackend | null = opened === null || "reason" in opened
  ? null
  : new WasmBackend(opened, { crossover: 0 });
const js = new JsBackend();

/** Runs calls in the module, and counts those that would run in JavaScript. */
class Watch implements Backend {
  readonly name = "wasm";
  small = 0;
  others = 0;
  supports(call: Call): boolean {
    return module!.supports(call);
  }
  run(call: Call): boolean {
    if (isSmall(call)) this.small++;
    else this.others++;
    return module!.run(call);
  }
}

const OPS: Record<string, (x: Any, axis: number) => Any> = {
  sum: (x, axis) => x.sum(axis),
  mean: (x, axis) => x.mean(axis),
  prod: (x, axis) => x.prod(axis),
  std: (x, axis) => x.std(axis),
  nansum: (x, axis) => x.nansum(axis),
  norm1: (x, axis) => linalg.vectorNorm(x, { axis, ord: 1 }),
  norm2: (x, axis) => linalg.vectorNorm(x, { axis }),
  max: (x, axis) => x.max(axis),
  argmin: (x, axis) => x.argmin(axis),
  any: (x, axis) => x.any(axis),
  countNonzero: (x, axis) => x.countNonzero(axis),
  cumulativeSum: (x, axis) => x.cumulativeSum(axis),
  cumulativeProd: (x, axis) => x.cumulativeProd(axis),
};
const DTYPES: readonly DType[] = ["float32", "float64", "int32", "uint8", "bool"];

/** The bytes of the elements. */
function bytesOf(x: Any): Uint8Array {
  const { buffer, byteOffset, byteLength } = x.toTypedArray();
  return new Uint8Array(buffer, byteOffset, byteLength);
}

check("small reductions and scans have the bits of the module", () => {
  const draw = generator(50);
  const lengths = [1, 5, 8, 9, 15, 16, 17, 31, 64, 100, 159, 160, 300, 511, 600];
  const watch = new Watch();
  for (let round = 0; round < 400; round++) {
    const length = lengths[Math.floor(lengths.length * draw())]!;
    const others = Math.floor(2 ** (6 * draw()));
    const values = Float64Array.from(
      { length: length * others * 2 },
      () => (draw() - 0.5) * 10 ** Math.floor(5 * draw()),
    );
    const dtype = DTYPES[round % DTYPES.length]!;
    const whole = fromBuffer(values).astype(dtype) as Any;
    const layouts: [given: Any, axis: number][] = [
      [whole.slice(`:${length}`), 0],
      [whole.slice(`:${2 * length}:2`), 0],
      [whole.reshape([2, others, length]).slice("0"), 1],
      [whole.reshape([2, length, others]).slice("0"), 0],
      [whole.reshape([others, 2 * length]).slice(":, ::2"), 1],
    ];
    for (const [given, axis] of layouts) {
      // Layouts as they are, and dense ones: the copy is no part of the ops.
      const x = draw() < 0.5 ? given : given.copy();
      for (const [name, run] of Object.entries(OPS)) {
        if (dtype === "bool" && /std|norm|argmin|cumulative|mean/.test(name)) continue;
        if (name === "nansum" && !dtype.startsWith("float")) continue;
        watch.others = watch.small = 0;
        const made = bytesOf(using(watch, () => run(x, axis)));
        // A larger part of an op may decide about its result.
        if (watch.others > 0) continue;
        const expected = bytesOf(using(js, () => run(x, axis)));
        assertEquals(made, expected, `${name} of ${dtype} [${x.shape}] over axis ${axis}`);
      }
    }
  }
});

check("what runs in JavaScript is few elements, whatever the shape", () => {
  const watch = new Watch();
  const isInJs = (shape: number[], run: (x: Any) => unknown, dtype: DType = "float32"): boolean => {
    const x = ones(shape, { dtype });
    watch.others = watch.small = 0;
    using(watch, () => run(x));
    return watch.others === 0;
  };
  const sum = (axis: number) => (x: Any) => x.sum(axis);
  const max = (axis: number) => (x: Any) => x.max(axis);
  const scan = (x: Any): Any => x.cumulativeSum(0);
  assert(isInJs([256], sum(0)) && !isInJs([600], sum(0)));
  assert(isInJs([40, 8], sum(1)) && !isInJs([200, 8], sum(1)));
  assert(isInJs([100, 8], max(1)) && !isInJs([2, 1000], max(1)));
  assert(isInJs([100, 8], sum(0)) && !isInJs([160, 8], sum(0)));
  assert(isInJs([8, 20], sum(0)) === false, "columns are added side by side");
  assert(isInJs([300], scan) && !isInJs([1000], scan));
  assert(!isInJs([100], sum(0), "float16"), "16-bit floats are read slowly");
  assert(isInJs([100], (x) => x.add(x)) && !isInJs([100], (x) => x.exp()));
});

check("operands of few bytes may be outside of the memory", () => {
  const draw = generator(51);
  for (const dtype of ["float32", "float64", "int32", "int64", "uint8", "float16"] as const) {
    const x = fromBuffer(Float64Array.from({ length: 5000 }, () => Math.floor(200 * draw())))
      .astype(dtype) as Any;
    const run = (): Any[] => {
      const large = x.copy(), few = x.slice(":3").copy();
      const out = zeros([2, 3], { dtype: large.sum().dtype }) as Any;
      large.slice(":4998").reshape([3, 1666]).sum(1, { out: out.slice("1") });
      const own = few.copy();
      own.add(few, { out: own });
      return [large.max(), large.sum(), large.add(few.slice("1")), large.argmax(), own, out];
    };
    const expected = using(js, run);
    using(module!, run).forEach((made: Any, i) =>
      assertEquals(bytesOf(made), bytesOf(expected[i]), `${dtype} ${i}`)
    );
  }
});

check("an output that begins where an operand does is written as a whole", () => {
  const data = new Float32Array(40).fill(1);
  const [a, b] = [fromBuffer(data.subarray(0, 20)), fromBuffer(data.subarray(0, 20))] as Tensor[];
  using(module!, () => (a as Any).add(1, { out: (b as Any).slice(":20") }));
  assertEquals(Array.from(data), [...Array(20).fill(2), ...Array(20).fill(1)]);
});
