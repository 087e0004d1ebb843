/**
 * The graph of a traced function: its ops in the order of the calls, on storages without elements.
 *
 * A node reads and writes parts of storages, as calls do: views are layouts, and an op in place is a
 * node whose output is an earlier storage. Knows nothing of how graphs are made or run.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { TraceError } from "../base/errors.ts";
import type { Placeholder } from "../base/placeholder.ts";
import { sameShape } from "../base/shape.ts";
import { NO_ARRAY } from "../memory/device.ts";
import type { Operand } from "../memory/operand.ts";
import { type DeviceMemory, Storage } from "../memory/storage.ts";
import type { CreateOp, Input, Op } from "../table/op.ts";
import { MAP } from "../table/table.ts";

/** Where the elements of a traced storage are when a program runs. */
export type Origin =
  /** The arguments that share the storage of this number. */
  | { readonly kind: "argument"; readonly group: number }
  /** A tensor that the function uses and did not make. */
  | { readonly kind: "captured"; readonly storage: Storage }
  /** A tensor that the function made of no other. */
  | Created
  /** The output of a node. */
  | { readonly kind: "made" }
  /** The outputs of several nodes, each of which makes a part before any reads it. */
  | { readonly kind: "joined" };

/** A tensor that exists before a program runs. */
export type Outside = Extract<Origin, { readonly kind: "argument" | "captured" }>;

/** Whether the elements of `origin` exist before a program runs, and after it. */
export function isOutside<O extends { readonly kind: string }>(
  origin: O,
): origin is Extract<O, { readonly kind: "argument" | "captured" }> {
  return origin.kind === "argument" || origin.kind === "captured";
}

/** The storage of an argument or of a captured tensor, in a run on the storages `args`. */
export function outsideStorage(origin: Outside, args: readonly Storage[]): Storage {
  return origin.kind === "argument" ? args[origin.group]! : origin.storage;
}

/** A tensor that an op makes of no other. */
export interface Created {
  readonly kind: "created";
  readonly op: CreateOp;
  readonly name: string;
  readonly attributes: unknown;
  /** Its elements, if they are the same in each run: null if it depends on a random key. */
  readonly constant: Storage | null;
}

/** A storage of a graph. */
export class TracedStorage extends Storage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static override get name(): string {
    return "TracedStorage";
  }

  static {
    Object.defineProperty(this.prototype, "array", {
      get(): TypedArray {
        throw new TraceError(
          "Cannot use the elements of a traced tensor: they exist only while the program runs; " +
            "return the tensor, and use the result of the call",
        );
      },
      set(): void {},
    });
  }

  /** Its place in {@link Graph.storages}. */
  readonly id: number;
  readonly origin: Origin;
  readonly #length: number;
  readonly #memory: DeviceMemory | null;

  constructor(
    id: number,
    info: DTypeInfo,
    length: number,
    memory: DeviceMemory | null,
    origin: Origin,
  ) {
    super(NO_ARRAY, info, false, false);
    this.id = id;
    this.#length = length;
    this.#memory = memory;
    this.origin = origin;
  }

  override get isTraced(): boolean {
    return true;
  }

  override get length(): number {
    return this.#length;
  }

  override get memory(): DeviceMemory | null {
    return this.#memory;
  }

  override get device(): string {
    return this.#memory?.device ?? "cpu";
  }

  override get shared(): boolean {
    return false;
  }

  override expose(): void {
    void this.array;
  }

  /** There is nothing to free. */
  override free(): void {}
}

/** An operand of a graph. */
export interface Value extends Operand {
  readonly storage: TracedStorage;
}

/** An input of a node: an operand, a scalar of the trace, or one of each run. */
export type NodeInput = Input | Placeholder<number | bigint>;

/** One call of an op. */
export interface Node {
  readonly op: Op;
  /** The name in errors. */
  readonly name: string;
  readonly inputs: readonly NodeInput[];
  readonly outputs: readonly Value[];
  /** Whether the output existed before: the op writes in place, or into `out`. */
  readonly given: boolean;
  readonly attributes: unknown;
  /** The dtype of the arithmetic. */
  readonly compute: DTypeInfo;
}

/** The ops of a function for arguments of one kind. */
export interface Graph {
  readonly storages: readonly TracedStorage[];
  readonly nodes: readonly Node[];
  /** The parts of storages that exist after the program: those of results. */
  readonly results: readonly Value[];
}

/** Whether a value is an operand of a graph. */
export function isValue(input: NodeInput): input is Value {
  return typeof input === "object" && input !== null &&
    (input as Operand).storage instanceof TracedStorage;
}

/** The operands that a node reads. */
export function readsOf({ inputs }: Node): readonly Value[] {
  return inputs.filter(isValue);
}

/** The storages that a node writes and that existed before it. */
export function writesOf(node: Node): readonly TracedStorage[] {
  return writtenValues(node).map(({ storage }) => storage);
}

/** Whether output `k` of a node existed before it: for a part of a storage, whether that did. */
export function isGiven({ given, outputs }: Node, k: number): boolean {
  const { origin } = outputs[k]!.storage;
  return given ? k === 0 : isOutside(origin) || origin.kind === "joined";
}

/** The outputs of a node that existed before it, at their places; none if there are none. */
export function givenOutputs(node: Node): readonly (Value | undefined)[] {
  const given = node.outputs.map((one, k) => isGiven(node, k) ? one : undefined);
  return given.some((one) => one !== undefined) ? given : [];
}

function writtenValues(node: Node): Value[] {
  const written = (node.op.writes ?? []).map((k) => node.inputs[k] as Value);
  return [...written, ...givenOutputs(node).filter((one) => one !== undefined)];
}

/**
 * Whether a node copies a value that was made to memory outside, after which nothing reads that memory:
 * passes keep such nodes at the end.
 */
export function isFinalCopy({ op, given, inputs: [input], outputs: [output] }: Node): boolean {
  return given && op === MAP.copy && isOutside(output!.storage.origin) && isValue(input) &&
    input.storage.origin.kind === "made";
}

/** The nodes that copy values to memory outside, at the end of a graph. */
export function finalCopies({ nodes }: Graph): ReadonlySet<Node> {
  return new Set(nodes.slice(nodes.findLastIndex((node) => !isFinalCopy(node)) + 1));
}

/** The parts of memory outside that a graph writes, each once. */
export function writtenParts({ nodes }: Graph): Value[] {
  const parts = nodes.flatMap(writtenValues).filter(({ storage }) => isOutside(storage.origin));
  return parts.filter((one, i) =>
    !parts.slice(0, i).some(({ storage, layout }) =>
      storage === one.storage && layout.offset === one.layout.offset &&
      sameShape(layout.shape, one.layout.shape) && sameShape(layout.strides, one.layout.strides)
    )
  );
}

/**
 * Kernels that accept all values of their inputs. What is not among them may throw for an index out of
 * range, for a singular matrix, or for what a function of the program refuses.
 */
const TOTAL: ReadonlySet<string> = new Set(
  ("chain to tensorOf copy concat stack split unstack tile roll pad tril triu complex meshgrid " +
    "broadcastTensors matmul matmulInt8 outer inner vecdot tensordot einsum kron trace linear " +
    "linear linearPacked linearQuantized linearInt8 linearNibbles matmulBytes convBytes pack packBlocks packBytes packNibbles quantize quantizeInt8 quantizeDynamic " +
    "dequantize dequantizeBlocks dequantizeInt8 softmax logSoftmax layerNorm rmsNorm normBackward attention attentionBackward conv convLast " +
    "convTranspose convWeightGrad winograd winogradWeight maxPool maxPoolIndices maxPoolGrad avgPool recurrent resample gridSample variance standardDeviation logsumexp norm " +
    "maskedReduce closeness sort argsort topk fft fftn convolve random").split(" "),
);

/** Whether a node runs whatever its operands hold: unused ones of these may be dropped. */
export function isTotal({ op }: Node): boolean {
  return op.kind !== "kernel" || TOTAL.has(op.name);
}
