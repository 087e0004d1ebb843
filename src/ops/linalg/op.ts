/**
 * The ops of linear algebra that have kernels: what they take, and the shapes of their results.
 *
 * @module
 */
import { complexOf, DTYPE, type DTypeInfo, realOf } from "../../base/dtype.ts";
import { LinAlgError, ShapeError } from "../../base/errors.ts";
import { broadcastShapes, formatShape } from "../../base/shape.ts";
import { converted } from "../../core/prepare.ts";
import { deviceDType, linalgDType } from "../matmul/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { isHost } from "../../memory/storage.ts";
import { Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";

/** What is known of a call when the shapes of its results are inferred. */
interface Known {
  readonly call: Call;
  /** The dtype of the arithmetic, of its real parts, and of complex results. */
  readonly info: DTypeInfo;
  readonly real: DTypeInfo;
  /** The batch, rows and columns of the first operand. */
  readonly batch: readonly number[];
  readonly m: number;
  readonly n: number;
}

/** Throws a ShapeError for shapes that an op does not take. */
function refuse(name: string, shapes: readonly (readonly number[])[], why: string): ShapeError {
  const text = shapes.map((shape) => formatShape(shape)).join(" and ");
  return new ShapeError(`Cannot ${name} shape${shapes.length > 1 ? "s" : ""} ${text}: ${why}`);
}

/** Why a matrix has no result. */
const REASONS: Readonly<Record<string, string>> = {
  cholesky: "it is not positive definite",
  solve: "it is singular",
  inv: "it is singular",
  solveTriangular: "it is singular",
};

/** Throws the error of a matrix that a kernel has found. */
function checkFailure({ op, name, badIndex, inputs }: Call): void {
  if (badIndex < 0) return;
  const size = (inputs[0] as Operand).layout.shape.at(-2)!;
  const matrix = Math.floor(badIndex / (size + 1)), pivot = badIndex % (size + 1);
  const why = pivot === size
    ? "the iteration does not converge"
    : `${REASONS[op.name] ?? "it has no result"} (pivot ${pivot})`;
  throw new LinAlgError(
    `Cannot ${name} matrix ${matrix}: ${why}`,
    name,
    matrix,
    pivot === size ? -1 : pivot,
  );
}

function linalgOp(
  name: string,
  isSquare: boolean,
  outputs: (known: Known) => readonly OutputSpec[],
): Op {
  const op: Op = makeOp<Op>({
    kind: "kernel",
    name,
    complex: true,
    check: checkFailure,
    infer(call) {
      for (const x of call.inputs) checkOperand(x, call.name);
      const operands = call.inputs as Operand[];
      const { shape } = operands[0]!.layout;
      if (operands.length > 1) checkDevice(operands[0]!.storage, operands[1]!.storage, call.name);
      const info = linalgDType(call.name, operands.map(({ storage }) => storage.info));
      if (shape.length < 2) throw refuse(call.name, [shape], "it takes matrices");
      const [m, n] = shape.slice(-2) as [number, number];
      if (isSquare && m !== n) throw refuse(call.name, [shape], "it takes square matrices");
      return outputs({ call, info, real: realOf(info), batch: shape.slice(0, -2), m, n });
    },
    prepare(call) {
      const operands = call.inputs as Operand[];
      const { info: first, memory } = operands[0]!.storage;
      const fits = first.kind !== "i" && first.kind !== "u" && isHost(memory) &&
        (operands.length === 1 || operands[1]!.storage.info === first);
      if (fits) return null;
      const own = linalgDType(call.name, operands.map(({ storage }) => storage.info));
      const info = isHost(memory) ? own : deviceDType(call, own);
      if (operands.every(({ storage }) => storage.info === info)) return null;
      const inputs = operands.map((x) => converted(x, info));
      if (info === own) return { inputs };
      const specs = op.infer(new Call(op, call.name, inputs, call.attributes));
      return { inputs, specs: specs as readonly OutputSpec[] };
    },
  });
  return op;
}

/** The shape of the solution of a system; a vector has no batch. */
function solutionShape({ call, batch, n }: Known): readonly number[] {
  const [a, b] = [call.operand(0).layout.shape, call.operand(1).layout.shape];
  const isVector = b.length === 1;
  if (b.length === 0) throw refuse(call.name, [a, b], "the right side has no rows");
  const rows = b[isVector ? 0 : b.length - 2]!;
  if (rows !== n) throw refuse(call.name, [a, b], `sizes ${n} and ${rows} of the system differ`);
  if (isVector) return [...batch, n];
  return [...broadcastShapes(call.name, batch, b.slice(0, -2)), n, b.at(-1)!];
}

const square = (
  { batch, n, info }: Known,
): OutputSpec[] => [{ shape: [...batch, n, n], dtype: info }];
const solution = (known: Known): OutputSpec[] => [
  { shape: solutionShape(known), dtype: known.info },
];

/** The ops, by name. */
export const LINALG = {
  cholesky: linalgOp("cholesky", true, square),
  inv: linalgOp("inv", true, square),
  expm: linalgOp("expm", true, square),
  det: linalgOp("det", true, ({ batch, info }) => [{ shape: batch, dtype: info }]),
  slogdet: linalgOp("slogdet", true, ({ batch, info, real }) => [
    { shape: batch, dtype: info },
    { shape: batch, dtype: real },
  ]),
  solve: linalgOp("solve", true, solution),
  solveTriangular: linalgOp("solveTriangular", true, solution),
  lu: linalgOp("lu", false, ({ batch, m, n, info }) => {
    const k = Math.min(m, n);
    return [
      { shape: [...batch, m, k], dtype: info },
      { shape: [...batch, k, n], dtype: info },
      { shape: [...batch, m], dtype: DTYPE.int32 },
    ];
  }),
  qr: linalgOp("qr", false, ({ call, batch, m, n, info }) => {
    const k = call.attributes.mode === "complete" ? m : Math.min(m, n);
    return [{ shape: [...batch, m, k], dtype: info }, { shape: [...batch, k, n], dtype: info }];
  }),
  eigh: linalgOp("eigh", true, ({ batch, n, info, real }) => [
    { shape: [...batch, n], dtype: real },
    { shape: [...batch, n, n], dtype: info },
  ]),
  eigvalsh: linalgOp("eigvalsh", true, ({ batch, n, real }) => [
    { shape: [...batch, n], dtype: real },
  ]),
  svd: linalgOp("svd", false, ({ call, batch, m, n, info, real }) => {
    const k = Math.min(m, n);
    const { fullMatrices } = call.attributes;
    return [
      { shape: [...batch, m, fullMatrices ? m : k], dtype: info },
      { shape: [...batch, k], dtype: real },
      { shape: [...batch, fullMatrices ? n : k, n], dtype: info },
    ];
  }),
  svdvals: linalgOp("svdvals", false, ({ batch, m, n, real }) => [
    { shape: [...batch, Math.min(m, n)], dtype: real },
  ]),
  eig: linalgOp("eig", true, ({ batch, n, info }) => {
    const dtype = complexOf(info);
    return [{ shape: [...batch, n], dtype }, { shape: [...batch, n, n], dtype }];
  }),
  eigvals: linalgOp("eigvals", true, ({ batch, n, info }) => [
    { shape: [...batch, n], dtype: complexOf(info) },
  ]),
} as const satisfies Record<string, Op>;
