/**
 * The C side says what the TypeScript side says: shim/ops.def is what its generator prints, and
 * rowmajor.h declares the symbols and codes of the symbol table. Needs neither zig nor the library.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { makeOpsDef, readOpsDef } from "../scripts/gen_ops_def.ts";
import { type ForeignSymbol, STATUS, SYMBOLS, VERSION } from "../src/backends/native/abi.ts";

const header = readFileSync(new URL("../shim/rowmajor.h", import.meta.url), "utf8")
  .replace(/\/\*[\s\S]*?\*\//g, "");

test("shim/ops.def is what scripts/gen_ops_def.ts prints", () => {
  assertEquals(readOpsDef(), makeOpsDef());
});

test("ops.def holds the lines of the walking ops and no calls", () => {
  const text = readOpsDef();
  for (const line of ["copy, 1, same, x)", "add, 2, same, (x + y))"]) {
    assert(new RegExp(`^RM_FLOAT_MAP\\(\\d+, ${RegExp.escape(line)}$`, "m").test(text), line);
    assert(new RegExp(`^RM_INT_MAP\\(\\d+, ${RegExp.escape(line)}$`, "m").test(text), line);
  }
  assert(/^RM_FLOAT_REDUCE\(\d+, sum, 1, 0, 1, x, \(a \+ x\), a, \)$/m.test(text));
  const lines = text.split("\n").filter((line) => line.startsWith("RM_"));
  for (const line of lines) assert(!/\w\(/.test(line.slice(line.indexOf("(") + 1)), line);
});

test("the header declares the symbols of the table, and no others", () => {
  const declared = [...header.matchAll(/^RM_API ([^;]+);/gm)]
    .map(([, text]) => text!.replace(/\s+/g, " "));
  const table: string[] = Object.values(SYMBOLS).map(({ c }) => c);
  assertEquals(declared, table);
});

test("each symbol's parameters are those of its declaration", () => {
  for (const [name, { c, parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    const [, found, list] = /^int32_t (\w+)\((.*)\)$/.exec(c)!;
    assertEquals(found, name);
    const types = list === "void" ? [] : list!.split(", ").map((text) => {
      if (/^(const )?(void|double) \*\w+$/.test(text)) return "buffer";
      assert(/^int32_t \w+$/.test(text), `${name}: no foreign type for ${text}`);
      return "i32";
    });
    assertEquals(parameters, types, name);
  }
});

test("the header has the version and the status codes", () => {
  assertEquals(Number(/#define RM_VERSION (\d+)/.exec(header)![1]), VERSION);
  const codes = [...header.matchAll(/\b(RM_[A-Z_]+) = (\d+)/g)]
    .map(([, name, value]) => [name!.slice(3).replace("_", "").toLowerCase(), Number(value)]);
  const table = Object.entries(STATUS)
    .filter(([name]) => name !== "bounds")
    .map(([name, value]) => [name.toLowerCase(), value]);
  assertEquals(codes, table);
});
