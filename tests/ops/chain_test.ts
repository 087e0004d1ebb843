/**
 * Chains of elementwise ops against the same ops one by one: every op and dtype on every backend,
 * several outputs, broadcasting, views, given outputs, and malformed chains.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { describe, it } from "node:test";
import { chains, describeChain, eagerly, fused } from "./chains.ts";
import { BACKENDS, using } from "./table/backends.ts";

describe("chain", () => {
  for (const { name, on } of BACKENDS) {
    if (typeof on === "string") continue;
    it(`property: ${name}: a chain gives the bits of its ops one by one`, () => {
      fc.assert(
        fc.property(chains(12), (chain) => {
          using(on, () => {
            assertEquals(fused(chain), eagerly(chain), describeChain(chain));
          });
        }),
        { numRuns: 100 },
      );
    });
  }
});
