/**
 * Weights that are packed once for many products.
 *
 * @module
 */
import { applyView } from "../../core/apply.ts";
import { looseCopy, writeCopy, writeValue } from "../../core/copy.ts";
import type { DType } from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape, type Shape } from "../../base/shape.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { dispose, wrap } from "../../core/handles.ts";
import { lanesOf } from "../../core/lanes.ts";
import {
  canPack,
  type PackBlocksAttributes,
  PACKED_DTYPES,
  packedShape,
  PANEL_COLUMNS,
  panelParts,
} from "./panels.ts";
import { allocateIn } from "../../memory/device.ts";
import { allocateFor } from "../../memory/pool.ts";
import { type Operand, READ_ONLY } from "../../memory/operand.ts";
import { isHost } from "../../memory/storage.ts";
import { checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";
import { isQuantized, quantFormatOf } from "../quantized/dtypes.ts";
import { QUANT } from "../quantized/formats.ts";
import { GROUP_ROWS, groupsShape } from "../quantized/groups.ts";
import type * as t from "../../types/mod.ts";
import type { SHAPE } from "../../types/core.ts";

/** The bytes of rows of blocks as those of groups, or the other way round. */
const PACK_BLOCKS: Op = makeOp({
  kind: "kernel",
  name: "packBlocks",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { format, rows, unpacks } = call.attributes as PackBlocksAttributes;
    const { storage: { info }, layout: { size } } = call.operand(0);
    const all = Math.ceil(rows / GROUP_ROWS) * GROUP_ROWS;
    const rowBytes = rows === 0 ? 0 : size / (unpacks ? all : rows);
    if (!Number.isInteger(rowBytes / QUANT[format].bytes)) {
      throw new ShapeError(`Cannot ${call.name} ${size} bytes of ${format}: a block is cut`);
    }
    return [{ shape: [unpacks ? rows : all, rowBytes], dtype: info }];
  },
});

/** Makes groups of the rows of `from`, or the other way round, in `to`. */
function moveBlocks(from: Operand, to: Operand, attributes: PackBlocksAttributes): void {
  if (attributes.rows === 0 || from.layout.size === 0) return;
  const lanes = lanesOf(to, "pack");
  const { shape } = lanes.layout;
  const out = Layout.contiguous([lanes.layout.size / shape.at(-1)!, shape.at(-1)!]);
  dispatch(
    PACK_BLOCKS,
    [lanesOf(from, "pack")],
    attributes,
    { storage: lanes.storage, layout: out, flags: 0 },
    "pack",
  );
}

/** Packs a weight into panels or groups; devices keep it as it is. */
const PACK: Op = makeOp({
  kind: "kernel",
  name: "pack",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [w], name } = call;
    checkOperand(w, name);
    const { storage: { info, memory }, layout: { shape } } = w;
    if (!canPack(info)) {
      const names = PACKED_DTYPES.map((dtype) => dtype.name).join(", ");
      throw new DTypeError(
        `Cannot ${name} ${info.name}: it takes ${names} and quantized dtypes; cast with astype()`,
      );
    }
    if (shape.length !== 2) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)}: it takes a weight of shape [O, I]`,
      );
    }
    // Throws for a view that cuts through blocks.
    if (isQuantized(info)) lanesOf(w, name);
    const packed = isHost(memory) ? packedShape(info, shape[0]!, shape[1]!) : shape;
    return [{ shape: packed, dtype: info }];
  },
  decompose(call: Call): Operand {
    const w = call.operand(0);
    const { storage: { info, memory }, layout } = w;
    if (!isHost(memory)) {
      const copy = looseCopy(w);
      return wrap(copy.storage, copy.layout, READ_ONLY);
    }
    const panels = Layout.contiguous(call.specs[0]!.shape);
    const storage = memory === null
      ? allocateFor(info, panels.size, false, true)
      : allocateIn(memory, info, panels.size, false);
    const format = quantFormatOf(info);
    if (format !== undefined) {
      const groups = { storage, layout: panels, flags: 0 };
      moveBlocks(w, groups, { format: format.name, rows: layout.shape[0]!, unpacks: false });
      return wrap(storage, panels, READ_ONLY);
    }
    // The columns beyond the last one.
    if (panels.size > layout.size) writeValue({ storage, layout: panels, flags: 0 }, 0);
    for (const part of panelParts(info, layout)) {
      writeCopy(
        { storage, layout: part.panels, flags: 0 },
        { storage: w.storage, layout: part.weight, flags: 0 },
      );
    }
    return wrap(storage, panels, READ_ONLY);
  },
});

const movedBy = ({ shape, strides, offset }: Layout, by: number): Layout =>
  new Layout(shape, strides, offset + by);

/** Makes the weight of panels or groups. */
const UNPACK: Op = makeOp({
  kind: "kernel",
  name: "unpack",
  infer(call: Call): readonly OutputSpec[] {
    const { columns, depth } = call.attributes as WeightSizes;
    return call.result([columns, depth], call.operand(0).storage.info);
  },
  decompose(call: Call): Operand {
    const { storage, layout: { offset } } = call.operand(0);
    const { info, memory } = storage;
    const [{ shape }] = call.specs as [OutputSpec];
    const [columns, depth] = shape as [number, number];
    const made = Layout.contiguous(shape);
    const out = wrap(allocateIn(memory, info, made.size, false), made);
    const format = quantFormatOf(info);
    if (format !== undefined) {
      const all = Layout.contiguous(groupsShape(columns, depth));
      const groups = { storage, layout: movedBy(all, offset), flags: 0 };
      moveBlocks(groups, out, { format: format.name, rows: columns, unpacks: true });
      return out;
    }
    for (const part of panelParts(info, made)) {
      writeCopy(
        { storage: out.storage, layout: part.weight, flags: 0 },
        { storage, layout: movedBy(part.panels, offset), flags: 0 },
      );
    }
    return out;
  },
});

/** The shape of a weight: [columns, depth]. */
interface WeightSizes {
  readonly columns: number;
  readonly depth: number;
}

/** The weight of panels or groups, as a tensor. */
export function unpack(panels: Operand, columns: number, depth: number): Operand {
  return dispatch(UNPACK, [panels], { columns, depth } satisfies WeightSizes);
}

/** The rows from `begin` to `end` of the weight of panels or groups; `begin` begins one of them. */
export function unpackRows(panels: Operand, begin: number, end: number, depth: number): Operand {
  const size = isQuantized(panels.storage.info) ? GROUP_ROWS : PANEL_COLUMNS;
  const [first, count] = [begin / size, Math.ceil((end - begin) / size)];
  return unpack(applyView(VIEWS.narrow, panels, "narrow", 0, first, count), end - begin, depth);
}

/** A packed weight of any dtype and shape, on any device. */
export type AnyPackedWeight = PackedWeight<DType, Shape, t.Device>;

/**
 * A weight in the form that products with it read fastest; made by `pack`, and immutable. It
 * is no tensor: its only use is `x.linear(packed)`.
 */
export class PackedWeight<
  out D extends DType = "float32",
  out S extends Shape = Shape,
  out V extends t.Device = t.Device,
> implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "PackedWeight";
  }

  /** The shape, for types. @ignore */
  declare readonly [SHAPE]: S;
  /** The handle of the panels; not enumerable, so that consoles do not print them. @internal */
  declare readonly panels: Operand;
  /** The shape of the weight, [O, I], frozen. */
  readonly shape: Readonly<S>;
  /** The dtype of the weight. */
  readonly dtype: D;
  /** The device of the weight. */
  readonly device: V;
  /** The memory of the weight in bytes, with the columns that fill the last panel. */
  readonly bytes: number;

  /** Programs use `pack`. @ignore */
  constructor(panels: Operand, shape: S) {
    // A property that is not private: scope() has to find the handle.
    Object.defineProperty(this, "panels", { value: panels });
    const { storage: { info, device }, layout } = panels;
    this.shape = shape;
    this.dtype = info.name as D;
    this.device = device as V;
    this.bytes = layout.size * info.bytes;
  }

  /** Frees the memory. Products with the weight then throw a DisposedError. */
  dispose(): void {
    dispose(this.panels);
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** {@link PackedWeight} of a weight of shape [O, I]. */
export function packWeight(w: unknown): AnyPackedWeight {
  const own = ownOperand(w, "pack");
  return new PackedWeight(dispatch(PACK, [own]), own.layout.frozenShape);
}
