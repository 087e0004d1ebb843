/**
 * Tensors of other copies of the library in the same process, as operands.
 *
 * @module
 */
import { checkDType, DTYPE, type TypedArray } from "../base/dtype.ts";
import { DeviceError, DisposedError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { checkShape } from "../base/shape.ts";
import {
  type Brand,
  brandOf,
  nameOfCopy,
  PROTOCOL,
  THIS_COPY,
  URL_OF_COPY,
} from "../base/version.ts";
import { isOperandArgument, type Operand, READ_ONLY } from "../memory/operand.ts";
import { wrapExternal } from "../memory/pool.ts";
import { checkOperand } from "../table/infer.ts";

/** What a copy reads of another one's tensors: public properties only. */
interface ForeignTensor {
  readonly isDisposed: boolean;
  readonly dtype: unknown;
  readonly shape: unknown;
  readonly device: string;
  readonly access: string;
  readonly isContiguous: boolean;
  readonly data: TypedArray;
  copy(): ForeignTensor;
}

/**
 * An operand on the elements of `value`, if it is a tensor of another copy of the library; any other
 * value itself.
 *
 * The other copy owns the memory: it learns that the elements are exposed, and so never reuses
 * them; this copy treats them as it treats those of `fromBuffer`. For tensors that are read-only or
 * not contiguous, the operand has a copy. Throws a DeviceError for a copy of another protocol and
 * for a tensor on a device, and a DisposedError for one that was disposed.
 */
export function adopt<T>(value: T, name: string): T {
  if (typeof value !== "object" || value === null || isOperandArgument(value)) return value;
  const brand = brandOf(value, "tensor");
  if (brand === undefined) return value;
  if (brand.protocol !== PROTOCOL) {
    throw new DeviceError(
      `Cannot ${name} a tensor of another copy of rowmajor: ${nameOfCopy(brand)} (protocol ` +
        `${brand.protocol}) made it, and this is ${THIS_COPY} (protocol ${PROTOCOL}); load one ` +
        "version, or pass its data, shape and dtype",
    );
  }
  warnOfCopy(brand);
  return operandOf(value as T & ForeignTensor, name) as T;
}

/** The addresses of copies that a warning has named. */
const warned = new Set([URL_OF_COPY]);

/**
 * Prints one line for each other copy whose tensors are used. A hot reload loads the same address
 * again, and prints nothing.
 */
function warnOfCopy(brand: Brand): void {
  const url = brand.url ?? "";
  if (warned.has(url)) return;
  warned.add(url);
  console.warn(
    `rowmajor is loaded twice: ${THIS_COPY}, and ${nameOfCopy(brand)}. Tensors pass between the ` +
      "copies; settings, scopes and memory do not. Import all entry points from one of them.",
  );
}

function operandOf(x: ForeignTensor, name: string): Operand {
  // Before its properties throw the other copy's error, which names them and not the op.
  if (x.isDisposed) throw new DisposedError(`Cannot ${name}: the tensor was disposed or moved`);
  const { dtype, device, access, isContiguous } = x;
  checkDType(dtype, name);
  if (device !== "cpu") {
    throw new DeviceError(
      `Cannot ${name} a tensor of another copy of rowmajor on ${device}: move it with cpu()`,
    );
  }
  const direct = isContiguous && access === "write";
  const { buffer, byteOffset } = (direct ? x : x.copy()).data;
  const info = DTYPE[dtype];
  const layout = Layout.contiguous(checkShape(x.shape, name));
  const array = new info.array(buffer, byteOffset, layout.size * info.entries);
  return { storage: wrapExternal(dtype, array), layout, flags: direct ? 0 : READ_ONLY };
}

/** A tensor as an operand of this copy; throws a DTypeError for other values. */
export function ownOperand(value: unknown, name: string): Operand {
  const own = adopt(value, name);
  checkOperand(own, name);
  return own;
}
