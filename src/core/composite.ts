/**
 * Shared code of ops composed of views and copies.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { writeCopy } from "./copy.ts";
import { wrap } from "./handles.ts";
import { checkWholeBlocks } from "./lanes.ts";
import type { Operand } from "../memory/operand.ts";
import { allocateIn } from "../memory/device.ts";
import { checkOperand } from "../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../table/op.ts";

/** An op composed of others. */
export function composite(
  name: string,
  infer: (call: Call, x: Operand) => OutputSpec[],
  decompose: (call: Call, x: Operand) => Operand | readonly Operand[],
  aliases?: Op["aliases"],
): Op {
  return makeOp({
    kind: "kernel",
    name,
    aliases,
    infer(call) {
      const [x] = call.inputs;
      checkOperand(x, call.name);
      return infer(call, x);
    },
    decompose: (call) => decompose(call, call.operand(0)),
  });
}

/** An unfilled result of `shape` like `x`. */
export function empty(
  shape: readonly number[],
  { storage }: Operand,
  info = storage.info,
): Operand {
  checkWholeBlocks(info, shape, "make a tensor of");
  const layout = Layout.contiguous(shape);
  return wrap(allocateIn(storage.memory, info, layout.size, false), layout);
}

/** A part of `x`: not a handle. */
export function part(x: Operand, layout: Layout): Operand {
  return { storage: x.storage, layout, flags: x.flags };
}

/** A copy of `x` in row-major order in another shape of the same size. */
export function copyAs(x: Operand, shape: readonly number[]): Operand {
  const made = empty(shape, x);
  writeCopy(part(made, Layout.contiguous(x.layout.shape)), x);
  return made;
}
