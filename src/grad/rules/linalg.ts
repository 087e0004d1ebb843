/**
 * Derivatives of factors of matrices, inverses and solutions, of real and complex numbers.
 *
 * Those of eigenvalues need different ones, and those of singular vectors different and positive singular
 * values: between equal ones the derivative is infinite, and the results are not finite.
 *
 * @module
 */
import { apply, applyCreate } from "../../core/apply.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { DerivativeError } from "../../base/errors.ts";
import type { Operand } from "../../memory/operand.ts";
import { EYE } from "../../ops/create/full.ts";
import { pseudoInverse } from "../../ops/linalg/least_squares.ts";
import { LINALG } from "../../ops/linalg/op.ts";
import { concat } from "../../ops/join/op.ts";
import { triangle } from "../../ops/manipulate/op.ts";
import { MAP } from "../../table/table.ts";
import {
  add,
  castTo,
  conj,
  div,
  equal,
  matmul,
  mT,
  mul,
  narrow,
  neg,
  reshape,
  sub,
  where,
  zeros,
} from "../tape/arithmetic.ts";
import { addRules, type Gradient, type Rule } from "../tape/rule.ts";

/** The conjugate transpose. */
const adjoint = (x: Operand): Operand => conj(mT(x));
/** A vector for each matrix as the rows, or the columns, of one row. */
const asRow = (x: Operand): Operand => reshape(x, [...x.layout.shape.slice(0, -1), 1, -1]);
const asColumn = (x: Operand): Operand => reshape(x, [...x.layout.shape, 1]);
/** A number for each matrix as a matrix. */
const asMatrix = (x: Operand): Operand => reshape(x, [...x.layout.shape, 1, 1]);
const half = (x: Operand): Operand => mul(x, 0.5);
/** The elements on the diagonal as they are, and those elsewhere as 0. */
const onDiagonal = (x: Operand): Operand => sub(triangle("tril", x, 0), triangle("tril", x, -1));
const solve = (a: Operand, b: Operand): Operand => dispatch(LINALG.solve, [a, b]);

const inv: Rule = ({ outputs, keep }) => {
  const result = keep(outputs[0]!);
  return ([g]) => {
    const own = adjoint(result());
    return [neg(matmul(matmul(own, g!), own))];
  };
};

/** det(x) · x⁻ᴴ */
const det: Rule = ({ inputs, outputs, keep }) => {
  const x = keep(inputs[0] as Operand), result = keep(outputs[0]!);
  return ([g]) => {
    const inverse = adjoint(dispatch(LINALG.inv, [x()]));
    return [mul(asMatrix(mul(g!, conj(result()))), inverse)];
  };
};

const slogdet: Rule = ({ inputs, outputs, keep }) => {
  const x = keep(inputs[0] as Operand), sign = keep(outputs[0]!);
  return ([gSign, gLog]) => {
    const inverse = adjoint(dispatch(LINALG.inv, [x()]));
    let factor: Operand | undefined = gLog;
    // A real sign is constant between jumps; that of complex numbers has the angle.
    if (gSign !== undefined && gSign.storage.info.kind === "c") {
      const own = sign();
      const turned = mul(gSign, conj(own));
      const angle = mul(apply(MAP.imag, turned), { re: 0, im: 1 });
      factor = factor === undefined ? angle : add(factor, angle);
    }
    return [factor && mul(asMatrix(factor), inverse)];
  };
};

/** The derivative by the matrix of a system, of that by the right side and the solution. */
function byMatrix(b: Operand, x: Operand, isVector: boolean): Operand {
  return neg(isVector ? matmul(asColumn(b), conj(asRow(x))) : matmul(b, adjoint(x)));
}

const solution: Rule = ({ inputs, outputs, keep, wants }) => {
  const [a, b] = inputs as [Operand, Operand];
  const kept = keep(a), result = keep(outputs[0]!);
  const isVector = b.layout.rank === 1;
  return ([g]) => {
    const transposed = adjoint(kept());
    const byRight = isVector
      ? reshape(solve(transposed, asColumn(g!)), g!.layout.shape)
      : solve(transposed, g!);
    return [wants(0) ? byMatrix(byRight, result(), isVector) : undefined, byRight];
  };
};

/** Attributes of `solveTriangular`. */
interface TriangularAttributes {
  readonly upper?: boolean;
  readonly unitDiagonal?: boolean;
}

const triangular: Rule = ({ call, inputs, outputs, keep, wants }) => {
  const [a, b] = inputs as [Operand, Operand];
  const { upper = false, unitDiagonal = false } = call.attributes as TriangularAttributes;
  const kept = keep(a), result = keep(outputs[0]!);
  const isVector = b.layout.rank === 1;
  return ([g]) => {
    const transposed = adjoint(kept());
    const attributes = { ...call.attributes, upper: !upper };
    const columns = isVector ? asColumn(g!) : g!;
    const solved = dispatch(LINALG.solveTriangular, [transposed, columns], attributes);
    const byRight = isVector ? reshape(solved, g!.layout.shape) : solved;
    let byLeft: Gradient;
    if (wants(0)) {
      const whole = byMatrix(byRight, result(), isVector);
      const from = unitDiagonal ? (upper ? 1 : -1) : 0;
      byLeft = triangle(upper ? "triu" : "tril", whole, from);
    }
    return [byLeft, byRight];
  };
};

/** The factor is of the lower triangle; the derivative by the matrix is symmetric. */
const cholesky: Rule = ({ call, outputs, keep }) => {
  const upper = (call.attributes as TriangularAttributes | undefined)?.upper === true;
  const result = keep(outputs[0]!);
  return ([given]) => {
    const factor = upper ? adjoint(result()) : result();
    const g = triangle("tril", upper ? adjoint(given!) : given!, 0);
    const product = matmul(adjoint(factor), g);
    const lower = sub(triangle("tril", product, 0), half(onDiagonal(product)));
    const inverse = dispatch(LINALG.inv, [factor]);
    const made = matmul(matmul(adjoint(inverse), lower), inverse);
    return [half(add(made, adjoint(made)))];
  };
};

// ---- eigenvalues and singular values -----------------------------------------------------------

/** 1 / (v_j − v_i) for each pair of a vector's elements, and 0 on the diagonal. */
function inverseDifferences(values: Operand): Operand {
  const differences = sub(asRow(values), asColumn(values));
  const isSame = eyeLike(differences);
  return where(isSame, 0, div(1, where(isSame, 1, differences)));
}

/** The identity of the size of the last axis of `x`, in its dtype. */
function identityLike({ layout, storage }: Operand): Operand {
  const n = layout.shape.at(-1)!;
  return applyCreate(EYE, {
    shape: [n, n],
    k: 0,
    dtype: storage.info.name,
    device: storage.device,
  });
}

/** True on the diagonal of matrices of the shape of `x`. */
const eyeLike = (x: Operand): Operand => equal(identityLike(x), 1);

/** Vectors as diagonal matrices of the dtype of `like`. */
function diagonal(values: Operand, like: Operand): Operand {
  const own = castTo(values, like.storage.info);
  return mul(identityLike(own), asColumn(own));
}

const eigh: Rule = ({ outputs, keep }) => {
  const values = keep(outputs[0]!), vectors = keep(outputs[1]!);
  return ([gValues, gVectors]) => {
    const v = vectors();
    let inner: Operand | undefined;
    if (gVectors !== undefined) {
      inner = mul(matmul(adjoint(v), gVectors), inverseDifferences(values()));
    }
    if (gValues !== undefined) {
      const own = diagonal(gValues, v);
      inner = inner === undefined ? own : add(inner, own);
    }
    const made = matmul(matmul(v, inner!), adjoint(v));
    return [half(add(made, adjoint(made)))];
  };
};

const eigvalsh: Rule = ({ call, inputs, keep }) => {
  const x = keep(inputs[0] as Operand);
  return ([g]) => {
    const [, v] = dispatchAll(LINALG.eigh, [x()], call.attributes) as [Operand, Operand];
    const scaled = mul(v, castTo(asRow(g!), v.storage.info));
    return [matmul(scaled, adjoint(v))];
  };
};

const svdvals: Rule = ({ inputs, keep }) => {
  const x = keep(inputs[0] as Operand);
  return ([g]) => {
    const [u, , vh] = dispatchAll(LINALG.svd, [x()], { fullMatrices: false }) as Operand[];
    return [matmul(mul(u!, castTo(asRow(g!), u!.storage.info)), vh!)];
  };
};

const svd: Rule = ({ call, inputs, outputs, keep }) => {
  const { shape } = (inputs[0] as Operand).layout;
  const [m, n] = shape.slice(-2) as [number, number];
  if (call.attributes.fullMatrices && m !== n) {
    throw new DerivativeError(
      `Cannot differentiate ${call.name} with all vectors of matrices that are not square: use ` +
        "fullMatrices: false",
    );
  }
  const kept = outputs.map((one) => keep(one));
  return ([gU, gS, gVh]) => {
    const [u, s, vh] = kept.map((one) => one()) as [Operand, Operand, Operand];
    const { info } = u.storage;
    const values = castTo(s, info);
    // 1 / (s_j² − s_i²)
    const f = castTo(inverseDifferences(apply(MAP.square, s)), info);
    const row = asRow(values), column = asColumn(values);
    let inner: Operand | undefined;
    const plus = (one: Operand): void => {
      inner = inner === undefined ? one : add(inner, one);
    };
    if (gU !== undefined) {
      const product = mul(matmul(adjoint(u), gU), f);
      plus(mul(add(product, adjoint(product)), row));
    }
    if (gVh !== undefined) {
      const product = mul(matmul(vh, adjoint(gVh)), f);
      plus(mul(column, add(product, adjoint(product))));
    }
    if (gS !== undefined) plus(diagonal(gS, u));
    if (info.kind === "c" && gU !== undefined) {
      // The phases of vectors are free: what they change is left out of the real parts.
      const own = onDiagonal(matmul(adjoint(u), gU));
      plus(div(half(sub(own, conj(own))), row));
    }
    let made = matmul(matmul(u, inner!), vh);
    const inverse = div(1, row);
    if (gU !== undefined && m > n) {
      const rest = sub(gU, matmul(u, matmul(adjoint(u), gU)));
      made = add(made, matmul(mul(rest, inverse), vh));
    }
    if (gVh !== undefined && n > m) {
      const rest = sub(gVh, matmul(matmul(gVh, adjoint(vh)), vh));
      made = add(made, matmul(mul(u, inverse), rest));
    }
    return [made];
  };
};

/** The derivative by a matrix q · r of as many rows as columns or more. */
function byFactors(q: Operand, r: Operand, gQ: Gradient, gR: Gradient): Operand {
  let product: Operand | undefined;
  if (gR !== undefined) product = matmul(r, adjoint(gR));
  if (gQ !== undefined) {
    const other = matmul(adjoint(gQ), q);
    product = product === undefined ? neg(other) : sub(product, other);
  }
  // The lower triangle, and above it its conjugate transpose.
  const lower = triangle("tril", product!, -1);
  const hermitian = add(triangle("tril", product!, 0), adjoint(lower));
  const inner = gQ === undefined ? matmul(q, hermitian) : add(gQ, matmul(q, hermitian));
  // inner · r⁻ᴴ
  return adjoint(dispatch(LINALG.solveTriangular, [r, adjoint(inner)], { upper: true }));
}

const qr: Rule = ({ call, inputs, outputs, keep }) => {
  const { shape } = (inputs[0] as Operand).layout;
  const [m, n] = shape.slice(-2) as [number, number];
  if (call.attributes.mode === "complete" && m > n) {
    throw new DerivativeError(
      `Cannot differentiate ${call.name} of matrices of ${m} rows and ${n} columns in mode ` +
        `${call.attributes.mode}: the other columns of q are not unique; use mode "reduced"`,
    );
  }
  const q = keep(outputs[0]!), r = keep(outputs[1]!);
  const y = m < n ? keep(inputs[0] as Operand) : undefined;
  return ([gQ, gR]) => {
    const own = q(), upper = r();
    if (y === undefined) return [byFactors(own, upper, gQ, gR)];
    // The first columns x have the factors q and u; those after them are y = q · v.
    const columns = (of: Operand, from: number, count: number): Operand =>
      narrow(of, of.layout.rank - 1, from, count);
    const gV = gR && columns(gR, m, n - m);
    const rest = gV && matmul(columns(y(), m, n - m), adjoint(gV));
    const gFirst = gQ === undefined ? rest : rest === undefined ? gQ : add(gQ, rest);
    const byX = byFactors(own, columns(upper, 0, m), gFirst, gR && columns(gR, 0, m));
    const byY = gV === undefined ? zeros([...shape.slice(0, -1), n - m], own) : matmul(own, gV);
    return [concat([byX, byY], -1)];
  };
};

/**
 * The derivative by a of its pseudoinverse P, with G by that, is −Pᴴ G Pᴴ + (1 − a P) Gᴴ P Pᴴ +
 * Pᴴ P Gᴴ (1 − P a): finite also for equal singular values, and for those that count as 0.
 */
const pinv: Rule = ({ inputs, outputs, keep }) => {
  const x = keep(inputs[0] as Operand), result = keep(outputs[0]!);
  const [m, n] = (inputs[0] as Operand).layout.shape.slice(-2) as [number, number];
  return ([g]) => {
    const [a, p, gh] = [x(), result(), adjoint(g!)];
    const ph = adjoint(p);
    if (m >= n) {
      const k = matmul(p, gh);
      const others = matmul(sub(gh, matmul(a, k)), matmul(p, ph));
      return [add(matmul(ph, sub(sub(k, adjoint(k)), matmul(matmul(k, p), a))), others)];
    }
    const k = matmul(gh, p);
    const others = matmul(matmul(ph, p), sub(gh, matmul(k, a)));
    return [add(matmul(sub(sub(k, adjoint(k)), matmul(a, matmul(p, k))), ph), others)];
  };
};

/** Those of P b, with the shortest solution x = P b: as of {@link pinv}, without a matrix of its size. */
const lstsq: Rule = ({ inputs, outputs, keep, wants }) => {
  const kept = (inputs as readonly Operand[]).map((one) => keep(one)), result = keep(outputs[0]!);
  return ([g]) => {
    const [a, b, u, divisor, isUsed, vh] = kept.map((one) => one()) as [
      ...[Operand, Operand, Operand, Operand, Operand, Operand],
    ];
    const x = result(), inverse = asRow(where(isUsed, div(1, divisor), 0));
    const p = pseudoInverse(a, u, inverse, vh);
    const byRight = matmul(adjoint(p), g!);
    if (!wants(0)) return [undefined, byRight];
    const rest = matmul(sub(b, matmul(a, x)), adjoint(matmul(p, byRight)));
    const free = matmul(matmul(adjoint(p), x), adjoint(sub(g!, matmul(p, matmul(a, g!)))));
    return [add(add(byMatrix(byRight, x, false), rest), free), byRight];
  };
};

/** The exponential of [[xᴴ, g], [0, xᴴ]] has the derivative in its corner. */
const expm: Rule = ({ inputs, keep }) => {
  const x = keep(inputs[0] as Operand);
  return ([g]) => {
    const own = adjoint(x());
    const n = own.layout.shape.at(-1)!;
    const top = concat([own, g!], -1);
    const bottom = concat([zeros(own.layout.shape, own), own], -1);
    const whole = dispatch(LINALG.expm, [concat([top, bottom], -2)]);
    const rank = own.layout.rank;
    return [narrow(narrow(whole, rank - 2, 0, n), rank - 1, n, n)];
  };
};

addRules({
  inv,
  det,
  slogdet,
  solve: solution,
  solveTriangular: triangular,
  cholesky,
  // Of covariances that are not singular.
  covarianceFactor: cholesky,
  eigh,
  eigvalsh,
  svd,
  svdvals,
  qr,
  expm,
  pinv,
  lstsq,
});
