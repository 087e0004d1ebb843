/**
 * What a node needs that a program does not have.
 *
 * @module
 */

/** The most rounds of a loop that becomes part of a program. */
export const MOST_UNROLLED = 64;

/** Thrown, while a program is recorded, by an op that only runs by itself. */
export class NeedsHost extends Error {}
