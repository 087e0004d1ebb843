/**
 * The cases of the op table in compiled functions: all cases of an op and a dtype in one.
 *
 * A case runs alone first. Its results and the memory that it writes are what the compiled function
 * has to give on the same backend, to the last bit.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { DType, Scalar } from "../../../src/base/dtype.ts";
import { sameShape } from "../../../src/base/shape.ts";
import { attempt } from "../../../src/base/errors.ts";
import { compile, type Compiled } from "../../../src/compile/mod.ts";
import { dispose } from "../../../src/core/handles.ts";
import { isOperand, type Operand } from "../../../src/memory/operand.ts";
import { allocate } from "../../../src/memory/pool.ts";
import type { Storage } from "../../../src/memory/storage.ts";
import { isSampled } from "../../support/amount.ts";
import type { Target } from "./backends.ts";
import { assertSame } from "./compare.ts";
import { fetched, read, sent, wholeOf } from "./operands.ts";

/** The operands of a case, and numbers among them. */
export type Args = readonly (Operand | Scalar)[];

/** Computes a case, into `out` if that is given. */
export type CaseCall = (args: Args, out?: Operand) => Operand;

/** What a compiled function gets of a case. */
interface Given {
  readonly args: Args;
  readonly out: Operand | undefined;
}

/** A case that has run alone. */
interface Case {
  readonly call: CaseCall;
  /** Its operands, as they were before. */
  readonly given: Given;
  /** The outputs after it: the result, and the memory of `out`. */
  readonly made: readonly Operand[];
  /** The message of its error. */
  readonly refused: string | undefined;
}

/** A compiled function of all cases of an op and a dtype. */
interface Known {
  readonly compiled: Compiled<(given: readonly Given[]) => (Operand | null)[]>;
  /** The messages of the errors of the cases, as they were when it was traced. */
  readonly refused: (string | undefined)[];
  /** The backends and devices that it has run on: it has a program for each. */
  readonly places: Set<string>;
}

/** The compiled functions of the current op: targets after the first call them too. */
const known = new Map<DType, Known>();
let current = "";

/** Runs the cases of an op on a target, and then as parts of compiled functions. */
export class CompiledCases {
  #cases: Case[] = [];
  #keeps = false;

  constructor(readonly name: string, readonly target: Target) {
    if (name === current) return;
    for (const { compiled } of known.values()) compiled.dispose();
    known.clear();
    current = name;
  }

  /** Whether the cases since {@link begin} are compiled. */
  get keeps(): boolean {
    return this.#keeps;
  }

  /** Begins the cases of a dtype. */
  begin(dtype: DType): void {
    const { compiled } = this.target;
    this.#keeps = compiled !== undefined &&
      (compiled.dtypes?.includes(dtype) ?? true) &&
      isSampled(`${this.name} ${dtype}`, compiled.every ?? 1);
  }

  /** Runs `call` alone, and keeps it for {@link check}. */
  run(call: CaseCall, args: Args, out?: Operand): Operand {
    if (!this.#keeps) return call(args, out);
    const given = out === undefined ? { args, out } : copies(args, out);
    const { value, error } = attempt(() => call(args, out));
    const refused = error === undefined ? undefined : (error as Error).message;
    const made = value === undefined ? [] : [value];
    // The test may write to it later.
    if (out !== undefined) made.push(wholeOf(copies([], out).out!));
    this.#cases.push({ call, given, made, refused });
    // Numbers among the operands are constants in the program, too.
    if (value !== undefined && !args.every(isOperand)) {
      const constant: CaseCall = (given) => call(given.map((x, k) => isOperand(x) ? x : args[k]!));
      this.#cases.push({ call: constant, given, made, refused });
    }
    if (error !== undefined) throw error;
    return value!;
  }

  /** Runs the cases since the last check in one compiled function, which has to give the same. */
  check(key: DType): void {
    const cases = this.#cases;
    this.#cases = [];
    const { on } = this.target;
    if (cases.length === 0) return;
    if (!known.has(key)) known.set(key, compileCases(cases));
    const { compiled, refused, places } = known.get(key)!;
    const made = compiled(cases.map(({ given }) => given));
    places.add(typeof on === "string" ? on : on.name);
    assertEquals(compiled.programs, places.size, `${this.name} ${key}: programs`);
    cases.forEach((one, i) => {
      const found: Operand[] = [];
      if (made[i] !== null) found.push(made[i]!);
      if (one.given.out !== undefined) found.push(wholeOf(one.given.out));
      try {
        if (refused[i] !== one.refused) assertEquals(refused[i], one.refused);
        if (found.length !== one.made.length) assertEquals(found.length, one.made.length);
        found.forEach((actual, k) => same(actual, one.made[k]!));
      } catch (error) {
        const what = `${this.name} ${key}, case ${i} of ${describeCase(one)}`;
        throw new Error(`${what}, compiled (${this.target.name}): ${(error as Error).message}`);
      }
    });
    made.forEach((one, i) => {
      if (one !== null && one !== cases[i]!.given.out) dispose(one);
    });
  }
}

function compileCases(cases: readonly Case[]): Known {
  const calls = cases.map(({ call }) => call);
  const refused: (string | undefined)[] = [];
  const compiled = compile((given: readonly Given[]) =>
    calls.map((call, i) => {
      const { value, error } = attempt(() => call(given[i]!.args, given[i]!.out));
      refused[i] = error === undefined ? undefined : (error as Error).message;
      return value ?? null;
    })
  );
  return { compiled, refused, places: new Set() };
}

/** Copies of the storages of operands; those that share one share its copy. */
function copies(args: Args, out: Operand): Given {
  const made = new Map<Storage, Storage>();
  const copy = (x: Operand): Operand => {
    let storage = made.get(x.storage);
    if (storage === undefined) {
      const { info, length } = x.storage;
      const here = allocate(info.name, length, false);
      here.array.set(fetched(x.storage).array as never);
      made.set(x.storage, storage = sent(here));
    }
    return { ...x, storage };
  };
  return { args: args.map((x) => isOperand(x) ? copy(x) : x), out: copy(out) };
}

/** Throws unless `actual` has the dtype, shape and elements of `expected`; all NaN are equal. */
function same(actual: Operand, expected: Operand): void {
  const { info } = expected.storage;
  const { shape } = expected.layout;
  if (actual.storage.info !== info) assertEquals(actual.storage.info.name, info.name);
  if (!sameShape(actual.layout.shape, shape)) assertEquals(actual.layout.shape, shape);
  if (sameBytes(actual, expected)) return;
  assertSame(() => "a result", read(actual), read(expected), info.name);
}

/** Whether two tensors on the CPU that are all of their storages have the same bytes. */
function sameBytes(a: Operand, b: Operand): boolean {
  const [x, y] = [a, b].map(({ storage, layout }) => {
    const whole = storage.memory === null && layout.contiguous && layout.offset === 0;
    if (!whole) return new Uint8Array(0);
    const { buffer, byteOffset } = storage.array;
    return new Uint8Array(buffer, byteOffset, layout.size * storage.info.bytes);
  });
  if (x!.length === 0 || x!.length !== y!.length) return false;
  for (let i = 0; i < x!.length; i++) if (x![i] !== y![i]) return false;
  return true;
}

function describeCase({ given: { args, out } }: Case): string {
  const texts = args.map((x) => isOperand(x) ? describeOperand(x) : String(x));
  return texts.join(", ") + (out === undefined ? "" : ` into ${describeOperand(out)}`);
}

function describeOperand({ storage, layout: { shape, strides, offset } }: Operand): string {
  return `${storage.info.name} [${shape}] by [${strides}] from ${offset}`;
}
