/**
 * Mutants that no test can tell from the original, or that none is to: by file and key, with the
 * reason. The run fails where a key is no longer that of a mutant.
 *
 * @module
 */

/** The reasons, by files and keys. */
export const SURVIVORS: Readonly<Record<string, Readonly<Record<string, string>>>> = {};
