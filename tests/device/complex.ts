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
  // NumPy's own error.
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

type Pair = readonly [re: number, im: number];

/**
 * complex128 operands whose exponentials overflow, or whose powers multiply the error of a logarithm,
 * and the results of mpmath with 600 bits, rounded.
 */
const EXTREMES: readonly (readonly [name: string, x: Pair, ...Pair[]])[] = [
  ["exp", [709.8177989955495, 0.3531023004184224], [1.7470165677209819e308, 6.438597429489454e307]],
  ["exp", [1339.9116344087865, 1e-276], [Infinity, 8.24572908180133e305]],
  ["expm1", [709.9478426564154, 0.7983610833921171], [
    1.479831152973184e308,
    1.5187030897996167e308,
  ]],
  ["exp2", [711.3558332319953, -0.09162008625544527], [
    1.3758371785811418e214,
    -8.749184813387345e212,
  ]],
  ["exp2", [-9.5, 50241557.304600306], [0.001233473052214077, 0.000621202754561012]],
  ["sinh", [709.7, 1], [4.47095843165294e307, 6.963105198067256e307]],
  ["sinh", [-710.4, 1.2], [-6.038200198297078e307, 1.553116643477329e308]],
  ["sinh", [705.0, -2.5], [-6.029622490680639e305, -4.5042624444701435e305]],
  ["cosh", [709.7, 1], [4.47095843165294e307, 6.963105198067256e307]],
  ["cosh", [-710.4, 1.2], [6.038200198297078e307, -1.553116643477329e308]],
  ["cosh", [705.0, -2.5], [-6.029622490680639e305, -4.5042624444701435e305]],
  ["sin", [1, -709.7], [6.963105198067256e307, -4.47095843165294e307]],
  ["sin", [1.2, 710.4], [1.553116643477329e308, 6.038200198297078e307]],
  ["sin", [2.5, 705], [4.5042624444701435e305, -6.029622490680639e305]],
  ["cos", [1, -709.7], [4.47095843165294e307, 6.963105198067256e307]],
  ["cos", [1.2, 710.4], [6.038200198297078e307, -1.553116643477329e308]],
  ["cos", [2.5, 705], [-6.029622490680639e305, -4.5042624444701435e305]],
  ["pow", [-2.5436363308049748, -0.32925585984934225], [-241.90312788558646, -53.12519774517028], [
    3.348907924743483e-169,
    6.746053959720603e-170,
  ]],
  [
    "pow",
    [8.688608813093823e120, 4.24929508793144e121],
    [0.0371420427773832, -1.8808024174166689],
    [210309.06439496725, 378132.7559347509],
  ],
  ["pow", [-0.9969983233550713, -0.07739847967837567], [-8896.686896637873, 0], [
    -0.6433359151746122,
    -0.7878294582519288,
  ]],
  ["pow", [-2.5112338141363294e-22, 5.132931898132497e-23], [-11.689859832123993, 0], [
    -2.457738651441503e252,
    -4.718294328190892e251,
  ]],
  ["pow", [-1.069420464750526, 0.3324696489991471], [92, 0], [
    -28646.605604439937,
    -17332.623464894732,
  ]],
  ["pow", [-0.27843462909676286, 0.9604551818010316], [538, 0], [
    -0.5337801151785864,
    -0.8456229728922815,
  ]],
  ["pow", [0.9993, -0.00074], [-184344.75, 52547.5], [6.041943435061459e72, -6.246462486603056e72]],
  ["pow", [0.7, 5e-324], [1000.5, 3], [5.034112922950706e-156, -9.198008560130724e-156]],
  ["pow", [3, 4], [0.25, -70], [1.8189340076643516e28, 1.4366385382584978e28]],
  ["pow", [0.3, 0.2], [130, 100], [6.708637418443824e-84, -3.1416072596157244e-84]],
  ["pow", [1e-310, 2e-310], [0.5, 1.5], [1.9796500430457336e-156, -2.0379701575531598e-156]],
  ["pow", [0, -2], [1.5, 50.25], [2.6414194929413945e34, 4.69715315895044e34]],
  ["pow", [-3, 0], [0.5, 20], [-1.688627535301953e-29, -8.932148931584633e-28]],
  ["pow", [1.1, 1.3], [-97, 0], [-3.145201962623065e-23, -2.036806473220656e-23]],
];

/** The special values of the array API's standard for expm1; 5 stands for a finite number. */
const EXPM1_SPECIALS: readonly (readonly [x: Pair, result: Pair])[] = [
  [[0, 0], [0, 0]],
  [[5, Infinity], [NaN, NaN]],
  [[5, NaN], [NaN, NaN]],
  [[Infinity, 0], [Infinity, 0]],
  [[-Infinity, 5], [-1, -0]],
  [[Infinity, 5], [Infinity, -Infinity]],
  [[-Infinity, Infinity], [-1, 0]],
  [[-Infinity, -Infinity], [-1, 0]],
  [[Infinity, Infinity], [Infinity, NaN]],
  [[-Infinity, NaN], [-1, 0]],
  [[Infinity, NaN], [Infinity, NaN]],
  [[NaN, 0], [NaN, 0]],
  [[NaN, 5], [NaN, NaN]],
  [[NaN, NaN], [NaN, NaN]],
];

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

  "functions of operands near overflow, and powers with large exponents": (device) => {
    const make = (pair: Pair): Any =>
      loose(tensor)(Float64Array.of(...pair), { dtype: "complex128" }).to(device);
    for (const [name, x, ...rest] of EXTREMES) {
      const want = rest.at(-1)!, others = rest.slice(0, -1).map(make);
      const [re, im] = make(x)[name](...others).toTypedArray() as Float64Array;
      const what = `${name} ${x} ${rest.slice(0, -1)}: ${re} ${im}, not ${want}`;
      // Beside a part that overflows, the other one is compared; else the distance.
      [[re!, want[0]], [im!, want[1]]].forEach(([got, part]) => {
        const size = want.includes(Infinity) ? Math.abs(part!) : Math.hypot(...want);
        assert(got === part || Math.abs(got! - part!) <= 5 * 2 ** -52 * size, what);
      });
    }
  },

  "expm1 at infinities and NaN": (device) => {
    for (const [dtype] of COMPLEX_DTYPES) {
      for (const [x, want] of EXPM1_SPECIALS) {
        for (const sign of [1, -1]) {
          const pair = Float64Array.of(x[0], sign * x[1]);
          const made = loose(tensor)(pair, { dtype: "complex128" }).astype(dtype).to(device)
            .expm1();
          const got = Array.from(made.toTypedArray() as Float64Array);
          // The sign of a zero beside an infinite or NaN angle is open.
          const isOpen = x[0] === -Infinity && !Number.isFinite(x[1]);
          const expected = [want[0], isOpen ? Math.abs(got[1]!) : sign * want[1]];
          assertEquals(got.map(String), expected.map(String), `${dtype} expm1 ${pair}: ${got}`);
          if (!isOpen) assert(Object.is(got[1], expected[1]), `${dtype} expm1 ${pair}: ${got}`);
        }
      }
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
