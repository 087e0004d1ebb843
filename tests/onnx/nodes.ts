/**
 * Node tests of ONNX: where their files are, how a case runs, and how results are compared, as onnx's
 * own runner does it.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { findPython, pinned } from "../../bench/harness/python.ts";
import { placeFolder, root } from "../../scripts/tools.ts";
import type { AnyTensor } from "../../src/tensor/tensor.ts";
import {
  open,
  readOptional,
  readSequence,
  readTensor,
  Strings,
  type Value,
} from "../../src/onnx/mod.ts";
import { BACKENDS, type Target } from "../ops/table/backends.ts";

/** The backends of these tests: the JavaScript one, and the best native one if there is one. */
export const TARGETS: readonly Target[] = [
  ...BACKENDS.filter(({ name }) => name === "generated loops"),
  ...BACKENDS.filter(({ name }) => name.startsWith("native")).slice(-1),
];

/** An input or output of a case. */
interface Slot {
  readonly name: string;
  readonly kind: "tensor" | "sequence" | "optional";
}

/** A case: a model, and values of its inputs and outputs. */
export interface Case {
  readonly name: string;
  readonly rtol: number;
  readonly atol: number;
  readonly ops: readonly string[];
  readonly inputs: readonly Slot[];
  readonly outputs: readonly Slot[];
}

/** The cases of a folder, or why there are none. */
export type Cases =
  | { readonly folder: string; readonly cases: readonly Case[] }
  | { readonly reason: string };

const READERS: Readonly<Record<Slot["kind"], (bytes: Uint8Array) => Promise<Value>>> = {
  tensor: readTensor,
  sequence: readSequence,
  optional: readOptional,
};

/** The relative error of bfloat16 that onnx's runner allows: two steps. */
const BFLOAT16_RTOL = 2 ** -6;

/**
 * Finds onnx's node tests: in the folder of `ROWMAJOR_ONNX_NODES`, or in tmp/, where Python writes them
 * if it imports the pinned version of onnx.
 */
export function findCases(): Cases {
  const version = pinned("onnx").split("==")[1]!;
  const given = process.env.ROWMAJOR_ONNX_NODES;
  const folder = given ?? join(root, "tmp", `onnx-nodes-${version}`);
  const index = join(folder, "cases.json");
  if (!existsSync(index)) {
    if (given !== undefined) return { reason: `${index} is not there` };
    const { path, missing } = findPython([], ["numpy", "onnx"]);
    const why = missing.values().next().value;
    if (path === undefined || why !== undefined) return { reason: why ?? "there is no python3" };
    const reason = writeCases(path, folder);
    if (reason !== undefined) return { reason };
  }
  const { onnx, cases } = JSON.parse(readFileSync(index, "utf8"));
  if (onnx !== version) return { reason: `${index} is of onnx ${onnx}, not ${version}` };
  return { folder, cases };
}

/** Writes the cases with a Python that imports onnx; returns why it cannot. */
function writeCases(python: string, folder: string): string | undefined {
  mkdirSync(join(root, "tmp"), { recursive: true });
  const work = mkdtempSync(join(root, "tmp", "onnx-nodes-"));
  const script = join(root, "scripts", "golden", "onnx_nodes.py");
  const { status, stderr } = spawnSync(python, [script, work], { encoding: "utf8" });
  if (status === 0) {
    placeFolder(work, folder);
    return undefined;
  }
  rmSync(work, { recursive: true });
  return `${python} ${script} exited with ${status}: ${stderr.trim().split("\n").at(-1)}`;
}

/** The files of a case of {@link findCases}, by their names. */
export function filesOf(folder: string, { name }: Case): ReadFile {
  return (file) => readFileSync(join(folder, name, file));
}

/** Gives a file of a case: model.onnx, input_0.pb, …, output_0.pb, … */
export type ReadFile = (file: string) => Uint8Array;

/** Runs a case; returns how its results differ, undefined if they do not. */
export async function runCase(one: Case, readFile: ReadFile): Promise<string | undefined> {
  const values = (side: "input" | "output"): Promise<Value[]> =>
    Promise.all(one[`${side}s`].map(({ kind }, i) => READERS[kind](readFile(`${side}_${i}.pb`))));
  try {
    using model = await open(readFile("model.onnx"));
    const given = await values("input");
    const found = model.run(Object.fromEntries(one.inputs.map(({ name }, i) => [name, given[i]])));
    const wanted = await values("output");
    for (const [i, { name }] of one.outputs.entries()) {
      const why = difference(found[name], wanted[i], one);
      if (why !== undefined) return `${name}: ${why}`;
    }
    return undefined;
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
}

/** What two results may differ by. */
interface Tolerance {
  readonly rtol: number;
  readonly atol: number;
}

/** How a value differs from the wanted one; undefined if it does not. */
export function difference(found: Value, wanted: Value, allowed: Tolerance): string | undefined {
  if (wanted == null || found == null) {
    return wanted == null && found == null ? undefined : `${found} for ${wanted}`;
  }
  if (isList(wanted)) {
    if (!isList(found)) return `a value for a list of ${wanted.length}`;
    if (found.length !== wanted.length) return `${found.length} values for ${wanted.length}`;
    for (const [i, value] of wanted.entries()) {
      const why = difference(found[i], value, allowed);
      if (why !== undefined) return `value ${i}: ${why}`;
    }
    return undefined;
  }
  if (isList(found)) return `a list of ${found.length} for a value`;
  if (String(found.shape) !== String(wanted.shape)) {
    return `shape [${found.shape}] for [${wanted.shape}]`;
  }
  if (wanted instanceof Strings || found instanceof Strings) {
    if (!(wanted instanceof Strings)) return `texts for ${wanted.dtype}`;
    if (!(found instanceof Strings)) return `${found.dtype} for texts`;
    const at = wanted.data.findIndex((text, i) => text !== found.data[i]);
    return at < 0 ? undefined : `"${found.data[at]}" for "${wanted.data[at]}" at ${at}`;
  }
  if (found.dtype !== wanted.dtype) return `${found.dtype} for ${wanted.dtype}`;
  const { atol } = allowed;
  const rtol = wanted.dtype === "bfloat16" ? Math.max(allowed.rtol, BFLOAT16_RTOL) : allowed.rtol;
  const [x, y] = [elements(found), elements(wanted)];
  for (let i = 0; i < y.length; i++) {
    if (!isClose(x[i]!, y[i]!, rtol, atol)) return `${x[i]} for ${y[i]} at ${i} of ${y.length}`;
  }
  return undefined;
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** The elements in row-major order. */
function elements(x: AnyTensor): ArrayLike<number | bigint> {
  const wide = x.dtype === "float16" || x.dtype === "bfloat16" ? x.astype("float32") : x;
  return wide.toTypedArray() as ArrayLike<number | bigint>;
}

/** NumPy's isclose, where NaN equals NaN. */
function isClose(x: number | bigint, y: number | bigint, rtol: number, atol: number): boolean {
  if (x === y || Number.isNaN(x) && Number.isNaN(y)) return true;
  const wanted = Number(y);
  return Number.isFinite(wanted) &&
    Math.abs(Number(x) - wanted) <= atol + rtol * Math.abs(wanted);
}
