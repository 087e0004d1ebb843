/**
 * Joins and splits tensors: `concat`, `stack`, `split`, `unstack`.
 *
 * @module
 */
import { writeCopy } from "../../core/copy.ts";
import { DTYPE, type DType, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { IndexError, ShapeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { checkShape, formatShape, listIn, normalizeAxis, sameShape } from "../../base/shape.ts";
import { applyView, type OpOptions } from "../../core/apply.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { ownOperand } from "../../core/foreign.ts";
import { checkDevice, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";
import { composite, empty, part } from "../../core/composite.ts";

// ---- joining -----------------------------------------------------------------------------------

interface JoinAttributes {
  readonly axis: number | null;
}

/** Checks the tensors to join; returns the operands and their promoted dtype. */
function checkJoined(call: Call): { xs: readonly Operand[]; dtype: DTypeInfo } {
  const { inputs, name } = call;
  for (const x of inputs) checkOperand(x, name);
  const xs = inputs as Operand[];
  const { storage: like } = xs[0]!;
  let dtype: DType = like.info.name;
  for (const { storage } of xs) {
    checkDevice(like, storage, name);
    if (storage.info.name !== dtype) dtype = promoteTypes(dtype, storage.info.name, name);
  }
  return { xs, dtype: DTYPE[dtype] };
}

function concatShape(name: string, xs: readonly Operand[], axis: number | null): number[] {
  if (axis === null) {
    return checkShape([xs.reduce((sum, { layout }) => sum + layout.size, 0)], name);
  }
  const { shape } = xs[0]!.layout;
  const along = normalizeAxis(name, axis, shape.length);
  const total = shape.slice();
  total[along] = 0;
  for (const { layout: { shape: other } } of xs) {
    const apart = shape.findIndex((size, i) => i !== along && size !== other[i]);
    if (apart >= 0 || shape.length !== other.length) {
      throw new ShapeError(
        `Cannot ${name} shapes ${formatShape(shape)} and ${formatShape(other)}: ` + (
          shape.length !== other.length
            ? "the ranks differ"
            : `axis ${apart} has sizes ${shape[apart]} and ${other[apart]}`
        ),
      );
    }
    total[along]! += other[along]!;
  }
  return checkShape(total, name);
}

/** The output of a join. */
function joinTarget(call: Call): Operand {
  const { shape, dtype } = call.specs[0]!;
  return empty(shape, call.operand(0), dtype);
}

const CONCAT: Op = makeOp({
  kind: "kernel",
  name: "concat",
  infer(call: Call) {
    const { xs, dtype } = checkJoined(call);
    const { axis } = call.attributes as JoinAttributes;
    return [{ shape: concatShape(call.name, xs, axis), dtype }];
  },
  decompose(call: Call) {
    const { axis } = call.attributes as JoinAttributes;
    const made = joinTarget(call);
    const along = axis === null ? 0 : normalizeAxis(call.name, axis, made.layout.shape.length);
    let end = 0;
    for (const input of call.inputs as Operand[]) {
      const x = axis === null ? applyView(VIEWS.flatten, input, "flatten") : input;
      const size = x.layout.shape[along]!;
      writeCopy(part(made, made.layout.sliceAxis(along, end, size, 1)), x);
      end += size;
    }
    return made;
  },
});

const STACK: Op = makeOp({
  kind: "kernel",
  name: "stack",
  infer(call: Call) {
    const { name } = call;
    const { axis } = call.attributes as { axis: number };
    const { xs, dtype } = checkJoined(call);
    const { shape } = xs[0]!.layout;
    for (const { layout: { shape: other } } of xs) {
      if (!sameShape(shape, other)) {
        throw new ShapeError(
          `Cannot ${name} shapes ${formatShape(shape)} and ${
            formatShape(other)
          }: they must be equal`,
        );
      }
    }
    const at = normalizeAxis(name, axis, shape.length + 1);
    return [{ shape: checkShape(shape.toSpliced(at, 0, xs.length), name), dtype }];
  },
  decompose(call: Call) {
    const made = joinTarget(call);
    const axis = normalizeAxis(call.name, call.attributes.axis, made.layout.shape.length);
    (call.inputs as Operand[]).forEach((x, i) => {
      writeCopy(part(made, made.layout.selectAxis(axis, i)), x);
    });
    return made;
  },
});

function join(op: Op, xs: readonly Operand[], axis: number | null, options: OpOptions): Operand {
  const { name } = op;
  const inputs = listIn(xs, (x) => ownOperand(x as Operand, name));
  if (inputs === undefined || inputs.length === 0) {
    const such = isOperandArgument(xs) ? `, as in ${name}([a, b])` : "";
    throw new ShapeError(`Cannot ${name}: it takes an array of at least one tensor${such}`);
  }
  checkOptions(name, options, ["out"]);
  return dispatch(op, inputs, { axis }, options.out);
}

/** Joins tensors along an existing axis; with `axis` null, all elements in a row. */
export function concat(
  xs: readonly Operand[],
  axis: number | null = 0,
  options: OpOptions = {},
): Operand {
  return join(CONCAT, xs, axis, options);
}

/** Joins tensors of one shape along a new axis. */
export function stack(xs: readonly Operand[], axis = 0, options: OpOptions = {}): Operand {
  return join(STACK, xs, axis, options);
}

// ---- splitting ---------------------------------------------------------------------------------

/** More views than this are an error, rather than a program that runs out of memory. */
const MAX_VIEWS = 2 ** 22;

function checkViews(name: string, count: number, { shape }: Layout, axis: number): void {
  if (count > MAX_VIEWS) {
    throw new ShapeError(
      `Cannot ${name} shape ${
        formatShape(shape)
      } along axis ${axis}: ${count} views are more than ` +
        `${MAX_VIEWS}`,
    );
  }
}

/** The first index of each part along `axis`, and the end of the last. */
function cutsOf(
  name: string,
  { layout }: Operand,
  axis: number,
  parts: number | readonly number[],
): number[] {
  const n = layout.shape[axis]!;
  if (typeof parts === "number") {
    if (!Number.isInteger(parts) || parts < 1 || n % parts !== 0) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(layout.shape)} along axis ${axis}: ` +
          `size ${n} is not a multiple of ${parts}`,
      );
    }
    checkViews(name, parts, layout, axis);
    return Array.from({ length: parts + 1 }, (_, i) => i * (n / parts));
  }
  if (!Array.isArray(parts)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(layout.shape)} by ${describe(parts)}: ` +
        "it takes a number of parts or an array of indexes",
    );
  }
  const cuts = parts.map((cut: number) => Math.min(n, Math.max(0, cut < 0 ? cut + n : cut)));
  return [0, ...cuts, n];
}

function checkedCut(cut: unknown): number {
  if (Number.isInteger(cut)) return cut as number;
  throw new IndexError(`Cannot split at ${describe(cut)}: an index is an integer`);
}

const SPLIT = composite("split", (call, x) => {
  const { parts, axis } = call.attributes;
  const along = normalizeAxis(call.name, axis, x.layout.shape.length);
  const cuts = cutsOf(call.name, x, along, parts);
  call.memo = { along, cuts };
  return cuts.slice(1).map((end, i) => ({
    shape: x.layout.shape.with(along, Math.max(0, end - cuts[i]!)),
    dtype: x.storage.info,
  }));
}, (call, x) => {
  const { along, cuts } = call.memo as { along: number; cuts: number[] };
  return cuts.slice(1).map((end, i) => {
    const start = cuts[i]!;
    const length = Math.max(0, end - start);
    return applyView(VIEWS.narrow, x, call.name, along, start, length);
  });
}, [[0, 0]]);

/** Views on `x` along `axis`: this many equal parts, or cut before each of the given indices. */
export function split(x: Operand, parts: number | readonly number[], axis = 0): Operand[] {
  checkOperand(x, "split");
  return dispatchAll(SPLIT, [x], { parts: listIn(parts, checkedCut) ?? parts, axis });
}

const UNSTACK = composite("unstack", (call, x) => {
  const { layout: { shape } } = x;
  const along = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const length = shape[along]!;
  checkViews(call.name, length, x.layout, along);
  const spec = { shape: shape.toSpliced(along, 1), dtype: x.storage.info };
  return new Array(length).fill(spec);
}, (call, x) => {
  const axis = normalizeAxis(call.name, call.attributes.axis, x.layout.shape.length);
  return Array.from(
    { length: x.layout.shape[axis]! },
    (_, index) => applyView(VIEWS.selectAxis, x, call.name, axis, index),
  );
}, [[0, 0]]);

/** Every sub-tensor along `axis`, as views. */
export function unstack(x: Operand, axis = 0): Operand[] {
  return dispatchAll(UNSTACK, [x], { axis });
}
