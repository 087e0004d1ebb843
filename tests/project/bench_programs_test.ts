/** The parts of bench/programs.ts that need no peers: inputs, rows, comparisons, tables. */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { fromBuffer, scope, zeros } from "../../mod.ts";
import { disagreement, TOLERANCE } from "../../bench/programs/compare.ts";
import {
  byLeast,
  type Results,
  summarize,
  summarizeTimer,
  toJson,
  toMarkdown,
} from "../../bench/programs/report.ts";
import {
  type AnyTensor,
  GROUPS,
  keyOf,
  PEERS,
  type Row,
  ROWS,
  type Tensors,
  uniform,
} from "../../bench/programs/rows.ts";
import { quantile } from "../../bench/programs/timer.ts";

test("inputs are the same numbers as peer.py makes", () => {
  // What uniform([4], 2, -2, 2) and uniform([3], 0, 0, 1) give in Python.
  assertEquals([...uniform(4, 2, -2, 2)], [
    -1.5768742561340332,
    0.3612426221370697,
    -1.7098160982131958,
    -0.9730324149131775,
  ]);
  assertEquals([...uniform(3, 0, 0, 1)], [
    0.5733975768089294,
    0.5883937478065491,
    0.7041337490081787,
  ]);
  const many = uniform(1e5, 7, -2, 2);
  assert(many.every((x) => x >= -2 && x <= 2));
  const mean = many.reduce((sum, x) => sum + x, 0) / many.length;
  assert(Math.abs(mean) < 0.02, `${mean}`);
});

test("rows have keys of their own, known groups, and what their calls need", () => {
  assertEquals(new Set(ROWS.map(keyOf)).size, ROWS.length);
  assertEquals([...new Set(ROWS.map(({ group }) => group))], [...GROUPS]);
  for (const row of ROWS) {
    for (const name of row.args) assert(name in row.inputs, `${keyOf(row)}: ${name}`);
    assertEquals(row.out === undefined, row.into === undefined, keyOf(row));
    for (const [peer, statement] of Object.entries(row.statements)) {
      assert((PEERS as readonly string[]).includes(peer), peer);
      if (row.out !== undefined) assert(/\bo\b/.test(statement), `${keyOf(row)}: ${statement}`);
    }
  }
});

test("eager code that writes to out gives the results of the program", () => {
  for (const row of ROWS.filter(({ into }) => into !== undefined)) {
    scope(() => {
      const x: Tensors = Object.fromEntries(
        Object.entries(row.inputs).map(([name, { shape, low, high }], i) => {
          const size = shape.reduce((product, n) => product * n, 1);
          return [name, fromBuffer(uniform(size, i, low, high)).reshape(shape) as AnyTensor];
        }),
      );
      const expected = row.program(x)(...row.args.map((name) => x[name]!));
      const { shape, dtype } = row.out!;
      assertEquals(expected.dtype, dtype, keyOf(row));
      const out = zeros(shape, { dtype }) as AnyTensor;
      row.into!(x, out);
      const numbers = (y: AnyTensor) => y.astype("float32").toTypedArray();
      assertEquals(disagreement(numbers(out), numbers(expected)), undefined, keyOf(row));
    });
  }
});

test("results disagree by length, by more than the tolerance, and by NaN", () => {
  const floats = (...numbers: number[]) => new Float32Array(numbers);
  assertEquals(disagreement(floats(1, 2), floats(1, 2)), undefined);
  assertEquals(disagreement(floats(1), floats(1, 2)), "1 elements instead of 2");
  assertEquals(disagreement(floats(1, 1 + TOLERANCE), floats(1, 1)), undefined);
  assertEquals(disagreement(floats(1, 1.5), floats(1, 1)), "1.5 instead of 1 at 1");
  assertEquals(disagreement(floats(1, NaN), floats(1, 1)), "NaN instead of 1 at 1");
  // Near 0 the error counts relative to the mean size of the numbers.
  assertEquals(disagreement(floats(100, 1e-3), floats(100, 0)), undefined);
  assertEquals(disagreement(floats(), floats()), undefined);
});

const linear = ROWS.find(({ group }) => group === "linear")!;
const small: Row = ROWS.find(({ ops }) => ops !== undefined)!;

test("a row has medians, and ratios to each peer by rounds", () => {
  const summary = summarize({
    row: linear,
    threads: 2,
    ns: { "PyTorch": [10, 20, 30], "ONNX Runtime": [5, 5, 5], "Deno eager": [20, 20, 90] },
    least: { "PyTorch": [10, 9, 8], "ONNX Runtime": [4, 5, 5], "Deno eager": [20, 12, 70] },
  });
  assertEquals(summary, {
    row: keyOf(linear),
    threads: 2,
    ns: { "PyTorch": 20, "ONNX Runtime": 5, "Deno eager": 20 },
    least: { "PyTorch": 8, "ONNX Runtime": 4, "Deno eager": 12 },
    ratios: { "Deno eager": { "PyTorch": 2, "ONNX Runtime": 4 } },
  });
  assertEquals(byLeast(summary).ns, summary.least);
  assertEquals(byLeast(summary).ratios, { "Deno eager": { "PyTorch": 1.5, "ONNX Runtime": 3 } });
  const times = { Bun: [100, 200, 300] };
  const perOp = summarize({ row: small, threads: 1, ns: times, least: times });
  assertEquals(perOp.ns, { Bun: 200 / small.ops! });
  assertEquals(perOp.least, { Bun: 100 / small.ops! });
});

test("a timer has the median of p99 and the largest maximum", () => {
  assertEquals(quantile([4, 1, 3, 2], 0.5), 2);
  assertEquals(quantile(Array.from({ length: 200 }, (_, i) => 199 - i), 0.99), 197);
  assertEquals(quantile([7], 0.99), 7);
  assertEquals(
    summarizeTimer([
      { p99: 1, max: 5, ticks: 10, gflops: 100 },
      { p99: 3, max: 9, ticks: 30, gflops: 300 },
      { p99: 2, max: 6, ticks: 20, gflops: 200 },
    ]),
    { p99: 2, max: 9, ticks: 20, gflops: 200 },
  );
  assertEquals(summarizeTimer([{ p99: 1, max: 5, ticks: 10 }]), { p99: 1, max: 5, ticks: 10 });
});

test("a run is tables of ratios to the fastest peer and of means for each peer", () => {
  const timing = (row: Row, threads: number, deno: number) => {
    const ns = { "PyTorch": [1000], "ONNX Runtime": [500], "Deno eager": [deno], "Deno": [250] };
    return summarize({ row, threads, ns, least: ns });
  };
  const [first, second] = ROWS.filter(({ group }) => group === "linear");
  const results: Results = {
    date: "2026-01-02",
    machine: "a machine",
    mode: "deno task bench:programs",
    rounds: 1,
    load: [0],
    versions: { "PyTorch": "PyTorch 1" },
    rows: [timing(first!, 1, 1000), timing(second!, 1, 4000), timing(first!, 2, 500)],
    timer: [{ runtime: "Deno", threads: 1, work: "idle", p99: 0.125, max: 1.5, ticks: 9 }],
  };
  const text = toMarkdown(results);
  const cells = text.split("\n").map((line) =>
    line.split("|").slice(1, -1).map((cell) => cell.trim()).join(" | ")
  );
  for (
    const line of [
      "geometric means | Deno eager | Deno",
      "linear, 1 thread: PyTorch | 2.00× | 0.25×",
      "linear, 1 thread: ONNX Runtime | 4.00× | 0.50×",
      "linear, 2 threads: PyTorch | 0.50× | 0.25×",
      "ns per call | PyTorch | ONNX Runtime | Deno eager | ratio | Deno | ratio",
      `${second!.name} | 1000 | 500 | 4000 | 8.00× | 250 | 0.50×`,
      "Deno, idle | 0.125 | 1.5 | ",
    ]
  ) {
    assert(cells.includes(line), `${line}\n${text}`);
  }
  assert(!text.includes("NumPy") && !text.includes("Bun"), text);
  assertEquals(JSON.parse(toJson(results)), results);
  // Without peers, there are times alone.
  const alone = summarize({ row: first!, threads: 1, ns: { "Deno eager": [1000] }, least: {} });
  const short = toMarkdown({ ...results, rows: [alone], timer: [] });
  assert(!short.includes("ratio") && !short.includes("×"), short);
});
