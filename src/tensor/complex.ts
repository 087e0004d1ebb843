/**
 * Complex tensors of their parts.
 *
 * @module
 */
import { writeCopy, writeValue } from "../core/copy.ts";
import { complexOf, DTYPE, promoteTypes, type Scalar } from "../base/dtype.ts";
import { DTypeError } from "../base/errors.ts";
import { broadcastShapes } from "../base/shape.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { partOf } from "../core/lanes.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../table/infer.ts";
import { type Call, type Input, makeOp, type Op } from "../table/op.ts";
import type * as t from "../types/mod.ts";
import { empty } from "../core/composite.ts";
import type { AnyTensor, Tensor, UnaryOptions } from "./tensor.ts";

const COMPLEX: Op = makeOp({
  kind: "kernel",
  name: "complex",
  infer(call: Call) {
    const { inputs: [re, im], name } = call;
    checkOperand(re, name);
    let { info } = re.storage;
    let { shape } = re.layout;
    checkKind(info, "biuf", name);
    if (isOperand(im)) {
      checkOperand(im, name);
      checkDevice(re.storage, im.storage, name);
      checkKind(im.storage.info, "biuf", name);
      info = DTYPE[promoteTypes(info.name, im.storage.info.name, name)];
      shape = broadcastShapes(name, shape, im.layout.shape) as number[];
    } else if (typeof im !== "number") {
      throw new DTypeError(`Cannot ${name}: the imaginary part is a tensor or a number`);
    }
    return [{ shape, dtype: complexOf(info) }];
  },
  decompose(call: Call): Operand {
    const { inputs: [re, im], specs } = call;
    const { shape, dtype } = specs[0]!;
    const made = empty(shape, re as Operand, dtype);
    const parts: Input[] = [re, im];
    parts.forEach((x, k) => {
      const target = partOf(made, k as 0 | 1);
      if (!isOperand(x)) writeValue(target, x as Scalar);
      else {
        const { storage, layout, flags } = x;
        writeCopy(target, { storage, layout: layout.broadcastTo(shape), flags });
      }
    });
    return made;
  },
});

/** The dtype of complex numbers of which `A` and `B` are the parts. */
export type ComplexOf<A, B> = t.ToComplex[t.OperandDType<"where", A, B>];

/**
 * The complex numbers with the given real and imaginary parts, which broadcast: complex128 if one of
 * them is float64, else complex64.
 *
 * @throws {DTypeError} For parts that are complex themselves.
 *
 * @example
 * ```ts
 * complex(tensor([1, 2]), tensor([0, -1])).toArray(); // => [{ re: 1, im: 0 }, { re: 2, im: -1 }]
 * complex(tensor([1, 2]), 3).imag().toArray(); // => [3, 3]
 * ```
 */
export function complex<A extends AnyTensor, B extends AnyTensor | number = 0>(
  re: A,
  im?: B,
  options?: UnaryOptions,
): Tensor<ComplexOf<A, B>, t.Ok<t.Broadcast<t.ShapeOf<A>, t.ShapeOf<B>>>, A["device"]>;
export function complex(
  re: AnyTensor,
  im: AnyTensor | number = 0,
  options?: UnaryOptions,
): Operand {
  if (options !== undefined) checkOptions("complex", options, ["out"]);
  const second = typeof im === "object" ? ownOperand(im, "complex") : im;
  const first = ownOperand(re, "complex");
  return dispatch(COMPLEX, [first, second], undefined, options?.out, "complex");
}
