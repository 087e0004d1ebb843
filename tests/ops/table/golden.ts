/**
 * NumPy's results, from golden/ops.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { DTYPE, type DType } from "../../../src/base/dtype.ts";
import { readElement } from "../../../src/memory/element.ts";
import type { TableOp } from "../../../src/table/op.ts";
import { wrapExternal } from "../../../src/memory/pool.ts";
import { type Num, often } from "./operands.ts";

/** A fold of one array. */
export interface FoldCase {
  /** The input, by its name. */
  readonly x: string;
  readonly shape: number[];
  readonly axis: number | number[] | null;
  /** The second operand of ops with two. */
  readonly y?: { readonly dtype: DType; readonly shape: number[]; readonly data: string };
  readonly expected?: string;
  /** True if NumPy rejects it. */
  readonly refused?: boolean;
}

/** The results of an op for one dtype. */
export interface Entry {
  readonly numpy: string;
  readonly result: DType;
  readonly attributes?: Record<string, number>;
  /** True if zeros may have either sign. */
  readonly eitherZero?: boolean;
  /** True if errors count in units of the largest operand. */
  readonly cancels?: boolean;
  /** For maps: the inputs, by their name, and the result. */
  readonly inputs: string;
  readonly expected: string;
  /** For reductions and scans. */
  readonly cases: FoldCase[];
}

/** One file of golden data. */
export interface Golden {
  readonly inputs: Record<string, string[]>;
  readonly rows: Record<string, Entry>;
  readonly casts: { readonly x: string; readonly to: Record<DType, string> };
  /** For the 16-bit floats: SHA-256 of all values as float32, with one NaN. */
  readonly patterns?: string;
}

const ADVICE =
  "run: node_modules/.bin/deno run scripts/golden/table_json.ts | .venv/bin/python scripts/golden/ops.py";

const files = new Map<DType, Golden>();

/** The golden data of `dtype`. */
export function golden(dtype: DType): Golden {
  let file = files.get(dtype);
  if (file === undefined) {
    const url = new URL(`../../golden/ops/${dtype}.json`, import.meta.url);
    let text: string;
    try {
      text = readFileSync(url, "utf8");
    } catch {
      throw new Error(`There is no golden data for ${dtype}; ${ADVICE}`);
    }
    files.set(dtype, file = JSON.parse(text) as Golden);
  }
  return file;
}

/** NumPy's results of `row` for `dtype`. Throws if the golden data lacks it or is older. */
export function goldenEntry(row: TableOp, dtype: DType): Entry {
  const entry = golden(dtype).rows[row.name];
  if (entry === undefined) {
    throw new Error(`There is no golden data for row ${row.name}, ${dtype}; ${ADVICE}`);
  }
  if (entry.numpy !== row.numpy) {
    throw new Error(
      `The golden data of row ${row.name}, ${dtype}, is for ${entry.numpy}; ${ADVICE}`,
    );
  }
  return entry;
}

/** The values of the op's parameters in the golden data, for reductions of `count` elements. */
export function parametersOf(op: TableOp, dtype: DType, count = 0): number[] {
  if (op.parameters.length === 0) return [];
  const values: Record<string, number> = { count, ...goldenEntry(op, dtype).attributes };
  return op.parameters.map((name) => {
    if (values[name] === undefined) {
      throw new Error(`No value for the parameter ${name} of op ${op.name}; ${ADVICE}`);
    }
    return values[name];
  });
}

/** The op's attributes in the golden data; dispatch knows the count itself. */
export function attributesOf(op: TableOp, dtype: DType): Record<string, number> | undefined {
  const values = parametersOf(op, dtype);
  const all = op.parameters.map((name, i) => [name, values[i]!] as const);
  const given = all.filter(([name]) => name !== "count");
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

/** The arrays of an op, which each backend needs. */
const decoded = new Map<DType, Map<string, readonly Num[]>>();

/** The elements of an encoded array. */
export function decode(dtype: DType, text: string): readonly Num[] {
  let own = decoded.get(dtype);
  if (own === undefined) decoded.set(dtype, own = new Map());
  let values = own.get(text);
  if (values === undefined) own.set(text, values = often(decodeOnce(dtype, text)));
  return values;
}

/** Drops the decoded arrays. */
export function forgetGolden(): void {
  decoded.clear();
}

function decodeOnce(dtype: DType, text: string): Num[] {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const storage = wrapExternal(dtype, new DTYPE[dtype].array(bytes.buffer));
  return Array.from({ length: storage.array.length }, (_, i) => readElement(storage, i));
}
