/**
 * Traces a function: runs it once on tensors without elements, and keeps its ops as a graph.
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import { TraceError } from "../base/errors.ts";
import { currentOf, Placeholder } from "../base/placeholder.ts";
import { Layout } from "../base/layout.ts";
import { formatShape } from "../base/shape.ts";
import { isOn } from "../core/copy.ts";
import { infer, memoryOf } from "../core/dispatch.ts";
import { noteHandles, wrap } from "../core/handles.ts";
import { interpret, type Interpreter } from "../core/interpreter.ts";
import { prepareOut } from "../core/write.ts";
import { isOperand, isOperandArgument, type Operand, VIEW } from "../memory/operand.ts";
import { checkAlive, type DeviceMemory, type Storage } from "../memory/storage.ts";
import type { Call, CreateOp, Input, OutputSpec } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { viewLayout } from "../table/views.ts";
import { type Graph, type Node, type Origin, TracedStorage, type Value } from "./graph.ts";
import { ProgramHold } from "./hold.ts";
import { isRecord } from "./signature.ts";

/** What a read of values is called in errors, and what to do instead. */
const REMEDIES: Readonly<Record<string, string>> = {
  toString: "print the result of the call",
  equals: "equal() gives a tensor",
  allclose: "isclose() gives a tensor",
  intoCow: "copy() returns an independent tensor",
};

/** Condition on a number of the program, from its use next to integers. */
export interface Guard {
  readonly value: Placeholder<number | bigint>;
  /** The dtype that represents it exactly. */
  readonly info: DTypeInfo;
}

/** Records the calls of a function. */
export class Tracer implements Interpreter {
  readonly storages: TracedStorage[] = [];
  readonly nodes: Node[] = [];
  readonly guards: Guard[] = [];
  /** Tensors outside the function whose values it has read, with their versions. */
  readonly reads: Map<Storage, number> = new Map();
  /** The handles that calls in the function have made. */
  readonly made: WeakSet<Operand> = new WeakSet();
  /** All handles made while the function ran, also by other means than calls. */
  readonly born: WeakSet<Operand> = new WeakSet();
  /** The arguments that share their storage with a tensor outside, by the group. */
  readonly fixed: Map<number, Storage> = new Map();
  /** The handles of tensors outside the function that its ops use. */
  readonly outside: Set<Operand> = new Set();
  readonly #captured = new Map<Storage, TracedStorage>();
  /** Holds captured tensors and constants. */
  readonly hold: ProgramHold = new ProgramHold();

  /** A storage of the graph. */
  add(info: DTypeInfo, length: number, memory: DeviceMemory | null, origin: Origin): TracedStorage {
    const storage = new TracedStorage(this.storages.length, info, length, memory, origin);
    this.storages.push(storage);
    return storage;
  }

  /** The graph's storage for the first `length` elements of that of an argument. */
  argument(storage: Storage, length: number, group: number): TracedStorage {
    const traced = this.add(storage.info, length, storage.memory, { kind: "argument", group });
    this.#captured.set(storage, traced);
    return traced;
  }

  /** `x` as an operand of the graph: tensors that the function did not make are captured. */
  value(x: Operand): Value {
    const { storage, layout, flags } = x;
    if (storage instanceof TracedStorage) {
      if (this.storages[storage.id] !== storage) {
        throw new TraceError(
          "Cannot trace with a tensor of another trace: it has no elements; pass it as an argument",
        );
      }
      return { storage, layout, flags };
    }
    this.#note(x);
    let traced = this.#captured.get(storage);
    if (traced === undefined) {
      this.hold.add(storage);
      const origin = { kind: "captured", storage } as const;
      traced = this.add(storage.info, storage.length, storage.memory, origin);
      this.#captured.set(storage, traced);
    } else if (traced.origin.kind === "argument") this.fixed.set(traced.origin.group, storage);
    return { storage: traced, layout, flags };
  }

  /** Notes a tensor outside the function, which has to be alive in each run. */
  #note(x: Operand): void {
    if (!(x.storage instanceof TracedStorage) && !this.made.has(x)) this.outside.add(x);
  }

  /** Runs `body` and records its calls. */
  trace<R>(body: () => R): R {
    return noteHandles(this.born, () => interpret(this, body));
  }

  read(x: Operand, how: string): void {
    const { storage, layout: { shape } } = x;
    if (!(storage instanceof TracedStorage)) {
      this.reads.set(storage, storage.version);
      return;
    }
    const remedy = REMEDIES[how] ?? "return the tensor, and read the result of the call";
    throw new TraceError(
      `Cannot ${how} a tensor of shape ${
        formatShape(shape)
      } in a traced function: its values exist only when the program runs; ${remedy}`,
    );
  }

  run(call: Call): void {
    const { op } = call;
    if (op.kind === "create") return this.#create(call);
    const given = call.inputs.slice();
    for (let k = 0; k < given.length; k++) call.inputs[k] = currentOf(given[k]);
    if (op.kind === "view") return this.#view(call);
    const out = call.outputs[0];
    const specs = infer(call);
    if (specs === "data-dependent") {
      throw new TraceError(
        `Cannot ${call.name} in a traced function: the shape of its result depends on values; ` +
          "call it outside, or use an op whose result has a fixed shape, such as where()",
      );
    }
    if (op.aliases !== undefined && op.writes === undefined) {
      // Views on an input.
      const made = interpret(this, () => op.decompose!(call));
      call.outputs = Array.isArray(made) ? made : [made];
      return;
    }
    if (op.name === "to" && isOn(call.operand(0).storage, call.attributes.device)) {
      call.outputs = [this.#wrap(call.operand(0).storage, call.operand(0).layout, VIEW)];
      return;
    }
    checkAttributes(call.attributes);
    if (out !== undefined) prepareOut(out, specs[0]!, call.like, call.name);
    this.#record(call, given, specs, out);
  }

  #record(
    call: Call,
    given: readonly Input[],
    specs: readonly OutputSpec[],
    out: Operand | undefined,
  ): void {
    const { op, name, attributes, compute } = call;
    const inputs = given.map((input, k) => {
      if (input instanceof Placeholder) {
        const value = input as Placeholder<number | bigint>;
        if (op.kind === "map" && compute.kind !== "f") this.guards.push({ value, info: compute });
        return value;
      }
      const own = call.inputs[k];
      return isOperand(own) ? this.value(own) : own;
    });
    const { aliases } = op;
    const aliased = op.writes !== undefined && aliases !== undefined && aliases !== "each";
    if (aliased) call.outputs = aliases.map(([, input]) => call.operand(input));
    else {
      const memory = this.#memoryOf(call);
      call.outputs = specs.map(({ shape, dtype }, k) => {
        if (k === 0 && out !== undefined) return out;
        const layout = Layout.contiguous(shape.slice());
        return this.#wrap(this.add(dtype, layout.size, memory, { kind: "made" }), layout, 0);
      });
    }
    const outputs = aliased ? [] : call.outputs.map((one) => this.value(one));
    const own = attributes === undefined ? undefined : { ...attributes };
    this.nodes.push({
      op,
      name,
      inputs,
      outputs,
      given: out !== undefined,
      attributes: own,
      compute,
    });
  }

  /** The memory of the results of a call. */
  #memoryOf(call: Call): DeviceMemory | null {
    const { op: { name }, attributes } = call;
    if ((name === "to" || name === "tensorOf") && attributes.device !== undefined) {
      return memoryOf(attributes.device, "move a tensor to");
    }
    return call.like?.memory ?? null;
  }

  #wrap(storage: Storage, layout: Layout, flags: number): Operand {
    const handle = wrap(storage, layout, flags);
    this.made.add(handle);
    return handle;
  }

  #view(call: Call): void {
    const x = call.operand(0);
    infer(call);
    checkAlive(x.storage, call.name);
    this.#note(x);
    const layout = viewLayout(call, x.layout);
    if (layout !== null) {
      call.outputs[0] = this.#wrap(x.storage, layout, x.flags | VIEW);
      return;
    }
    const { info, memory } = x.storage;
    const whole = Layout.contiguous(x.layout.shape);
    const copy = this.add(info, whole.size, memory, { kind: "made" });
    const outputs = [{ storage: copy, layout: whole, flags: 0 }];
    this.nodes.push({
      op: MAP.copy,
      name: call.name,
      inputs: [this.value(x)],
      outputs,
      given: false,
      attributes: undefined,
      compute: info,
    });
    call.outputs[0] = this.#wrap(copy, viewLayout(call, whole)!, 0);
  }

  #create(call: Call): void {
    const { name, attributes } = call;
    const op = call.op as CreateOp;
    const hasPlaceholder = Object.values(attributes as object).some((value) =>
      value instanceof Placeholder
    );
    // Without a random key of the program, it makes the same elements in each run.
    const first = op.create(attributes, name);
    const { storage, layout } = first;
    if (storage.exposed && !hasPlaceholder) {
      // Memory of the caller, which may change between runs, and which runs may write.
      const origin = { kind: "captured", storage } as const;
      const outside = this.#captured.get(storage) ??
        this.add(storage.info, storage.length, storage.memory, origin);
      this.#captured.set(storage, outside);
      this.hold.add(storage);
      call.outputs[0] = this.#wrap(outside, layout, first.flags);
      return;
    }
    const constant = hasPlaceholder ? null : storage;
    const origin = { kind: "created", op, name, attributes, constant } as const;
    if (!hasPlaceholder) this.hold.add(storage);
    const traced = this.add(storage.info, storage.length, storage.memory, origin);
    call.outputs[0] = this.#wrap(traced, layout, first.flags);
  }
}

/** The graph of what `tracer` recorded. */
export function graphOf({ storages, nodes }: Tracer, results: readonly Value[]): Graph {
  return { storages, nodes, results };
}

/** Throws a TraceError for a number of each run in the attributes of an op, such as an index. */
function checkAttributes(value: unknown): void {
  if (value instanceof Placeholder) value.refuse();
  if (typeof value !== "object" || value === null || isOperandArgument(value)) return;
  if (Array.isArray(value) || isRecord(value)) Object.values(value).forEach(checkAttributes);
}
