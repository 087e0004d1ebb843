/**
 * Dtypes: which casts are safe, of which kind one is, what several give; and what there is.
 *
 * @module
 */
import {
  checkDType,
  type Complex,
  complexOf,
  DTYPE,
  type DType,
  promoteScalar,
  promoteTypes,
  type Scalar,
  scalarDType,
} from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { listIn, MAX_RANK } from "../../base/shape.ts";
import { brandOf } from "../../base/version.ts";
import { checkOptions, isScalar } from "../../table/infer.ts";
import type { AnyTensor } from "../../tensor/tensor.ts";

/** How much a cast may change. */
export type Casting = "no" | "safe" | "sameKind" | "unsafe";

/** Bits of the integers that a float dtype represents exactly. */
const MANTISSA: Readonly<Record<string, number>> = {
  bfloat16: 8,
  float16: 11,
  float32: 24,
  float64: 53,
};

function isSafe(from: DType, to: DType): boolean {
  if (from === to) return true;
  const [a, b] = [DTYPE[from], DTYPE[to]];
  // The parts of a complex number take what a float takes.
  if (b.kind === "c") {
    return (a.kind === "c" || a.lane === null) && isSafe((a.lane ?? a).name, b.lane!.name);
  }
  if (a.lane !== null || b.lane !== null) return promotes(from, to);
  if (a.kind === "b") return true;
  if (b.kind === "b") return false;
  if (b.kind === "f" && a.kind === "f") return promotes(from, to);
  // As in NumPy, float64 takes integers of 64 bits.
  if (b.kind === "f") return a.bytes === 8 ? to === "float64" : 8 * a.bytes <= MANTISSA[to]!;
  if (a.kind === "f") return false;
  if (a.kind === b.kind) return a.bytes <= b.bytes;
  return a.kind === "u" && a.bytes < b.bytes;
}

function promotes(from: DType, to: DType): boolean {
  try {
    return promoteTypes(from, to) === to;
  } catch {
    return false;
  }
}

const RANK: Readonly<Record<string, number>> = { b: 0, u: 1, i: 2, f: 3, c: 4 };

/**
 * Whether elements of `from`, a dtype or a tensor, may be cast to `to`: `"safe"` (default) keeps
 * their values, `"sameKind"` allows less precision, `"unsafe"` any cast, `"no"` none.
 *
 * @example
 * ```ts
 * canCast("int32", "int64"); // => true
 * canCast("float64", "float32", { casting: "sameKind" }); // => true
 * ```
 */
export function canCast(
  from: DType | AnyTensor,
  to: DType,
  options: { readonly casting?: Casting } = {},
): boolean {
  checkOptions("canCast", options, ["casting"]);
  const source: unknown = typeof from === "object" && from !== null ? from.dtype : from;
  checkDType(source, "canCast");
  checkDType(to, "canCast");
  const { casting = "safe" } = options;
  switch (casting) {
    case "no":
      return source === to;
    case "safe":
      return isSafe(source, to);
    case "sameKind": {
      const [a, b] = [RANK[DTYPE[source].kind], RANK[DTYPE[to].kind]];
      return isSafe(source, to) || (a !== undefined && b !== undefined && a <= b && a > 0);
    }
    case "unsafe":
      return source === to || [source, to].every((dtype) => DTYPE[dtype].block === 1);
    default:
      throw new ArgumentError(
        `canCast() needs "no", "safe", "sameKind" or "unsafe" as casting, got ${describe(casting)}`,
      );
  }
}

/** The kinds of dtype, as the array API standard calls them. */
export type DTypeKind =
  | "bool"
  | "signed integer"
  | "unsigned integer"
  | "integral"
  | "real floating"
  | "complex floating"
  | "numeric";

const KINDS: Readonly<Record<DTypeKind, string>> = {
  bool: "b",
  "signed integer": "i",
  "unsigned integer": "u",
  integral: "iu",
  "real floating": "f",
  "complex floating": "c",
  numeric: "iufc",
};

/**
 * Whether a dtype is of a kind, is a dtype, or is one of several of these.
 *
 * @throws {DTypeError} For other names.
 *
 * @example
 * ```ts
 * isdtype("uint8", "integral"); // => true
 * isdtype("float32", ["bool", "float64"]); // => false
 * ```
 */
export function isdtype(
  dtype: DType,
  kind: DTypeKind | DType | readonly (DTypeKind | DType)[],
): boolean {
  checkDType(dtype, "isdtype");
  const is = (one: unknown): boolean => isOne(dtype, one, "isdtype");
  return listIn(kind, is)?.includes(true) ?? is(kind);
}

/** Whether a dtype is of one kind, or is one dtype. */
function isOne(dtype: DType, kind: unknown, name: string): boolean {
  if (typeof kind === "string" && Object.hasOwn(KINDS, kind) && kind !== "bool") {
    return KINDS[kind as DTypeKind].includes(DTYPE[dtype].kind);
  }
  checkDType(kind as DType, name);
  return dtype === kind;
}

/**
 * The dtype that tensors, dtypes and numbers give together: numbers are weak, and decide only where
 * there is nothing else.
 *
 * @throws {DTypeError} Where dtypes do not promote.
 * @throws {ArgumentError} For no arguments.
 *
 * @example
 * ```ts
 * resultType("int8", "int16"); // => int16
 * resultType(tensor([1]), 2.5); // => float32
 * ```
 */
export function resultType(...given: readonly (AnyTensor | DType | Scalar | Complex)[]): DType {
  const name = "resultType";
  let dtype: DType | undefined;
  const scalars: (Scalar | Complex)[] = [];
  for (const one of given) {
    if (isScalar(one)) {
      scalars.push(one);
      continue;
    }
    if (typeof one !== "string" && brandOf(one, "tensor") === undefined) {
      throw new DTypeError(
        `Cannot ${name} of ${describe(one)}: it takes tensors, dtypes and numbers`,
      );
    }
    const own = typeof one === "string" ? one : (one as AnyTensor).dtype;
    checkDType(own, name);
    dtype = dtype === undefined ? own : promoteTypes(dtype, own, name);
  }
  if (dtype === undefined) {
    if (scalars.length === 0) throw new ArgumentError(`${name}() needs at least one argument`);
    return scalars.map(scalarDType).reduce((a, b) => promoteTypes(a, b, name));
  }
  for (const scalar of scalars) {
    if (typeof scalar !== "object") dtype = promoteScalar(dtype, scalar, name);
    else if (DTYPE[dtype].block > 1) dtype = promoteTypes(dtype, "complex64", name);
    else dtype = complexOf(DTYPE[dtype]).name;
  }
  return dtype;
}

// ---- inspection --------------------------------------------------------------------------------

/** The dtypes of results for which none was asked. */
export interface DefaultDTypes {
  /** Of JavaScript numbers. */
  readonly realFloating: "float32";
  /** Of complex numbers. */
  readonly complexFloating: "complex64";
  /** Of bigints. */
  readonly integral: "int64";
  /** Of indices. */
  readonly indexing: "int32";
}

/** The dtypes of results for which none was asked. */
export function defaultDtypes(): DefaultDTypes {
  return {
    realFloating: "float32",
    complexFloating: "complex64",
    integral: "int64",
    indexing: "int32",
  };
}

/** The device of tensors for which none was asked. */
export function defaultDevice(): "cpu" {
  return "cpu";
}

/**
 * The names of the dtypes, of one or several kinds if given; quantized ones have no kind.
 *
 * @example
 * ```ts
 * dtypes("signed integer"); // => ["int8", "int16", "int32", "int64"]
 * ```
 */
export function dtypes(kind?: DTypeKind | readonly DTypeKind[]): DType[] {
  const all = Object.keys(DTYPE) as DType[];
  if (kind === undefined) return all;
  const checked = (one: unknown): unknown => (isOne("bool", one, "dtypes"), one);
  const kinds = listIn(kind, checked) ?? [checked(kind)];
  return all.filter((dtype) => kinds.some((one) => isOne(dtype, one, "dtypes")));
}

/** What the library supports of the array API standard. */
export interface Capabilities {
  /** Masks as indices. */
  readonly booleanIndexing: true;
  /** Results whose shape depends on values. */
  readonly dataDependentShapes: true;
  /** The most axes of a tensor. */
  readonly maxDimensions: number;
}

/** What the library supports of the array API standard. */
export function capabilities(): Capabilities {
  return { booleanIndexing: true, dataDependentShapes: true, maxDimensions: MAX_RANK };
}
