/**
 * Indexing against NumPy: the cases of golden/indexing.json, made by scripts/golden/indexing.py.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { arange, type DType, Slice, type Tensor, tensor } from "../../mod.ts";
import { loose } from "../support.ts";

type Part =
  | ["int", number]
  | ["slice", number | null, number | null, number | null]
  | ["newaxis"]
  | ["dots"]
  | ["ints", number[], number[]]
  | ["mask", number[], boolean[]];

interface Case {
  shape: number[];
  order: number[];
  flips: number[];
  index: Part[];
  result?: number[];
  data?: number[];
  value?: number[] | null;
  after?: number[];
  added?: number[];
  error?: true;
}

const path = new URL("../golden/indexing.json", import.meta.url);
const cases: Case[] = JSON.parse(readFileSync(path, "utf8"));

/** The parts of an index as arguments, each in one of its equivalent forms. */
function toArguments(parts: Part[], form: number): unknown[] {
  return parts.map((part) => {
    switch (part[0]) {
      case "int":
        return form % 2 === 0 ? part[1] : String(part[1]);
      case "slice": {
        const [, start, stop, step] = part;
        if (form % 2 === 0) return new Slice(start, stop, step ?? 1);
        return [start, stop, step].map((bound) => bound ?? "").join(":");
      }
      case "newaxis":
        return form % 2 === 0 ? null : "None";
      case "dots":
        return "...";
      case "ints": {
        if (form === 2 && part[1].length === 1) return part[2];
        return tensor(part[2], { shape: part[1], dtype: form === 1 ? "int8" : "int64" });
      }
      case "mask":
        if (form === 2 && part[1].length === 1 && part[2].length > 0) return part[2];
        return tensor(part[2], { shape: part[1], dtype: "bool" });
    }
  });
}

function source({ shape, order, flips }: Case, dtype: DType): Tensor<DType> {
  const size = shape.reduce((a, b) => a * b, 1);
  const x = loose(arange(0, size, 1, { dtype }).reshape(shape as number[])).permute(...order);
  return flips.length === 0 ? x : x.flip(flips);
}

const FORMS: [number, DType][] = [[0, "float32"], [1, "int64"], [2, "int16"]];

test("Indexing as NumPy does it: reading by random indexes", () => {
  let count = 0;
  for (const one of cases) {
    if (one.data === undefined) continue;
    for (const [form, dtype] of FORMS) {
      const got = loose(source(one, dtype)).slice(...toArguments(one.index, form));
      assertEquals([...got.shape], one.result, JSON.stringify(one));
      assertEquals([...got.toTypedArray()].map(Number), one.data, JSON.stringify(one));
    }
    count++;
  }
  assert(count >= 100, `${count} cases`);
});

for (const accumulate of [false, true]) {
  const what = accumulate ? "adding" : "writing";
  test(`Indexing as NumPy does it: ${what} by random indexes`, () => {
    let count = 0;
    for (const one of cases) {
      const expected = accumulate ? one.added : one.after;
      if (expected === undefined) continue;
      for (const [form, dtype] of FORMS) {
        const x = source(one, dtype);
        const size = one.value?.reduce((a, b) => a * b, 1) ?? 1;
        const value = one.value === null
          ? 1000
          : arange(1000, 1000 + size, 1, { dtype }).reshape(one.value as number[]);
        const index = loose(toArguments(one.index, form));
        if (accumulate) x.set(index, loose(value), { accumulate });
        else x.set(index, loose(value));
        assertEquals([...loose(x).toTypedArray()].map(Number), expected, JSON.stringify(one));
      }
      count++;
    }
    assert(count >= 100, `${count} cases`);
  });
}

test("Indexing as NumPy does it: what it refuses is refused, and nothing is written", () => {
  let count = 0;
  for (const one of cases) {
    if (one.error !== true) continue;
    const x = source(one, "float32");
    const before = x.toTypedArray();
    for (const run of ["slice", "set"]) {
      const error = assertThrows(
        () => {
          const index = toArguments(one.index, 0);
          return run === "slice" ? loose(x).slice(...index) : x.set(loose(index), 7);
        },
        RangeError,
        undefined,
        JSON.stringify(one),
      );
      assert(["IndexError", "ShapeError"].includes(error.name), error.name);
    }
    assertEquals(x.toTypedArray(), before);
    count++;
  }
  assert(count >= 10, `${count} cases`);
});
