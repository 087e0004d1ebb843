/**
 * Layers: functions that have weights, which they read and prepare once.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { ArgumentError, DisposedError } from "../../base/errors.ts";
import { checkShape, sizeOf } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import type { Operand } from "../../memory/operand.ts";
import type { AnyPackedWeight } from "../../ops/linear/packed_weight.ts";
import { type AnyTensor, keep, scope } from "../../tensor/tensor.ts";
import { apart, type Holder, joinName, type LayerNeeds, type Ledger, type Part } from "./ledger.ts";

/** A function with weights. */
export interface Layer extends Disposable {
  /** The name of its tensors, up to their last part. */
  readonly path: string;
  /** Frees the weights. Calls then throw a DisposedError. */
  dispose(): void;
}

/**
 * What a layer needs below its name: a shape; or one of a tensor that the file may lack, or that has
 * a dtype of its own, as packed numbers have.
 */
export type PartSpec = readonly number[] | {
  readonly shape: readonly number[];
  readonly optional?: boolean;
  readonly dtype?: DType;
};

/**
 * A layer's tensors by the last part of their names; the factors of an adapter of `weight` are
 * `weight.a` and `weight.b`.
 */
export type Tensors = Readonly<Record<string, Operand | undefined>>;

/** Keeps a tensor or a packed weight for the layer: all others are freed. */
export type Own = <X extends AnyTensor | AnyPackedWeight>(x: X) => X;

/**
 * Makes the function of a layer of its tensors: once, or, if the weights are trained, in each call. The
 * layer does not own such tensors, and makes nothing of them that a later call would use.
 */
export type Make = (
  tensors: Tensors,
  own: Own,
  isTrained: boolean,
  // Each kind of layer has parameters of its own.
  // deno-lint-ignore no-explicit-any
) => (...args: any[]) => unknown;

/** The methods of a layer. */
export interface LayerTraits extends LayerNeeds {
  /** The properties of what `make` returns that the layer has. */
  readonly fields?: readonly string[];
}

/** The weights of a layer. */
class Job implements Holder {
  readonly name: string;
  readonly #ledger: Ledger;
  readonly #make: Make;
  readonly #needs: LayerNeeds;
  #parts: ReadonlyMap<string, Part> | undefined;
  #made: (() => ReturnType<Make>) | undefined;
  #owned: (AnyTensor | AnyPackedWeight)[] = [];
  /** Why there is no function. */
  #ended: (() => Error) | undefined;

  constructor(
    ledger: Ledger,
    name: string,
    parts: ReadonlyMap<string, Part>,
    make: Make,
    needs: LayerNeeds,
  ) {
    this.#needs = needs;
    this.#ledger = ledger;
    this.name = name;
    this.#parts = parts;
    this.#make = make;
    ledger.hold(this);
  }

  get bytes(): number {
    let sum = 0;
    for (const { entry } of this.#parts?.values() ?? []) {
      if (entry?.dtype !== undefined) sum += sizeOf(entry.shape) * DTYPE[entry.dtype].bytes;
    }
    return sum;
  }

  /** The function. */
  ready(): ReturnType<Make> {
    if (this.#made === undefined) this.prepare();
    return this.#made!();
  }

  /** Calls the function. */
  call(args: readonly unknown[]): unknown {
    return this.#isTrained ? scope(() => this.ready()(...args)) : this.ready()(...args);
  }

  get #isTrained(): boolean {
    return this.#ledger.options.trainable === true;
  }

  prepare(): void {
    if (this.#made !== undefined) return;
    if (this.#parts === undefined) throw this.#ended!();
    const parts = this.#parts;
    this.#ledger.check(`layer ${this.name}`, [...parts.values()]);
    const read = (): Tensors => {
      const tensors: Record<string, Operand | undefined> = {};
      for (const [key, part] of parts) {
        const adapted = this.#needs.addsProducts ? this.#ledger.loadAdapted(part) : undefined;
        if (adapted !== undefined) {
          [tensors[key], tensors[`${key}.a`], tensors[`${key}.b`]] = adapted;
        } else tensors[key] = part.entry && this.#ledger.loadPart(part, this.#needs);
      }
      return tensors;
    };
    if (this.#isTrained) {
      const tensors = read();
      this.#made = () => this.#make(tensors, (x) => x, true);
      this.#parts = undefined;
      return;
    }
    const owned: (AnyTensor | AnyPackedWeight)[] = [];
    const own: Own = (x) => {
      owned.push(keep(x));
      return x;
    };
    try {
      const made = apart(() => this.#make(read(), own, false));
      this.#made = () => made;
    } catch (error) {
      for (const one of owned) one.dispose();
      throw error;
    }
    this.#owned = owned;
    // The bytes of a file may be in memory as long as something refers to them.
    this.#parts = undefined;
  }

  close(): void {
    if (this.#made !== undefined || this.#parts === undefined) return;
    this.#end(() => new DisposedError(`Cannot use layer ${this.name}: its file is closed`));
  }

  /** Throws unless {@link take} can give the parts. */
  checkTake(by: string): void {
    if (this.#parts !== undefined) return;
    throw this.#ended?.() ?? new ArgumentError(
      `Cannot ${by} layer ${this.name}: its weights are loaded already; ${by} it before its first ` +
        "call and before done()",
    );
  }

  /** Gives the parts to a layer that is made of several. */
  take(by: string): ReadonlyMap<string, Part> {
    const parts = this.#parts!;
    this.#ledger.release(this);
    this.#end(() => new ArgumentError(`Cannot use layer ${this.name}: it is part of a ${by}`));
    return parts;
  }

  #end(why: () => Error): void {
    this.#parts = undefined;
    this.#ended = why;
  }

  [Symbol.dispose](): void {
    this.#ledger.release(this);
    for (const one of this.#owned) one.dispose();
    this.#owned = [];
    this.#made = undefined;
    this.#end(() => new DisposedError(`Cannot use layer ${this.name}: it was disposed`));
  }
}

/** The weights of layers, for functions on layers. */
const jobs = new WeakMap<object, { job: Job; ledger: Ledger }>();

/** A function that calls what `make` returns. */
function layerOf(job: Job, ledger: Ledger, path: string, { fields = [] }: LayerTraits): Layer {
  const layer = (...args: unknown[]): unknown => job.call(args);
  const dispose = (): void => job[Symbol.dispose]();
  const property = (value: unknown) => ({ value, enumerable: false });
  Object.defineProperties(layer, {
    name: property(path),
    path: property(path),
    dispose: property(dispose),
    [Symbol.dispose]: property(dispose),
  });
  for (const field of fields) {
    const get = (): unknown => Reflect.get(job.ready(), field);
    Object.defineProperty(layer, field, { get, enumerable: true });
  }
  jobs.set(layer, { job, ledger });
  // It has the members of a layer now, which the compiler does not know of defineProperties.
  return layer as unknown as Layer;
}

/**
 * A layer of the tensors `parts` below `name`. They are asked for at once, and read when `make` is
 * called: by the ledger, or in the layer's first call.
 */
export function defineLayer(
  ledger: Ledger,
  name: string,
  parts: Readonly<Record<string, PartSpec>>,
  make: Make,
  traits: LayerTraits = {},
): Layer {
  const asked = Object.entries(parts).map(([key, spec]): [string, Part] => {
    const { shape, optional = false, dtype } = "shape" in spec ? spec : { shape: spec };
    const own = checkShape(shape, `ask for ${JSON.stringify(joinName(name, key))} of`);
    return [key, ledger.ask(joinName(name, key), { shape: own, optional, computes: true, dtype })];
  });
  return layerOf(new Job(ledger, name, new Map(asked), make, traits), ledger, name, traits);
}

/**
 * One layer in the place of several of one file, whose tensors `make` gets as `0.weight`,
 * `1.weight`, …
 */
export function mergeLayers(
  by: string,
  layers: readonly object[],
  make: Make,
  traits: LayerTraits = {},
): Layer {
  const members = layers.map((layer) => {
    const found = jobs.get(layer);
    if (found === undefined) {
      throw new ArgumentError(`Cannot ${by} ${describe(layer)}: it takes layers of weights`);
    }
    return found;
  });
  const [first] = members;
  if (first === undefined) throw new ArgumentError(`Cannot ${by} no layers`);
  for (const { job, ledger } of members) {
    if (ledger !== first.ledger) throw new ArgumentError(`Cannot ${by} layers of different files`);
    job.checkTake(by);
  }
  if (new Set(members).size < members.length) {
    throw new ArgumentError(`Cannot ${by} a layer twice`);
  }
  const parts = new Map<string, Part>();
  for (const [i, { job }] of members.entries()) {
    for (const [key, part] of job.take(by)) parts.set(`${i}.${key}`, part);
  }
  const path = members.map(({ job }) => job.name).join(" + ");
  const job = new Job(first.ledger, first.job.name, parts, make, traits);
  return layerOf(job, first.ledger, path, traits);
}
