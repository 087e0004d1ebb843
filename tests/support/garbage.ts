/**
 * Collects garbage, for tests of what is free then.
 *
 * @module
 */
import { setFlagsFromString } from "node:v8";
import vm from "node:vm";

/** Collects garbage, and lets finalizers run. */
export async function collectGarbage(): Promise<void> {
  const { Bun } = globalThis as { Bun?: { gc(now: boolean): void } };
  if (Bun !== undefined) Bun.gc(true);
  else {
    setFlagsFromString("--expose-gc");
    vm.runInNewContext("gc")();
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
}
