/**
 * Formats tensors: as text in the style of NumPy, and as an HTML table for notebooks.
 *
 * Reads only the elements that it shows, through the layout, so that views print correctly and a
 * huge tensor prints as fast as a small one. Works on operands and knows nothing of the class
 * Tensor.
 *
 * @module
 */
import { onCpu } from "../core/copy.ts";
import { tidy } from "../core/handles.ts";
import { hostRead } from "../core/interpreter.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { type Complex, type DType, type DTypeInfo, isComplexScalar } from "../base/dtype.ts";
import { describe as describeValue } from "../base/text.ts";
import { readElement } from "../memory/element.ts";
import { ArgumentError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { roundBf16, roundHalf } from "../base/half.ts";
import { concat } from "../ops/join/op.ts";
import { formatShape } from "../base/shape.ts";
import { DISPOSED, isDetached } from "../memory/storage.ts";

/** Options of `toString`. */
export interface FormatOptions {
  /**
   * The most digits after the decimal point. By default as many as give the largest element 6
   * significant digits; NumPy's default is 8, PyTorch's 4.
   */
  readonly precision?: number;
  /** Tensors with more elements than this are elided; 1000 by default. */
  readonly threshold?: number;
  /** The number of items that an elided axis shows at each end; 3 by default. */
  readonly edgeItems?: number;
  /** The line width; 80 columns by default. */
  readonly lineWidth?: number;
  /**
   * Whether floats have exponents. By default they do if the largest is 1e8 or more, or 1000 times
   * the smallest, if the smallest is below 1e-4, and, without `precision`, if there are fractions
   * and the largest is 1e5 or more. Whole numbers below 1e8 have none.
   */
  readonly scientific?: boolean;
}

/** One element as text. */
interface Cell {
  /** Padded on the left, so that all cells without digits after the point align at the end. */
  readonly text: string;
  /** The spaces in place of digits after the point that other cells have. */
  readonly after: string;
}

/** The visible part of a tensor. */
interface Excerpt {
  /** For each axis the visible indexes, with {@link GAP} in place of omitted ones. */
  readonly axes: readonly (readonly number[])[];
  /** The elements at these indexes in row-major order. */
  readonly cells: readonly Cell[];
  /** The width of a cell, including the spaces after it. */
  readonly width: number;
}

const FORMAT_OPTIONS = ["precision", "threshold", "edgeItems", "lineWidth", "scientific"];
const GAP = -1;

/** The significant digits of the largest float, unless `precision` is given. */
const SIGNIFICANT = 6;
const PREFIX = "tensor(";

/**
 * An elided tensor shows at most this many elements, even with many short axes, which NumPy prints
 * whole.
 */
const MOST_SHOWN = 2000;

/**
 * Formats a tensor of any shape with its shape and dtype, `tensor([1, 2.5], shape [2], float32)`,
 * with aligned rows on lines of their own.
 *
 * @throws {ShapeError} For an option that is not a count.
 * @throws {TypeError} For an unknown option.
 */
export function formatTensor(x: Operand, options: FormatOptions = {}): string {
  checkOptions("toString", options, FORMAT_OPTIONS);
  const { scientific } = options;
  if (scientific !== undefined && typeof scientific !== "boolean") {
    throw typeError(
      `Cannot toString with scientific ${describeValue(scientific)}: it takes true or false`,
    );
  }
  const gone = lost(x);
  if (gone !== undefined) return gone;
  const lineWidth = count("lineWidth", options.lineWidth, 80);
  const excerpt = read(x, options, scientific);
  const about = describe(x);
  const data = x.layout.size === 0 ? "[]" : writeRows(excerpt, lineWidth);
  const lastLine = data.length - (data.lastIndexOf("\n") + 1) +
    (data.includes("\n") ? 0 : PREFIX.length);
  const fits = lastLine + about.length + 3 <= lineWidth;
  return `${PREFIX}${data},${fits ? " " : `\n${" ".repeat(PREFIX.length)}`}${about})`;
}

/**
 * Formats a tensor of any shape on one line, for use inside other objects: as {@link formatTensor}
 * if that takes one line, otherwise without its elements.
 */
export function inspectTensor(x: Operand): string {
  const text = formatTensor(x);
  return text.includes("\n") ? `${PREFIX}${describe(x)})` : text;
}

/** Only what every theme of a notebook can show. */
const BOX = "max-height:32em;overflow:auto";
const TD = "text-align:right;white-space:pre;font-family:monospace";
const CAPTION = "text-align:left;white-space:nowrap";
const TH = `${TD};font-weight:normal;opacity:0.6`;

/**
 * Formats a tensor of any shape as HTML for notebooks: in a box that scrolls, a table for every
 * matrix in it, with its indices. The caption has shape, dtype and device, or, where there are
 * several tables, the index of the matrix.
 */
export function formatHtml(x: Operand): string {
  const gone = lost(x);
  if (gone !== undefined) return `<div>${gone}</div>`;
  const about = `${describe(x)}, ${x.storage.device}`;
  if (x.layout.size === 0) return `<div>${escapeHtml(about)}</div>`;
  const { axes, cells } = read(x, {});
  const rank = axes.length;
  const columns: readonly number[] = rank < 1 ? [0] : axes[rank - 1]!;
  let next = 0;
  const cell = (style: string, text: string, scope = "") =>
    scope === ""
      ? `<td style="${style}">${escapeHtml(text)}</td>`
      : `<th scope="${scope}" style="${style}">${escapeHtml(text)}</th>`;
  const index = (i: number) => i === GAP ? "..." : String(i);
  const row = (i: number) => {
    const items = columns.map((j) => {
      if (i === GAP || j === GAP) return cell(TD, "...");
      const { text, after } = cells[next++]!;
      return cell(TD, text + after);
    });
    return `<tr>${rank > 1 ? cell(TH, index(i), "row") : ""}${items.join("")}</tr>`;
  };
  const head = rank === 0
    ? ""
    : `<thead><tr>${rank > 1 ? cell(TD, "") : ""}${
      columns.map((j) => cell(TH, index(j), "col")).join("")
    }</tr></thead>`;
  const table = (outer: readonly number[]): string => {
    const axis = outer.length;
    if (axis < rank - 2) {
      return axes[axis]!.map((i) => i === GAP ? "<div>...</div>" : table([...outer, i])).join("");
    }
    const title = axis === 0 ? about : `[${[...outer, ":", ":"].join(", ")}]`;
    const rows = rank < 2 ? [0] : axes[rank - 2]!;
    return `<table><caption style="${CAPTION}">${escapeHtml(title)}</caption>${head}` +
      `<tbody>${rows.map(row).join("")}</tbody></table>`;
  };
  const top = rank > 2 ? `<div>${escapeHtml(about)}</div>` : "";
  return `<div style="${BOX}" tabindex="0">${top}${table([])}</div>`;
}

/** The text for a tensor without elements: they are gone, or not computed yet. */
function lost(x: Operand): string | undefined {
  const { storage } = x;
  if (storage === DISPOSED) return "tensor(disposed)";
  if (storage.isTraced) return `tensor(traced, ${describe(x)})`;
  return isDetached(storage) ? "tensor(transferred)" : undefined;
}

function describe(x: Operand): string {
  return `shape ${formatShape(x.layout.shape)}, ${x.storage.info.name}`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function count(name: keyof FormatOptions, value: number | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (value === Infinity || (Number.isInteger(value) && value >= 0)) return value;
  throw new ArgumentError(
    `toString() needs an integer of at least 0 as ${name}, got ${describeValue(value)}`,
  );
}

// ---- what is shown -----------------------------------------------------------------------------

function read(x: Operand, options: FormatOptions, scientific?: boolean): Excerpt {
  hostRead(x, "toString");
  const { shape } = x.layout;
  const { precision: given } = options;
  const precision = given === undefined ? undefined : count("precision", given, 0);
  const threshold = count("threshold", options.threshold, 1000);
  const edge = count("edgeItems", options.edgeItems, 3);
  const axes = shownIndexes(shape, x.layout.size > threshold ? edge : Infinity);
  const values: (number | bigint | Complex)[] = [];
  // Elements that share blocks cannot be copied separately.
  const far = x.storage.memory !== null && x.storage.info.block === 1;
  const visitAll = ({ storage, layout }: Operand): void => {
    const visit = (axis: number, position: number): void => {
      if (axis === axes.length) {
        values.push(readElement(storage, position));
        return;
      }
      axes[axis]!.filter((i) => i !== GAP).forEach((i, k) =>
        visit(axis + 1, position + (far ? k : i) * layout.strides[axis]!)
      );
    };
    visit(0, layout.offset);
  };
  // An empty tensor shows no elements, and its other axes may have any size.
  if (x.layout.size > 0) {
    if (far) tidy(() => onCpu(shownPart(x, axes), visitAll));
    else onCpu(x, visitAll);
  }
  return { axes, ...writeCells(values, x.storage.info, precision, scientific) };
}

/** The elements of `x` at the indexes `axes`, still on its device. */
function shownPart(x: Operand, axes: readonly (readonly number[])[]): Operand {
  return axes.reduce((part, indexes, axis) => {
    const head = indexes.indexOf(GAP);
    if (head < 0) return part;
    const { layout } = part;
    const tail = indexes.length - 1 - head;
    const ends: [number, number][] = [[0, head], [layout.shape[axis]! - tail, tail]];
    return concat(
      ends.map(([start, n]) => ({ ...part, layout: layout.sliceAxis(axis, start, n, 1) })),
      axis,
    );
  }, x);
}

function shownIndexes(shape: readonly number[], edge: number): number[][] {
  if (shape.includes(0)) return shape.map(() => []);
  const heads = shape.map((n) => n > 2 * edge ? edge : n);
  const tails = shape.map((n) => n > 2 * edge ? edge : 0);
  if (edge < Infinity) {
    let shown = 1;
    for (let axis = 0; axis < shape.length; axis++) shown *= heads[axis]! + tails[axis]!;
    for (let axis = 0; axis < shape.length - 1 && shown > MOST_SHOWN; axis++) {
      shown /= heads[axis]! + tails[axis]!;
      heads[axis] = 1;
      tails[axis] = 0;
    }
  }
  return shape.map((n, axis) => {
    const head = Array.from({ length: heads[axis]! }, (_, i) => i);
    const tail = Array.from({ length: tails[axis]! }, (_, i) => n - tails[axis]! + i);
    return head.length + tail.length < n ? [...head, GAP, ...tail] : [...head, ...tail];
  });
}

function writeRows(excerpt: Excerpt, lineWidth: number): string {
  const { axes, cells, width } = excerpt;
  const rank = axes.length;
  let next = 0;
  let gap = "...";
  const cell = (i: number): Cell => i === GAP ? { text: gap, after: "" } : cells[next++]!;
  if (axes.every((indexes, axis) => axis === rank - 1 || indexes.length === 1)) {
    // A single row needs no alignment.
    const row = rank === 0
      ? cells[0]!.text.trim()
      : "[".repeat(rank) + axes[rank - 1]!.map((i) => cell(i).text.trim()).join(", ") +
        "]".repeat(rank);
    if (rank === 0 || PREFIX.length + row.length < lineWidth) return row;
    next = 0;
  }
  const indent = (axis: number): string => " ".repeat(PREFIX.length + axis + 1);
  const room = lineWidth - PREFIX.length - 2 * rank - 1;
  const shown = axes[rank - 1]!;
  const length = shown.length * (width + 2) - 2 - (shown.includes(GAP) ? width - gap.length : 0);
  // In rows of several lines, what follows the gap stays in its column.
  if (length > room) gap = gap.padStart(width);
  const write = (axis: number): string => {
    if (axis < rank - 1) {
      const items = axes[axis]!.map((i) => i === GAP ? "..." : write(axis + 1));
      return `[${items.join(`,${"\n".repeat(rank - 1 - axis)}${indent(axis)}`)}]`;
    }
    const lines: string[] = [];
    let line = "";
    for (const i of axes[axis]!) {
      if (line !== "" && line.length + (i === GAP ? gap.length : width) > room) {
        lines.push(line.trimEnd());
        line = "";
      }
      const { text, after } = cell(i);
      line += `${text},${after} `;
    }
    lines.push(line.trimEnd().slice(0, -1));
    return `[${lines.join(`\n${indent(axis)}`)}]`;
  };
  return write(0);
}

// ---- elements ----------------------------------------------------------------------------------

/** Rounding of the floats narrower than float64. */
const ROUND: Partial<Record<DType, (value: number) => number>> = {
  float16: roundHalf,
  bfloat16: roundBf16,
  float32: Math.fround,
};

function writeCells(
  values: readonly (number | bigint | Complex)[],
  info: DTypeInfo,
  precision: number | undefined,
  scientific: boolean | undefined,
): Pick<Excerpt, "cells" | "width"> {
  const texts = info.kind === "b"
    ? values.map((value) => value ? "true" : "false")
    : info.kind === "f"
    ? writeFloats(values as readonly number[], ROUND[info.name]!, precision, scientific)
    : info.kind === "c" && values.every(isComplexScalar)
    ? writeComplex(values, info, precision, scientific)
    : values.map(String);
  // From the point to the end; NaN and Infinity align at the right end.
  const decimals = texts.map((text) => /\.\d*$/.exec(text)?.[0].length ?? 0);
  const most = largest(decimals);
  const after = texts.map((text, i) => /\d$/.test(text) ? most - decimals[i]! : 0);
  const width = largest(texts.map((text, i) => text.length + after[i]!));
  return {
    cells: texts.map((text, i) => ({
      text: text.padStart(width - after[i]!),
      after: " ".repeat(after[i]!),
    })),
    width,
  };
}

/** Complex numbers as `1.5-2i`: the parts, aligned each, with the sign between them. */
function writeComplex(
  values: readonly Complex[],
  { lane }: DTypeInfo,
  precision: number | undefined,
  scientific: boolean | undefined,
): string[] {
  const write = (parts: readonly number[]): string[] =>
    writeFloats(parts, ROUND[lane!.name], precision, scientific);
  const re = write(values.map((value) => value.re));
  const im = write(values.map((value) => value.im));
  return re.map((text, i) => `${text}${/^[-]/.test(im[i]!) ? "" : "+"}${im[i]}i`);
}

function writeFloats(
  values: readonly number[],
  round: ((value: number) => number) | undefined,
  precision: number | undefined,
  scientific: boolean | undefined,
): string[] {
  const finite = values.filter(Number.isFinite);
  const shortest = new Map(finite.map((value) => [value, shortestDigits(value, round)]));
  const max = largest(finite.map(Math.abs));
  const left = SIGNIFICANT - 1 - (max === 0 ? 0 : shortestDigits(max, round).exponent);
  // Without a digit after the point, a fraction would look like a whole number.
  const hidden = precision === undefined && left < 1 && !finite.every(Number.isInteger);
  const wide = wantsExponent(finite, round);
  if (!(scientific ?? (hidden || wide))) {
    // Asked to do without exponents, small numbers next to large ones keep some digits.
    const digits = Math.min(100, precision ?? Math.max(wide ? 8 : 1, left));
    return values.map((value) => {
      const found = shortest.get(value);
      if (found === undefined) return String(value);
      const places = Math.max(0, found.places - found.exponent);
      // toFixed() itself uses exponents from there on.
      const text = Math.abs(value) < 1e21
        ? signed(value, value.toFixed(Math.min(places, digits)))
        : String(BigInt(value));
      return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
    });
  }
  const digits = Math.min(100, precision ?? SIGNIFICANT - 1);
  const places = largest(Array.from(shortest, ([value, found]) => {
    const text = value.toExponential(Math.min(found.places, digits));
    return /\.(\d*[1-9])0*e/.exec(text)?.[1]?.length ?? 0;
  }));
  const parts = values.map((value) => value.toExponential(places).split("e"));
  const powers = Math.max(2, largest(parts.map(([, power = ""]) => power.length - 1)));
  return parts.map(([mantissa = "", power], i) => {
    if (power === undefined) return mantissa;
    return signed(values[i]!, `${mantissa}e${power[0]}${power.slice(1).padStart(powers, "0")}`);
  });
}

/** Not Math.max(...list), which overflows the stack for long lists. */
function largest(list: readonly number[]): number {
  return list.reduce((a, b) => a > b ? a : b, 0);
}

/** JavaScript does not write the sign of -0. */
function signed(value: number, text: string): string {
  return Object.is(value, -0) ? `-${text}` : text;
}

/**
 * The fewest digits that identify `value` among its neighbors, as in `value.toExponential(places)`.
 */
function shortestDigits(
  value: number,
  round: ((value: number) => number) | undefined,
): { places: number; exponent: number } {
  let text = value.toExponential();
  if (round !== undefined) {
    let places = 0;
    do text = value.toExponential(places++); while (round(Number(text)) !== value);
  }
  const [mantissa, exponent] = text.split("e") as [string, string];
  return { places: mantissa.split(".")[1]?.length ?? 0, exponent: Number(exponent) };
}

/** NumPy's rule, except that whole numbers stay whole below 1e8, however large their range. */
function wantsExponent(
  finite: readonly number[],
  round: (value: number) => number = Number,
): boolean {
  let min = Infinity;
  let max = 0;
  for (const value of finite) {
    const magnitude = Math.abs(value);
    if (magnitude > max) max = magnitude;
    if (magnitude > 0 && magnitude < min) min = magnitude;
  }
  if (max === 0) return false;
  if (max >= 1e8) return true;
  // Rounded, since 0.0001 in float32 is below 0.0001.
  return (min < round(1e-4) || round(max / min) > 1000) && !finite.every(Number.isInteger);
}
