/**
 * The files of shim/ call each other in no circle.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { parse, type Parsed, readFolder } from "../../scripts/shim_source.ts";

/** The files that each file calls, and the functions. */
function callsOf(files: ReadonlyMap<string, Parsed>): Map<string, Map<string, string>> {
  const byName = new Map([...files.keys()].map((path) => [path.split("/").at(-1)!, path]));
  // A file sees its includes; a header, which may have no guard, also sees those of its includers.
  const including = (path: string): Set<string> => {
    const seen = new Set([path]);
    for (const of of seen) {
      for (const name of files.get(of)!.includes) {
        const target = byName.get(name);
        if (target !== undefined) seen.add(target);
      }
    }
    return seen;
  };
  const closures = new Map([...files.keys()].map((path) => [path, including(path)]));
  const calls = new Map<string, Map<string, string>>();
  for (const [path, { calls: called, functions }] of files) {
    const visible = new Set<string>();
    for (const closure of closures.values()) {
      if (closure.has(path)) { for (const other of closure) visible.add(other); }
    }
    const own = new Set(
      functions.filter(({ joined }) => joined === "none").map(({ name }) => name),
    );
    const targets = new Map<string, string>();
    for (const [other, { functions }] of files) {
      if (other === path) continue;
      for (const { name, joined, isStatic } of functions) {
        if (isStatic && !visible.has(other)) continue;
        const found = joined === "isa"
          ? called.has(`RM_FOR_ISA(${name})`)
          : joined === "none"
          ? called.has(name) && !own.has(name)
          : visible.has(other) &&
            !functionNamed(files.get(path)!, name) &&
            (called.has(`NAME(${name})`) ||
              [...called].some((word) => word.startsWith(`${name}_`) && isSuffix(word, name)));
        if (found) targets.set(other, name);
      }
    }
    calls.set(path, targets);
  }
  return calls;
}

function functionNamed({ functions }: Parsed, name: string): boolean {
  return functions.some((of) => of.joined === "suffix" && of.name === name);
}

const SUFFIX =
  /^_(b8|[iu](8|16|32|64)|b?f16|f(32|64)(_(sum|product))?|half|u?int(8|16|32|64)_t|float|double|8|16|32|64|[1248]|IDENTITY|ABS|SQUARE|SQUARED_DIFFERENCE)$/;

function isSuffix(word: string, name: string): boolean {
  return SUFFIX.test(word.slice(name.length));
}

/** Call cycles, each as the files along it. */
function circlesOf(calls: ReadonlyMap<string, ReadonlyMap<string, string>>): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: string[]): void => {
    if (way.includes(path)) {
      const circle = [...way.slice(way.indexOf(path)), path];
      const names = circle.slice(1).map((to, i) => `${calls.get(circle[i]!)!.get(to)} of ${to}`);
      circles.push(`${path} calls ${names.join(", which calls ")}`);
      return;
    }
    if (done.has(path)) return;
    for (const to of calls.get(path)?.keys() ?? []) visit(to, [...way, path]);
    done.add(path);
  };
  for (const path of calls.keys()) visit(path, []);
  return circles;
}

/** The call cycles of a set of files, given as path → text. */
function findFaults(files: ReadonlyMap<string, string>): string[] {
  return circlesOf(callsOf(new Map([...files].map(([path, text]) => [path, parse(text)]))));
}

test("files of shim/ call each other in no circle", () => {
  assertEquals(findFaults(readFolder("shim")), []);
});

function faultsOf(files: Record<string, string>): string[] {
  return findFaults(new Map(Object.entries(files)));
}

test("circles of calls are found, over headers, macros and tables too", () => {
  const f = (name: string, calls: string): string => `void ${name}(void) { ${calls}; }\n`;
  assertEquals(faultsOf({ "a.c": f("a", "b()"), "b.c": f("b", "c()"), "c.c": f("c", "0") }), []);
  assertEquals(faultsOf({ "a.c": f("a", "b()"), "b.c": f("b", "c()"), "c.c": f("c", "a()") }), [
    "a.c calls b of b.c, which calls c of c.c, which calls a of a.c",
  ]);
  // A static function belongs to one file, and a declaration calls nothing.
  assertEquals(faultsOf({ "a.c": `static ${f("x", "b()")}`, "b.c": f("b", "x()") }), []);
  assertEquals(faultsOf({ "a.c": `void b(void);\n${f("a", "0")}`, "b.c": f("b", "a()") }), []);
  // Functions in headers count for the header; the file that includes a header may define functions
  // that the header calls.
  const included = `#include "h.h"\n${f("a", "h()")}`;
  assertEquals(faultsOf({ "a.c": included, "h.h": `static ${f("h", "a()")}` }), [
    "a.c calls h of h.h, which calls a of a.c",
  ]);
  assertEquals(
    faultsOf({ "a.c": f("a", "M()"), "m.h": "#define M() b()\n", "b.c": f("b", "a()") }),
    [],
  );
  assertEquals(faultsOf({ "a.c": `#define M() b()\n${f("a", "M()")}`, "b.c": f("b", "a()") }), [
    "a.c calls b of b.c, which calls a of a.c",
  ]);
  const type = `static void NAME(sum)(int x) { help(x); }\n`;
  const user = `#include "t.h"\nstatic ${f("help", "0")}${f("a", "sum_f32(1)")}`;
  assertEquals(faultsOf({ "a.c": user, "t.h": type }), [
    "a.c calls sum of t.h, which calls help of a.c",
  ]);
  const isa = `void RM_FOR_ISA(sort)(int x) { run(x); }\n`;
  assertEquals(faultsOf({ "s.c": isa, "r.c": f("run", "RM_FOR_ISA(sort)(1)") }), [
    "s.c calls run of r.c, which calls sort of s.c",
  ]);
  const table = `static const fn table[] = {first, second};\n${f("a", "0")}`;
  assertEquals(faultsOf({ "a.c": table, "b.c": f("second", "a()") }), [
    "a.c calls second of b.c, which calls a of a.c",
  ]);
});
