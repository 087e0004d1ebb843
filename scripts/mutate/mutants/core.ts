/**
 * What a mutant is: a small fault in src that some test must notice. Knows no single one of them.
 *
 * @module
 */

/** What a mutant belongs to. */
export type Group =
  | "op row"
  | "plan step"
  | "slice rule"
  | "layout"
  | "dispatch"
  | "indexing"
  | "storage"
  | "backend"
  | "device"
  | "io"
  | "type";

/** One fault. */
export interface Mutant {
  readonly name: string;
  readonly group: Group;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Test files, without `_test.ts`, likeliest to notice it first; `file:/pattern/` for some tests. */
  readonly tests: readonly string[];
}

/** Faults of one file by name: a text that occurs in it exactly once, and what takes its place. */
export type Edits = Readonly<Record<string, readonly [find: string, replace: string]>>;

/** The mutants of one file. */
export function edits(group: Group, file: string, tests: readonly string[], list: Edits): Mutant[] {
  return Object.entries(list).map(([name, [find, replace]]) => ({
    name,
    group,
    file,
    find,
    replace,
    tests,
  }));
}
