/**
 * Makes the tensors that inputs specify. peer.py does the same in Python.
 *
 * @module
 */
import * as rm from "../../mod.ts";
import { type AnyTensor, type Input, uniform } from "./suite.ts";

// Inputs have dtypes and shapes that types do not know.
// deno-lint-ignore no-explicit-any
type Any = any;

/** The tensor of an input, the `stream`-th of its row. */
export function make({ dtype, shape, kind, low, high }: Input, stream: number): AnyTensor {
  const key = rm.random.key(stream + 1);
  if (kind === "uniform") {
    const size = shape.reduce((product, n) => product * n, 1);
    // A copy, as its memory is then rowmajor's own.
    return rm.fromBuffer(uniform(size, stream, low!, high!)).copy().reshape(shape) as Any;
  }
  if (kind === "ones") return rm.full(shape, 1, { dtype: dtype as rm.DType }) as Any;
  const counts = dtype === "bool" || /^u?int/.test(dtype);
  if (kind === "integers" || (kind === undefined && counts)) {
    const [from, to] = dtype === "bool" ? [0, 2] : [low ?? 1, high ?? 101];
    return (rm.random.integers as Any)(key, shape, from, to).astype(dtype);
  }
  const float64 = /^(float64|complex128)$/.test(dtype);
  const wide = kind === "normal" || kind === "positive" || kind === undefined ? float64 : true;
  const numbers = (key: rm.random.Key): Any =>
    rm.random.normal(key, shape, { dtype: wide ? "float64" : "float32" });
  let x = numbers(key);
  if (dtype.startsWith("complex")) x = rm.complex(x, numbers(rm.random.key(stream + 101)));
  if (kind === "positive") x = x.abs();
  else if (kind === "scaled") x = x.mul(10000).clip(-32768, 32767);
  else if (kind === "sorted") x = x.sort();
  else if (kind === "definite") {
    const n = shape.at(-1)!;
    // In complex numbers, the product with the conjugate transpose is definite.
    const other = dtype.startsWith("complex") ? x.mT.conj() : x.mT;
    x = x.matmul(other).add(rm.eye(n, { dtype: "float64" }).mul(n));
  }
  return x.astype(dtype);
}

/** Disposes of all tensors in what a call returned. */
export function drop(made: unknown): void {
  if (made instanceof rm.Tensor) made.dispose();
  else if (typeof made === "object" && made !== null) Object.values(made).forEach(drop);
}
