/** The parts of the bench that need no peers: inputs, rows, turns, ratios, tables, pages. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { test } from "node:test";
import { linalg, scope, zeros } from "../../mod.ts";
import { drop, make } from "../../bench/harness/inputs.ts";
import { environment } from "../../bench/harness/line_process.ts";
import { fileOf } from "../../bench/harness/pages.ts";
import { findPython, pinned } from "../../bench/harness/python.ts";
import {
  compares,
  linesOf,
  missesOf,
  type Results,
  summarize,
  toJson,
} from "../../bench/harness/results.ts";
import { disagreement, measureRows, TOLERANCE } from "../../bench/harness/runner.ts";
import { mayHold } from "../../bench/harness/served.ts";
import {
  type AnyTensor,
  type Figure,
  type Input,
  keyOf,
  PYTHON_PEERS,
  quantile,
  type Row,
  type RunOptions,
  type ServedRow,
  type Side,
  type Suite,
  type Tensors,
  uniform,
} from "../../bench/harness/suite.ts";
import { about, longTables, shortTable, toMarkdown, wrap } from "../../bench/harness/tables.ts";
import { loadSuite, SUITES } from "../../bench/suites/mod.ts";
import { PROGRAMS } from "../../bench/suites/programs.ts";

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

test("inputs are of the kind, the dtype and the shape that a row names", () => {
  const made = (input: Input): number[] => {
    const x = make(input, 0);
    assertEquals([x.dtype as string, x.shape as readonly number[]], [input.dtype, input.shape]);
    return Array.from(x.astype("float64").flatten().toTypedArray() as Float64Array);
  };
  const shape = [200];
  assert(made({ dtype: "float32", shape }).some((x) => x < 0));
  assert(made({ dtype: "float32", shape, kind: "positive" }).every((x) => x >= 0));
  assert(made({ dtype: "int16", shape }).every((x) => x >= 1 && x <= 100));
  assertEquals(new Set(made({ dtype: "bool", shape })), new Set([0, 1]));
  const below = made({ dtype: "int32", shape, kind: "integers", low: 0, high: 7 });
  assert(below.every((x) => x >= 0 && x < 7) && below.includes(0) && below.includes(6));
  const sorted = made({ dtype: "float64", shape, kind: "sorted" });
  assertEquals(sorted, sorted.toSorted((a, b) => a - b));
  assert(made({ dtype: "int16", shape, kind: "scaled" }).some((x) => Math.abs(x) > 1000));
  assertEquals(new Set(made({ dtype: "float32", shape, kind: "ones" })), new Set([1]));
  for (const dtype of ["float32", "float64", "complex128"]) {
    // Throws for a matrix that is not definite.
    // deno-lint-ignore no-explicit-any
    drop(linalg.cholesky(make({ dtype, shape: [2, 5, 5], kind: "definite" }, 0) as any));
  }
});

test("rows of all suites have keys of their own, known groups, and statements of known peers", async () => {
  for (const name of SUITES) {
    const suite = await loadSuite(name);
    assertEquals(new Set(suite.rows.map(keyOf)).size, suite.rows.length, name);
    const groups = new Set(suite.rows.map(({ group }) => group));
    assertEquals(groups, new Set(Object.keys(suite.groups)), name);
    for (const group of groups) assert(!group.includes("/"), `${name}: ${group}`);
    if (suite.whole) continue;
    for (const row of suite.rows as readonly ServedRow[]) {
      for (const [peer, statement] of Object.entries(row.statements)) {
        assert((suite.python as readonly string[]).includes(peer), `${name}: ${peer}`);
        assert((PYTHON_PEERS as readonly string[]).includes(peer), peer);
        if (row.out !== undefined) assert(/\bo\b/.test(statement), `${keyOf(row)}: ${statement}`);
      }
    }
  }
});

test("eager code that writes to out gives the results of the program", () => {
  for (const program of PROGRAMS) {
    for (const name of program.args) assert(name in program.inputs, `${keyOf(program)}: ${name}`);
    assertEquals(program.out === undefined, program.into === undefined, keyOf(program));
  }
  for (const program of PROGRAMS.filter(({ into }) => into !== undefined)) {
    scope(() => {
      const x: Tensors = Object.fromEntries(
        Object.entries(program.inputs).map(([name, input], i) => [name, make(input, i)]),
      );
      const expected = program.program(x)(...program.args.map((name) => x[name]!));
      const { shape, dtype } = program.out!;
      assertEquals(expected.dtype, dtype, keyOf(program));
      const out = zeros(shape, { dtype }) as AnyTensor;
      program.into!(x, out);
      const numbers = (y: AnyTensor) => y.astype("float32").toTypedArray();
      assertEquals(disagreement(numbers(out), numbers(expected)), undefined, keyOf(program));
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

test("quantiles are the largest of the smallest part", () => {
  assertEquals(quantile([4, 1, 3, 2], 0.5), 2);
  assertEquals(quantile(Array.from({ length: 200 }, (_, i) => 199 - i), 0.99), 197);
  assertEquals(quantile([7], 0.99), 7);
});

// ---- runs --------------------------------------------------------------------------------------

const SUITE: Suite = {
  title: "A suite",
  groups: { small: "small calls", large: "large calls" },
  rows: [],
  ...{ rounds: 2, ms: 1 },
  beside: "fastest",
  lines: "group",
  overall: ["small", "large"],
  goal: (row) => row === "small/a" ? { ratio: 1.3 } : { ratio: 0.1, beside: "PyTorch" },
  meanGoal: (group) => group === "overall" ? 0.8 : undefined,
};

const A: Row = { group: "small", name: "a" };
const B: Row = { group: "large", name: "b", per: { unit: "element", count: 10 } };
const C: Row = { group: "large", name: "c", unit: "bytes" };

/** A side that gives the figures of a list, one after the other, and logs its turns. */
function side(
  name: string,
  more: Partial<Side> & { readonly log?: string[]; readonly result?: number },
  walls: readonly number[] = [],
): Side {
  const left = walls.slice();
  const { log = [], result, ...rest } = more;
  return {
    ...{ name, peer: true, version: `${name} 1` },
    has: () => true,
    prepare: () => Promise.resolve(result === undefined ? undefined : new Float32Array([result])),
    measure: ([row]) => {
      log.push(`${name} ${row!.name}`);
      return Promise.resolve({ figures: { [row!.name]: { wall: left.shift() ?? 1 } } });
    },
    close: () => Promise.resolve(),
    ...rest,
  };
}

const effort = (failures: string[] = []) => ({
  ...{ threads: 1, rounds: 3, progress: () => {} },
  fail: (message: string) => void failures.push(message),
});

test("sides take turns by rows and rounds, and each round starts with another side", async () => {
  const log: string[] = [];
  const sides = [side("x", { log }), side("y", { log })];
  await measureRows(SUITE, [A, B], sides, effort());
  const turn = (row: string) =>
    ["x y", "y x", "x y"].map((round) => round.replaceAll(/\w/g, `$& ${row}`));
  assertEquals(log, [...turn("a"), ...turn("b")].join(" ").match(/\w \w/g));
});

test("a side that fails or disagrees has no figures, and the others go on", async () => {
  const failures: string[] = [];
  let left = 1;
  const breaks = side("breaks", {
    measure: () =>
      left-- > 0
        ? Promise.resolve({ figures: { a: { wall: 1 } } })
        : Promise.reject(new Error("broken")),
  });
  const sides = [
    side("first", { result: 1 }),
    side("wrong", { result: 2 }),
    side("unable", { prepare: () => Promise.reject(new Error("no such op")) }),
    side("lacking", { has: () => false }),
    breaks,
  ];
  const [timing] = await measureRows(SUITE, [A], sides, effort(failures));
  assertEquals(Object.keys(timing!.figures), ["first"]);
  assertEquals(timing!.figures.first!.length, 3);
  assertEquals(failures, [
    'wrong disagrees with first in "small/a": 2 instead of 1 at 0',
    'unable cannot do "small/a": no such op',
    'breaks cannot do "small/a": broken',
  ]);
});

test("a whole suite measures the rows of a group at once, and compares results", async () => {
  const failures: string[] = [];
  const whole = (name: string, result: readonly number[]) =>
    side(name, {
      measure: (rows) =>
        Promise.resolve({
          figures: Object.fromEntries(rows.map((row, i) => [row.name, { wall: i + 1 }])),
          result,
        }),
    });
  const suite = { ...SUITE, whole: true };
  const sides = [whole("x", [1, 2]), whole("y", [1, 3])];
  const timings = await measureRows(suite, [B, C], sides, effort(failures));
  assertEquals(timings.map(({ figures }) => figures.x!.map(({ wall }) => wall)), [
    [1, 1, 1],
    [2, 2, 2],
  ]);
  assertEquals(timings.map(({ figures }) => "y" in figures), [false, false]);
  assertEquals(failures, ['y cannot do "large": its result has 3 instead of 2 at 1']);
});

const SIDES = [
  { name: "NumPy", peer: true, version: "NumPy 2" },
  { name: "PyTorch", peer: true, version: "PyTorch 2" },
  { name: "Deno", peer: false, runtime: "Deno", version: "Deno 2", level: "AVX-512" },
  { name: "Bun before", peer: true, runtime: "Bun", version: "Bun 1" },
  { name: "Bun", peer: false, runtime: "Bun", version: "Bun 1", level: "AVX-512" },
] as const;

const wall = (...values: number[]): Figure[] => values.map((wall) => ({ wall }));
const both = (...values: [wall: number, cpu: number][]): Figure[] =>
  values.map(([wall, cpu]) => ({ wall, cpu, least: wall / 2 }));

test("a row has medians, and ratios of wall and processor time by rounds", () => {
  const row = summarize({
    row: B,
    threads: 2,
    figures: {
      "NumPy": both([100, 80], [200, 80], [300, 80]),
      "PyTorch": wall(50, 50, 50),
      "Deno": both([200, 40], [200, 40], [900, 40]),
      "Bun before": wall(10, 10, 10),
      "Bun": wall(30, 30, 30),
    },
  }, SIDES);
  assertEquals(row, {
    row: "large/b",
    threads: 2,
    per: "element",
    wall: [20, 5, 20, 1, 3],
    cpu: [8, null, 4, null, null],
    least: [5, null, 10, null, null],
    // Runtimes are not compared with each other.
    ratio: [[2, 4, null, null, null], [0.15, 0.6, null, 3, null]],
    cpuRatio: [[0.5, null, null, null, null], [null, null, null, null, null]],
  });
});

test("sides are compared with other libraries, and with the baseline of their runtime", () => {
  const eager = { name: "Deno eager", peer: false, runtime: "Deno", version: "" } as const;
  const [numpy, , deno, before, bun] = SIDES;
  assertEquals([numpy, eager, before].map((side) => compares(deno, side)), [true, false, false]);
  assertEquals([numpy, deno, before, bun].map((side) => compares(bun, side)), [
    ...[true, false],
    ...[true, false],
  ]);
});

const run = (timings: readonly [Row, number, Record<string, readonly Figure[]>][]): Results => ({
  ...{ suite: "primitives", date: "2026-01-02", commit: "abc", command: "deno task bench x" },
  machine: { processor: "a processor", cores: 2, system: "linux x64", instructions: "AVX-512" },
  ...{ backend: "native", rounds: 1, load: [0], missing: {} },
  sides: SIDES,
  rows: timings.map(([row, threads, figures]) => summarize({ row, threads, figures }, SIDES)),
});

const results = run([
  [A, 1, { NumPy: both([100, 50]), PyTorch: wall(400), Deno: both([200, 200]), Bun: wall(50) }],
  [B, 1, { PyTorch: wall(1000), Deno: wall(500), Bun: wall(250) }],
  [A, 2, { NumPy: both([100, 50]), Deno: both([100, 100]) }],
]);

test("a run is ratios to the fastest peer or to each, and the goals that it misses", () => {
  const lines = linesOf(results, SUITE);
  assertEquals(lines.map(({ name, ratios }) => [name, ratios]), [
    ["small", [[{ wall: 2, cpu: 4 }, { wall: 0.5 }], [{ wall: 1, cpu: 2 }, undefined]]],
    ["large", [[{ wall: 0.5 }, { wall: 0.25 }], [undefined, undefined]]],
    ["overall", [[{ wall: 1 }, { wall: Math.sqrt(0.125) }], [{ wall: 1, cpu: 2 }, undefined]]],
  ]);
  const each = linesOf(results, { ...SUITE, beside: "each" });
  assertEquals(each.slice(0, 3).map(({ name, beside, ratios }) => [name, beside, ratios[0]![0]]), [
    ["small", "NumPy", { wall: 2, cpu: 4 }],
    ["small", "PyTorch", { wall: 0.5 }],
    ["large", "PyTorch", { wall: 0.5 }],
  ]);
  assertEquals(
    missesOf(results, SUITE).map(({ row, threads, side, value }) =>
      `${row} ${threads} ${side} ${value}`
    ),
    [
      "small/a 1 Deno 2.00",
      "large/b 1 Deno 0.50",
      "large/b 1 Bun 0.25",
      "the mean of overall 1 Deno 1.00",
      "the mean of overall 2 Deno 1.00",
    ],
  );
  const nanoseconds = { ...SUITE, goal: () => ({ ns: 20 }) };
  assertEquals(missesOf(results, nanoseconds).filter(({ row }) => row.startsWith("large")), [
    { row: "large/b", threads: 1, side: "Deno", goal: "≤ 20 ns", value: "50 ns" },
    { row: "large/b", threads: 1, side: "Bun", goal: "≤ 20 ns", value: "25 ns" },
  ]);
});

test("all suites have the same tables: ratio, processor time after it, what they were run on", () => {
  const cellsOf = (text: string) =>
    text.split("\n").map((line) =>
      line.split("|").slice(1, -1).map((cell) => cell.trim()).join(" | ")
    );
  const short = cellsOf(toMarkdown(shortTable(results, SUITE)!));
  assertEquals(
    short[0],
    " | Deno, 1 thread | Bun, 1 thread | Deno, 2 threads | Bun, 2 threads | goal | largest ratio of a row",
  );
  assertEquals(short[2], "small calls | 2.00 · 4.00 | 0.50 | 1.00 · 2.00 | – |  | ");
  assertEquals(short[4], "overall | 1.00 | 0.35 | 1.00 · 2.00 | – | ≤ 0.8 | 2.00: a");
  const long = longTables(results, SUITE);
  assertEquals(long.map(({ title }) => title), [
    "small calls, 1 thread",
    "large calls, 1 thread",
    "small calls, 2 threads",
  ]);
  const cells = cellsOf(toMarkdown(long[1]!.table));
  assertEquals(cells[0], "ns per element | PyTorch | Deno, ratio · CPU | Bun, ratio · CPU | goal");
  assertEquals(cells[2], "b | 100 | 50.0, 0.50 | 25.0, 0.25 | ≤ 0.1 of PyTorch");
  const [line] = linesOf(results, { ...SUITE, lines: "row" });
  assertEquals(line!.name, "small: a");
  const rows = cellsOf(toMarkdown(shortTable(results, { ...SUITE, lines: "row" })!));
  assertEquals(rows[2]!.split(" | ").slice(0, 3), [
    "small: a",
    "200 ns, 2.00 · 4.00",
    "50.0 ns, 0.50",
  ]);
  assertEquals(JSON.parse(toJson(results)), results);
  // What a table names.
  const text = about(results);
  for (const part of ["a processor, 2 cores, AVX-512;", "2026-01-02, commit abc", "PyTorch 2"]) {
    assert(text.includes(part), text);
  }
  assertMatch(about({ ...results, level: "v3" }), /AVX-512, all held to AVX2;/);
  assertMatch(about({ ...results, backend: "js" }), /rowmajor in JavaScript/);
  assertMatch(about({ ...results, load: [0.2, 3] }), /load 3 per core/);
  const lines = wrap("word ".repeat(60).trim()).split("\n");
  assert(lines.length > 1 && lines.every((line) => line.length <= 100));
  // Without peers, there are times alone.
  const alone = run([[A, 1, { Deno: wall(1000) }]]);
  assertEquals(shortTable(alone, SUITE), undefined);
  assert(!toMarkdown(longTables(alone, SUITE)[0]!.table).includes("ratio"));
});

test("runs of a part, of JavaScript and of AVX2 do not replace the tables of a whole run", () => {
  assertEquals(fileOf(results, false), "bench/results/2026-01-02-primitives.json");
  assertEquals(fileOf(results, true), "bench/results/2026-01-02-primitives-part.json");
  assertEquals(
    fileOf({ ...results, level: "v3" }, false),
    "bench/results/2026-01-02-primitives-v3.json",
  );
  assertEquals(
    fileOf({ ...results, backend: "js" }, false),
    "bench/results/2026-01-02-primitives-js.json",
  );
});

test("modules that no Python imports are reported with what installs them", () => {
  const { missing } = findPython([], ["no_such_module_of_python"]);
  assertMatch(missing.get("no_such_module_of_python")!, /does not import .*--install/);
  assertEquals([...findPython([]).missing], []);
});

test("peers are pinned, held to AVX2 by switches of their own, or left out", () => {
  assertMatch(pinned("numpy"), /^numpy==\d/);
  const env = environment(2, "v3");
  assertEquals([env.ROWMAJOR_LEVEL, env.OPENBLAS_CORETYPE, env.OMP_NUM_THREADS], [
    "v3",
    "Haswell",
    "2",
  ]);
  assertEquals(environment(1).OPENBLAS_CORETYPE, undefined);
  const reasons: string[] = [];
  const options: RunOptions = {
    ...{ suite: "programs", threads: 1, ms: 1, runtimes: ["Deno"] },
    without: (peer, reason) => void reasons.push(`${peer}: ${reason}`),
  };
  assert(mayHold(options, "ONNX Runtime"));
  const held: RunOptions = { ...options, level: "v3" };
  assert(mayHold(held, "PyTorch") && !mayHold(held, "ONNX Runtime"));
  assertEquals(reasons, ["ONNX Runtime: it has no switch that holds it to AVX2"]);
  // A peer that is not wanted is not reported.
  assert(!mayHold({ ...held, peers: ["numpy"] }, "ONNX Runtime"));
  assert(mayHold({ ...held, peers: ["numpy"] }, "NumPy"));
  assertEquals(reasons.length, 1);
});
