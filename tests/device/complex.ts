/**
 * Complex numbers on a device, against NumPy's results: every op of the standard, in both dtypes, on
 * dense and other layouts.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { complex, tensor } from "../../mod.ts";
import { tidy } from "../../src/core/handles.ts";
import { type Any, asView, loose } from "../support.ts";

/** NumPy's numbers, by name: float64 in base64. */
interface Golden {
  readonly x: string;
  readonly y: string;
  readonly special: string;
  readonly unary: Record<string, string>;
  readonly specials: Record<string, string>;
  readonly binary: Record<string, string>;
  readonly reduced: Record<string, string>;
  readonly matmul: string;
}

const GOLDEN: Golden = JSON.parse(
  readFileSync(new URL("../golden/complex/complex.json", import.meta.url), "utf8"),
);

/** The dtypes, and the distance of 1 from the next number. */
export const COMPLEX_DTYPES = [["complex64", 2 ** -23], ["complex128", 2 ** -52]] as const;

/** The most errors of results, as multiples of {@link COMPLEX_DTYPES}' epsilons and of |result|. */
const ERRORS: Readonly<Record<string, number>> = {
  add: 0.5,
  sub: 0.5,
  neg: 0,
  conj: 0,
  mul: 1.5,
  square: 1.5,
  div: 2.5,
  reciprocal: 2.5,
  pow: 12,
  log1p: 5,
  tan: 4,
  tanh: 4,
  matmul: 4,
  prod: 6,
  cumulativeProd: 6,
};
const ERROR = 3;

/**
 * What differs from NumPy: signs of infinities beside NaN and of zeros, which C99 leaves open, and
 * numbers at infinity and 0 of these ops.
 */
const OPEN = new Set(["reciprocal", "sign", "expm1"]);

function numbers(text: string): Float64Array {
  return new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

/** Whether two numbers are the same, or both NaN, or infinite. */
function isAlike(got: number, want: number): boolean {
  if (Number.isNaN(want)) return Number.isNaN(got);
  return Math.abs(got) === Infinity && Math.abs(want) === Infinity;
}

/** Compares with the numbers of `text`: `error` epsilons of the distance from 0. */
function check(got: Any, text: string, error: number, epsilon: number, what: string): void {
  const want = numbers(text);
  const parts = got.dtype.startsWith("complex") ? 2 : 1;
  const own = Array.from(got.toTypedArray() as ArrayLike<number>, Number);
  assertEquals(own.length, want.length, what);
  for (let i = 0; i < want.length; i += parts) {
    const [mine, theirs] = [own.slice(i, i + parts), [...want.subarray(i, i + parts)]];
    if (theirs.every(Number.isFinite)) {
      const distance = Math.hypot(...mine.map((value, k) => value - theirs[k]!));
      const bound = error * epsilon * Math.hypot(...theirs);
      assert(distance <= bound, `${what}, ${i / parts}: ${mine}, not ${theirs}`);
    } else {
      mine.forEach((value, k) => {
        const expected = theirs[k]!;
        const near = Math.abs(value - expected) <= 4 * epsilon * Math.abs(expected);
        assert(near || isAlike(value, expected), `${what}, ${i / parts}: ${mine}, not ${theirs}`);
      });
    }
  }
}

function operandsOf(dtype: string, device: string): { x: Any; y: Any; special: Any } {
  const make = (text: string): Any =>
    loose(tensor)(numbers(text), { dtype: "complex128" }).astype(dtype).to(device);
  return { x: make(GOLDEN.x), y: make(GOLDEN.y), special: make(GOLDEN.special) };
}

const errorOf = (name: string): number => ERRORS[name] ?? ERROR;

/** The tests on `device`, by name. */
export const COMPLEX_TESTS: Record<string, (device: string) => void> = {
  "functions of common numbers": (device) => {
    for (const [dtype, epsilon] of COMPLEX_DTYPES) {
      const { x, y } = operandsOf(dtype, device);
      tidy(() => {
        for (const [name, text] of Object.entries(GOLDEN.unary)) {
          check(x[name](), text, errorOf(name), epsilon, `${dtype} ${name}`);
        }
        for (const [name, text] of Object.entries(GOLDEN.binary)) {
          check(x[name](y), text, errorOf(name), epsilon, `${dtype} ${name}`);
        }
      });
    }
  },

  "functions at zeros, infinities and NaN": (device) => {
    for (const [dtype, epsilon] of COMPLEX_DTYPES) {
      const { special } = operandsOf(dtype, device);
      tidy(() => {
        for (const [name, text] of Object.entries(GOLDEN.specials)) {
          if (OPEN.has(name)) continue;
          check(special[name](), text, 4, epsilon, `${dtype} ${name}`);
        }
      });
    }
  },

  "functions of views and broadcast operands, and into views": (device) => {
    const { x, y } = operandsOf("complex64", device);
    tidy(() => {
      const [a, b] = [x.reshape([5, 8]), y.reshape([5, 8])];
      const [p, q] = [asView(a), asView(b)] as [Any, Any];
      for (const name of ["exp", "abs", "conj", "isnan", "neg", "real", "imag", "asin"]) {
        assertEquals(p[name]().toArray(), a[name]().toArray(), name);
        assertEquals(a.T[name]().toArray(), a[name]().T.toArray(), name);
        if (name === "isnan") continue;
        const out = asView(a[name]()) as Any;
        assertEquals(a[name]({ out }).toArray(), a[name]().toArray(), name);
      }
      for (const name of ["add", "mul", "div", "pow", "equal", "notEqual"]) {
        const expected = a[name](b).toArray();
        assertEquals(p[name](q).toArray(), expected, name);
        assertEquals(a[name](q).toArray(), expected, name);
        assertEquals(a[name](b.slice(2)).slice(2).toArray(), expected[2], name);
        assertEquals(a.slice("1:2")[name](b).slice(1).toArray(), expected[1], name);
        assertEquals(a.flip(0)[name](b.flip(0)).flip(0).toArray(), expected, name);
      }
      const copy = asView(a) as Any;
      copy.mul_(q).add_(1);
      assertEquals(copy.toArray(), a.mul(b).add(1).toArray());
      assertEquals(a.copy().mul_(a.T.reshape([5, 8])).shape, [5, 8]);
    });
  },

  "sums, products and other reductions": (device) => {
    for (const [dtype, epsilon] of COMPLEX_DTYPES) {
      const { x } = operandsOf(dtype, device);
      tidy(() => {
        for (const [name, text] of Object.entries(GOLDEN.reduced)) {
          const one = x.reshape([5, 8]);
          check(one[name](0), text, errorOf(name), epsilon, `${dtype} ${name}`);
          check(asView(one)[name as "sum"](0), text, errorOf(name), epsilon, `${dtype} ${name}`);
          if (name.startsWith("cumulative")) continue;
          assertEquals(one[name](0, { keepDims: true }).shape, [1, 8]);
          assertEquals(one[name]().shape, []);
        }
        assertEquals(x.countNonzero().item(), 40);
        assertEquals([x.any().item(), x.sub(x).any().item()], [true, false]);
        const empty = x.slice("0:0");
        assertEquals(empty.sum().item(), { re: 0, im: 0 });
        assertEquals(empty.prod().item(), { re: 1, im: 0 });
      });
    }
  },

  "products of matrices and vectors": (device) => {
    for (const [dtype, epsilon] of COMPLEX_DTYPES) {
      const { x, y } = operandsOf(dtype, device);
      tidy(() => {
        const [a, b] = [x.reshape([5, 8]), y.reshape([8, 5])];
        for (const [p, q] of [[a, b], [asView(a), asView(b)]] as [Any, Any][]) {
          check(p.matmul(q), GOLDEN.matmul, 4, epsilon, `${dtype} matmul`);
        }
        const real = a.real();
        const split = complex(real.matmul(b.real()) as Any, real.matmul(b.imag()) as Any) as Any;
        assert(real.matmul(b).allclose(split, { rtol: 1e-4, atol: 1e-5 }));
        assert(b.T.matmul(real.T).allclose(split.T, { rtol: 1e-4, atol: 1e-5 }));
        const row = a.slice(1), column = b.T.slice(2);
        const dot = row.mul(column).sum();
        for (
          const product of [row.dot(column), row.matmul(b).slice(2), a.matmul(column).slice(1)]
        ) {
          assert(product.allclose(dot, { rtol: 1e-5, atol: 1e-5 }), `${product}, not ${dot}`);
        }
        const batch = x.reshape([2, 4, 5]).matmul(y.reshape([2, 5, 4]));
        const second = x.reshape([2, 4, 5]).slice(1).matmul(y.reshape([2, 5, 4]).slice(1));
        assert(batch.slice(1).allclose(second, { rtol: 1e-6 }));
        assertEquals(a.slice("0:0").matmul(b).shape, [0, 5]);
        assertEquals(
          row.outer(column).slice("1, 2").allclose(row.slice(1).mul(column.slice(2))),
          true,
        );
      });
    }
  },

  "scalars, choices, copies and casts": (device) => {
    const { x } = operandsOf("complex64", device);
    tidy(() => {
      const i = { re: 0, im: 1 };
      const z = x.slice("4:6"), turned = z.mul(i);
      assertEquals(turned.toArray(), [{ re: 0, im: 2 }, { re: 0, im: -2 }]);
      assertEquals(z.real().add(i).toArray(), [{ re: 2, im: 1 }, { re: -2, im: 1 }]);
      assertEquals(z.astype("complex128").dtype, "complex128");
      assertEquals(z.real().astype("complex64").toArray(), z.toArray());
      assertEquals(z.equal({ re: -2, im: 0 }).toArray(), [false, true]);
      const wide = z.astype("complex128");
      assertEquals(z.real().add(1, { out: wide }).toArray(), [{ re: 3, im: 0 }, { re: -1, im: 0 }]);
      assertEquals(wide.toArray(), [{ re: 3, im: 0 }, { re: -1, im: 0 }]);
      const [first] = z.toArray();
      const chosen = loose(tensor([true, false])).to(device).shape;
      assertEquals(chosen, [2]);
      z.set([1], i);
      assertEquals(z.toArray(), [first, i]);
      z.fill_({ re: 1, im: 2 });
      assertEquals(z.toArray(), [{ re: 1, im: 2 }, { re: 1, im: 2 }]);
      assertEquals(x.take([1, 0]).toArray(), [{ re: -1, im: 0 }, { re: 1, im: 0 }]);
      assertEquals(x.cpu().to(device).slice("0:40").equal(x).all().item(), true);
    });
  },
};
