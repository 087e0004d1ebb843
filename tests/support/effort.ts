/**
 * What a program asks for: bytes of buffers, counted by their constructors, and steps, counted by the
 * runtime's coverage of calls and loops.
 *
 * A test imports this file before all others, as modules keep constructors.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { Session } from "node:inspector";
import type { Any } from "../support.ts";

let asked = 0;

const SIZES: Readonly<Record<string, number>> = {
  ...{ ArrayBuffer: 1, SharedArrayBuffer: 1, Uint8Array: 1, Int8Array: 1, Uint8ClampedArray: 1 },
  ...{ Uint16Array: 2, Int16Array: 2, Uint32Array: 4, Int32Array: 4, Float32Array: 4 },
  ...{ Float64Array: 8, BigInt64Array: 8, BigUint64Array: 8, Float16Array: 2, Array: 8 },
};

/** Counts the elements that a constructor or a function gets as a number or as a list. */
function count(size: number, first: unknown): void {
  if (typeof first === "number") asked += size * first;
  else if (typeof first === "object" && first !== null && "length" in first) {
    asked += size * Number(first.length);
  }
}

for (const [name, size] of Object.entries(SIZES)) {
  const own = (globalThis as Any)[name];
  if (own === undefined) continue;
  const counting: Any = new Proxy(own, {
    construct(target, args, by) {
      // Several arguments are the elements of an array, or a part of a buffer.
      if (args.length === 1) count(size, args[0]);
      return Reflect.construct(target, args, by === counting ? target : by);
    },
    apply(target, self, args) {
      if (args.length === 1) count(size, args[0]);
      return Reflect.apply(target, self, args);
    },
  });
  (globalThis as Any)[name] = counting;
}
const { from } = Array;
Array.from = function (this: Any, list: Any, ...rest: Any[]) {
  if (list !== null && typeof list === "object" && !(Symbol.iterator in list)) count(8, list);
  return from.call(this, list, ...rest as [Any]);
} as typeof Array.from;
for (const name of ["alloc", "allocUnsafe", "allocUnsafeSlow"] as const) {
  const own = Buffer[name] as (size: number, ...rest: unknown[]) => Buffer;
  (Buffer as Any)[name] = (size: number, ...rest: unknown[]) => {
    asked += size;
    return own(size, ...rest);
  };
}

/** The bytes that were asked for since the last call. */
export function takeBytes(): number {
  const bytes = asked;
  asked = 0;
  return bytes;
}

const session = new Session();
session.connect();

function post(method: string, options?: object): Promise<Any> {
  return new Promise((resolve, reject) => {
    (session.post as Any)(
      method,
      options,
      (error: Error | null, result: Any) => error ? reject(error) : resolve(result),
    );
  });
}

await post("Profiler.enable");
await post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });

/** The code of this library, and of the packages that decode pictures. */
const COUNTED = /\/src\/|\/node_modules\/(fast-png|jpeg-js|iobuffer|fflate)\//;
let before = 0;

/** The blocks of code that ran since the last call: bodies of functions and of loops. */
export async function takeSteps(): Promise<number> {
  const { result } = await post("Profiler.takePreciseCoverage");
  let all = 0;
  for (const { url, functions } of result) {
    if (!COUNTED.test(url)) continue;
    for (const { ranges } of functions) for (const range of ranges) all += range.count;
  }
  // Bun's counters go on, Deno's begin anew.
  const steps = "Bun" in globalThis ? all - before : all;
  before = all;
  return steps;
}
