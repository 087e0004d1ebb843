/**
 * The kernels of linear layers, and of weights packed for them.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import {
  type Activation,
  hasFloatRows,
  isPackedCall,
  type PackBlocksAttributes,
  type PackedAttributes,
  type QuantizedAttributes,
  rowsOf,
} from "../../ops/linear/panels.ts";
import type { ByteOutputAttributes, BytesSizes } from "../../ops/linear/bytes.ts";
import type { NibblesSizes } from "../../ops/linear/nibbles.ts";
import { quantFormatOf } from "../../ops/quantized/dtypes.ts";
import { QUANT } from "../../ops/quantized/formats.ts";
import type { Call } from "../../table/op.ts";
import { ACTIVATION } from "../ffi/abi.ts";
import { checkLayout, checkRun } from "../ffi/checks.ts";
import type { Handed, Kernel } from "./kernel.ts";

/** The numbers of {@link linearPacked}. */
const product = new Float64Array(16);
/** The index of the format, after which come the offset of the weight and whether it is packed. */
const FORMAT = 13;

/** Checks rows of an operand, and gives its offset and the distance between its rows. */
function rowsAt(place: number, { storage, layout }: Operand): [offset: number, stride: number] {
  const { stride } = rowsOf(layout)!;
  checkLayout("linearPacked", place, layout, storage);
  return [layout.offset, stride];
}

/** Stands for the buffer of an operand that is not given. */
const NO_BUFFER = -1;
/** The buffer of the first of the optional operands. */
const FIRST_OPTIONAL = 3;
/** The buffer of the bias of sums that become bytes. */
const OUTPUT_BIAS = 4;

/** Writes the numbers of a product of rows with a weight; returns the storages of options. */
function planRows(call: Call, columns: number, depth: number): readonly Storage[] {
  const { activation = "none" } = call.attributes as { readonly activation?: Activation };
  const { inputs: [, , bias, add] } = call;
  const [x, out] = [call.operand(0), call.outputs[0]!];
  product.fill(0);
  product.set([rowsOf(x.layout)!.rows, columns, depth, ACTIVATION[activation]]);
  product.set([...rowsAt(0, out), ...rowsAt(1, x)], 4);
  product[8] = product[10] = NO_BUFFER;
  const optional: Storage[] = [];
  if (isOperand(bias)) {
    product.set([FIRST_OPTIONAL, rowsAt(FIRST_OPTIONAL, bias)[0]], 8);
    optional.push(bias.storage);
  }
  if (isOperand(add)) {
    const place = FIRST_OPTIONAL + optional.length;
    product.set([place, ...rowsAt(place, add)], 10);
    optional.push(add.storage);
  }
  return optional;
}

/** A call with the numbers of {@link planRows} and the weight `b`. */
function handedRows(call: Call, b: Storage, optional: readonly Storage[]): Handed {
  const [c = null, ...more] = optional;
  const handed = {
    numbers: product,
    out: call.outputs[0]!.storage,
    a: call.operand(0).storage,
    b,
    c,
  };
  return more.length > 0 ? { ...handed, more } : handed;
}

const linearPacked: Kernel = {
  supports: (call) => isPackedCall(call) && call.specs[0]!.shape.every((n) => n > 0),
  prepare(call) {
    const { columns, depth } = call.attributes as PackedAttributes;
    const panels = call.operand(1);
    checkRun("linearPacked", 2, 0, panels.layout.size, panels.storage);
    return handedRows(call, panels.storage, planRows(call, columns, depth));
  },
};

const linearQuantized: Kernel = {
  supports(call) {
    const { shape } = call.specs[0]!;
    return hasFloatRows(call) && !shape.includes(0) && call.operand(1).layout.size > 0;
  },
  prepare(call) {
    const { storage, layout } = call.operand(1);
    const { type, size, bytes } = quantFormatOf(storage.info)!;
    const { columns } = call.attributes as QuantizedAttributes;
    const { shape } = layout;
    checkRun("linearQuantized", 2, layout.offset, layout.size, storage);
    const optional = planRows(call, columns ?? shape[0]!, shape.at(-1)!);
    const isPacked = columns === undefined ? 0 : 1;
    product.set([type, layout.offset / size * bytes, isPacked], FORMAT);
    return handedRows(call, storage.lanes, optional);
  },
};

const linearInt8: Kernel = {
  supports: (call) =>
    hasFloatRows(call) && !call.specs[0]!.shape.includes(0) &&
    (call.attributes as PackedAttributes).depth > 0,
  prepare(call) {
    const { columns, depth } = call.attributes as PackedAttributes;
    const { storage, layout: { size } } = call.operand(1);
    checkRun("linearInt8", 2, 0, size, storage);
    return handedRows(call, storage, planRows(call, columns, depth));
  },
};

const matmulInt8: Kernel = {
  supports: (call) =>
    [call.operand(0), call.operand(1)].every(({ layout: { rank, size } }) =>
      rank === 2 && size > 0
    ),
  prepare(call) {
    const [a, b, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, a, b].entries()) {
      checkRun("matmulInt8", i, offset, size, storage);
    }
    const [m, k] = a.layout.shape as [number, number];
    const offsets = [out, a, b].map(({ layout: { offset } }) => offset);
    const numbers = Float64Array.of(m, b.layout.shape[1]!, k, ...offsets);
    return { numbers, out: out.storage, a: a.storage, b: b.storage };
  },
};

/** The contiguous operands of a call and their offsets, after checks; undefined ones have 0. */
function checkedOffsets(call: Call, operands: readonly (Operand | undefined)[]): number[] {
  return operands.map((x, i) => {
    if (x === undefined) return 0;
    checkRun(call.op.name, i, x.layout.offset, x.layout.size, x.storage);
    return x.layout.offset;
  });
}

const packBytes: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0,
  prepare(call) {
    const [b, out] = [call.operand(0), call.outputs[0]!];
    const zeros = call.inputs[1] as Operand | undefined;
    const offsets = checkedOffsets(call, [out, b, zeros]);
    const numbers = Float64Array.of(...b.layout.shape, ...offsets);
    return { numbers, out: out.storage, a: b.storage, b: zeros?.storage ?? null };
  },
};

/** The numbers and storages of sums that become bytes: those of kernels of bytes end with them. */
export function byteOutput(
  call: Call,
): { readonly numbers: readonly number[]; readonly more?: readonly (Storage | null)[] } {
  const { to } = call.attributes as ByteOutputAttributes;
  if (to === undefined) return { numbers: [] };
  const [bias, factors] = [call.inputs[3] as Operand | undefined, call.operand(4)];
  const offsets = [bias, factors].map((x, i) => {
    if (x === undefined) return 0;
    checkRun(call.op.name, OUTPUT_BIAS + i, x.layout.offset, x.layout.size, x.storage);
    return x.layout.offset;
  });
  const more = [bias?.storage ?? null, factors.storage];
  return { numbers: [...offsets, to.zero, to.low, to.high], more };
}

const matmulBytes: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0 && !call.specs[0]!.shape.includes(0),
  prepare(call) {
    const { depth, columns } = call.attributes as BytesSizes;
    const [a, groups, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const zeros = call.inputs[2] as Operand | undefined;
    const offsets = checkedOffsets(call, [out, a, groups, zeros]);
    const { numbers: last, ...more } = byteOutput(call);
    const numbers = Float64Array.of(a.layout.size / depth, columns, depth, ...offsets, ...last);
    const c = zeros?.storage ?? null;
    return { numbers, out: out.storage, a: a.storage, b: groups.storage, c, ...more };
  },
};

const packNibbles: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0,
  prepare(call) {
    const out = call.outputs[0]!;
    const inputs = [0, 1, 2].map((k) => call.operand(k)) as [Operand, Operand, Operand];
    const [rows, blocks, half] = inputs[0].layout.shape as [number, number, number];
    const offsets = checkedOffsets(call, [out, ...inputs]);
    const [a, b, c] = inputs.map(({ storage }) => storage);
    return {
      numbers: Float64Array.of(rows, blocks, 2 * half, ...offsets),
      ...{ out: out.storage, a: a!, b: b!, c: c! },
    };
  },
};

const linearNibbles: Kernel = {
  supports(call) {
    const { dtype, shape } = call.specs[0]!;
    const [x, , bias] = call.inputs;
    return dtype === DTYPE.float32 && !shape.includes(0) && call.operand(0).layout.size > 0 &&
      [x, bias].every((one) => !isOperand(one) || one.storage.info === dtype);
  },
  prepare(call) {
    const { columns, depth, block } = call.attributes as NibblesSizes;
    const [x, groups, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const bias = call.inputs[2] as Operand | undefined;
    const [toOffset, xOffset, groupsOffset, biasOffset] = checkedOffsets(
      call,
      [out, x, groups, bias],
    ) as [number, number, number, number];
    const numbers = Float64Array.of(
      ...[x.layout.size / depth, columns, depth, block],
      ...[toOffset, xOffset, groupsOffset],
      ...[bias === undefined ? NO_BUFFER : FIRST_OPTIONAL, biasOffset],
    );
    const c = bias?.storage ?? null;
    return { numbers, out: out.storage, a: x.storage, b: groups.storage, c };
  },
};

const quantizeInt8: Kernel = {
  supports: (call) => call.operand(0).storage.info === DTYPE.float32,
  prepare(call) {
    const [w, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, w].entries()) {
      checkRun("quantizeInt8", i, offset, size, storage);
    }
    const [rows, depth] = w.layout.shape as [number, number];
    const numbers = Float64Array.of(rows, depth, out.layout.offset, w.layout.offset);
    return { numbers, out: out.storage, a: w.storage };
  },
};

const quantizeDynamic: Kernel = {
  supports: (call) => call.operand(0).storage.info === DTYPE.float32,
  prepare(call) {
    const x = call.operand(0);
    const [out, scale, zero] = call.outputs as [Operand, Operand, Operand];
    const numbers = Float64Array.of(x.layout.size, ...checkedOffsets(call, [out, x, scale, zero]));
    const [b, c] = [scale.storage, zero.storage];
    return { numbers, out: out.storage, a: x.storage, b, c };
  },
};

const packBlocks: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0,
  prepare(call) {
    const { format, rows, unpacks } = call.attributes as PackBlocksAttributes;
    const { type, bytes } = QUANT[format];
    const [from, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, from].entries()) {
      checkRun("packBlocks", i, offset, size, storage);
    }
    const blocks = (unpacks ? out : from).layout.size / rows / bytes;
    const offsets = [out.layout.offset, from.layout.offset];
    const numbers = Float64Array.of(type, rows, blocks, ...offsets, unpacks ? 1 : 0);
    return { numbers, out: out.storage, a: from.storage };
  },
};

/** The kernels by the names of their ops. */
export const LINEAR_KERNELS: Readonly<Record<string, Kernel>> = {
  linearPacked,
  linearQuantized,
  linearInt8,
  matmulInt8,
  quantizeInt8,
  quantizeDynamic,
  packBlocks,
  packBytes,
  matmulBytes,
  packNibbles,
  linearNibbles,
};
