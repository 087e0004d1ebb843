/**
 * The native library of this package: none, since a checkout builds its own.
 * scripts/release/package.ts replaces this file in packages.
 *
 * @module
 */
import type { Carried } from "./cache.ts";

/** The content of the package for this machine. */
export const embedded: Carried | undefined = undefined;
