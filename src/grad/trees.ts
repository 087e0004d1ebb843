/**
 * Trees of tensors: tensors in arrays and objects, at any depth.
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import { ArgumentError, DTypeError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { isRecord, MAX_NESTING } from "../compile/signature.ts";
import { adopt } from "../core/foreign.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { checkAlive } from "../memory/storage.ts";

/** A tree: tensors, arrays of trees, or objects of them. */
export interface Tree {
  /** Calls `use` for each tensor, in order, with its path. */
  map(use: (x: Operand, index: number) => unknown): unknown;
  readonly leaves: readonly Operand[];
}

/** Tensors with paths, such as `layers[0].w`. */
export interface PathLeaves {
  readonly leaves: readonly Operand[];
  readonly paths: readonly string[];
}

/** A tree whose tensors have paths. */
export type PathTree = Tree & PathLeaves;

/**
 * The tensors of a tree in the order of those of `like`, at the same paths: properties may have another
 * order. Throws for a path that only one of them has.
 */
export function inOrderOf(
  name: string,
  tree: PathLeaves,
  like: PathLeaves,
): readonly Operand[] {
  const { leaves, paths } = tree;
  if (paths.length === like.paths.length && paths.every((path, i) => path === like.paths[i])) {
    return leaves;
  }
  checkPaths(name, tree);
  checkPaths(name, like);
  const places = new Map(paths.map((path, i) => [path, leaves[i]!]));
  const made = like.paths.map((path) => {
    const x = places.get(path);
    if (x !== undefined) return x;
    throw new ArgumentError(`Cannot ${name}: a tree has no tensor at ${path || "its root"}`);
  });
  if (made.length === leaves.length) return made;
  throw new ArgumentError(`Cannot ${name}: trees have ${made.length} and ${leaves.length} tensors`);
}

/** Throws for two tensors of one path, such as those of `{ "a.b": x, a: { b: y } }`. */
export function checkPaths(name: string, { paths }: PathLeaves): void {
  if (new Set(paths).size === paths.length) return;
  const twice = paths.find((path, i) => paths.indexOf(path) !== i)!;
  throw new ArgumentError(`Cannot ${name}: two tensors have the path ${twice}`);
}

/** Where the paths of errors begin. */
const ROOT = "argument 0";

/** The tree of the argument `value`; `name` is that of the function in errors. */
export function treeOf(name: string, value: unknown): PathTree {
  const leaves: Operand[] = [], paths: string[] = [];
  const build = (given: unknown, path: string, depth: number): Build => {
    if (depth > MAX_NESTING) {
      throw new ArgumentError(`Cannot ${name}: ${path} is nested more than ${MAX_NESTING} deep`);
    }
    const one = adopt(given, name);
    if (isOperandArgument(one)) {
      checkAlive(one.storage, `${name} by ${path}`);
      const { storage: { info } } = one;
      if (!isFloat(info)) {
        throw new DTypeError(
          `Cannot ${name} by ${path}, of ${info.name}: derivatives are by floats and complex ` +
            "numbers; pass others as further arguments",
        );
      }
      const index = leaves.push(one) - 1;
      paths.push(path.slice(ROOT.length).replace(/^\./, ""));
      return (use) => use(one, index);
    }
    const list = listIn(one, (part, i) => build(part, `${path}[${i}]`, depth + 1));
    if (list !== undefined) return (use) => list.map((part) => part(use));
    if (isRecord(one)) {
      const parts = Object.entries(one).map(([key, part]) =>
        [key, build(part, `${path}.${key}`, depth + 1)] as const
      );
      return (use) => Object.fromEntries(parts.map(([key, part]) => [key, part(use)]));
    }
    throw new ArgumentError(
      `Cannot ${name} by ${path}, ${
        describe(given)
      }: the first argument is a tree of tensors; pass others as further arguments`,
    );
  };
  const root = build(value, ROOT, 0);
  if (leaves.length === 0) throw new ArgumentError(`Cannot ${name}: argument 0 has no tensors`);
  return { leaves, paths, map: root };
}

/** Whether derivatives are by tensors of a dtype. */
const isFloat = ({ kind }: DTypeInfo): boolean => kind === "f" || kind === "c";

/** The tree of a value that may be or have anything: tensors of some dtypes, of floats, are its leaves. */
export function looseTree(
  value: unknown,
  isLeaf: (info: DTypeInfo) => boolean = isFloat,
): Tree {
  const leaves: Operand[] = [];
  const build = (given: unknown, depth: number): Build => {
    if (depth > MAX_NESTING) return () => given;
    if (isOperandArgument(given)) {
      if (!isLeaf(given.storage.info)) return () => given;
      const index = leaves.push(given) - 1;
      return (use) => use(given, index);
    }
    const list = Array.isArray(given) ? listIn(given, (part) => build(part, depth + 1)) : undefined;
    if (list !== undefined) return (use) => list.map((part) => part(use));
    if (!isRecord(given)) return () => given;
    const parts = Object.entries(given).map(([key, part]) =>
      [key, build(part, depth + 1)] as const
    );
    return (use) => Object.fromEntries(parts.map(([key, part]) => [key, part(use)]));
  };
  return { map: build(value, 0), leaves };
}

type Build = (use: (x: Operand, index: number) => unknown) => unknown;
