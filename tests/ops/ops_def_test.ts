/**
 * The C side agrees with the TypeScript side: shim/core/ops.def is the output of its generator, and
 * rowmajor.h declares the symbols and codes of the symbol table. Needs neither zig nor the library.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { makeConstants, makeOpsDef, makeTableOps } from "../../scripts/generate/ops_def.ts";
import { readText } from "../../scripts/tools.ts";
import type { MapOp } from "../../src/table/op.ts";
import { MAP, TABLE } from "../../src/table/table.ts";
import * as abi from "../../src/backend/ffi/abi.ts";
import {
  abiHash,
  type ForeignSymbol,
  opHash,
  PLACES,
  STATUS,
  SYMBOLS,
  VERSION,
} from "../../src/backend/ffi/abi.ts";
import { DTYPE, NO_DTYPE } from "../../src/base/dtype.ts";
import { OFFSETS } from "../../src/base/plan.ts";

const opsDef = readText("shim/core/ops.def");
const header = readText("shim/include/rowmajor.h").replace(/\/\*[\s\S]*?\*\//g, "");

test("shim/core/ops.def is what scripts/generate/ops_def.ts prints", () => {
  assertEquals(opsDef, makeOpsDef());
});

test("ops.def holds every elementwise row, for each kind of dtype that it computes in", () => {
  for (
    const text of [
      "RM_FLOAT_MAP(add, 2, same, (x + y),)",
      "RM_BITS_MAP(add, 2, same, (x + y),)",
      "RM_INT_MAP(less, 2, flag, (x < y),)",
      "RM_BOOL_MAP(where, 3c, same, ((x != 0) ? y : z),)",
      "RM_ROUND_MAP(floor, 1, same, RM_CALL(floor)(x),)",
      "RM_COMPUTE_BOUND_MAP(exp, 1, same, RM_CALL(exp)(x),)",
      "RM_SPECIAL_MAP(erfc, 1, same, RM_CALL(erfc)(x),)",
    ]
  ) assert(opsDef.includes(text), text);
  for (const row of Object.values<MapOp>(MAP)) {
    const line = opsDef.split("\n").find((line) => line.startsWith(`RM_OP(${row.name}, `))!;
    const kinds: Record<string, boolean> = {
      f: row.dtypes.includes("f"),
      i: row.dtypes.includes("i") && row.result !== "float",
      b: row.dtypes.includes("b") && row.result !== "float",
    };
    const macros: Record<string, RegExp> = {
      f: / RM_(FLOAT|ROUND|SPECIAL|COMPUTE_BOUND|DOUBLE)_MAP\((\w+), /g,
      i: / RM_(INT|BITS)_MAP\((\w+), /g,
      b: / RM_BOOL(_MAP)\((\w+), /g,
    };
    for (const [kind, expected] of Object.entries(kinds)) {
      const names = [...line.matchAll(macros[kind]!)].map(([, , name]) => name);
      assertEquals(names, expected ? [row.name] : [], `${row.name}, ${kind}`);
    }
  }
});

test("an op is one line of ops.def, with the hash by which its kernel is found", () => {
  const ops = [...opsDef.matchAll(/^RM_OP\((\w+), 0x([0-9a-f]{8})u, (map|reduce)\)/gm)]
    .map(([, name, hash]) => [name, parseInt(hash!, 16)]);
  assertEquals(ops, Object.values(TABLE).map((op) => [op.name, opHash(op) >>> 0]));
});

test("rows that round more than once but promise exact results compute float32 in double", () => {
  const doubles = opsDef.matchAll(/ RM_DOUBLE_MAP\((\w+)/g);
  assertEquals([...doubles].map(([, name]) => name), ["isclose", "lerp", "addcmul", "addcdiv"]);
});

test("the header declares the symbols of the table, and no others", () => {
  const declared = [...header.matchAll(/^RM_API ([^;]+);/gm)]
    .map(([, text]) => text!.replace(/\s+/g, " "));
  const table: string[] = Object.values(SYMBOLS).map(({ c }) => c);
  // Node-API calls one by itself.
  const module = "void *napi_register_module_v1(void *env, void *exports)";
  assertEquals(declared.filter((c) => c !== module), table);
  assert(declared.includes(module));
});

test("each symbol's parameters are those of its declaration", () => {
  for (const [name, { c, parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    const [, found, list] = /^int32_t (\w+)\((.*)\)$/.exec(c)!;
    assertEquals(found, name);
    const types = list === "void" ? [] : list!.split(", ").map((text) => {
      if (/^(const )?(void|double|int32_t) \*\w+$/.test(text)) return "buffer";
      if (/^double \w+$/.test(text)) return "f64";
      assert(/^int32_t \w+$/.test(text), `${name}: no foreign type for ${text}`);
      return "i32";
    });
    assertEquals(parameters, types, name);
  }
});

test("src/types/table_ops.ts is what scripts/generate/ops_def.ts prints", () => {
  assertEquals(readText("src/types/table_ops.ts"), makeTableOps());
});

test("shim/include/abi_constants.h is what scripts/generate/ops_def.ts prints", () => {
  assertEquals(readText("shim/include/abi_constants.h"), makeConstants());
});

test("a library with other places of numbers has another hash, and is refused", () => {
  for (const [name, table] of Object.entries(abi)) {
    if (name.endsWith("_AT")) assert(PLACES.some((one) => one === table), name);
  }
  for (const [i, place] of PLACES.entries()) {
    for (const key of Object.keys(place)) {
      const moved = PLACES.with(i, { ...place, [key]: place[key]! + 1 });
      assert(abiHash(moved) !== abiHash(), key);
    }
    assert(abiHash(PLACES.with(i, { ...place, window: 99 })) !== abiHash());
  }
});

test("the header's constants are all of the symbol table's, and each has one value", () => {
  const text = readText("shim/include/abi_constants.h");
  assertEquals(Number(/#define RM_VERSION (\d+)/.exec(text)![1]), VERSION);
  const constants = [...text.matchAll(/^ {2}(RM_\w+) = (\d+)/gm)]
    .map(([, name, value]) => [name!, Number(value)] as const);
  const values = new Map(constants);
  assertEquals(values.size, constants.length);
  assertEquals(values.get("RM_OUT_OF_MEMORY"), STATUS.outOfMemory);
  assertEquals(values.get("RM_OFFSETS"), OFFSETS);
  assertEquals(values.get("RM_FLOAT64"), DTYPE.float64.id);
  assertEquals(values.get("RM_NONE"), NO_DTYPE);
  // The documentation of the function or the kernel explains them.
  const said = readText("shim/include/rowmajor.h") + readText("shim/core/kernels.def");
  for (const [name] of constants) {
    if (!/^RM_(CONFIGURE|RANDOM|BUFFERS|CUDA)_/.test(name)) continue;
    assert(new RegExp(`\\b${name}\\b`).test(said), name);
  }
});
