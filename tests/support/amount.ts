/**
 * How much a test does: a part in `npm test`, everything in `npm run test:all`, which sets
 * `ROWMAJOR_TEST_ALL=1`.
 *
 * @module
 */
import process from "node:process";

/** Whether everything runs. */
export const RUNS_ALL: boolean = process.env.ROWMAJOR_TEST_ALL === "1";

/** How much a test does: `usual` in `npm test`, `all` in `npm run test:all`. */
export function amount(usual: number, all: number): number {
  return RUNS_ALL ? all : usual;
}

/**
 * Whether a case is in the sample of `npm test`, in which one case of `every` is. Its name decides,
 * so that the sample stays the same when other cases are added. `npm run test:all` runs all cases.
 */
export function isSampled(name: string, every: number): boolean {
  return RUNS_ALL || hash(name) % every === 0;
}

/**
 * So many of all cases in `npm test`, in their order: those whose names have the least hashes.
 * `npm run test:all` runs all cases.
 */
export function sampled<T>(
  cases: readonly T[],
  count: number,
  nameOf: (one: T) => string,
): readonly T[] {
  if (RUNS_ALL || cases.length <= count) return cases;
  const hashes = cases.map((one) => hash(nameOf(one)) >>> 0);
  const limit = hashes.toSorted((a, b) => a - b)[count]!;
  return cases.filter((_, i) => hashes[i]! < limit);
}

/** FNV-1a, in 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let k = 0; k < text.length; k++) {
    value = Math.imul(value ^ text.charCodeAt(k), 0x01000193) >>> 0;
  }
  // The low bits of short names alone are alike.
  return value ^ (value >>> 15);
}
