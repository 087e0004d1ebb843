/**
 * Ops that programs define: on the JavaScript and the native backend and on a device; and invalid
 * definitions.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import {
  defineOp,
  DTypeError,
  getOp,
  memory,
  OpError,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { OPS } from "../../src/table/op.ts";
import { expressionOp } from "../../src/table/user_expr.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";
import { CUSTOM_OP_TESTS } from "./custom_ops.ts";

for (const { name, on } of BACKENDS) {
  for (const [what, run] of Object.entries(CUSTOM_OP_TESTS)) {
    test(`${what}: ${name}`, () => using(on, () => run(typeof on === "string" ? on : "cpu")));
  }
}

/** Texts that are not expressions, or would do something else if they were compiled unchanged. */
const BAD_EXPRESSIONS: readonly unknown[] = [
  // Nothing, or no text.
  ...["", " ", "\n", "1", "1 + 2", "()", undefined, null, 7, {}, [], true, () => "x", Symbol("x")],
  // Other names, and what they lead to.
  ...("w q a o A B C p t0 i0 n0 s0_0 c0 e undefined NaN Infinity this self window globalThis global " +
    "process Deno Bun require module exports import eval Function Object Array constructor prototype " +
    "__proto__ arguments new delete void typeof await yield async return throw if for while do switch " +
    "class super with debugger let const var null true false half brain slow words sums at threadIdx " +
    "blockIdx __global__ asm volatile sizeof printf malloc float double int struct rm_exp_f32 RM_NUM " +
    "toString valueOf hasOwnProperty Math fetch document name length x0 xx yx X Y").split(" "),
  // Calls of unknown functions, or with the wrong arguments.
  ...("eval alert fetch require import Function setTimeout system exit printf sizeof abort trap fabs rint " +
    "ffloordiv fmod nextafter shl ifloordiv toString constructor __proto__ x y sum matmul").split(
      " ",
    )
    .map((name) => `${name}(x)`),
  ...["exp()", "exp(x, y)", "pow(x)", "maximum(x)", "maximum(x, y, z)", "exp(,x)", "exp(x,)"],
  ...["exp x", "exp(x", "exp(x))", "exp((x)", "exp[x]", "exp(x)(y)", "(exp)(x)", "x(y)"],
  // Statements, members, templates, comments, strings, other operators.
  ...[
    "x;",
    "x; y",
    "x\n;y",
    "x = y",
    "x += 1",
    "x++",
    "--x + x--",
    "x.y",
    "x[0]",
    "x?.y",
    "x ?? y",
  ],
  ...[
    "x => x",
    "function(){}",
    "{x}",
    "[x]",
    "...x",
    "x, y",
    "`${x}`",
    "`x`",
    "'x'",
    '"x"',
    "x\\u0061",
  ],
  ...[
    "x /* y */",
    "x // y",
    "/x/",
    "x ** 2",
    "x % 2",
    "x << 1",
    "x >> 1",
    "x >>> 1",
    "x & y",
    "x | y",
  ],
  ...[
    "x ^ y",
    "~x",
    "x === y",
    "x !== y",
    "x <> y",
    "x && y",
    "x || y",
    "!x",
    "x ? y : z",
    "@x",
    "#x",
  ],
  ...[
    "$x",
    "x$",
    "x`y`",
    "x\u2028y",
    "ẋ",
    "х",
    "x\0",
    "x\\",
    "#define x",
    "x \\\n y",
    'R"(x)"',
    "??/x",
  ],
  // Invalid numbers, or numbers that differ between languages.
  ...[
    "x + 1e999",
    "x + 0x10",
    "x + 0b1",
    "x + 1n",
    "x + 1_000",
    "x + .5",
    "x + 1f",
    "x + 1.5.2",
    "x + 1e",
  ],
  ...["x + 1e+", "x + 08e", "x + 1..", "x + ∞", "x + ½", "1x", "x1 + x", "2(x)", "x 2", "x y"],
  // Types that do not fit.
  ...[
    "x > y > z",
    "x == y == z",
    "(x > 0) + 1",
    "x + (y > 0)",
    "-(x > 0)",
    "exp(x > 0)",
    "x ? 1 : 0",
  ],
  ...[
    "x > 0 ? y > 0 : z",
    "x > 0 ? 1 : y > 0",
    "isnan(x) + 1",
    "isnan(isnan(x))",
    "!exp(x)",
    "!(!x)",
  ],
  ...["x > 0 && 1", "1 || x > 0", "(x > 0 ? 1 : 0) ? x : y", "isnan(x) == isnan(y)"],
  // Broken pieces.
  ...[
    "x +",
    "+ x",
    "* x",
    "x * / y",
    "x ? y",
    "x > 0 ? y",
    "x > 0 : y",
    "x > 0 ? : y",
    "? x : y",
    ": x",
  ],
  ...[
    "(x",
    "x)",
    ")x(",
    "((x)",
    "x (",
    "x - ",
    "x !",
    "x !y",
    "x ! = y",
    "< x",
    "x <",
    "x < = y",
    "x ,",
  ],
  // Missing operands, and texts that would overflow the stack or the memory.
  ...[
    "y",
    "z",
    "x + z",
    "y + z",
    "(".repeat(40) + "x" + ")".repeat(40),
    "(".repeat(900),
    "x + ".repeat(400),
  ],
  ...[
    "-".repeat(1100) + "x",
    "x" + " ".repeat(2000),
    "x > 0 ? ".repeat(50) + "x" + ": x".repeat(50),
  ],
];

test("malicious and malformed expressions are refused, and define nothing", () => {
  assert(BAD_EXPRESSIONS.length >= 200, `only ${BAD_EXPRESSIONS.length}`);
  assertEquals(new Set(BAD_EXPRESSIONS).size, BAD_EXPRESSIONS.length, "one stands twice");
  const before = OPS.size;
  for (const expr of BAD_EXPRESSIONS) {
    const definition = { name: "customBad", expr } as never;
    const error = assertThrows(() => defineOp(definition), OpError, undefined, String(expr));
    assert(error.message.includes("customBad"), error.message);
    assert(error.message.length < 300, error.message);
  }
  assertEquals(OPS.size, before);
  assertThrows(() => getOp("customBad"), OpError, "customBad");
});

test("broadcasting may be off for ops with and without parameters", () => {
  const plain = loose(defineOp({ name: "withoutParameters", expr: "x + y" } as never));
  const scaled = loose(
    defineOp({ name: "withParameter", expr: "k * x + y", parameters: ["k"] } as never),
  );
  const [x, y] = [tensor([[1, 2], [3, 4]]), tensor([1, 1])];
  for (const [op, options] of [[plain, {}], [scaled, { k: 1 }]]) {
    assertEquals(op(x, y, options).toArray(), [[2, 3], [4, 5]]);
    assertEquals(op(x, x, { ...options, broadcast: false }).toArray(), [[2, 4], [6, 8]]);
    assertThrows(() => op(x, y, { ...options, broadcast: false }), ShapeError, "broadcasting");
  }
});

test("names that are taken or none, parameters that are none, and missing parts are refused", () => {
  const names = [
    "add",
    "sum",
    "matmul",
    "gather",
    "customCube",
    "",
    "a-b",
    "1a",
    "a b",
    "__proto__",
  ];
  for (const name of [...names, "constructor!", "a".repeat(65), "é", undefined, null, 7, {}]) {
    assertThrows(() => defineOp({ name, expr: "x" } as never), OpError, "defineOp");
  }
  const lists = [["x"], ["out"], ["broadcast"], ["exp"], ["a", "a"], ["a-b"], ["1"], [""], [
    "__proto__",
  ]];
  for (
    const parameters of [...lists, [7], ["a", "b", "c", "d", "e"], "a", 7, [null], ["a".repeat(40)]]
  ) {
    const definition = { name: "customBad", expr: "x", parameters } as never;
    assertThrows(() => defineOp(definition), OpError, "parameter");
  }
  const infer = () => ({ shape: [], dtype: "float32" });
  for (
    const definition of [{}, { infer }, { run: infer }, { infer: 1, run: 2 }, { infer, run: null }]
  ) {
    assertThrows(() => defineOp({ name: "customBad", ...definition } as never), OpError, "infer()");
  }
  for (const definition of [undefined, null, "x", 7]) {
    assertThrows(() => defineOp(definition as never), OpError, "definition");
  }
});

test("what a function infers and does is checked, and an error leaves nothing behind", () => {
  const inferences: unknown[] = [undefined, 7, [null], { shape: [2] }, { dtype: "float32" }];
  inferences.push({ shape: [-1], dtype: "float32" }, { shape: [2], dtype: "float" });
  let given: unknown;
  const op = defineOp({ name: "customInfers", infer: () => given as never, run() {} });
  for (given of inferences) assertThrows(() => op(zeros([2])), Error, "customInfers");
  given = { shape: [0], dtype: "bool" };
  assertEquals((op(zeros([2])) as { shape: unknown }).shape, [0]);
  assertThrows(() => op(), TypeError, "at least one");
  assertThrows(() => op(7), DTypeError, "customInfers");
  const fails = defineOp({
    name: "customFails",
    infer: ([x]) => {
      if (x!.shape.length > 2) throw new ShapeError("Cannot customFails: too many axes");
      return x!;
    },
    run() {
      throw new RangeError("as it is meant to");
    },
  });
  const x = zeros([64, 64]);
  const before = memory().bytes - memory().pooledBytes;
  assertThrows(() => fails(loose(x).T), RangeError, "as it is meant to");
  assertThrows(() => fails(loose(zeros)([1, 1, 1])), ShapeError, "too many axes");
  assertEquals(memory().bytes - memory().pooledBytes, before);
  const late = defineOp({
    name: "customLate",
    infer: ([x]) => x!,
    run: (() => Promise.resolve()) as () => void,
  });
  assertThrows(() => late(x), TypeError, "before it returns");
});

test("no op has a parameter with the name of an operand, or with no name", () => {
  const make = (...parameters: string[]) =>
    expressionOp({ name: "misnamed", arity: 1, text: "x", gives: "number", parameters });
  for (const name of ["x", "y", "z", "a", "bits", "", "1k", "a b", "k;", "constructor()"]) {
    assertThrows(() => make(name), TypeError, "Cannot make op misnamed with the parameter");
  }
  assertThrows(() => make("k", "k"), TypeError, "the parameter k");
  assert(!OPS.has("misnamed"));
});

test("an op that calls itself without end is an error, one that ends is none", () => {
  const forever = loose(defineOp({
    name: "callsItself",
    infer: ([x]) => x!,
    run: ([x]) => void forever(tensor([...x!.data as Float32Array])),
  }));
  assertThrows(() => forever(tensor([1, 2])), OpError, "Cannot callsItself float32 [2]: the op is");
  let calls = 0;
  const countdown = loose(defineOp<{ n: number }>({
    name: "countsDown",
    infer: ([x]) => x!,
    run: ([x], _, { n }) => {
      calls++;
      if (n > 0) countdown(tensor([...x!.data as Float32Array]), { n: n - 1 });
    },
  }));
  countdown(tensor([1, 2]), { n: 150 });
  assertEquals(calls, 151);
});

test("a worker has the ops that it defines itself", async () => {
  defineOp({ name: "scaledSquare", expr: "scale * x * x", parameters: ["scale"] });
  assertEquals(loose(getOp("scaledSquare")(tensor([2]), { scale: 3 })).toArray(), [12]);
  const worker = new Worker(new URL("../workers/custom_op.ts", import.meta.url));
  const [answer] = await once(worker, "message");
  await worker.terminate();
  assertEquals([answer.name, answer.result], ["OpError", [18]]);
  assert(answer.message.includes("scaledSquare"), answer.message);
});
