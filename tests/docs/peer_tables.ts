/**
 * The tables of docs/from-*.md: the code on both sides of each line.
 *
 * @module
 */

import { readFileSync } from "node:fs";

/** The other libraries, by their names in paths. */
export const PEERS = ["numpy", "pytorch", "tfjs"] as const;

/** One line of a table. */
export interface PeerRow {
  /** The line's number on its page. */
  readonly line: number;
  /** Expressions of the other library. */
  readonly there: readonly string[];
  /** Our expressions. */
  readonly here: readonly string[];
  /** Whether only shapes must agree: the note begins with "other numbers" or "other names". */
  readonly loose: boolean;
}

/** The lines of a page with code on their left side. */
export function readPeerRows(text: string): PeerRow[] {
  return text.split("\n").flatMap((row, n) => {
    if (!row.startsWith("|")) return [];
    // A bar in code is written "\|".
    const [, there = "", here = "", note = ""] = row.split(/(?<!\\)\|/);
    const codes = (cell: string) =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll("\\|", "|"));
    if (codes(there).length === 0) return [];
    return {
      line: n + 1,
      there: codes(there),
      here: codes(here),
      loose: /^ *other (numbers|names)\b/.test(note),
    };
  });
}

const golden = new URL("../golden/peers/", import.meta.url);

/** The operands of the tables, each made by `make`. */
export function readOperands<T>(make: (data: unknown, dtype: string) => T): Record<string, T> {
  const text = readFileSync(new URL("operands.json", golden), "utf8");
  const operands: Record<string, [dtype: string, data: unknown]> = JSON.parse(text);
  return Object.fromEntries(
    Object.entries(operands).map(([name, [dtype, data]]) => [name, make(data, dtype)]),
  );
}

/** The other library's result for each expression of its page, by the expression's text. */
export function readGolden(peer: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(`${peer}.json`, golden), "utf8"));
}

/** The value of a JavaScript expression with the names of `scope`. */
export function evaluate(code: string, scope: Record<string, unknown>): Promise<unknown> {
  const body = `return (async () => (${code}\n))();`;
  return new Function(...Object.keys(scope), body)(...Object.values(scope));
}
