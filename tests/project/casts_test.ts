/**
 * Unchecked casts of src/: their number does not grow, each one has its reason, and the script that
 * counts them, scripts/casts.ts, finds all forms.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type Cast, findCasts, table } from "../../scripts/casts.ts";
import { readFolder } from "../../scripts/shim_source.ts";

/** The most unchecked casts of src/. Commit bdf90c6e had 387. */
const MOST = 22;

function castsOf(...texts: string[]): Cast[] {
  return findCasts(new Map(texts.map((text, i) => [`src/${"abc"[i]}.ts`, text])));
}

/** The casts of sources, as `1 never`. */
function formsOf(...texts: string[]): string[] {
  return castsOf(...texts).map(({ line, form }) => `${line} ${form}`);
}

test("src/ has no more unchecked casts, each with its reason", { timeout: 120_000 }, () => {
  const files = readFolder("src");
  assert(files.has("src/core/dispatch.ts"), "src/ is not found");
  const casts = findCasts(files);
  const without = casts.filter(({ hasReason }) => !hasReason);
  assertEquals(without.map(({ path, line, form }) => `${path}:${line} ${form}`), []);
  assert(casts.length <= MOST, `${casts.length} casts, at most ${MOST}:\n${table(casts)}`);
  // The model is the example of typed shapes.
  assertEquals(casts.filter(({ path }) => path.startsWith("src/llm/")), []);
});

test("assertions to never and of assertions are found in all their forms", () => {
  assertEquals(formsOf("f(x as never);"), ["1 never"]);
  assertEquals(formsOf("f(<never> x);"), ["1 never"]);
  assertEquals(formsOf("f(x as never[], x as [never, 1], x as Box<never>);"), [
    "1 never",
    "1 never",
    "1 never",
  ]);
  assertEquals(formsOf("f(x as (message: string) => never);"), []);
  assertEquals(formsOf("type No = never;\nf(x as No);"), ["2 never"]);
  assertEquals(formsOf("f(x as unknown as T);"), ["1 double"]);
  assertEquals(formsOf("f((x as unknown)! as T);"), ["1 double"]);
  assertEquals(formsOf("f(<T> (<unknown> x));"), ["1 double"]);
  assertEquals(formsOf("f(x as object as {} as T);"), ["1 double"]);
  assertEquals(formsOf("f(x as\n  unknown as\n  T);"), ["1 double"]);
  assertEquals(formsOf("f(x as T, [1] as const, x satisfies T);"), []);
  assertEquals(formsOf('const a = "x as never", b = `as unknown as T`; // as never'), []);
});

test("any is found wherever it stands, and under other names", () => {
  assertEquals(formsOf("f(x as any);"), ["1 any"]);
  assertEquals(formsOf("let x: any;\nlet y: Map<string, any[]>;"), ["1 any", "2 any"]);
  assertEquals(formsOf("function f<T = any>(...xs: any[]): any {}"), ["1 any", "1 any", "1 any"]);
  assertEquals(formsOf("type Any = any;\nlet x: Any;\nf(y as Any);"), ["1 any", "2 any", "3 any"]);
  assertEquals(formsOf("type A = any;\ntype B = A;\nlet x: B;"), ["1 any", "2 any", "3 any"]);
  assertEquals(
    formsOf("export type Any = any;", 'import type { Any as X } from "./a.ts";\nlet x: X;'),
    ["1 any", "2 any"],
  );
  assertEquals(formsOf("const any = 1;\nf(any);"), []);
});

test("functions that hide a cast count at each call", () => {
  const calls = "cast(1);\ncast(2);";
  assertEquals(formsOf(`function cast<T>(x: unknown): T { return x as T; }\n${calls}`), [
    "2 helper",
    "3 helper",
  ]);
  assertEquals(formsOf(`const cast = <T>(x: unknown) => x as T;\n${calls}`), [
    "2 helper",
    "3 helper",
  ]);
  assertEquals(formsOf(`function cast<T>(): T { return made; }\n${calls}`), [
    "2 helper",
    "3 helper",
  ]);
  assertEquals(
    formsOf(`function cast<T>(x: unknown): T;\nfunction cast(x: number) { return x; }\n${calls}`),
    ["2 signature", "3 helper", "4 helper"],
  );
  assertEquals(formsOf(`function cast(x: unknown): x is T { return true; }\n${calls}`), [
    "2 helper",
    "3 helper",
  ]);
  assertEquals(formsOf(`function cast(x: unknown): asserts x is T {}\n${calls}`), [
    "2 helper",
    "3 helper",
  ]);
  assertEquals(
    formsOf(
      "export const cast = (x: unknown) => x as T;",
      'export { cast } from "./a.ts";',
      'import { cast as to } from "./b.ts";\nto(1);',
    ),
    ["2 helper"],
  );
  assertEquals(formsOf(`function cast<T>(x: T): T { return x; }\n${calls}`), []);
  assertEquals(formsOf(`function cast(x: unknown): x is T { return has(x); }\n${calls}`), []);
});

test("overloads that the compiler does not check, and its directives, are found", () => {
  const f = (signature: string): string => `function f(x: 1): 2;\nfunction f${signature} {}`;
  assertEquals(formsOf(f("(x: 1): unknown")), ["2 signature"]);
  assertEquals(formsOf(f("(x: 1)")), ["2 signature"]);
  assertEquals(formsOf(f("(...x: never[]): number")), ["2 signature"]);
  assertEquals(formsOf("function f(): never;\nfunction f(): T {}"), ["2 signature"]);
  assertEquals(formsOf(`class A {\n  f(x: 1): 2;\n  f(x: 1): object {}\n}`), ["3 signature"]);
  assertEquals(formsOf(f("(x: 1): number")), []);
  assertEquals(formsOf("function f(x: 1): unknown {}"), []);
  assertEquals(formsOf("// @ts-ignore\nf(1);"), ["1 directive"]);
  assertEquals(formsOf("/** // @ts-expect-error: in a documentation comment */"), []);
});

test("a reason is a comment at the cast, its statement, or the group that it is in", () => {
  const has = (text: string): boolean[] => castsOf(text).map(({ hasReason }) => hasReason);
  const reason = "// All of them are numbers.";
  assertEquals(has("f(x as never);"), [false]);
  assertEquals(has(`f(x as never); ${reason}`), [true]);
  assertEquals(has(`${reason}\nf(x as never);`), [true]);
  assertEquals(has(`${reason}\n// deno-lint-ignore no-explicit-any\nlet x: any;`), [true]);
  assertEquals(has(`${reason}\nf(\n  1,\n  x as never,\n);`), [true]);
  assertEquals(has(`f(\n  1,\n  ${reason}\n  x as never,\n);`), [true]);
  assertEquals(has(`${reason}\n\nf(x as never);`), [false]);
  assertEquals(has("// Why?\nf(x as never);"), [false]);
  assertEquals(has("// deno-lint-ignore no-explicit-any\nlet x: any;"), [false]);
  assertEquals(has("/** All of them are numbers. */\nlet x: any;"), [false]);
  assertEquals(has(`${reason}\nlet x: any;\nlet y: any;\n\nlet z: any;`), [true, true, false]);
  assertEquals(has(`${reason}\nlet x: any;\nlet y: number;\nlet z: any;`), [true, false]);
  assertEquals(
    has(`interface A {\n  ${reason}\n  /** X. */\n  x: any;\n  /** Y. */\n  y: any;\n}`),
    [
      true,
      true,
    ],
  );
  assertEquals(has(`${reason}\nfunction f() {\n  g();\n  h(x as never);\n}`), [false]);
  assertEquals(has("// @ts-ignore: the types of it lack a member"), [true]);
});
