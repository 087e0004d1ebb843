/**
 * Weights of four bits with a scale and a zero point for each block of a row, as ONNX Runtime's
 * MatMulNBits has them: packed once, for products in float32.
 *
 * @module
 */
import { DTYPE, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { kernelCopy, resultIn } from "../../core/prepare.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { isHost } from "../../memory/storage.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { fullOperand } from "../create/full.ts";
import { stack } from "../join/op.ts";
import { GROUP_ROWS } from "../quantized/groups.ts";
import { linear } from "./op.ts";

/** The numbers of a word of a row. */
export const PER_WORD = 8;
/** The bytes before the words of a block: a float32 scale and zero point of each row. */
export const NIBBLES_HEAD = 8 * GROUP_ROWS;

/** The sizes of a packed weight [columns, depth]. */
export interface NibblesSizes {
  readonly columns: number;
  readonly depth: number;
  /** The numbers of a block. */
  readonly block: number;
}

/** The bytes of a block of a group. */
export function nibblesBlock(block: number): number {
  return NIBBLES_HEAD + block / PER_WORD * 4 * GROUP_ROWS;
}

/**
 * Inputs: bytes [rows, blocks, block / 2], the lower half first, scales and zero points [rows, blocks] of
 * float32. Gives groups of rows, as bytes.
 */
const PACK_NIBBLES: Op = makeOp({
  kind: "kernel",
  name: "packNibbles",
  contiguous: [0, 1, 2],
  infer(call: Call): readonly OutputSpec[] {
    const [rows, blocks, half] = call.operand(0).layout.shape as [number, number, number];
    const bytes = blocks * nibblesBlock(2 * half);
    return call.result([Math.ceil(rows / GROUP_ROWS), bytes], DTYPE.uint8);
  },
});

/** The numbers of a packed weight: float32 [columns, depth]. */
const DEQUANTIZE_NIBBLES: Op = makeOp({
  kind: "kernel",
  name: "dequantizeNibbles",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { columns, depth } = call.attributes as NibblesSizes;
    return call.result([columns, depth], DTYPE.float32);
  },
});

/** x: [..., I] by a packed weight of four bits, plus bias: [O]. */
const LINEAR_NIBBLES: Op = makeOp({
  kind: "kernel",
  name: "linearNibbles",
  outOffset: true,
  contiguous: [0, 1, 2],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, groups, bias], name } = call;
    const { columns, depth } = call.attributes as NibblesSizes;
    checkOperand(x, name);
    checkOperand(groups, name);
    checkDevice(x.storage, groups.storage, name);
    checkKind(x.storage.info, "f", name);
    const { shape } = x.layout;
    if (shape.at(-1) !== depth) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)} by a weight of shape ${
          formatShape([columns, depth])
        }`,
      );
    }
    let dtype = x.storage.info;
    if (bias !== undefined) {
      checkOperand(bias, name);
      checkDevice(x.storage, bias.storage, name);
      checkKind(bias.storage.info, "f", name);
      if (!sameShape(bias.layout.shape, [columns])) {
        throw new ShapeError(
          `Cannot ${name} with a bias of shape ${formatShape(bias.layout.shape)}: it must have ` +
            `shape ${formatShape([columns])}`,
        );
      }
      dtype = DTYPE[promoteTypes(dtype.name, bias.storage.info.name, name)];
    }
    return call.result([...shape.slice(0, -1), columns], dtype);
  },
  prepare(call: Call) {
    const [spec] = call.specs;
    if (spec!.dtype === DTYPE.float64 || !isHost(call.operand(0).storage.memory)) return null;
    const inputs = call.inputs.map((x, i) =>
      i !== 1 && isOperand(x) && x.storage.info !== DTYPE.float32 ? kernelCopy(x, DTYPE.float32) : x
    );
    const specs = resultIn(spec!, DTYPE.float32);
    if (specs === undefined && inputs.every((x, i) => x === call.inputs[i])) return null;
    return { inputs, specs };
  },
  decompose(call: Call): Operand {
    const { inputs: [x, groups, bias], attributes, name } = call;
    const { dtype } = call.specs[0]!;
    const numbers = dispatch(DEQUANTIZE_NIBBLES, [groups], attributes, undefined, name);
    const wide = dtype === DTYPE.float64 ? "float64" : "float32";
    const own = (one: Input): Operand => cast(one as Operand, wide);
    const y = linear(own(x), own(numbers), bias === undefined ? undefined : own(bias));
    return cast(y, dtype.name);
  },
});

/** A weight of four bits, packed for {@link linearNibbles}. */
export interface PackedNibbles extends NibblesSizes {
  readonly groups: Operand;
}

/**
 * Packs a weight of four bits [columns, depth]: bytes [columns, blocks, block / 2], the lower half first;
 * scales [columns, blocks] of floats; and zero points, as bytes of two numbers [columns, ⌈blocks / 2⌉], as
 * numbers [columns, blocks] of floats, or 8 by default. Their shapes may be flat.
 *
 * Throws an ArgumentError for a block size that is no power of two from 16 to 256, and a ShapeError for
 * sizes that do not fit.
 */
export function packNibbles(
  name: string,
  b: Operand,
  scales: Operand,
  zeros: Operand | undefined,
  { columns, depth, block }: NibblesSizes,
): PackedNibbles {
  if (![16, 32, 64, 128, 256].includes(block)) {
    throw new ArgumentError(
      `Cannot ${name} with blocks of ${block}: they have 16, 32, 64, 128 or 256 numbers`,
    );
  }
  const blocks = Math.ceil(depth / block);
  const sized = (x: Operand, what: string, shape: number[]): Operand => {
    checkOperand(x, name);
    if (x.layout.size === shape.reduce((p, q) => p * q, 1)) {
      return applyView(VIEWS.reshape, x, "reshape", shape);
    }
    throw new ShapeError(
      `Cannot ${name} with ${what} of shape ${formatShape(x.layout.shape)}: a weight of shape ${
        formatShape([columns, depth])
      } in blocks of ${block} has ${formatShape(shape)}`,
    );
  };
  return tidy(() => {
    const bytes = sized(b, "bytes", [columns, blocks, block / 2]);
    if (bytes.storage.info !== DTYPE.uint8) {
      throw new DTypeError(`Cannot ${name} ${bytes.storage.info.name}: the weight is of uint8`);
    }
    const factors = cast(sized(scales, "scales", [columns, blocks]), "float32");
    const points = (): Operand => {
      if (zeros === undefined) {
        return fullOperand(name, [columns, blocks], 8, "float32", b.storage.device);
      }
      if (zeros.storage.info.kind === "f") {
        return cast(sized(zeros, "zero points", [columns, blocks]), "float32");
      }
      const pairs = Math.ceil(blocks / 2);
      const packed = sized(zeros, "zero points", [columns, pairs]);
      const halves = [
        apply(MAP.bitwiseAnd, packed, 15),
        apply(MAP.bitwiseRightShift, packed, 4),
      ];
      const all = applyView(VIEWS.reshape, stack(halves, 2), "reshape", [columns, 2 * pairs]);
      return cast(applyView(VIEWS.narrow, all, "narrow", 1, 0, blocks), "float32");
    };
    const groups = dispatch(PACK_NIBBLES, [bytes, factors, points()], undefined, undefined, name);
    return { groups, columns, depth, block };
  });
}

/** x: [..., depth] by a packed weight, plus bias: [columns], in the dtype of x and bias. */
export function linearNibbles(
  name: string,
  x: Operand,
  { groups, ...sizes }: PackedNibbles,
  bias?: Operand,
): Operand {
  const inputs: Input[] = bias === undefined ? [x, groups] : [x, groups, bias];
  return dispatch(LINEAR_NIBBLES, inputs, sizes, undefined, name);
}
