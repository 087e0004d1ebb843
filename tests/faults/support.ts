/**
 * Tests of faults that use, public reports and attacks found: by the number of the entry, with the
 * kind of fault and the other places that had it.
 *
 * @module
 */
import { test, type TestContext } from "node:test";

/** What a fault is. */
export interface Fault {
  /** The number of the entry. */
  readonly entry: number;
  /** The kind of fault. */
  readonly kind: string;
  /** The other places that had a fault of the kind. */
  readonly others: readonly string[];
  /** Why the test cannot run here, if so. */
  readonly skip?: string | false;
}

/** A test of a fault; prints the entry, the kind and the other places. */
export function fault(
  { entry, kind, others, skip = false }: Fault,
  body: (t: TestContext) => void | Promise<void>,
): void {
  const found = others.length === 0 ? "nowhere else" : `also in ${others.join(", ")}`;
  test(`${entry}. ${kind}`, { skip }, async (t) => {
    console.log(`fault ${entry}: ${kind}; ${found}`);
    await body(t);
  });
}
