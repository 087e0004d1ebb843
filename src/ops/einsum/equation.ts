/**
 * The equations of `einsum`: which axes of the operands have which index, and those of the result.
 *
 * Knows shapes, and nothing of tensors.
 *
 * @module
 */
import type { DType, DTypeInfo } from "../../base/dtype.ts";
import type { Layout } from "../../base/layout.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { checkRank, formatShape, sameShape, type Shape } from "../../base/shape.ts";
import { describe, shorten } from "../../base/text.ts";

/** An index of axes: a letter, or an axis of an ellipsis, counted from its last. */
export type Label = string | number;

/** An equation for operands of known shapes. */
export interface Equation {
  /** The indices of the axes of each operand. */
  readonly terms: readonly (readonly Label[])[];
  /** The indices of the axes of the result. */
  readonly output: readonly Label[];
  /** The size of each index. */
  readonly sizes: ReadonlyMap<Label, number>;
  /** How operands of these shapes are computed in one step: see einsum_direct.ts. */
  direct?: Direct;
}

/** The view of an operand: for each axis its size, and the axes of the operand that it goes along. */
export interface DirectView {
  readonly shape: readonly number[];
  readonly axes: readonly (readonly number[])[];
  /** The layout of an operand of before, and that of its view. */
  last: { readonly from: Layout; readonly to: Layout } | undefined;
}

/** What an equation does in one step, to operands of its shapes. */
export interface Direct {
  /** One view is summed; of two views there is the elementwise product, or that of matrices. */
  readonly kind: "none" | "sum" | "mul" | "matmul";
  readonly views: readonly DirectView[];
  /** The axes of the only view over which it sums: all, if undefined. */
  readonly summed: number[] | undefined;
  /** Whether the product is that of the second operand and the first. */
  readonly isSwapped: boolean;
  /** The dtype of the operands of before, and the attributes of their sum. */
  info: DTypeInfo | undefined;
  attributes: { readonly axis: number[] | undefined; readonly dtype: DType } | undefined;
}

const DOTS = "...";

/** The indices of one term: letters, and `DOTS` for an ellipsis. */
type Term = readonly string[];

interface Parsed {
  readonly terms: readonly Term[];
  /** Undefined if it is implied. */
  readonly output: Term | undefined;
  /** The last shapes, and what came of them. */
  last: { readonly shapes: readonly Shape[]; readonly made: Equation } | undefined;
}

/** Parsed equations: programs use few of them. */
const parsed = new Map<string, Parsed>();
const MOST_PARSED = 256;

/** What came of an equation for the last shapes it was used for. */
export function lastOf(equation: string): Equation | undefined {
  return parsed.get(equation)?.last?.made;
}

function wrong(equation: string, why: string): ArgumentError {
  return new ArgumentError(`Cannot einsum ${describe(equation)}: ${why}`);
}

/** The indices of a term of `equation`. */
function parseTerm(equation: string, text: string): Term {
  const term: string[] = [];
  for (let i = 0; i < text.length; i++) {
    const one = text[i]!;
    if (one === "." && text.startsWith(DOTS, i) && !term.includes(DOTS)) {
      term.push(DOTS);
      i += 2;
    } else if (/[A-Za-z]/.test(one)) term.push(one);
    else {throw wrong(
        equation,
        `${describe(one)} is not an index; indices are letters, or "..." once`,
      );}
  }
  return term;
}

function parse(equation: string): Parsed {
  const known = parsed.get(equation);
  if (known !== undefined) return known;
  const text = equation.replaceAll(" ", "");
  const [left, right, ...more] = text.split("->");
  if (more.length > 0) throw wrong(equation, 'there is more than one "->"');
  const terms = left!.split(",").map((term) => parseTerm(equation, term));
  const output = right === undefined ? undefined : parseTerm(equation, right);
  output?.forEach((label, i) => {
    if (output.indexOf(label) < i) throw wrong(equation, `the result has index ${label} twice`);
    if (label !== DOTS && !terms.some((term) => term.includes(label))) {
      throw wrong(equation, `no operand has index ${label} of the result`);
    }
  });
  const made: Parsed = { terms, output, last: undefined };
  if (parsed.size >= MOST_PARSED) parsed.clear();
  parsed.set(equation, made);
  return made;
}

/** `[2, 3], [3] and [4]`. */
function listShapes(shapes: readonly Shape[]): string {
  const texts = shapes.map(formatShape);
  const last = texts.pop();
  return texts.length === 0 ? `shape ${last}` : `shapes ${texts.join(", ")} and ${last}`;
}

function mismatch(equation: string, shapes: readonly Shape[], why: string): ShapeError {
  return new ShapeError(
    `Cannot einsum ${JSON.stringify(shorten(equation, 200))} of ${listShapes(shapes)}: ${why}`,
  );
}

/** The indices of the axes of an operand of rank `rank`. */
function labelsOf(term: Term, rank: number): Label[] {
  const dots = term.indexOf(DOTS);
  if (dots === -1) return [...term];
  const count = rank - (term.length - 1);
  const inner = Array.from({ length: count }, (_, i) => i - count);
  return [...term.slice(0, dots), ...inner, ...term.slice(dots + 1)];
}

/** Those that occur once, in the order of their letters, after the axes of ellipses. */
function impliedOutput(terms: readonly (readonly Label[])[], dots: readonly number[]): Label[] {
  const letters = terms.flat().filter((label) => typeof label === "string");
  const once = letters.filter((label) => letters.indexOf(label) === letters.lastIndexOf(label));
  return [...dots, ...once.sort()];
}

/**
 * The equation for operands of `shapes`.
 *
 * Throws an ArgumentError for a text that is no equation, and a ShapeError where the shapes do not
 * fit it.
 */
export function parseEquation(equation: unknown, shapes: readonly Shape[]): Equation {
  if (typeof equation !== "string") {
    throw new ArgumentError(`Cannot einsum ${describe(equation)}: the equation is a string`);
  }
  const known = parse(equation);
  const { last } = known;
  if (
    last !== undefined && last.shapes.length === shapes.length &&
    shapes.every((shape, k) => sameShape(shape, last.shapes[k]!))
  ) return last.made;
  const made = bind(equation, known, shapes);
  known.last = { shapes, made };
  return made;
}

/** The equation, once parsed, for operands of `shapes`. */
function bind(
  equation: string,
  { terms: texts, output: given }: Parsed,
  shapes: readonly Shape[],
): Equation {
  if (texts.length !== shapes.length) {
    throw wrong(equation, `it has ${texts.length} terms for ${shapes.length} tensors`);
  }
  let widest = 0;
  let hasDots = false;
  const terms = texts.map((term, k) => {
    const rank = shapes[k]!.length;
    const named = term.filter((label) => label !== DOTS).length;
    if (named < term.length ? named > rank : named !== rank) {
      throw mismatch(equation, shapes, `operand ${k} has rank ${rank}, and ${named} indices`);
    }
    if (named < term.length) {
      hasDots = true;
      widest = Math.max(widest, rank - named);
    }
    return labelsOf(term, rank);
  });
  const sizes = new Map<Label, number>();
  terms.forEach((labels, k) =>
    labels.forEach((label, axis) => {
      const n = shapes[k]![axis]!;
      // A diagonal has axes of one size; sizes of 1 broadcast between operands only.
      const first = labels.indexOf(label);
      const other = first < axis ? shapes[k]![first]! : sizes.get(label) ?? 1;
      const fits = n === other || (first === axis && (n === 1 || other === 1));
      if (fits && (n !== 1 || !sizes.has(label))) sizes.set(label, n);
      else if (!fits) {
        const what = typeof label === "string" ? `index ${label}` : `axis ${label} of the ellipsis`;
        throw mismatch(equation, shapes, `${what} has sizes ${other} and ${n}`);
      }
    })
  );
  const dots = Array.from({ length: widest }, (_, i) => i - widest);
  let output: Label[];
  if (given === undefined) output = impliedOutput(terms, dots);
  else {
    const at = given.indexOf(DOTS);
    if (at >= 0 && !hasDots) throw wrong(equation, "only the result has an ellipsis");
    output = at === -1 ? [...given] : [...given.slice(0, at), ...dots, ...given.slice(at + 1)];
  }
  checkRank(output.length, "einsum");
  return { terms, output, sizes };
}
