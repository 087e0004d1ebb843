/**
 * Every list that the public interface takes: read once, checked, copied.
 *
 * Each parameter is called with its usual list and with hostile ones. parameters_test.ts tests that
 * no parameter is missing. Deno runs half of them and Bun a sixth; `npm run test:all` runs all in both.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { isSampled } from "../support/amount.ts";
import { IN_BUN } from "../support/engine.ts";
import { CALLS, REFUSING } from "./calls.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
type Call = (list: Any) => Any;

// Most calls throw, and taking the stacks would be a large part of the time.
Error.stackTraceLimit = 1;

/** The value of a result that does not change any more, as text. */
function show(made: Any, depth = 0): string {
  if (typeof made === "function") return show(made(), depth);
  if (typeof made === "symbol") return "a symbol";
  if (typeof made === "bigint") return `${made}n`;
  if (typeof made !== "object" || made === null) return String(made);
  if (made.layout !== undefined && made.storage !== undefined) {
    return `${made.dtype}[${made.shape}]${
      JSON.stringify(made.toArray?.(), (_, one) => typeof one === "bigint" ? `${one}n` : one)
    }`;
  }
  if (ArrayBuffer.isView(made)) return `${made.constructor.name}(${Array.from(made as Any)})`;
  if (depth > 3) return "…";
  if (Array.isArray(made)) return `[${Array.from(made, (one) => show(one, depth + 1)).join()}]`;
  const entries = Object.entries(made).map(([key, one]) => `${key}: ${show(one, depth + 1)}`);
  return `{${entries.join()}}`;
}

/** The kinds of errors that are ours, and those of the runtime that only we write. */
const OURS =
  /^(Shape|DType|Axis|Index|Argument|Device|ReadOnly|Format|LinAlg|Op|OutOfMemory|Disposed|Shared|Support)Error: |^TypeError: (Cannot |\w+(\.\w+)?\(|The )/;
const RAW =
  /properties of|is not a function|not iterable|Cannot convert|Cannot mix|undefined is not (?!a dtype)|null is not (?!a dtype)|is not an object|Invalid array length|Cannot destructure|evaluating|Maximum call stack/;

async function outcome(call: Call, list: Any): Promise<string> {
  try {
    return show(await call(list));
  } catch (error) {
    // Each op has a name of its own.
    const text = String(error).replace(/lists(Kernel)?\d+/, "lists");
    if (RAW.test(text) || !OURS.test(text)) {
      return `raw ${text} ${(error as Error)?.stack?.split("\n")[1]}`;
    }
    return text;
  }
}

const copyOf = (list: Any): Any =>
  Array.isArray(list) ? list.map((one) => Array.isArray(one) ? one.slice() : one) : list;

/** Reads of a list beyond which an op reads on although the list is wrong, or too long. */
const MOST_READS = 2000;

/** `list`, with reads counted per index; every read after the first gives something else. */
function watched(list: Any[], other: unknown): { list: Any; reads: number[] } {
  const reads = list.map(() => 0);
  const target = list.slice();
  const proxy = new Proxy(target, {
    get(on, key) {
      const i = typeof key === "string" && /^\d+$/.test(key) ? Number(key) : -1;
      if (i >= 0 && i < reads.length && reads[i]!++ > 0) return other;
      return Reflect.get(on, key);
    },
  });
  return { list: proxy, reads };
}

/** A list of so many elements that counts its reads and throws when there are too many. */
function endless(length: number, element: unknown): Any {
  let reads = 0;
  return new Proxy(new Array(length), {
    get(on, key) {
      if (typeof key === "symbol" || !/^\d+$/.test(key)) return Reflect.get(on, key);
      if (++reads > MOST_READS) throw new RangeError(`endless: ${reads} elements were read`);
      return element;
    },
    has: (on, key) => typeof key === "string" && /^\d+$/.test(key) ? true : Reflect.has(on, key),
  });
}

/**
 * The elements of nested arrays are read once for their dtype, and once more for their values, which
 * are checked then: a copy of a million numbers would take several times as long as both.
 */
const READ_AGAIN = "tensor data";

/** What a list does when an element of it is read. */
const CHANGES = ["shrinks", "grows", "changes"] as const;

/** A list that changes when an element of it is read. */
function changing(list: Any[], change: (typeof CHANGES)[number]): Any {
  let reads = 0;
  return new Proxy(list, {
    get(on, key) {
      if (typeof key === "symbol" || !/^\d+$/.test(key)) return Reflect.get(on, key);
      if (++reads > MOST_READS) throw new RangeError(`endless: ${reads} elements were read`);
      const one = Reflect.get(on, key);
      if (reads > 1) return one;
      if (change === "shrinks") on.length = 1;
      else if (change === "grows") on.length = 2 ** 31;
      else on.fill(undefined);
      return one;
    },
  });
}

/** An array whose methods give something else. */
class Hostile extends Array {
  override map(): Any {
    return ["hostile"];
  }
  override indexOf(): Any {
    return 0;
  }
  override slice(): Any {
    return ["hostile"];
  }
  override *[Symbol.iterator](): Any {
    for (;;) yield "hostile";
  }
}

const WRONG: readonly unknown[] = [
  NaN,
  1.5,
  "1",
  null,
  undefined,
  {},
  [[]],
  1n,
  Infinity,
  2 ** 53,
  true,
  () => 1,
  Symbol("x"),
];

/** The faults of one parameter, in words. */
async function faultsOf(
  key: string,
  call: Call,
  make: () => Any,
  accepts: boolean,
): Promise<string[]> {
  const faults: string[] = [];
  const fault = (text: string): void => void faults.push(text.slice(0, 300));
  const usual = await outcome(call, make());
  const isRefused = OURS.test(usual) || usual.startsWith("raw ");
  if (usual.startsWith("raw ")) fault(`usual: ${usual}`);
  if (isRefused === accepts) fault(`${accepts ? "refuses" : "accepts"} the usual list: ${usual}`);
  // Unchanged.
  const given = make();
  const before = show(copyOf(given));
  await outcome(call, given);
  if (show(given) !== before) fault(`changes the list from ${before} to ${show(given)}`);
  const frozen = make();
  if (Array.isArray(frozen)) {
    for (const one of frozen) if (Array.isArray(one)) Object.freeze(one);
    const made = await outcome(call, Object.freeze(frozen));
    if (made !== usual) fault(`frozen: ${made}, not ${usual}`);
  }
  // Holes are undefined.
  for (let i = 0; i < given.length; i++) {
    const [holes, undefineds] = [make(), make()];
    delete holes[i];
    undefineds[i] = undefined;
    const [a, b] = [await outcome(call, holes), await outcome(call, undefineds)];
    if (a.startsWith("raw ")) fault(`hole at ${i}: ${a}`);
    if (a !== b) fault(`hole at ${i}: ${a}, not ${b}`);
    // So are those of lists in it.
    if (!Array.isArray(given[i])) continue;
    for (let k = 0; k < given[i].length; k++) {
      const [inner, plain] = [make(), make()];
      delete inner[i][k];
      plain[i][k] = undefined;
      const [c, d] = [await outcome(call, inner), await outcome(call, plain)];
      if (c.startsWith("raw ")) fault(`hole at ${i}, ${k}: ${c}`);
      if (c !== d) fault(`hole at ${i}, ${k}: ${c}, not ${d}`);
    }
  }
  const empty = await outcome(call, new Array(given.length));
  if (empty.startsWith("raw ")) fault(`holes alone: ${empty}`);
  // Each element is read once.
  if (Array.isArray(given) && given.length > 0) {
    const { list, reads } = watched(make(), -7);
    const made = await outcome(call, list);
    if (made !== usual) fault(`read ${reads} times: ${made}, not ${usual}`);
  }
  // The first read changes the others, and their number.
  if (Array.isArray(given) && given.length > 0) {
    for (const change of CHANGES) {
      const made = await outcome(call, changing(make(), change));
      if (made.startsWith("raw ")) fault(`${change}: ${made}`);
    }
    // Methods of the list are not those of arrays.
    const own = Object.setPrototypeOf(make(), Hostile.prototype);
    const made = await outcome(call, own);
    if (made !== usual) fault(`own methods: ${made}, not ${usual}`);
    for (let i = 0; i < given.length; i++) {
      if (!Array.isArray(given[i]) || given[i].length === 0) continue;
      const [twice, proxied] = [make(), make()];
      twice[i] = watched(twice[i], -7).list;
      proxied[i] = changing(proxied[i], "grows");
      const [a, b] = [await outcome(call, twice), await outcome(call, proxied)];
      if (a !== usual && key !== READ_AGAIN) {
        fault(`read more than once at ${i}: ${a}, not ${usual}`);
      }
      if (b.startsWith("raw ")) fault(`grows at ${i}: ${b}`);
    }
  }
  // Wrong elements.
  for (const wrong of WRONG) {
    for (const i of new Set([0, given.length - 1])) {
      if (i < 0) continue;
      const list = make();
      list[i] = wrong;
      const made = await outcome(call, list);
      if (made.startsWith("raw ")) fault(`${String(wrong)} at ${i}: ${made}`);
      if (!Array.isArray(given[i])) continue;
      const inner = make();
      inner[i][0] = wrong;
      const other = await outcome(call, inner);
      if (other.startsWith("raw ")) fault(`${String(wrong)} at ${i}, 0: ${other}`);
    }
  }
  // Other lists.
  const numbers = Array.isArray(given) && given.every((one: unknown) => typeof one === "number");
  if (numbers) {
    for (const typed of [new Int32Array(given), new Float64Array(given), new Uint8Array(given)]) {
      const made = await outcome(call, typed);
      if (made.startsWith("raw ")) fault(`${typed.constructor.name}: ${made}`);
      else if (!OURS.test(made) && accepts && made !== usual) {
        fault(`${typed.constructor.name}: ${made}, not ${usual}`);
      }
    }
  }
  for (const length of [1e6, 2 ** 32 - 1]) {
    const made = await outcome(call, endless(length, undefined));
    if (made.startsWith("raw ")) fault(`${length} times undefined: ${made}`);
  }
  // Later changes do nothing.
  const later = make();
  try {
    const pending = call(later);
    for (let i = 0; i < later.length; i++) {
      if (Array.isArray(later[i])) later[i].fill(99);
      later[i] = 99;
    }
    later.length = 0;
    const made = show(await pending);
    if (made !== usual) fault(`changed later: ${made}, not ${usual}`);
  } catch (error) {
    if (accepts) fault(`changed later: ${error}`);
  }
  return faults;
}

test("compiled functions see holes of arguments and of results as undefined", () => {
  const { arange } = rm;
  const f = compile((list: Any) => list.map((one: Any) => one?.mul(2))) as Any;
  // deno-lint-ignore no-sparse-arrays
  const lists = [[arange(2), , arange(3)], [arange(2), undefined, arange(3)]];
  const [holes, undefineds] = lists.map((list) => show(f(list)));
  assertEquals(holes, undefineds);
  // deno-lint-ignore no-sparse-arrays
  const g = compile((x: Any) => [x.add(1), , x]) as Any;
  assertEquals(show(g(arange(2))), "[float32[2][1,2],undefined,float32[2][0,1]]");
});

for (const [key, [make, call]] of Object.entries(CALLS)) {
  if (!isSampled(key, IN_BUN ? 6 : 2)) continue;
  test(`lists: ${key}`, async () => {
    assertEquals(await faultsOf(key, call, make, !REFUSING.has(key)), []);
  });
}
