/**
 * Shared code of ops composed of views and copies.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { writeCopy } from "./copy.ts";
import { dispatch } from "./dispatch.ts";
import { wrap } from "./handles.ts";
import { checkWholeBlocks } from "./lanes.ts";
import type { Operand } from "../memory/operand.ts";
import { allocateIn } from "../memory/device.ts";
import { checkOperand } from "../table/infer.ts";
import { type Call, makeOp, type Op, OPS, type OutputSpec } from "../table/op.ts";

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

/**
 * An unfilled result of `shape` like `x`. One of a program is made in each run: memory from here would be
 * that of all its runs.
 */
export function empty(
  shape: readonly number[],
  { storage }: Operand,
  info = storage.info,
): Operand {
  checkWholeBlocks(info, shape, "make a tensor of");
  if (storage.isTraced && info.block === 1) {
    const value = info.kind === "b" ? false : 0;
    const attributes = { shape: [...shape], value, dtype: info.name, device: storage.device };
    return dispatch(OPS.get("full")!, [], attributes);
  }
  const layout = Layout.contiguous(shape);
  return wrap(allocateIn(storage.memory, info, layout.size, false), layout);
}

/** The operand that a result is like: one of a program rather than a constant. */
export function tracedOf(a: Operand, b: Operand): Operand {
  return b.storage.isTraced ? b : a;
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
