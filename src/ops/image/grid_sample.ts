/**
 * Samples of images and volumes at places of a grid.
 *
 * @module
 */
import { ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { rowDType } from "../softmax_norm/problem.ts";

/** How samples are interpolated. */
export const GRID_MODES = ["nearest", "linear", "cubic"] as const;
/** What lies beyond the elements: zeros, the last element, or the elements mirrored. */
export const GRID_PADDINGS = ["zeros", "border", "reflection"] as const;

/** Attributes of `gridSample`. */
export interface GridSampleAttributes {
  readonly mode: (typeof GRID_MODES)[number];
  readonly padding: (typeof GRID_PADDINGS)[number];
  /** Whether -1 and 1 are the centers of the first and last elements, not their outer edges. */
  readonly alignCorners: boolean;
  /** The parameter of the cubic convolution. */
  readonly cubicCoeff: number;
}

/** Inputs: x [N, C, …sizes] and places [N, …sizes of the result, axes], the last axis first. */
const GRID_SAMPLE: Op = makeOp({
  kind: "kernel",
  name: "gridSample",
  contiguous: [0, 1],
  outOffset: true,
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, grid], name } = call;
    checkOperand(x, name);
    checkOperand(grid, name);
    checkDevice(x.storage, grid.storage, name);
    checkKind(x.storage.info, "f", name);
    checkKind(grid.storage.info, "f", name);
    const [from, places] = [x.layout.shape, grid.layout.shape];
    const axes = from.length - 2;
    const fits = axes >= 1 && axes <= 3 && places.length === axes + 2 && places.at(-1) === axes &&
      sameShape(places.slice(0, 1), from.slice(0, 1));
    if (!fits) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(from)} at places ${formatShape(places)}: they are ` +
          "[N, C, ...sizes] of 1 to 3 axes, and [N, ...sizes, axes]",
      );
    }
    const to = [from[0]!, from[1]!, ...places.slice(1, -1)];
    if (from.slice(2).includes(0) && !to.includes(0)) {
      throw new ShapeError(`Cannot ${name} shape ${formatShape(from)}: it has no elements`);
    }
    return call.result(to, x.storage.info);
  },
});

/** Samples of `x`, in its dtype; 16-bit floats are computed in float32. */
export function gridSample(
  name: string,
  x: Operand,
  grid: Operand,
  attributes: GridSampleAttributes,
): Operand {
  return tidy(() => {
    checkOperand(x, name);
    checkOperand(grid, name);
    const { info } = x.storage;
    if (info.kind !== "f") return dispatch(GRID_SAMPLE, [x, grid], attributes, undefined, name);
    const { name: wide } = rowDType(info);
    const places = grid.storage.info.kind === "f" ? cast(grid, wide) : grid;
    return cast(
      dispatch(GRID_SAMPLE, [cast(x, wide), places], attributes, undefined, name),
      info.name,
    );
  });
}
