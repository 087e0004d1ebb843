/**
 * Pseudoinverses and least-squares solutions by singular values: ops of their own, as their derivatives
 * are finite where those of singular vectors are not.
 *
 * @module
 */
import { broadcastShapes } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { matmul } from "../matmul/op.ts";

/** The conjugate transpose. */
export function adjoint(x: Operand): Operand {
  const transposed = applyView(VIEWS.mT, x, "mT");
  return x.storage.info.kind === "c" ? apply(MAP.conj, transposed) : transposed;
}

/**
 * The pseudoinverses of matrices [..., M, N], given their factors u [..., M, K], the inverse singular
 * values [..., 1, K] and vᴴ [..., K, N].
 */
const PINV: Op = makeOp({
  kind: "kernel",
  name: "pinv",
  infer(call: Call) {
    const { layout: { shape }, storage: { info } } = call.operand(0);
    return call.result([...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!], info);
  },
  decompose(call: Call): Operand {
    const [u, inverse, vh] = [1, 2, 3].map((k) => call.operand(k)) as [Operand, Operand, Operand];
    return matmul(apply(MAP.mul, adjoint(vh), inverse), adjoint(u));
  },
});

/** The pseudoinverses of `a` by its factors. */
export function pseudoInverse(a: Operand, u: Operand, inverse: Operand, vh: Operand): Operand {
  return dispatch(PINV, [a, u, inverse, vh]);
}

/**
 * The shortest solutions [..., N, K] for matrices a [..., M, N] and right sides b [..., M, K], given
 * the factors of a: u, singular values (1 for those that count as 0), which of them count, and vᴴ.
 */
const LSTSQ: Op = makeOp({
  kind: "kernel",
  name: "lstsq",
  infer(call: Call) {
    const [{ layout: { shape }, storage: { info } }, b] = [call.operand(0), call.operand(1)];
    const batch = broadcastShapes(call.name, shape.slice(0, -2), b.layout.shape.slice(0, -2));
    return call.result([...batch, shape.at(-1)!, b.layout.shape.at(-1)!], info);
  },
  decompose(call: Call): Operand {
    const [, b, u, divisor, isUsed, vh] = call.inputs as Operand[];
    const column = (x: Operand): Operand => applyView(VIEWS.expandDims, x, "expandDims", -1);
    const shares = apply(MAP.div, matmul(adjoint(u!), b!), column(divisor!));
    return matmul(adjoint(vh!), apply(MAP.where, column(isUsed!), shares, 0));
  },
});

/** The shortest solutions of systems by the factors of their matrices. */
export function leastSquares(
  a: Operand,
  b: Operand,
  factors: readonly [u: Operand, divisor: Operand, isUsed: Operand, vh: Operand],
): Operand {
  return dispatch(LSTSQ, [a, b, ...factors]);
}
