/**
 * Mutation testing: the mutants of each operator on small sources, exclusions, stable keys and
 * samples, the report of a run on a small tree with gaps in its tests, the comparison of two reports,
 * and whether the hand-made faults still fit the sources.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import ts from "typescript";
import { FAULTS, SUBJECTS } from "../../scripts/mutate/fault_list.ts";
import { FILTERS, WITHOUT_NOTES } from "../../scripts/mutate/judges.ts";
import { compare, mutate, type Report, type Result } from "../../scripts/mutate/mutate.ts";
import {
  draw,
  type LeftOut,
  type Mutant,
  mutantsOf,
  sample,
} from "../../scripts/mutate/operators.ts";
import { isInEntry, opMutants } from "../../scripts/mutate/table.ts";
import { readText, root } from "../../scripts/tools.ts";
import type { MapOp } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";
import { runtimesOf } from "../plan.ts";

const options: ts.CompilerOptions = { target: ts.ScriptTarget.ESNext, strict: true, noLib: true };

function programOf(file: string, text: string): ts.Program {
  const host = ts.createCompilerHost(options);
  host.getSourceFile = (path, target) =>
    path === file ? ts.createSourceFile(path, text, target) : undefined;
  return ts.createProgram([file], options, host);
}

function made(text: string, file = "src/a.ts"): { mutants: Mutant[]; leftOut: LeftOut[] } {
  return mutantsOf(programOf(file, text), file, file);
}

/** The mutants of `text` by the operator called `operator`, as sources. */
function sources(operator: string, text: string, file?: string): string[] {
  return made(text, file).mutants
    .filter(({ place, key }) => key.startsWith(`${place} ${operator}: `))
    .map(({ from, to, by }) => text.slice(0, from) + by + text.slice(to));
}

/** The mutants of the expression `text` of numbers `a` and `b`. */
function expressions(operator: string, text: string): string[] {
  const [before, after] = ["const f = (a: number, b: number) => [", "];"];
  return sources(operator, before + text + after)
    .map((source) => source.slice(before.length, -after.length));
}

/** The mutants of the statements `text`. */
function statements(operator: string, text: string): string[] {
  const [before, after] = ["function f(a: number, b: boolean, g: (n: number) => void) { ", " }"];
  return sources(operator, before + text + after)
    .map((source) => source.slice(before.length, -after.length));
}

describe("operators", () => {
  it("comparison", () => {
    assertEquals(expressions("comparison", "a < b"), ["a <= b", "a < (b) - 1"]);
    assertEquals(expressions("comparison", "a <= b"), ["a < b", "a <= (b) + 1"]);
    assertEquals(expressions("comparison", "a > 2"), ["a >= 2", "a > (2) + 1"]);
    assertEquals(expressions("comparison", "a >= b"), ["a > b", "a >= (b) - 1"]);
    assertEquals(expressions("comparison", "a === b"), ["a !== b"]);
    assertEquals(expressions("comparison", "a !== b"), ["a === b"]);
    assertEquals(expressions("comparison", "'x' < 'y'"), ["'x' <= 'y'"]);
  });

  it("arithmetic", () => {
    assertEquals(expressions("arithmetic", "a + b"), ["(a - b)"]);
    assertEquals(expressions("arithmetic", "a - b"), ["(a + b)", "((b) - (a))"]);
    assertEquals(expressions("arithmetic", "a << b"), ["(a >> b)", "((b) << (a))"]);
    assertEquals(expressions("arithmetic", "a * b"), ["(a / b)"]);
    assertEquals(expressions("arithmetic", "a += b"), ["a -= b"]);
    assertEquals(expressions("arithmetic", "'x' + a"), []);
    assertEquals(statements("arithmetic", "for (let i = 0; i < a; i += 2) g(i);"), []);
  });

  it("sign", () => {
    assertEquals(expressions("sign", "-a, ~a, -1"), ["(a), ~a, -1", "-a, (a), -1"]);
  });

  it("logic", () => {
    const text = "a > 0 && b > 0";
    assertEquals(expressions("logic", text), ["(a > 0 || b > 0)", "(a > 0)", "(b > 0)"]);
    assertEquals(expressions("logic", "a ?? b"), ["(a)", "(b)"]);
  });

  it("condition", () => {
    assertEquals(statements("condition", "if (b) g(1);"), ["if (true) g(1);", "if (false) g(1);"]);
    assertEquals(expressions("condition", "a > b ? a : 1"), ["(a)", "(1)"]);
    assertEquals(expressions("condition", "!a"), ["(a)"]);
    assertEquals(statements("condition", "while (b) g(1);"), ["while (false) g(1);"]);
    assertEquals(statements("condition", "for (; b;) g(1);"), ["for (; false;) g(1);"]);
    assertEquals(statements("condition", "while (true) g(1);"), []);
  });

  it("literal", () => {
    assertEquals(expressions("literal", "2"), ["(2 + 1)", "(2 - 1)"]);
    assertEquals(expressions("literal", "3n"), ["(3n + 1n)", "(3n - 1n)"]);
    assertEquals(expressions("literal", "true, false"), ["false, false", "true, true"]);
    assertEquals(statements("literal", "for (let i = 0; i < a; i++) g(i);"), [
      "for (let i = (0 + 1); i < a; i++) g(i);",
    ]);
    // Of bounds, comparisons make these; 1e300 and one more are the same number.
    assertEquals(expressions("literal", "a < 2, 1e300, { 1: a }"), []);
  });

  it("drop", () => {
    assertEquals(statements("drop", "g(1); a = 2; throw a;"), [
      "; a = 2; throw a;",
      "g(1); ; throw a;",
      "g(1); a = 2; ;",
    ]);
    // The last return is not early, and an `if` without its statement is one that is false.
    assertEquals(statements("drop", "if (b) { return 1; } return 2;"), []);
    assertEquals(statements("drop", "if (b) { a = 1; return 1; } return 2;"), [
      "if (b) { ; return 1; } return 2;",
      "if (b) { a = 1; ; } return 2;",
    ]);
    assertEquals(statements("drop", "for (;;) { g(1); break; }"), [
      "for (;;) { ; break; }",
      "for (;;) { g(1); ; }",
    ]);
  });

  it("swap", () => {
    const text = "declare function h(...of: unknown[]): void; function f(a: number, s: string) {";
    const swapped = (call: string) =>
      sources("swap", `${text} ${call} }`).map((source) => source.slice(text.length + 1, -2));
    assertEquals(swapped("h(a, s, 1, 2)"), ["h(a, s, 2, 1)"]);
    assertEquals(swapped("h(a, 1)"), ["h(1, a)"]);
    assertEquals(swapped("Math.max(a, 1)"), []);
  });

  it("types, in src/types only", () => {
    const type = "type T<A> = A extends 1 ? [A, 2] : true;";
    assertEquals(sources("branch", type, "src/types/a.ts"), [
      "type T<A> = ([A, 2]);",
      "type T<A> = (true);",
    ]);
    assertEquals(sources("tuple", type, "src/types/a.ts"), [
      "type T<A> = A extends 1 ? [2] : true;",
      "type T<A> = A extends 1 ? [A] : true;",
      "type T<A> = A extends 1 ? [2, A] : true;",
    ]);
    assertEquals(sources("literal", type, "src/types/a.ts"), [
      "type T<A> = A extends 2 ? [A, 2] : true;",
      "type T<A> = A extends 1 ? [A, 3] : true;",
      "type T<A> = A extends 1 ? [A, 2] : false;",
    ]);
    const inferred = "type T<A> = A extends [infer H] ? H : never;";
    assertEquals(sources("branch", inferred, "src/types/a.ts"), ["type T<A> = (never);"]);
    assertEquals(made(type).mutants, []);
  });
});

describe("what is left alone", () => {
  it("imports, types, error messages and strings", () => {
    const text = `
      import { ShapeError, describe } from "./errors.ts";
      /** Has 1 element. */
      export interface A { readonly one: 1 }
      export function f(x: 0 | 1): string {
        const error = new ShapeError("Cannot " + describe(x === 1 ? 2 : 3));
        return "text" as never;
      }`;
    assertEquals(made(text).mutants, []);
    const thrown = made("function f(a: number) { throw g(a + 1); }").mutants;
    assertEquals(thrown.map(({ key }) => key), ["f drop: throw g(a + 1);"]);
  });

  it("what a comment leaves out, with its reason", () => {
    const text = `
      // mutate: skip, speed only
      const LIMIT = 16;
      function f(n: number) {
        // mutate: skip, both ways give the same
        if (n < LIMIT) n += 1;
        return n;
      }`;
    const { mutants, leftOut } = made(text);
    assertEquals(mutants.map(({ key }) => key), [
      "f arithmetic: n += 1 → n -= 1",
      "f literal: 1 → (1 + 1) in n += 1",
      "f literal: 1 → (1 - 1) in n += 1",
    ]);
    assertEquals(leftOut, [
      {
        file: "src/a.ts",
        place: "module",
        line: 3,
        text: "const LIMIT = 16;",
        reason: "speed only",
      },
      {
        file: "src/a.ts",
        place: "f",
        line: 6,
        text: "if (n < LIMIT) n += 1;",
        reason: "both ways give the same",
      },
    ]);
    assertThrows(() => made("\n// mutate: skip\nconst a = 1;"), Error, "needs a reason");
    assertThrows(() => made("const a = 1; // mutate: skip, why"), Error, "stand before code");
  });
});

describe("keys and samples", () => {
  const body = "{ return n > 0 && n + 1 < 9 ? n * 2 : n - 2; }";
  const source = `class C { get size() { return 1; } f(n: number) ${body} }
    function g(n: number) ${body}
    const table = { h: (n: number) => n + 1 };`;

  it("keys name the function, and no line", () => {
    const keys = made(source).mutants.map(({ key }) => key);
    assertEquals(new Set(keys).size, keys.length);
    assert(keys.includes("C.get size literal: 1 → (1 + 1) in return 1;"));
    assert(keys.includes("table.h arithmetic: n + 1 → (n - 1)"));
    assertEquals(
      made(`\n\nconst other = 5;\n${source}`).mutants.slice(2).map(({ key }) => key),
      keys,
    );
    // Duplicates are counted.
    assertEquals(
      made("function f() { g(); g(); }").mutants.map(({ key }) => key),
      ["f drop: g();", "f drop: g(); #2"],
    );
  });

  it("a sample takes as many of each function, and the same ones whatever is added", () => {
    const drawn = sample(made(source).mutants, 2);
    const places = drawn.map(({ place }) => place);
    assertEquals(places.length, 8);
    assertEquals(new Set(places.slice(0, 4)), new Set(["C.get size", "C.f", "g", "table.h"]));
    const more = sample(made(`function added(n: number) ${body}\n${source}`).mutants, 2);
    const names = (list: Mutant[]) => list.map(({ key }) => key).sort();
    assertEquals(names(more.filter(({ place }) => place !== "added")), names(drawn));
    assertEquals(sample([], 2), []);
  });

  it("a draw takes some of all, and others only in the place of later ones", () => {
    const names = (list: Mutant[]) => list.map(({ key }) => key);
    const all = names(draw(made(source).mutants, 1000));
    assertEquals([...all].sort(), names(made(source).mutants).sort());
    assertEquals(names(draw(made(source).mutants, 5)), all.slice(0, 5));
    const more = names(draw(made(`function added(n: number) ${body}\n${source}`).mutants, 1000));
    assertEquals(more.filter((key) => !key.startsWith("added ")), all);
  });
});

it("mutants of an op take the place of those of the tree", () => {
  const file = "src/table/table.ts";
  const text = 'export const MAP = { abs: map("abs", 1, -1) } as const satisfies object;\n';
  const program = programOf(file, text);
  const op: MapOp = MAP.abs;
  const mutants = opMutants([op], program.getSourceFile(file)!);
  assertEquals(mutants.map(({ key }) => key), [
    'abs op: expr "x"',
    'abs op: int "x"',
    'abs op: dtypes "ufc"',
    'abs op: dtypes "iufcb"',
  ]);
  assertEquals(mutants[0]!.by, '{ ...map("abs", 1, -1), expr: "x" } as never');
  const { mutants: tree } = mutantsOf(program, file, file);
  assert(tree.length > 0 && tree.every((mutant) => isInEntry(mutant, mutants)));
  assertThrows(() => opMutants([MAP.neg], program.getSourceFile(file)!), Error, "the op neg");
});

it("a run reports what no test notices", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-mutate-"));
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const run = (known: Record<string, string> = {}) =>
    mutate(folder, {
      files: [""],
      name: "",
      all: true,
      suite: "test",
      seconds: 300,
      jobs: 1,
      known: { "src/a.ts": known },
    });
  write(
    "src/a.ts",
    `export function add(a: number, b: number): number { return a + b; }
     export function least(a: number, b: number): number { return a < b ? a : b; }
     export function unused(a: number): number {
       return a + a;
     }`,
  );
  write(
    "tests/a_test.ts",
    `import { test } from "node:test";
     import { equal } from "node:assert/strict";
     import { add, least } from "../src/a.ts";
     test("add", () => equal(add(2, 2), 4));
     test("least", () => equal(least(1, 2) + least(2, 1), 2));`,
  );
  try {
    const { made, results, stale } = await run();
    assertEquals(made, results.length);
    assertEquals(stale, []);
    assertEquals(results.map(({ key, status, by }) => `${status} ${by}: ${key}`).sort(), [
      "caught a_test.ts: add arithmetic: a + b → (a - b)",
      "caught a_test.ts: least comparison: a < b → a < (b) - 1",
      "caught a_test.ts: least condition: a < b ? a : b → (a)",
      "caught a_test.ts: least condition: a < b ? a : b → (b)",
      "not reached : unused arithmetic: a + a → (a - a)",
      "survived : least comparison: a < b → a <= b",
    ]);
    const known = await run({
      "least comparison: a < b → a <= b": "equal numbers are the same",
      "least comparison: a > b → a >= b": "out of date",
    });
    assertEquals(known.stale, ["src/a.ts least comparison: a > b → a >= b"]);
    assertEquals(
      known.results.filter(({ status }) => status === "known").map(({ key }) => key),
      ["least comparison: a < b → a <= b"],
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("two reports are compared by the mutants that both judged", () => {
  const result = (key: string, status: Result["status"]): Result => ({
    ...{ file: "src/a.ts", key, line: 1, status, by: "a_test.ts", seconds: 1 },
  });
  const report = (suite: "test" | "all", results: Result[]): Report => ({
    ...{ suite, made: 9, sampled: 9, results, leftOut: [], stale: [], minutes: 1 },
  });
  const first = report("test", [
    result("a", "caught"),
    result("b", "timed out"),
    result("c", "survived"),
    result("d", "not reached"),
    result("e", "caught"),
  ]);
  const second = report("all", [
    result("d", "survived"),
    result("c", "caught"),
    result("b", "caught"),
    result("a", "caught"),
    result("f", "survived"),
  ]);
  const { judged, shares, onlyFirst, onlySecond } = compare(first, second);
  assertEquals([judged, ...shares], [4, 50, 75]);
  assertEquals([onlyFirst, onlySecond.map(({ key }) => key)], [[], ["c"]]);
});

it("the tests that judge mutants in a way of their own are there", () => {
  const files = [...Object.keys(FILTERS), ...Object.values(WITHOUT_NOTES)];
  assertEquals(files.filter((file) => !existsSync(join(root, file))), []);
});

describe("hand-made faults", () => {
  for (const { name, subject, file, from, to, tests, suite } of FAULTS) {
    it(`${subject}: ${name}`, () => {
      assertEquals(readText(file).split(from).length, 2, `${file}: the text is not there once`);
      assert(from !== to && tests.length > 0);
      for (const test of tests) {
        assert(existsSync(join(root, test.file)), test.file);
      }
      const runs = tests.some((test) => runtimesOf(test.file, suite).includes(test.runtime));
      assert(runs, `${suite} runs none of its tests`);
    });
  }

  it("there are several of each subject, with names of their own", () => {
    assertEquals(new Set(FAULTS.map(({ name }) => name)).size, FAULTS.length);
    for (const subject of SUBJECTS) {
      assert(FAULTS.filter((fault) => fault.subject === subject).length >= 5, subject);
    }
  });
});
