/**
 * Reports on programs: what they say of ops, improvements, memory and executors, and their diagrams.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { test } from "node:test";
import { inspect } from "node:util";
import { info, ones, random, tensor } from "../../mod.ts";
import { compile, type Compiled, type ProgramReport } from "../../src/compile/mod.ts";
import { drawDiagram } from "../../src/compile/report/diagram.ts";
import { MIRROR } from "../device/mirror.ts";
import { check, found } from "../native/support.ts";
import { type Any, loose } from "../support.ts";
import { onBackend } from "./support.ts";

/** The report on the program of `f` for these arguments. */
function reportOf(
  f: (...args: Any[]) => unknown,
  args: readonly unknown[],
  options: object = {},
): ProgramReport {
  const compiled = compile(f, options) as Compiled<Any>;
  try {
    compiled(...args);
    const reports = compiled.explain();
    assertEquals(reports.length, 1);
    return reports[0]!;
  } finally {
    compiled.dispose();
  }
}

interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly text: string;
}

/** The elements of an SVG; fails if it is not well-formed. */
function parse(svg: string): Element[] {
  const elements: Element[] = [];
  const open: string[] = [];
  const token = /<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>([^<]*)/g;
  let end = 0;
  for (const match of svg.matchAll(token)) {
    assertEquals(match.index, end, `text that is no element: ${svg.slice(end, end + 80)}`);
    end = match.index + match[0].length;
    const [, closes, name, attributes, empty, text] = match as unknown as string[];
    assert(!/&(?!(?:amp|lt|gt);)/.test(text!), text);
    if (closes === "/") assertEquals(open.pop(), name);
    else {
      const pairs = [...attributes!.matchAll(/([\w:-]+)="([^"]*)"/g)];
      elements.push({
        name: name!,
        attributes: Object.fromEntries(pairs.map(([, k, v]) => [k!, v!])),
        text: text!,
      });
      if (empty !== "/") open.push(name!);
    }
  }
  assertEquals([end, open], [svg.length, []]);
  return elements;
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Checks that no boxes overlap, all text is in one, and no edge crosses one. Returns the boxes. */
function checkDrawing(svg: string): Box[] {
  const elements = parse(svg);
  const rects = elements.filter(({ name, attributes }) => name === "rect" && attributes["x"]);
  const boxes = rects.map(({ attributes: { x, y, width, height } }): Box => ({
    left: Number(x),
    top: Number(y),
    right: Number(x) + Number(width),
    bottom: Number(y) + Number(height),
  }));
  const { width, height } = elements[0]!.attributes;
  boxes.forEach((a, i) => {
    assert(a.left >= 0 && a.top >= 0 && a.right <= Number(width) && a.bottom <= Number(height));
    for (const b of boxes.slice(i + 1)) {
      const apart = a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
      assert(apart, `boxes overlap: ${JSON.stringify([a, b])}`);
    }
  });
  const inside = (x: number, y: number): Box | undefined =>
    boxes.find((box) => x > box.left && x < box.right && y > box.top && y < box.bottom);
  for (const { name, attributes: { x, y }, text } of elements) {
    if (name !== "text") continue;
    const box = inside(Number(x), Number(y));
    assert(box !== undefined, text);
    const written = text.replaceAll(/&\w+;/g, "&");
    assert(Number(x) + written.length * 7.25 <= box.right, `${text} is wider than its box`);
  }
  for (const { attributes } of elements) {
    if (attributes["class"] !== "edge") continue;
    const [, x0, y0, y1, ...curve] = /^M(\S+) (\S+)V(\S+)C(\S+) (\S+) (\S+) (\S+) (\S+) (\S+)$/
      .exec(attributes["d"]!)!.map(Number) as [number, number, number, number, ...number[]];
    const [x3, y3] = [curve[4]!, curve[5]!];
    for (let t = 0.02; t < 1; t += 0.02) {
      assert(!inside(x0, y0 + t * (y1 - y0)), "an edge crosses a box");
      const u = 1 - t;
      const x = x0 * (u ** 3 + 3 * u * u * t) + x3 * (3 * u * t * t + t ** 3);
      assert(!inside(x, y1 + t * (y3 - y1)), "an edge crosses a box");
    }
  }
  return boxes;
}

const weights = {
  first: ones([16, 8]),
  bias: ones([16]),
  second: ones([4, 16]),
};

test("Explain: a report tells what each improvement did", () => {
  const report = reportOf(
    (x: Any, scale: number) => {
      x.neg();
      const scores = x.linear(weights.first, weights.bias).relu().linear(weights.second);
      const factor = ones([4]).add(1);
      return { y: scores.mul(scale).mul(factor).softmax(), twice: x.exp().add(x.exp()) };
    },
    [ones([3, 8]), 2],
  );
  const { ops, improvements, traced, results, bytes, executor } = report.data;
  assertEquals(report.data.arguments, ["float32 [3, 8]", "any number"]);
  assertEquals(executor, found ? "native" : "replay");
  assertEquals(traced, 11);
  assertEquals(ops.map(({ name }) => name), [
    "linear → relu",
    "linear",
    "chain",
    "softmax",
    "chain",
  ]);
  assertEquals(improvements.dropped, ["neg"]);
  assertEquals(improvements.shared, ["exp"]);
  assertEquals(improvements.folded, ["add"]);
  assertEquals(improvements.joined, ["linear → relu"]);
  assertEquals(improvements.fused, [["mul", "mul"], ["exp", "add"]]);
  assertEquals(improvements.packed.map(({ shape }) => shape), [[16, 8], [4, 16]]);
  assertEquals(improvements.off, []);
  // Panels of 32 columns.
  assertEquals(bytes.packed, 4 * 32 * (8 + 16));
  assertEquals(bytes.constants, 4 * 4);
  assertEquals(results.map(({ name, shape }) => [name, shape]), [["%4", [3, 4]], ["%5", [3, 8]]]);
  assertEquals(ops[0]!.inputs.map(({ name }) => name), ["arg 0", "packed", "captured 0"]);
  assertEquals(ops[2]!.steps, [
    { name: "a", op: "mul", inputs: ["%2", "arg 1"], dtype: "float32" },
    { name: "b", op: "mul", inputs: ["a", "constant"], dtype: "float32" },
  ]);
  if (found) {
    assert(bytes.arena > 0);
    assertEquals([report.data.kernels, report.data.nativeCalls], [5, 1]);
    assertEquals(report.data.why, undefined);
  }
});

test("Explain: text fits 100 columns and has all of it", () => {
  const list = Array.from({ length: 30 }, () => ones([2, 3]));
  const report = reportOf(
    (all: Any[], options: { scale: number }) =>
      all.reduce((sum, x) => sum.add(x.mul(options.scale).tanh())),
    [list, { scale: 3, name: "a".repeat(300) }],
  );
  const text = String(report);
  assert(text.split("\n").every((line) => line.length <= 100));
  assertMatch(text, /^program of a function\narguments +0: \[float32 \[2, 3\], float32/);
  assertMatch(text, /\n +1: \{ scale: any number, name: "a+…" \}\n/);
  assertMatch(text, /\n {2}fused +87 ops into \d+ chains: /);
  assertMatch(text, /\nmemory +arena .* constants 0 B, packed weights 0 B\n/);
  assertMatch(text, /\nops +87 traced, \d+ after the improvements\n/);
  assertMatch(text, / a = mul\(arg 0\[1\], arg 1\.scale\)\n +b = tanh\(a\)\n/);
  assertMatch(text, /\nresults +%\d+ float32 \[2, 3\]$/);
  assertEquals(inspect(report), text);
  assertEquals(loose(report)[Symbol.for("Jupyter.display")](), {
    "text/plain": text,
    "image/svg+xml": report.svg(),
  });
  assertEquals(JSON.parse(JSON.stringify(report)), JSON.parse(JSON.stringify(report.data)));
  checkDrawing(report.svg());
});

test("Explain: attention, and improvements that are turned off", () => {
  const attend = (q: Any, k: Any, v: Any) =>
    q.matmul(k.swapAxes(-1, -2)).mul(0.5).softmax(-1).matmul(v);
  const args = [0, 1, 2].map(() => ones([2, 4, 3]));
  const joined = reportOf(attend, args).data;
  assertEquals(joined.ops.map(({ op }) => op), ["attention"]);
  assertEquals([joined.improvements.attention, joined.improvements.dropped], [1, []]);
  const apart = reportOf(attend, args, { optimize: { attention: false } }).data;
  assertEquals(apart.ops.map(({ op }) => op), ["matmul", "mul", "softmax", "matmul"]);
  assertEquals([apart.improvements.attention, apart.improvements.off], [0, ["attention"]]);
  const plain = reportOf((x: Any) => x.add(1).add(x.add(1)), [ones([2])], { optimize: false });
  assertEquals(plain.data.ops.map(({ name }) => name), ["add", "add", "add"]);
  assertEquals(plain.data.improvements.shared, []);
  assertMatch(String(plain), /turned off +deadCode, subexpressions, /);
});

check("Explain: ops along rows that run tile by tile", () => {
  const rows = (x: Any) => x.mul(2).add(1).softmax().sum(1);
  const { ops, improvements, kernels, nativeCalls } = reportOf(rows, [ones([1001, 512])]).data;
  const [tiled] = improvements.tiled;
  assertEquals(tiled!.ops, ["chain", "softmax", "sum"]);
  assert(tiled!.tiles > 1);
  // The kernels of a shorter last tile do not count again.
  assertEquals([ops.map((op) => op.kernels), kernels, nativeCalls], [[1, 1, 1], 3, 1]);
  const text = String(reportOf(rows, [ones([1001, 512])]));
  assertMatch(text, /\n {2}tiled +chain, softmax, sum: in \d+ tiles\n/);
  assertEquals(reportOf(rows, [ones([4, 4])]).data.improvements.tiled, []);
});

test("Explain: why a program or an op runs by dispatch", () => {
  const pick = (x: Any, at: Any) => x.mul(2).add_(1).take(at);
  const at = tensor([1, 0], { dtype: "int32" });
  if (found) {
    const write = (x: Any, at: Any) => {
      x.add_(1);
      return x.take(at).neg();
    };
    const { ops, nativeCalls } = reportOf(write, [ones([2]), at]).data;
    const [picked] = ops.filter(({ name }) => name === "take");
    assertEquals(
      picked!.dispatched,
      "an index out of range has to be found before tensors outside are written",
    );
    assertEquals([picked!.kernels, nativeCalls], [0, 2]);
    assert(reportOf(pick, [ones([2]), at]).data.ops.every((op) => op.dispatched === undefined));
    // Before the first write, a kernel finds it.
    const late = (x: Any, at: Any) => x.add_(x.take(at).sum());
    const report = reportOf(late, [ones([2]), at]).data;
    assertEquals([report.ops.filter((op) => op.dispatched !== undefined), report.nativeCalls], [
      [],
      1,
    ]);
  }
  using _ = onBackend("js");
  const report = reportOf(pick, [ones([2]), at]);
  assertEquals([report.data.executor, report.data.kernels], ["replay", 0]);
  // Without a library, the reason is why there is none.
  if (found) assertEquals(report.data.why, "the backend of the CPU is js");
  assertMatch(String(report), /\nruns +op by op, by dispatch: /);
});

test("Explain: why a program of a device is not recorded", () => {
  const why = (f: (...args: Any[]) => unknown, ...args: unknown[]) =>
    reportOf(f, [ones([2]).to(MIRROR as "cpu"), ...args]).data.why;
  assertEquals(why((x) => x.add(1)), `it runs on ${MIRROR}: it has one op at most`);
  assertEquals(
    why((x, by) => x.mul(by).sum(), 2),
    `it runs on ${MIRROR}: it takes a number of each call`,
  );
  assertEquals(why((x) => x.exp().sum()), "the second run records its work");
});

test("Explain: writes, random keys, views and captured tensors have their names", () => {
  const total = ones([3, 2]);
  const report = reportOf(
    (x: Any, key: Any) => {
      total.add_(x.T);
      return [random.uniform(key, [3, 2]).add(total), x];
    },
    [ones([4, 3]).slice("::2"), random.key(1)],
  );
  const { ops, results } = report.data;
  assertEquals(report.data.arguments, ["float32 [2, 3] strides [6, 1]", "a random key"]);
  assertEquals(ops.map(({ name }) => name), ["chain"]);
  assertEquals(ops[0]!.inputs, [
    { name: "captured 0", shape: [3, 2], dtype: "float32" },
    { name: "arg 0", shape: [3, 2], dtype: "float32" },
    { name: "uniform", shape: [3, 2], dtype: "float32" },
  ]);
  assertEquals(results.map(({ name }) => name), ["%1.1"]);
  assertEquals(total.toArray(), [[2, 2], [2, 2], [2, 2]]);
  // The argument, the op and the result.
  assertEquals(checkDrawing(report.svg()).length, 3);
});

test("Explain: each program has a report, the one used last first", () => {
  using double = compile((x: Any) => x.mul(2)) as Compiled<Any>;
  assertEquals(double.explain(), []);
  double(ones([2]));
  double(ones([3]));
  double(ones([2]));
  assertEquals(double.explain().map(({ data }: ProgramReport) => data.arguments), [
    ["float32 [2]"],
    ["float32 [3]"],
  ]);
  const empty = reportOf(() => 1, []);
  assertMatch(String(empty), /arguments +none\n[^]*results +none$/);
  parse(empty.svg());
});

test("Explain: diagrams have no overlaps, and are the same each time", () => {
  let state = 7;
  const below = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % n;
  };
  for (let round = 0; round < 20; round++) {
    const count = 1 + below(40);
    const boxes = Array.from({ length: count }, (_, i) => ({
      kind: (["input", "op", "group", "output"] as const)[below(4)]!,
      lines: Array.from({ length: 1 + below(5) }, () => `<${i}> & ` + "x".repeat(below(90))),
    }));
    const edges = Array.from({ length: count < 2 ? 0 : below(3 * count) }, () => {
      const to = 1 + below(count - 1);
      return [below(to), to] as const;
    });
    const diagram = { title: "a < b & c", boxes, edges };
    const svg = drawDiagram(diagram);
    assertEquals(checkDrawing(svg).length, count);
    assertEquals(drawDiagram(diagram), svg);
  }
});

test("info() tells where asynchronous calls run, before and after the first one", async () => {
  using double = compile((x: Any) => x.mul(2)) as Compiled<Any>;
  const { backends } = info();
  const expected = found ? "on another thread" : `in a later task: ${backends.native}`;
  assertEquals(info().async, expected);
  assertEquals((await double.async(ones([2]))).toArray(), [2, 2]);
  assertEquals(info().async, expected);
});

check("info() tells that asynchronous calls run in later tasks on js", async () => {
  using double = compile((x: Any) => x.mul(2)) as Compiled<Any>;
  using _ = onBackend("js");
  assertEquals(info().async, "in a later task: the backend of the CPU is js");
  assertEquals((await double.async(ones([2]))).toArray(), [2, 2]);
});
