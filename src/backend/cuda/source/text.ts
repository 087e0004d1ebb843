/**
 * The C of expressions, and of sources made of a struct and macros.
 *
 * Knows nothing of plans or launches.
 *
 * @module
 */
import { DTYPE, type DType } from "../../../base/dtype.ts";
import { parseExpr, printExpr } from "../../../table/expr.ts";
import { constantsOf, type Header } from "./constants.ts";

/** The suffix of a dtype in the names of primitives and headers, by its id. */
const SUFFIXES = "b8 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split(" ");

/** {@link SUFFIXES} by name. */
export function suffixOf(dtype: DType): string {
  return SUFFIXES[DTYPE[dtype].id]!;
}

/** The C type that the elements of a dtype are computed in. */
export function valueType(dtype: DType): string {
  const { kind, bytes } = DTYPE[dtype];
  if (kind === "f") return bytes === 8 ? "double" : "float";
  return `${kind === "i" ? "int" : "uint"}${8 * bytes}_t`;
}

/** The C type that the elements of a dtype are stored as. */
export function storedType(dtype: DType): string {
  const { kind, bytes } = DTYPE[dtype];
  return kind === "f" && bytes === 2 ? "uint16_t" : valueType(dtype);
}

/** The prefix of primitives that compute in C's type `value`. */
const PRIMITIVES: Readonly<Record<string, string>> = { float: "f32", double: "f64" };

/** Functions whose primitives cover most operands only: map.h has versions for all operands. */
const PARTIAL = new Set(["sin", "cos", "tan"]);

/** Functions that narrow_math.h has for 16-bit floats. */
export const NARROW: ReadonlySet<string> = new Set(
  "exp exp2 expm1 log log1p log2 log10 tanh sigmoid silu erf gelu".split(" "),
);

/** The name of an op's parameter, which is no other name of C or of a kernel. */
function parameterName(name: string): string {
  return `v_${name}`;
}

/**
 * `text`, an expression of operands and `parameters`, in C, in the arithmetic of `dtype` done in the
 * type `work`.
 */
export function printC(
  text: string,
  dtype: DType,
  work: string,
  parameters: readonly string[] = [],
): string {
  const own = suffixOf(dtype);
  const suffix = PRIMITIVES[work] ?? own;
  const isNarrow = work === "float" && DTYPE[dtype].bytes === 2;
  return printExpr(parseExpr(text), {
    name: (name) => parameters.includes(name) ? parameterName(name) : name,
    // Sums and products of integers are computed in unsigned types. NVRTC assumes that signed ones
    // do not overflow, and has no option to forbid that.
    unary: (op, arg) =>
      work.startsWith("int") && op === "-" ? `rm_negate<${work}>(${arg})` : undefined,
    num: (digits) => /^\d+$/.test(digits) ? digits : `((${work})${digits})`,
    call: (name, args) =>
      `rm_${PARTIAL.has(name) ? "full_" : ""}${name}_` +
      `${isNarrow && NARROW.has(name) ? own : suffix}(${args.join(", ")})`,
  });
}

/** Declares the numbers that the expressions of `row` use besides their operands. */
export function attributesOf(row: { readonly parameters: readonly string[] }): string {
  return row.parameters
    .map((name, i) => `    const double ${parameterName(name)} = at[${i}];\n`).join("");
}

/** The headers of the primitives that `texts` call, in the arithmetic of floats or not. */
export function includesFor(texts: readonly string[]): string {
  const code = texts.join("\n");
  const has = (name: RegExp): boolean => name.test(code);
  return '#include "device.h"\n' +
    (has(/\brm_\w+_b?f(16|32|64)\(/) ? '#include "vecmath.h"\n' : "") +
    (has(/\brm_[a-z0-9]+_b?f16\(/) ? '#include "narrow_math.h"\n' : "") +
    (has(/\brm_\w+_[iu](8|16|32|64)\(/) ? '#include "intmath.h"\n' : "");
}

/** Kernels that one source defines. */
export interface Family {
  /** The source. */
  readonly source: string;
  /** Their names. */
  readonly names: readonly string[];
}

/** A struct, and the kernels that macros of a header in shim/cuda/kernels make of it. */
export interface Source<Kernel extends string> {
  /** The name of the struct. */
  readonly name: string;
  /** The header, and its macro for each kernel. */
  readonly header: Header;
  readonly macros: Readonly<Record<Kernel, string>>;
  /** The names of its kernels, made once, since every call looks one up. */
  readonly kernels: Readonly<Record<Kernel, string>>;
  /** The struct. */
  readonly text: string;
  /** Another struct that it needs. */
  readonly base?: string;
}

/** Names the kernels of a struct. */
export function sourceOf<Kernel extends string>(
  name: string,
  header: Header,
  macros: Readonly<Record<Kernel, string>>,
  text: string,
): Source<Kernel> {
  const names = Object.keys(macros).map((kernel) => [kernel, `${name}_${kernel}`]);
  return { name, header, macros, kernels: Object.fromEntries(names), text };
}

/** CUDA C of some kernels of sources that have one header. */
export function define<Kernel extends string>(
  sources: readonly (readonly [Source<Kernel>, readonly NoInfer<Kernel>[]])[],
): Family {
  const texts = [...new Set(sources.flatMap(([{ base = "", text }]) => [base, text]))];
  const headers = [...new Set(sources.map(([{ header }]) => header))];
  const lines = sources.flatMap(([{ name, macros }, kernels]) =>
    kernels.map((kernel) => `${macros[kernel]}(${name})\n`)
  );
  return {
    source: [
      ...headers.map(constantsOf),
      includesFor(texts),
      ...headers.map((header) => `#include "${header}"\n`),
      ...texts,
      ...lines,
    ].join(""),
    names: sources.flatMap(([source, kernels]) => kernels.map((kernel) => source.kernels[kernel])),
  };
}

/** CUDA C of one kernel. */
export function kernelText<Kernel extends string>(
  source: Source<Kernel>,
  kernel: NoInfer<Kernel>,
): string {
  return define([[source, [kernel]]]).source;
}
