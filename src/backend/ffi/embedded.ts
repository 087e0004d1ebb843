/**
 * The native library that this package carries: none, as this is a checkout, which builds its own.
 * scripts/release/package.ts writes another file in the place of this one, with what packages carry.
 *
 * @module
 */
import type { Carried } from "./cache.ts";

/** What the package carries for this machine. */
export const embedded: Carried | undefined = undefined;
