/**
 * Checkpoints: parameters, states, keys and numbers in one safetensors file.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { ArgumentError, DTypeError, FormatError, ShapeError } from "../base/errors.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { describe, describePath } from "../base/text.ts";
import { brandOf } from "../base/version.ts";
import { MAX_NESTING } from "../compile/signature.ts";
import { isOn, toDevice } from "../core/copy.ts";
import { adopt } from "../core/foreign.ts";
import { dispose } from "../core/handles.ts";
import { openSafetensors, type Path, writeSafetensors } from "../io/mod.ts";
import type { Operand } from "../memory/operand.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import { mapTree } from "./trees.ts";

/** What a checkpoint has: tensors and values of JSON, in arrays and plain objects. */
export type CheckpointValue =
  | Tensor<DType>
  | string
  | number
  | boolean
  | null
  | readonly CheckpointValue[]
  | { readonly [name: string]: CheckpointValue };

/** The name of the structure among the strings of the file. */
const TREE = "rowmajor.checkpoint";
/** The name of the object that stands for a tensor in the structure. */
const TENSOR = "$tensor";

/**
 * Writes tensors and values to a safetensors file: parameters, the state of an optimizer, random keys,
 * the number of the step, settings. Tensors have the names of their paths, such as `params.layers.0.w`;
 * the structure and other values are JSON beside them.
 *
 * All values are read before the function returns, so that the program can change them at once. The
 * file has the old bytes or the new ones, whole, even if the machine fails meanwhile.
 *
 * @throws {ArgumentError} For a value that JSON does not have, such as NaN or a function, and for a
 *   string or a number that is in no array and no object.
 * @throws {DTypeError} For a tensor that the format does not have, such as complex128.
 *
 * @example
 * ```ts
 * import { ones, random } from "@rowmajor/tensor";
 * import { loadCheckpoint, saveCheckpoint } from "@rowmajor/tensor/train";
 *
 * const state = { params: { w: ones([2]) }, key: random.key(1), step: 7 };
 * await saveCheckpoint("checkpoint.safetensors", state);
 * const { step, params } = await loadCheckpoint("checkpoint.safetensors", state);
 * step; // => 7
 * params.w.toArray(); // => [1, 1]
 * ```
 */
export async function saveCheckpoint(path: Path, values: object): Promise<void> {
  const name = "save a checkpoint";
  if (typeof values !== "object" || values === null) {
    throw new ArgumentError(
      `Cannot ${name} of ${
        describe(values)
      }: it takes tensors and values in an array or a plain object`,
    );
  }
  const tensors: Record<string, AnyTensor> = Object.create(null);
  const tree = mapTree(name, values, {
    tensor(x, at) {
      const own = at === "" ? "value" : at;
      if (Object.hasOwn(tensors, own)) {
        throw new ArgumentError(`Cannot ${name}: two tensors have the path ${describePath(own)}`);
      }
      tensors[own] = x as AnyTensor;
      return { [TENSOR]: own };
    },
    other(value, at) {
      const isJson = value === null || typeof value === "string" || typeof value === "boolean" ||
        Number.isFinite(value);
      if (isJson) return value;
      throw new ArgumentError(
        `Cannot ${name} with ${describe(value)}${
          at && ` at ${describePath(at)}`
        }: it takes tensors, finite ` +
          "numbers, strings, booleans and null, in arrays and plain objects",
      );
    },
  });
  checkMarks(name, values);
  await writeSafetensors(path, tensors, { metadata: { [TREE]: JSON.stringify(tree) } });
}

/** Whether a value is a tensor, of this copy of the library or of another. */
const isTensor = (value: unknown): boolean => brandOf(value, "tensor") !== undefined;

/** Throws for an object that a tensor would be read in place of. */
function checkMarks(name: string, value: unknown): void {
  if (typeof value !== "object" || value === null || isTensor(value)) return;
  if (Object.hasOwn(value, TENSOR)) {
    throw new ArgumentError(`Cannot ${name} with a property of the name ${TENSOR}`);
  }
  for (const one of Object.values(value)) checkMarks(name, one);
}

/**
 * Reads a checkpoint. With `like`, values of the same structure, it checks structure, shapes and
 * dtypes, moves tensors to the devices of those of `like`, and has its type: numbers and strings are
 * those of the file.
 *
 * @throws {FormatError} For a file that is no checkpoint, and for one of another structure.
 * @throws {ShapeError} For a tensor of another shape than that of `like`.
 * @throws {DTypeError} For a tensor of another dtype.
 */
export async function loadCheckpoint(path: Path): Promise<CheckpointValue>;
/** {@link loadCheckpoint} of the structure of `like`. */
export async function loadCheckpoint<T extends object>(path: Path, like: T): Promise<T>;
export async function loadCheckpoint(path: Path, like?: object): Promise<unknown> {
  await using file = await openSafetensors(path);
  const text = file.metadata[TREE];
  const from = String(path);
  if (text === undefined) {
    throw new FormatError("it is no checkpoint: it has tensors only", from, 0);
  }
  let tree: unknown;
  try {
    tree = JSON.parse(text);
  } catch {
    throw new FormatError(`the string ${TREE} is not JSON`, from, 0);
  }
  if (typeof tree !== "object" || tree === null) {
    throw new FormatError(`the string ${TREE} is no array and no object`, from, 0);
  }
  const tensors = new Map<string, Operand>();
  try {
    for (const name of file.names) tensors.set(name, await file.get(name) as Operand);
    const used = new Set<Operand>();
    const made = restored(tree, tensors, used, from, 0);
    const fits = like === undefined ? made : fitted(made, like, "", from);
    for (const x of tensors.values()) if (!used.has(x)) dispose(x);
    return fits;
  } catch (error) {
    for (const x of tensors.values()) dispose(x);
    throw error;
  }
}

/** A tree of JSON with its tensors, which are `used`: each of them once, as updates write them. */
function restored(
  tree: unknown,
  tensors: ReadonlyMap<string, Operand>,
  used: Set<Operand>,
  file: string,
  depth: number,
): unknown {
  if (typeof tree !== "object" || tree === null) return tree;
  if (depth > MAX_NESTING) {
    throw new FormatError(`its values are nested more than ${MAX_NESTING} deep`, file, 0);
  }
  const within = (one: unknown): unknown => restored(one, tensors, used, file, depth + 1);
  if (Array.isArray(tree)) return tree.map(within);
  if (!Object.hasOwn(tree, TENSOR)) {
    return Object.fromEntries(Object.entries(tree).map(([key, one]) => [key, within(one)]));
  }
  const name: unknown = Object.values(tree)[0];
  const x = typeof name === "string" ? tensors.get(name) : undefined;
  if (x === undefined) throw new FormatError(`no tensor is named ${describe(name)}`, file, 0);
  if (used.has(x)) {
    throw new FormatError(`two values are the tensor ${describe(name)}`, file, 0);
  }
  used.add(x);
  return x;
}

/** `made`, with the structure, shapes, dtypes and devices of `like`. */
function fitted(made: unknown, like: unknown, path: string, file: string): unknown {
  const name = "load a checkpoint";
  const at = path === "" ? "the checkpoint" : path;
  const kindOf = (value: unknown): string => {
    if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
    if (isTensor(value)) return "tensor";
    return Array.isArray(value) ? "array" : "object";
  };
  const kind = kindOf(made);
  if (kind !== kindOf(like)) {
    throw new FormatError(`${at} is of kind ${kind}, and not ${kindOf(like)}`, file, 0);
  }
  if (kind === "tensor") {
    const [x, other] = [made, adopt(like, name)] as [Operand, Operand];
    if (!sameShape(x.layout.shape, other.layout.shape)) {
      throw new ShapeError(
        `Cannot ${name}: ${at} has shape ${formatShape(x.layout.shape)}, and not ${
          formatShape(other.layout.shape)
        }`,
      );
    }
    if (x.storage.info !== other.storage.info) {
      throw new DTypeError(
        `Cannot ${name}: ${at} is of ${x.storage.info.name}, and not ${other.storage.info.name}`,
      );
    }
    const { device } = other.storage;
    if (isOn(x.storage, device)) return x;
    const moved = toDevice(x, device);
    dispose(x);
    return moved;
  }
  if (kind !== "array" && kind !== "object") return made;
  const [own, others] = [made as object, like as object];
  const [keys, wanted] = [Object.keys(own), Object.keys(others)];
  const missing = wanted.find((key) => !Object.hasOwn(own, key)) ??
    keys.find((key) => !Object.hasOwn(others, key));
  if (missing !== undefined) {
    throw new FormatError(
      `${at} has ${keys.length} values and not ${wanted.length}: ${describe(missing)} is ` +
        (Object.hasOwn(own, missing) ? "too many" : "missing"),
      file,
      0,
    );
  }
  const part = (key: string): unknown =>
    fitted(
      (own as Record<string, unknown>)[key],
      (others as Record<string, unknown>)[key],
      path === "" ? key : `${path}.${key}`,
      file,
    );
  if (kind === "array") return keys.map(part);
  return Object.fromEntries(wanted.map((key) => [key, part(key)]));
}
