/**
 * Constants of programs: elements computed of tensors outside, such as packed weights. Programs that
 * compute the same of the same tensor share them until the tensor is written.
 *
 * A constant is freed with the last of its uses. The uses of a program end with the program, and with
 * the tensors that it reads (hold.ts).
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import { copyOf, cpuBackendName, performCall } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { withoutCopies } from "../memory/lazy.ts";
import { countConstants, letGo } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import { Call, type Input, type Op } from "../table/op.ts";
import { sameInput, sameValue } from "./same.ts";

/** An op of tensors outside and scalars. */
export interface Computation {
  readonly op: Op;
  /** The name in errors. */
  readonly name: string;
  readonly inputs: readonly Input[];
  readonly attributes: unknown;
  /** The results. */
  readonly results: readonly { readonly info: DTypeInfo; readonly length: number }[];
}

/** Keeps constants that are computed of some tensors, as a file of a model does. */
export interface ConstantStore {
  /** The results of a computation, if it has them. */
  find(computation: Computation): readonly Storage[] | undefined;
  /** Takes results that were computed. */
  add(computation: Computation, results: readonly Storage[]): void;
}

const stores = new WeakMap<Storage, ConstantStore>();

/** Has a store keep what programs compute of tensors on `storage`. */
export function keepConstantsIn(store: ConstantStore, storage: Storage): void {
  stores.set(storage, store);
}

/** The store that keeps what programs compute of tensors on `storage`; undefined for none. */
export function storeOf(storage: Storage): ConstantStore | undefined {
  return stores.get(storage);
}

/** What uses constants. */
export interface ConstantUser {
  /** Ends its uses: a tensor has changed of which one of its constants was computed. */
  expire(): void;
}

/** The constants that are computed of each storage. */
const known = new WeakMap<Storage, Set<Constant>>();

/** Elements computed of tensors, for all programs that need them. */
class Constant {
  /** The results of the computation, each all of a storage in row-major order. */
  readonly storages: readonly Storage[];
  readonly uses: Set<Use> = new Set();
  readonly #computation: Computation;
  /** Backends round differently. */
  readonly #backend = cpuBackendName();
  /** The tensors, with the versions that it was computed of. */
  readonly #versions: ReadonlyMap<Storage, number>;
  /** Its bytes on the CPU. */
  readonly #bytes: number;

  constructor(computation: Computation) {
    this.#computation = computation;
    const operands = computation.inputs.filter(isOperand);
    this.#versions = new Map(operands.map(({ storage }) => [storage, storage.version]));
    let store: ConstantStore | undefined;
    for (const { storage } of operands) store ??= stores.get(storage);
    const found = store?.find(computation);
    if (found === undefined) {
      // Most weights are not read again once they are packed.
      const bases = operands.map(({ storage }) => storage.base);
      this.storages = withoutCopies(bases, () => compute(computation));
      store?.add(computation, this.storages);
    } else {
      this.storages = found;
      for (const storage of found) storage.handles++;
    }
    this.#bytes = this.storages.reduce(
      (sum, { memory, length, info }) =>
        sum + (memory === null && found === undefined ? length * info.bytes : 0),
      0,
    );
    countConstants(this.#bytes);
    for (const storage of this.#versions.keys()) {
      const others = known.get(storage);
      if (others === undefined) known.set(storage, new Set([this]));
      else others.add(this);
    }
  }

  /** Whether its tensors still have the elements that it was computed of. */
  get isCurrent(): boolean {
    for (const [storage, version] of this.#versions) {
      if (storage.version !== version || storage.exposed) return false;
    }
    return true;
  }

  /** Whether it is the result of `other`. */
  isOf(other: Computation): boolean {
    const { op, inputs, attributes } = this.#computation;
    return op === other.op && this.#backend === cpuBackendName() &&
      inputs.length === other.inputs.length &&
      inputs.every((input, k) => sameInput(input, other.inputs[k])) &&
      sameValue(attributes, other.attributes);
  }

  /** Frees the elements. Called once, after its last use. */
  free(): void {
    for (const storage of this.#versions.keys()) known.get(storage)!.delete(this);
    countConstants(-this.#bytes);
    for (const storage of this.storages) letGo(storage);
  }
}

function compute({ op, name, inputs, attributes }: Computation): Storage[] {
  const own = attributes === undefined ? undefined : { ...attributes };
  const call = new Call(op, name, inputs.slice(), own);
  return tidy(() => {
    performCall(call);
    return call.outputs.map((one) => {
      const storage = isWholeAndOwn(one, inputs) ? one.storage : copyOf(one).storage;
      storage.handles++;
      return storage;
    });
  });
}

/** Whether a result is all of a storage, in row-major order, that nothing else uses. */
function isWholeAndOwn({ storage, layout }: Operand, inputs: readonly Input[]): boolean {
  return layout.contiguous && layout.offset === 0 && layout.size === storage.length &&
    storage.handles === 1 && storage.base === storage && storage.cows === null &&
    !storage.exposed && !inputs.some((input) => isOperand(input) && input.storage === storage);
}

/** The use of a constant by a program. */
export class Use {
  readonly #constant: Constant;
  /** Weak, so that programs that share a constant do not keep each other alive. */
  readonly #user: WeakRef<ConstantUser>;

  constructor(constant: Constant, user: ConstantUser) {
    this.#constant = constant;
    this.#user = new WeakRef(user);
    constant.uses.add(this);
    lost.register(user, this, this);
  }

  /** The elements. */
  get storages(): readonly Storage[] {
    return this.#constant.storages;
  }

  /** Whether other programs use the same constant. */
  get isShared(): boolean {
    return this.#constant.uses.size > 1;
  }

  /** Has the user end all its uses. */
  expire(): void {
    const user = this.#user.deref();
    if (user === undefined) this.end();
    else user.expire();
  }

  /** Ends it. No other call may follow. */
  end(): void {
    lost.unregister(this);
    const { uses } = this.#constant;
    if (uses.delete(this) && uses.size === 0) this.#constant.free();
  }
}

/** Ends the uses of programs that were collected. */
const lost = new FinalizationRegistry<Use>((use) => use.end());

/** Frees the constants of tensors that have changed since, as soon as no run uses them. */
export function expireConstants(storage: Storage): void {
  for (const constant of [...known.get(storage) ?? []]) {
    if (constant.isCurrent) continue;
    for (const use of [...constant.uses]) use.expire();
  }
}

/** The results of `computation`: those that another program has computed, or new ones. */
export function useConstant(computation: Computation, user: ConstantUser): Use {
  const { storage } = computation.inputs.find(isOperand)!;
  for (const constant of known.get(storage) ?? []) {
    if (constant.isCurrent && constant.isOf(computation)) return new Use(constant, user);
  }
  return new Use(new Constant(computation), user);
}
