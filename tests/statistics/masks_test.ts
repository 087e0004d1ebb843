/**
 * Reductions with a mask: they are those of the elements that it selects, in the dtype that they have
 * without one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { OPS } from "../../src/table/op.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

const DTYPES = [...rm.dtypes("numeric"), "bool"] as rm.DType[];
const ROWS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"] as const;
const VALUES = [[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1]];

/** Whether a row takes elements of a dtype. */
function takes(row: typeof ROWS[number], dtype: rm.DType): boolean {
  if (row === "max" || row === "min") return !dtype.startsWith("complex");
  return (row !== "var" && row !== "std") || dtype !== "bool";
}

/** Runs `body` while each op that is made of others must have the dtypes and shapes that it infers. */
function promising(body: () => void): void {
  const own = [...OPS.values()].map((op) => [op, op.decompose] as const);
  for (const [op, decompose] of own) {
    if (decompose === undefined) continue;
    op.decompose = (call) => {
      const specs = Array.isArray(call.specs)
        ? call.specs.map(({ shape, dtype }) => ({ shape: [...shape], dtype: dtype.name }))
        : [];
      const made = decompose(call);
      const results = Array.isArray(made) ? made : [made];
      specs.forEach((spec, k) => {
        const { layout, storage } = results[k]!;
        assertEquals({ shape: [...layout.shape], dtype: storage.info.name }, spec, call.name);
      });
      return made;
    };
  }
  try {
    body();
  } finally {
    for (const [op, decompose] of own) op.decompose = decompose;
  }
}

for (const { name, on } of BACKENDS) {
  test(`a mask changes no dtype, eager or compiled (${name})`, () => {
    promising(() =>
      using(on, () =>
        rm.scope(() => {
          const where = loose(rm.tensor(VALUES.map((row) => row.map((v) => v === 0))));
          for (const dtype of DTYPES) {
            const x = loose(rm.tensor(VALUES)).astype(dtype);
            for (const row of ROWS) {
              if (!takes(row, dtype)) continue;
              const initial = row === "max" || row === "min"
                ? { initial: dtype === "bool" ? true : 1 }
                : {};
              for (const axis of [null, 1, [0, 1]]) {
                const options = { keepDims: axis === 1, ...initial };
                const plain = x[row](axis, { keepDims: axis === 1 });
                const f = (a: Any, mask: Any): Any => a[row](axis, { ...options, where: mask });
                const eager = f(x, where);
                const program = compile(f)(x, where) as Any;
                const label = `${row} of ${dtype} over ${axis}`;
                assertEquals([eager.dtype, eager.shape], [plain.dtype, plain.shape], label);
                assertEquals([program.dtype, program.shape], [plain.dtype, plain.shape], label);
                assertEquals(program.toArray(), eager.toArray(), label);
              }
            }
          }
        }))
    );
  });

  test(`means and variances of selected elements are theirs alone (${name})`, () => {
    using(on, () =>
      rm.scope(() => {
        for (const dtype of ["float32", "float64", "float16", "bfloat16", "int32"] as const) {
          const count = 999;
          const x = loose(rm.random.normal(rm.random.key(7), [3, count], { dtype: "float64" }))
            .mul(100).astype(dtype);
          const mask = loose(rm.random.uniform(rm.random.key(8), [count])).less(0.3);
          const chosen = x.take(mask.nonzero()[0], 1).astype("float64");
          for (const row of ["mean", "var", "std"] as const) {
            const made = x[row](1, { where: mask });
            const exact = chosen[row](1);
            // Rounded once.
            const rtol =
              { float64: 1e-14, float16: 2 ** -11, bfloat16: 2 ** -8 }[made.dtype as "float64"] ??
                2 ** -24 * 1.001;
            const label = `${row} of ${dtype}`;
            assert(made.astype("float64").allclose(exact, { rtol, atol: 0 }), label);
          }
        }
        // One element is its own mean, and has no variance as a sample.
        const x = loose(rm.tensor([-0.0985161016394996, 2, 3], { dtype: "float64" }));
        const one = rm.tensor([true, false, false]);
        assertEquals(x.mean(null, { where: one }).item(), -0.0985161016394996);
        assertEquals(x.var(null, { where: one, correction: 1 }).item(), NaN);
        assertEquals(x.var(null, { where: one }).item(), 0);
        // Without elements there is no mean; what is not selected has no part in it.
        assertEquals(x.mean(null, { where: rm.zeros([3], { dtype: "bool" }) }).item(), NaN);
        const odd = loose(rm.tensor([NaN, 1, Infinity, 4]));
        const finite = odd.isfinite();
        assertEquals(odd.mean(null, { where: finite }).item(), 2.5);
        assertEquals(odd.var(null, { where: finite }).item(), 2.25);
        // A sum that float32 does not hold, of a mean that it holds.
        const big = loose(rm.full([4], 3e38));
        assertEquals(big.mean(null, { where: big.greater(0) }).item(), big.mean().item());
      }));
  });
}
