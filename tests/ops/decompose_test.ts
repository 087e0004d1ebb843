/**
 * Interpreters that decompose every composite op, over the programs of all methods, functions and
 * namespaces: no op is part of itself, results are those of a plain run, and results depend on the
 * inputs through calls only.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { decomposeBy, performCall } from "../../src/core/dispatch.ts";
import { interpret, type Interpreter } from "../../src/core/interpreter.ts";
import { isOperand, type Operand } from "../../src/memory/operand.ts";
import { type Call, type Op, OPS } from "../../src/table/op.ts";
import { loose } from "../support.ts";
import { runsHere } from "../support/engine.ts";
import { type Operands, operands, plain, type Program, PROGRAMS } from "./programs.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** Decomposes every call of a composite; runs all others. */
class Decomposer implements Interpreter {
  /** The ops whose parts run, outermost first. */
  readonly #open: Op[] = [];
  /** The ops that were decomposed. */
  readonly decomposed = new Set<string>();

  run(call: Call): void {
    const { op } = call;
    const inputs = call.inputs.slice();
    if (op.decompose === undefined) performCall(call);
    else {
      const within = this.#open.map(({ name }) => name).join(" of ");
      assert(!this.#open.includes(op), `${op.name} is part of itself, of ${within}`);
      this.decomposed.add(op.name);
      this.#open.push(op);
      try {
        decomposeBy(this, call);
      } finally {
        this.#open.pop();
      }
    }
    this.seen(call, inputs);
  }

  /** Called after a call has run, whose inputs were `inputs`. */
  seen(call: Call, inputs: readonly unknown[]): void {
    const { op } = call;
    assertEquals(call.inputs.length, inputs.length, op.name);
    inputs.forEach((x, k) => {
      // Kernels get scalars, casts and copies as operands of their own.
      assert(Object.is(call.inputs[k], x), `${op.name} replaces input ${k}`);
    });
    assert(OPS.get(op.name) === op || op.name.startsWith("program"), op.name);
  }

  read(): void {}
}

/** Marks the results of calls with marked inputs. */
class Tainter extends Decomposer {
  /** The arrays with elements that depend on those of the first marked ones. */
  readonly #marked = new WeakSet<object>();

  mark({ storage }: Operand): void {
    this.#marked.add(storage.array);
  }

  isMarked(x: unknown): boolean {
    return isOperand(x) && this.#marked.has(x.storage.array);
  }

  /** Whether the program has called an op with a marked input. */
  isUsed = false;

  override seen(call: Call, inputs: readonly unknown[]): void {
    super.seen(call, inputs);
    if (inputs.some((x) => this.isMarked(x))) this.isUsed = true;
    // The parts have marked what depends on the inputs.
    if (call.op.decompose !== undefined) return;
    if (!inputs.some((x) => this.isMarked(x))) return;
    for (const out of call.outputs) if (out !== undefined) this.mark(out);
    for (const k of call.op.writes ?? []) this.mark(call.operand(k));
  }
}

/** Checks that two results are equal, but for rounding. */
function assertClose(made: unknown, expected: unknown, what: string): void {
  if (typeof made === "number" && typeof expected === "number") {
    const close = Object.is(made, expected) || made === expected ||
      Math.abs(made - expected) <= 2e-3 * Math.max(1, Math.abs(expected));
    assert(close, `${what}: ${made} is not ${expected}`);
  } else if (Array.isArray(made) && Array.isArray(expected)) {
    assertEquals(made.length, expected.length, what);
    made.forEach((one, i) => assertClose(one, expected[i], what));
  } else assertEquals(made, expected, what);
}

/** The tensors in a result. */
function tensorsOf(value: unknown, depth = 0): Any[] {
  if (value instanceof rm.Tensor) return value.isDisposed ? [] : [value];
  if (typeof value !== "object" || value === null || depth > 3) return [];
  if (ArrayBuffer.isView(value)) return [];
  return Object.values(value).flatMap((one) => tensorsOf(one, depth + 1));
}

/** More programs: dtypes and layouts that kernels do not take, empty operands, complex numbers. */
const half = (t: Any): Any => t.astype("float16");
const complex = (t: Any): Any => t.astype("complex64");
const lib: Any = rm;
const square = (x: Any): Any => x.matmul(x.T);
const MORE: Record<string, Program> = {
  "matmul of dtypes": ({ x, b }) => x.matmul(b.T),
  "matmul of halves": ({ x }) => half(x).matmul(half(x).T),
  "matmul of complex": ({ x }) => complex(x).matmul(complex(x).T),
  "matmul of real and complex": ({ x }) => x.matmul(complex(x).T),
  "matmul of nothing": ({ x }) => x.slice(":", ":0").matmul(x.slice(":0")),
  "matmul int8": ({ b }) => b.astype("int8").matmul(b.astype("int8").T, { dtype: "int32" }),
  "matmul into": ({ x }) => x.matmul(x.T, { out: lib.zeros([2, 2]) }),
  "fft of halves": ({ x }) => lib.fft.fft(half(x)),
  "fft of columns": ({ x }) => lib.fft.fft(x, { axis: 0 }),
  "fft of a view": ({ x }) => lib.fft.fft(x.T),
  "rfft and back": ({ x }) => lib.fft.irfft(lib.fft.rfft(x)),
  "fft of nothing": ({ x }) => lib.fft.fft(x.slice(":0")),
  "fft longer": ({ x }) => lib.fft.fft(x, { n: 5 }),
  "fft of no elements": ({ x }) => lib.fft.fft(x.slice(":", ":0"), { n: 4 }),
  "convolve of dtypes": ({ v, b }) => lib.convolve(v, b.slice(0)),
  "convolve of bytes": ({ b }) => lib.convolve(b.astype("int8"), b.slice(0).astype("int8")),
  "convolve of halves": ({ v }) => lib.convolve(half(v), half(v)),
  "convolve of complex": ({ v }) => lib.convolve(complex(v), complex(v)),
  "convolve of long": ({ v }) => lib.convolve(v.repeat(100), v.repeat(100)),
  "convolve of long complex": ({ v }) => lib.convolve(complex(v.repeat(80)), complex(v.repeat(80))),
  "linear": ({ x, w, v }) => x.linear(w, lib.arange(4).add(v.slice(0))),
  "linear activation": ({ x, w, v }) =>
    x.linear(w, undefined, { activation: "gelu", add: lib.ones([2, 4]).mul(v.slice(0)) }),
  "linear of dtypes": ({ b, w, v }) => b.linear(half(w), lib.arange(4).add(v.slice(0))),
  "linear of complex": ({ x, w }) => complex(x).linear(w, lib.ones([4])),
  "linear packed": ({ x, w }) => x.linear(lib.pack(w), lib.ones([4])),
  "linear packed of halves": ({ x, w }) => half(x).linear(lib.pack(half(w)), lib.ones([4])),
  "linear packed of a view": ({ x, w }) => x.T.slice(":", ":").T.linear(lib.pack(w)),
  "linear int8": ({ x, w }) => x.linear(lib.quantize(w, "int8")),
  "linear int8 of halves": ({ x, w }) => half(x).linear(lib.quantize(w, "int8"), lib.ones([4])),
  "linear quantized": ({ v }) =>
    lib.ones([2, 32]).mul(v.slice(0)).linear(lib.quantize(lib.ones([4, 32]), "q8_0")),
  "linear quantized of halves": ({ v }) =>
    half(lib.ones([2, 32]).mul(v.slice(0))).linear(lib.quantize(lib.ones([4, 32]), "q8_0")),
  "linear quantized packed": ({ v }) =>
    lib.ones([2, 32]).mul(v.slice(0)).linear(lib.pack(lib.quantize(lib.ones([4, 32]), "q8_0"))),
  "linear quantized packed of doubles": ({ v }) =>
    lib.ones([2, 32]).mul(v.slice(0)).astype("float64")
      .linear(lib.pack(lib.quantize(lib.ones([4, 32]), "q8_0"))),
  "quantize halves": ({ v }) =>
    lib.quantize(half(lib.ones([4, 32]).mul(v.slice(0))), "q8_0").dequantize(),
  "attention": ({ x }) =>
    nn.attention(x.reshape([1, 2, 3]), x.reshape([1, 2, 3]), x.reshape([1, 2, 3])),
  "attention of halves": ({ x }) => {
    const h = half(x.reshape([1, 2, 3]));
    return nn.attention(h, h, h, { causal: true } as Any);
  },
  "attention of dtypes": ({ x }) => {
    const h = x.reshape([1, 2, 3]) as Any;
    return nn.attention(h, half(h) as Any, h);
  },
  "sort of columns": ({ x }) => [x.sort(0), x.argsort(0), x.sort(0, { descending: true })],
  "topk of columns": ({ x }) => Object.values(x.topk(1, 0)),
  "partition of columns": ({ x }) => [x.partition(1, 0), x.argpartition(1, 0)],
  "quantile of columns": ({ x }) => [x.quantile(0.3, 0), x.median(0), x.median()],
  "softmax of columns": ({ x }) => x.softmax(0),
  "softmax of halves": ({ x }) => half(x).softmax(1),
  "cumulativeSum with initial": ({ x }) => x.cumulativeSum(1, { includeInitial: true }),
  "sum in float64": ({ x }) => x.sum(1, { dtype: "float64" }),
  "in place with a disturbed input": ({ x }) => {
    const y = x.copy();
    y.slice(":", "1:").add_(y.slice(":", ":2"));
    return y;
  },
  "comparison beyond a dtype": ({ b }) => [b.less(2.5), b.equal(1e12), b.greater(-1e12)],
  "where of scalars": ({ x, m }) => [lib.where(m, x, 0), lib.where(m, 1, x)],
  "concat of dtypes": ({ x, b }) => lib.concat([x, b, half(x)]),
  "stack": ({ x, y }) => lib.stack([x, y], 1),
  "roll": ({ x }) => [x.roll(1, 1), x.roll(1)],
  "repeat": ({ x }) => [x.repeat(2), x.repeat(2, 1), x.repeat([1, 2], 0)],
  "tile": ({ x }) => x.tile([2, 2]),
  "pad": ({ x }) =>
    ["constant", "edge", "reflect", "wrap"].map((mode) => x.pad([[1, 1], [1, 1]], { mode })),
  "pool": ({ x }) => {
    const image = lib.arange(32).reshape([1, 2, 4, 4]).mul(x.slice(0, 0));
    return [
      nn.avgPool2d(image, 2),
      nn.maxPool2d(image, 2),
      nn.avgPool2d(image, 3, { padding: 1 } as Any),
    ];
  },
  "conv": ({ x }) => {
    const image = lib.arange(32).reshape([1, 2, 4, 4]).mul(x.slice(0, 0));
    return [
      nn.conv2d(image, lib.ones([3, 2, 3, 3]), lib.ones([3]), { padding: 1 }),
      nn.conv2d(half(image), half(lib.ones([3, 2, 2, 2]))),
      nn.convTranspose2d(image, lib.ones([2, 3, 2, 2])),
    ];
  },
  "linalg of integers": ({ b }) => lib.linalg.inv(square(b).add(lib.eye(2, { dtype: "int32" }))),
  "linalg of complex": ({ x }) => lib.linalg.inv(complex(square(x)).add(lib.eye(2))),
  "solve of dtypes": ({ x, b }) => lib.linalg.solve(square(x), b),
  "put": ({ x, i }) => {
    const y = lib.zeros([2, 3]);
    y.set([0], x.slice(1));
    return [y, x.takeAlongAxis(lib.zeros([2, 1], { dtype: "int32" }), 1), x.take(i, 1)];
  },
  "masks": ({ x, m }) => [lib.where(m, x, x.neg()), x.slice(m)],
  "prod of complex": (
    { x },
  ) => [complex(x).prod(1), complex(x).sum(1), complex(x).std(), complex(x).cumulativeProd(1)],
  "compiled": ({ x, y }) => compile((p: Any, q: Any) => p.add(q).mul(2).softmax())(x, y),
};

/** Programs for which a decomposer has no meaning: files, devices, programs. */
const SKIPPED = new Set(["cuda", "compile", "offload", "profile"]);
/** Programs that move a tensor out of itself, which is a read and no op. */
const READS = new Set(["intoOwned"]);

const ALL: [name: string, program: Program][] = [
  ...PROGRAMS.filter(([name]) => !SKIPPED.has(name)).map(([name, program]): [string, Program] => [
    name,
    program,
  ]),
  ...Object.entries(MORE),
];

/** Passes `body` the program, and a function that waits for its promises. */
async function withProgram(
  program: Program,
  body: (run: (t: Operands) => unknown, settle: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-decompose-"));
  const waiting: Promise<unknown>[] = [];
  const path = (file: string): string => join(folder, file);
  const later = (promise: Promise<unknown>): void => void waiting.push(promise);
  try {
    await body((t) => program({ ...t, path, later }), () => Promise.allSettled(waiting));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

for (const [name, program] of ALL) {
  if (!runsHere(name, 4)) continue;
  test(`${name} is the same decomposed into ops with kernels`, () =>
    withProgram(program, async (run, settle) => {
      const own = operands();
      const made = interpret(new Decomposer(), () => run(own));
      await settle();
      const alone = operands();
      const expected = run(alone);
      await settle();
      assertClose(plain(made), plain(expected), name);
      for (const key of Object.keys(own)) {
        assertClose(plain(own[key]), plain(alone[key]), `${name} changes ${key}`);
      }
    }));

  test(`float results of ${name} depend on its inputs through calls`, () =>
    withProgram(program, async (run, settle) => {
      const own = operands();
      const tainter = new Tainter();
      for (const x of Object.values(own)) tainter.mark(x);
      const made = interpret(tainter, () => run(own));
      await settle();
      if (READS.has(name) || !tainter.isUsed) return;
      for (const result of tensorsOf(made)) {
        if (!"fc".includes(loose(result).storage.info.kind)) continue;
        assert(tainter.isMarked(result), `a result of ${name}, ${result.dtype}, is not marked`);
      }
    }));
}
