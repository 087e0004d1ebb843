/**
 * A backend that keeps the arguments of native kernels instead of calling them, and storages without
 * memory for it.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, NO_DTYPE, type TypedArray } from "../base/dtype.ts";
import { sameShape } from "../base/shape.ts";
import type { Placeholder } from "../base/placeholder.ts";
import { ATTRIBUTES, OFFSETS } from "../base/plan.ts";
import { attentionLength } from "../backend/native/attention.ts";
import { chainNumbers, hasChainKernels } from "../backend/native/chain.ts";
import { KERNELS } from "../backend/native/kernels.ts";
import { NativeBackend } from "../backend/native/backend.ts";
import type { Shim } from "../backend/ffi/abi.ts";
import type { Backend } from "../core/backend.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { copyInto, fillWith } from "../core/dispatch.ts";
import { elementsOf, isOperand, type Operand } from "../memory/operand.ts";
import { type DeviceMemory, Storage } from "../memory/storage.ts";
import type { ChainAttributes } from "../ops/chain/steps.ts";
import { type Call, type Input, isTableOp, type Op } from "../table/op.ts";
import type { PlaceholderKey } from "../api/random/placeholder_key.ts";
import type { Node, TracedStorage } from "./graph.ts";

/** The device of storages without memory. */
export const DEVICE = "program";

/** The distance between the addresses of buffers: more than the bytes of any. */
const SPAN = 2 ** 40;

/** Thrown where an op needs values, or has no native kernel: the op runs by dispatch then. */
export class NotLowerable extends Error {}

/** The source of the elements of a buffer. */
export type Source =
  | { readonly kind: "argument"; readonly group: number }
  | { readonly kind: "captured"; readonly storage: Storage }
  | { readonly kind: "constant"; readonly array: TypedArray }
  /** A number of each run. */
  | { readonly kind: "placeholder"; readonly value: Placeholder<number | bigint> }
  /** Written by the program. */
  | { readonly kind: "temporary" };

/** A storage of a program without memory of its own. */
export class Buffer extends Storage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static override get name(): string {
    return "Buffer";
  }

  source: Source;
  readonly #length: number;
  readonly #memory: DeviceMemory;

  /** Stands for the buffer, and for its lanes, where backends pass arrays. */
  readonly token: TypedArray;

  /** A multiple of {@link SPAN}, so that it says which buffer it is. */
  readonly #address: number;
  /** Its place among all buffers. */
  readonly place: number;

  constructor(
    info: DTypeInfo,
    length: number,
    memory: DeviceMemory,
    source: Source,
    place: number,
    token: TypedArray = new Uint8Array(0),
  ) {
    super(token, info, false, false);
    this.token = token;
    this.#length = length;
    this.#memory = memory;
    this.source = source;
    this.place = place;
    this.#address = (place + 1) * SPAN;
  }

  override get address(): number {
    return this.#address;
  }

  override get length(): number {
    return this.#length;
  }

  override get memory(): DeviceMemory {
    return this.#memory;
  }

  override get device(): string {
    return DEVICE;
  }

  override get shared(): boolean {
    return false;
  }

  override get lanes(): Storage {
    const { lane, entries } = this.info;
    const length = this.#length * entries;
    return new Buffer(lane!, length, this.#memory, this.source, this.place, this.token);
  }

  override free(): void {}

  /** The number of bytes. */
  get bytes(): number {
    return this.length * this.info.bytes;
  }
}

/** A call of a kernel of the shim. */
export interface NativeStep {
  readonly kind: "native";
  readonly kernel: number;
  readonly compute: number;
  readonly dtypes: readonly number[];
  readonly buffers: readonly (Buffer | null)[];
  /** How many of them it writes, from the first on. */
  readonly outputs: number;
  /** Those that it writes, each with one that it reads whose memory that may be. */
  readonly inPlace: readonly (readonly [written: Buffer, read: Buffer])[];
  readonly numbers: Float64Array;
  readonly checksIndex: boolean;
  /** The op, for reports. */
  readonly op: string;
  /** The random key of each run, for the kernel of random numbers. */
  readonly key: PlaceholderKey | null;
  /** The node of the graph; -1 for those that no node asked for. */
  readonly node: number;
}

/** An op that runs by dispatch. */
export interface EagerStep {
  readonly kind: "eager";
  readonly call: Node;
  /** The buffers of the operands of the node, by their traced storages. */
  readonly buffers: ReadonlyMap<TracedStorage, Buffer>;
  readonly node: number;
  /** What it needs and native programs do not have, for reports. */
  readonly why: string;
}

/** A part of a program. */
export type Step = NativeStep | EagerStep;

/** Keeps calls instead of running them. */
export class Recorder implements Backend {
  readonly name = "program";
  readonly steps: Step[] = [];
  readonly memory: DeviceMemory;
  node = -1;
  /** Whether the steps of chains are calls of their own. */
  splitsChains = false;
  key: PlaceholderKey | null = null;
  readonly #buffers: Buffer[] = [];
  readonly #tokens = new Map<TypedArray, Buffer>();
  readonly #constants = new Map<string, Buffer>();
  readonly #native: NativeBackend;
  #call: Call | undefined;

  constructor(shim: Shim) {
    this.memory = this.#makeMemory();
    const recording: Shim = {
      ...shim,
      rm_run: (kernel, dtypes, compute, numbers, ...arrays) =>
        this.#record(kernel, [dtypes], compute, numbers, arrays),
      rm_run_many: (kernel, dtypes, more, last, compute, numbers, ...arrays) =>
        this.#record(kernel, [dtypes, more, last], compute, numbers, arrays),
    };
    this.#native = new NativeBackend(recording, { crossover: 1 });
  }

  buffer(info: DTypeInfo, length: number, source: Source): Buffer {
    const made = new Buffer(info, length, this.memory, source, this.#buffers.length);
    this.#buffers.push(made);
    this.#tokens.set(made.token, made);
    return made;
  }

  /** The number of buffers. */
  get count(): number {
    return this.#buffers.length;
  }

  hasKernel(op: Op): boolean {
    return op.decompose === undefined || this.#native.hasKernel(op);
  }

  supports(call: Call): boolean {
    // Without a decomposition dispatch would run the definition, which needs elements.
    if (call.op === CHAIN) {
      if (this.splitsChains) return false;
      const { steps } = call.attributes as ChainAttributes;
      return hasChainKernels(steps, (op) => this.#native.numberOf(op));
    }
    return call.op.decompose === undefined || this.#native.supports(call);
  }

  run(call: Call): boolean {
    if (call.op === CHAIN) return this.#chain(call);
    const outer = this.#call;
    this.#call = call;
    try {
      const { op } = call;
      const isKernel = op.kind === "kernel" && op.decompose === undefined;
      if ((!isKernel || this.#native.supports(call)) && this.#native.run(call)) return true;
    } finally {
      this.#call = outer;
    }
    const written = (call.op.writes ?? []).map((k) => call.operand(k));
    const isEmpty = [...call.outputs, ...written].every(({ layout }) => layout.size === 0);
    // An index may be bad although nothing is read: then the definition throws, in each run.
    if (isEmpty && KERNELS.get(call.op.name)?.finish === undefined) return true;
    throw new NotLowerable(call.name);
  }

  /** A chain: the only kernel of any number of buffers. */
  #chain(call: Call): boolean {
    const ready = chainNumbers(call, (op) => this.#native.numberOf(op));
    if (ready === null) return true;
    const { numbers, operands } = ready;
    this.steps.push({
      kind: "native",
      kernel: this.#native.numberOf(CHAIN),
      compute: operands[0]!.storage.info.id,
      dtypes: operands.map(({ storage }) => storage.info.id),
      buffers: operands.map(({ storage }) => this.#tokens.get((storage as Buffer).token)!),
      outputs: call.outputs.length,
      inPlace: this.#inPlace(call),
      numbers,
      checksIndex: false,
      op: call.name,
      key: null,
      node: this.node,
    });
    return true;
  }

  /** The buffers that a call writes, each with one that it reads at the same elements only. */
  #inPlace({ op, inputs, outputs, attributes }: Call): [Buffer, Buffer][] {
    const bufferOf = ({ storage }: Operand): Buffer => this.#tokens.get((storage as Buffer).token)!;
    return outputs.flatMap((output, k) => {
      // Later steps of a chain would read what it has replaced.
      const later = op === CHAIN ? laterInputs(attributes as ChainAttributes, k) : [];
      const matches = (x: Input, i: number): boolean =>
        isOperand(x) && isAll(x) && sameShape(x.layout.shape, output.layout.shape) &&
        x.storage.info.bytes === output.storage.info.bytes && !later.includes(i);
      const matching = inputs.filter(matches);
      return !isAll(output)
        ? []
        : matching.filter(isOperand).filter(({ storage }) =>
          inputs.every((x) => !isOperand(x) || x.storage !== storage || matching.includes(x))
        ).map((x): [Buffer, Buffer] => [bufferOf(output), bufferOf(x)]);
    });
  }

  #record(
    kernel: number,
    packed: readonly number[],
    compute: number,
    given: TypedArray | null,
    arrays: readonly (TypedArray | null)[],
  ): number {
    const numbers = given as Float64Array;
    const { op } = this.#call!;
    const each = packed.flatMap((ids) => [ids & 255, ids >> 8 & 255, ids >> 16 & 255, ids >>> 24]);
    each.length = arrays.length;
    const buffers = arrays.map((array, k) =>
      array === null ? null : this.#bufferOf(array, each[k]!)
    );
    const checksIndex = KERNELS.get(op.name)?.finish !== undefined;
    this.steps.push({
      kind: "native",
      kernel,
      compute,
      dtypes: each,
      buffers,
      outputs: 1,
      inPlace: op.kind === "map" || KERNELS.get(op.name)?.inPlace?.(this.#call!) === true
        ? this.#inPlace(this.#call!).filter(([out, x]) => out === buffers[0] && buffers.includes(x))
        : [],
      numbers: numbers.slice(
        0,
        lengthOf(op.name, isTableOp(op) && kernel !== this.#native.numberOf(CHAIN), numbers),
      ),
      checksIndex,
      op: this.#call!.name,
      key: op.name === "random" ? this.key : null,
      node: this.node,
    });
    // The kernel has found no bad index.
    if (checksIndex) numbers[ATTRIBUTES] = -1;
    return 0;
  }

  #bufferOf(array: TypedArray, dtype: number): Buffer {
    const known = this.#tokens.get(array);
    if (known !== undefined) return known;
    if (dtype === NO_DTYPE || array.byteLength > 64) throw new NotLowerable("an array");
    // A scalar.
    const info = Object.values(DTYPE).find(({ id }) => id === dtype)!;
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const key = `${dtype} ${bytes.join()}`;
    let constant = this.#constants.get(key);
    if (constant === undefined) {
      const source = { kind: "constant", array: array.slice() as TypedArray } as const;
      constant = this.buffer(info, array.length / info.entries, source);
      this.#constants.set(key, constant);
    }
    return constant;
  }

  #makeMemory(): DeviceMemory {
    const refuse = (): never => {
      throw new NotLowerable("memory");
    };
    return {
      device: DEVICE,
      host: true,
      make: (info, length, zeroed) => {
        const made = this.buffer(info, length, { kind: "temporary" });
        if (zeroed && length > 0) fillWith(elementsOf(made), 0);
        return made;
      },
      allocate: refuse,
      free: refuse,
      zero: refuse,
      write: (address, bytes) => {
        const target = this.#buffers[address / SPAN - 1];
        if (target === undefined || bytes.length !== target.bytes) return refuse();
        const { info, length } = target;
        const array = new info.array(bytes.slice().buffer);
        const constant = this.buffer(info, length, { kind: "constant", array });
        copyInto(elementsOf(target), elementsOf(constant));
      },
      read: refuse,
      readLater: refuse,
      copy: refuse,
      synchronize: () => {},
      usage: refuse,
      release: refuse,
    };
  }
}

/** Whether an operand is all of its storage in row-major order. */
const isAll = ({ layout, storage }: Operand): boolean =>
  layout.contiguous && layout.offset === 0 && layout.size === storage.length;

/** The values that the steps after output `k` of a chain read. */
function laterInputs({ steps, outputs }: ChainAttributes, k: number): readonly number[] {
  return steps.slice(outputs[k]! + 1).flatMap(({ inputs }) => inputs);
}

/** The numbers that a kernel reads. */
function lengthOf(op: string, inTable: boolean, numbers: Float64Array): number {
  if (op === "matmul") return 10 + 3 * numbers[3]!;
  if (op === "attention") return attentionLength(numbers);
  if (!inTable) return numbers.length;
  const [rank, operands] = [numbers[0]!, numbers[1]!];
  return OFFSETS + operands + rank * (1 + operands);
}
