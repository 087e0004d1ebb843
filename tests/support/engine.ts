/**
 * The JavaScript engine of a run. What is TypeScript alone, or C behind a call that others test, gives
 * the same in both: it runs in Deno, and a sample in Bun.
 *
 * @module
 */
import { isSampled, RUNS_ALL } from "./amount.ts";

/** Whether the tests run in Bun. */
export const IN_BUN: boolean = "Bun" in globalThis;

/** How much a test does: in Deno, in Bun, and in both in `npm run test:all`. */
export function amountIn(deno: number, bun: number, all: number): number {
  return RUNS_ALL ? all : IN_BUN ? bun : deno;
}

/** Whether a case runs: all of them in Deno, a sample of one of `every` in Bun. */
export function runsHere(name: string, every: number): boolean {
  return !IN_BUN || isSampled(name, every);
}
