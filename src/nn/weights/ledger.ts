/**
 * The books of the weights of a file: which tensors were asked for and what was wrong with them,
 * the layers that wait for their weights, and what holds memory.
 *
 * A request reads no elements. Layers read theirs once, all together at the end or in their first
 * call, so that nothing is allocated if a tensor is missing.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { ArgumentError, DisposedError, FormatError } from "../../base/errors.ts";
import { formatShape, sameShape, type Shape } from "../../base/shape.ts";
import { PACKED_DTYPES } from "../../ops/linear/panels.ts";
import { cast as castTo } from "../../core/copy.ts";
import { uninterpreted } from "../../core/interpreter.ts";
import { type Metadata, NO_METADATA } from "../../io/metadata.ts";
import type { TensorEntry, TensorSource } from "../../io/source.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { isQuantized } from "../../ops/quantized/dtypes.ts";
import { dequantize } from "../../ops/quantized/op.ts";
import { type AnyTensor, keep, scope } from "../../tensor/tensor.ts";
import { absent, load, loadFactors } from "./load.ts";
import { linesOf, matcher, suggester } from "./names.ts";

/** A tensor that a layer asked for. */
export interface Part {
  /** Its whole name. */
  readonly name: string;
  /** The tensor; undefined if there is a fault, or if it is optional and not there. */
  readonly entry?: TensorEntry;
  /** What is wrong with it. */
  readonly fault?: Fault;
}

/** How a tensor has to be. */
export interface Request {
  /** Its shape; any, if undefined. */
  readonly shape: readonly number[] | undefined;
  /** True if the source need not have it. */
  readonly optional?: boolean | undefined;
  /** True for a weight that is computed with: a float. */
  readonly computes?: boolean | undefined;
  /** Its dtype; any, or any float, if undefined. */
  readonly dtype?: DType | undefined;
}

/** What was wrong with a request. */
interface Fault {
  readonly name: string;
  /** The shape that was asked for. */
  readonly shape: Shape | undefined;
  readonly kind: "missing" | "shape" | "dtype";
  /** The dtype that was asked for. */
  readonly asked?: DType | undefined;
  /** The tensor of the name. */
  readonly found?: TensorEntry;
}

/** What holds memory, or will once it is loaded. */
export interface Holder extends Disposable {
  /** The name that its tensors begin with. */
  readonly name: string;
  /** Reads what it needs. */
  prepare?(): void;
  /** Forgets what it would read. */
  close?(): void;
  /** The bytes that `prepare` will read. */
  readonly bytes?: number;
}

/** What a layer does with tensors that are not plain. */
export interface LayerNeeds {
  /** Whether it takes quantized tensors as they are; else they are dequantized. */
  readonly keepsQuantized?: boolean;
  /** Whether it adds the products of adapters itself, to those of quantized weights. */
  readonly addsProducts?: boolean;
}

/** How tensors are read. */
export interface ReadOptions {
  /** The dtype of floats; that in the file, if undefined. */
  readonly dtype: DType | undefined;
  /** The device of all. */
  readonly device: string | undefined;
  /** Whether tensors are trained: each is one tensor for all layers. */
  readonly trainable?: boolean | undefined;
}

/** The names of weights that are not trained, by their memory. */
const frozen = new WeakMap<Storage, string>();

/** What a weight that is not trained is called; undefined for other tensors. */
export function frozenName({ storage }: Operand): string | undefined {
  return frozen.get(storage);
}

/** The dtypes of weights that are read without a cast: those that products pack. */
const USUAL: readonly DType[] = PACKED_DTYPES.map(({ name }) => name);

/** Whether elements stand for floats. */
function isFloat(dtype: DType): boolean {
  const info = DTYPE[dtype];
  return info.kind === "f" || isQuantized(info);
}

/** `name` below `prefix`, or the prefix itself. */
export function joinName(prefix: string, name: string): string {
  return prefix === "" ? name : name === "" ? prefix : `${prefix}.${name}`;
}

function isBelow(prefix: string, name: string): boolean {
  return prefix === "" || name === prefix || name.startsWith(`${prefix}.`);
}

/** The weights of one source. */
export class Ledger {
  /** The path of the source. */
  readonly file: string;
  /** What the source says of itself. */
  readonly metadata: Metadata;
  readonly options: ReadOptions;
  /** Undefined once everything is loaded, or failed. */
  #entries: ReadonlyMap<string, TensorEntry> | undefined;
  readonly #asked = new Set<string>();
  readonly #faults = new Map<string, Fault>();
  readonly #holders = new Set<Holder>();
  readonly #tensors = new Map<string, AnyTensor>();

  constructor(source: TensorSource, options: ReadOptions) {
    this.file = source.file;
    this.metadata = source.metadata ?? NO_METADATA;
    this.#entries = source.entries;
    this.options = options;
  }

  /** The tensors of the source, for `what` is to be done. */
  entries(what: string): ReadonlyMap<string, TensorEntry> {
    if (this.#entries !== undefined) return this.#entries;
    throw new DisposedError(`Cannot ${what}: the weights of ${this.file} are closed`);
  }

  /** Notes that `name` is used, if it is there. */
  use(name: string): void {
    this.#asked.add(name);
  }

  /** Asks for a tensor. Its fault is noted, and thrown by {@link verify}. */
  ask(name: string, request: Request): Part {
    const { shape, optional = false, computes = false, dtype: asked } = request;
    const found = this.entries(`ask for ${JSON.stringify(name)}`).get(name);
    this.#asked.add(name);
    if (found === undefined) {
      return optional ? { name } : this.#faulty({ name, shape, kind: "missing" });
    }
    const { dtype } = found;
    const fits = dtype !== undefined &&
      (asked !== undefined ? dtype === asked : !computes || this.#reads(dtype));
    if (!fits) return this.#faulty({ name, shape, kind: "dtype", found, asked });
    if (shape !== undefined && !sameShape(shape, found.shape)) {
      return this.#faulty({ name, shape, kind: "shape", found });
    }
    return { name, entry: found };
  }

  #faulty(fault: Fault): Part {
    const { name, shape } = fault;
    this.#faults.set(`${name} ${shape}`, fault);
    return { name, fault };
  }

  /** Whether a layer can compute with weights of `dtype`. */
  #reads(dtype: DType): boolean {
    return isFloat(dtype) &&
      (this.options.dtype !== undefined || USUAL.includes(dtype) || isQuantized(DTYPE[dtype]));
  }

  /**
   * The tensor of a layer, which may not take a quantized one as it is: read for the layer, or, if
   * weights are trained, the one that all uses share.
   */
  loadPart({ name, entry }: Part, { keepsQuantized = false }: LayerNeeds): Operand {
    const plain = !keepsQuantized && isQuantized(DTYPE[entry!.dtype!]);
    const asked = plain ? this.options.dtype ?? "float32" : undefined;
    return this.options.trainable
      ? this.tensor(name, undefined, asked)
      : this.#load(name, entry!, asked);
  }

  /** A quantized weight as it is, and the factors of its adapter; undefined for other tensors. */
  loadAdapted(
    { name, entry }: Part,
  ): readonly [weight: Operand, a: Operand, b: Operand] | undefined {
    const { dtype, device, trainable } = this.options;
    const factors = entry?.factors;
    if (factors === undefined || trainable || dtype !== undefined) return undefined;
    const { a, b } = loadFactors(factors, device);
    return [this.#load(name, { ...entry!, factors: undefined }, undefined), a, b];
  }

  /** Reads a tensor; floats are cast to the dtype of the options, or all to `asked`. */
  #load(name: string, entry: TensorEntry, asked: DType | undefined): Operand {
    const { device, trainable } = this.options;
    const made = load(entry, device, asked ?? this.#usual(entry));
    if (!trainable) frozen.set(made.storage, `${name} of ${this.file}`);
    return made;
  }

  /** The dtype to which a tensor is cast unless another one is asked for. */
  #usual({ dtype, factors }: TensorEntry): DType | undefined {
    if (!isFloat(dtype!)) return undefined;
    return this.options.dtype ?? (factors === undefined ? undefined : "float32");
  }

  /** The tensor of `name`, which is read once for each dtype; each use throws if it is missing. */
  tensor(name: string, shape: readonly number[] | undefined, dtype: DType | undefined): AnyTensor {
    const { entry, fault } = this.ask(name, { shape });
    if (this.options.trainable && entry?.given !== undefined) {
      const plain = isQuantized(entry.given.storage.info) && dtype !== undefined;
      const given = plain ? dequantize(entry.given) : entry.given;
      return (dtype === undefined ? given : castTo(given, dtype)) as AnyTensor;
    }
    const isUsual = entry !== undefined && dtype === (this.#usual(entry) ?? entry.dtype);
    const key = `${isUsual ? undefined : dtype}:${name}`;
    const known = this.#tensors.get(key);
    if (entry !== undefined && known?.isDisposed === false) return known;
    const made = uninterpreted(() =>
      entry === undefined
        ? absent(shape ?? [], () => this.#unusable(`tensor ${name}`, [fault!]))
        : this.#load(name, entry, dtype)
    ) as AnyTensor;
    keep(made);
    this.hold({ name, [Symbol.dispose]: () => made.dispose() });
    if (entry !== undefined) this.#tensors.set(key, made);
    return made;
  }

  /**
   * The names below `prefix`, without it, of the tensors that are trained: floats other than the
   * statistics of batch norms.
   */
  trainedNames(prefix: string): string[] {
    const what = "train weights";
    if (!this.options.trainable) {
      throw new ArgumentError(
        `Cannot ${what} of ${this.file}: open them with { trainable: true }`,
      );
    }
    const entries = this.entries(what);
    return this.names(prefix, what).filter((name) => {
      const entry = entries.get(joinName(prefix, name))!;
      const dtype = entry.dtype && (this.#usual(entry) ?? entry.dtype);
      return dtype !== undefined && DTYPE[dtype].kind === "f" &&
        !/(^|\.)running_(mean|var)$/.test(name);
    });
  }

  /** Keeps `holder` to dispose of it with all others. */
  hold(holder: Holder): void {
    this.#holders.add(holder);
  }

  /** Ends that. */
  release(holder: Holder): void {
    this.#holders.delete(holder);
  }

  /** Throws the faults of `parts`, if any: `what` cannot be used. */
  check(what: string, parts: readonly Part[]): void {
    const faults = parts.flatMap(({ fault }) => fault ?? []);
    if (faults.length > 0) throw this.#unusable(what, faults);
  }

  #unusable(what: string, faults: readonly Fault[]): FormatError {
    const texts = faults.map((fault) => `${fault.name} ${describeFault(fault)}`);
    return new FormatError(
      `Cannot use ${what}: ${texts.join("; ")}; done() lists all errors`,
      this.file,
      0,
    );
  }

  /** Names below `prefix`, without it. */
  names(prefix: string, what: string): string[] {
    const names = [...this.entries(what).keys()];
    return prefix === ""
      ? names
      : names.flatMap((name) =>
        name.startsWith(`${prefix}.`) ? [name.slice(prefix.length + 1)] : []
      );
  }

  /**
   * Throws a FormatError that tells all faults below `prefix`; tensors that were not asked for are
   * such, unless `ignore` has a pattern for their names below the prefix. Nothing stays allocated
   * then. Gives what has to be loaded.
   */
  verify(prefix: string, ignore: readonly string[]): Holder[] {
    const entries = this.entries("end the loading");
    const matchers = ignore.map(matcher);
    const faults = [...this.#faults.values()].filter(({ name }) => isBelow(prefix, name));
    const left = [...entries.keys()].filter((name) => {
      if (this.#asked.has(name) || !isBelow(prefix, name)) return false;
      const own = prefix === "" ? name : name.slice(prefix.length + 1);
      return !matchers.some((matches) => matches(own));
    });
    if (faults.length > 0 || left.length > 0) {
      const error = new FormatError(reportOf(faults, left, entries), this.file, 0);
      this.dispose(prefix);
      throw error;
    }
    return [...this.#holders].filter(({ name, prepare }) =>
      prepare !== undefined && isBelow(prefix, name)
    );
  }

  /** Puts other tensors in the place of the source's, for layers that are asked for from now on. */
  replace(entries: ReadonlyMap<string, TensorEntry>): void {
    this.#entries = entries;
  }

  /** Forgets the source of everything below `prefix`. */
  close(prefix: string): void {
    for (const holder of this.#holders) if (isBelow(prefix, holder.name)) holder.close?.();
    if (prefix !== "") return;
    this.#entries = undefined;
    this.#tensors.clear();
  }

  /** Frees everything below `prefix`. */
  dispose(prefix: string): void {
    for (const holder of [...this.#holders]) {
      if (!isBelow(prefix, holder.name)) continue;
      this.#holders.delete(holder);
      holder[Symbol.dispose]();
    }
    if (prefix === "") this.close("");
  }
}

function describeFault({ kind, shape, found, asked: dtype }: Fault): string {
  const asked = shape === undefined ? "" : ` ${formatShape(shape)}`;
  switch (kind) {
    case "missing":
      return "is missing";
    case "shape":
      return `has shape ${formatShape(found!.shape)}, not${asked}`;
    case "dtype":
      return found!.dtype === undefined
        ? `is not read: ${found!.type}`
        : dtype !== undefined
        ? `has dtype ${found!.dtype}, not ${dtype}`
        : `has dtype ${found!.dtype}: open the weights with { dtype: "float32" }, for example`;
  }
}

function count(n: number, one: string, many: string): string[] {
  return n === 0 ? [] : [`${n} ${n === 1 ? one : many}`];
}

/** All that is wrong, as text. */
function reportOf(
  faults: readonly Fault[],
  left: readonly string[],
  entries: ReadonlyMap<string, TensorEntry>,
): string {
  const of = (kind: Fault["kind"]): Fault[] => faults.filter((fault) => fault.kind === kind);
  const [missing, shapes, dtypes] = [of("missing"), of("shape"), of("dtype")];
  const titles = [
    ...count(missing.length, "tensor is missing", "tensors are missing"),
    ...count(shapes.length, "has another shape", "have another shape"),
    ...count(dtypes.length, "has a dtype that does not fit", "have a dtype that does not fit"),
    ...count(left.length, "is left over", "are left over"),
  ];
  const suggestLeft = suggester(left);
  const suggest = suggester([...entries.keys()]);
  const shapeOf = (name: string): string => formatShape(entries.get(name)!.shape);
  const lines = [
    ...linesOf("missing", missing, ({ name, shape }) => {
      const near = suggestLeft(name) ?? suggest(name);
      const asked = shape === undefined ? name : `${name} ${formatShape(shape)}`;
      return near === undefined ? asked : `${asked}; meant ${near} ${shapeOf(near)}?`;
    }),
    ...linesOf("other shape", shapes, (fault) => {
      const swapped = fault.shape?.length === 2 &&
        sameShape([...fault.shape].reverse(), fault.found!.shape);
      const hint = swapped ? " (linear has the option transposed)" : "";
      return `${fault.name} ${describeFault(fault)}${hint}`;
    }),
    ...linesOf("other dtype", dtypes, (fault) => `${fault.name} ${describeFault(fault)}`),
    ...linesOf("left over", left, (name) => `${name} ${shapeOf(name)}`),
  ];
  return [titles.join(", "), ...lines].join("\n");
}

/** Runs `body` outside of the program that calls it; what it makes and does not keep is freed. */
export function apart<R>(body: () => R): R {
  return uninterpreted(() => scope(body));
}
