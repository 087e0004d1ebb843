/**
 * The tables of docs/from-*.md: which code stands on either side of which line.
 *
 * @module
 */

import { readFileSync } from "node:fs";

/** A page for those who come from another library, and how that is called there and in paths. */
export const PEERS = ["numpy", "pytorch", "tfjs"] as const;

/** One line of a table. */
export interface PeerRow {
  /** The line's number on its page. */
  readonly line: number;
  /** Expressions of the other library. */
  readonly there: readonly string[];
  /** Our expressions. */
  readonly here: readonly string[];
  /** Whether only shapes are the same: the note begins with "other numbers" or "other names". */
  readonly loose: boolean;
}

/** The rows of a page that have code on their left side. */
export function readPeerRows(text: string): PeerRow[] {
  return text.split("\n").flatMap((row, n) => {
    if (!row.startsWith("|")) return [];
    // A bar that stands in code is written "\|".
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

/** What the other library gives for each expression of its page, by the expression's text. */
export function readGolden(peer: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(`${peer}.json`, golden), "utf8"));
}

/** The value of a JavaScript expression in which `scope` names what there is. */
export function evaluate(code: string, scope: Record<string, unknown>): Promise<unknown> {
  const body = `return (async () => (${code}\n))();`;
  return new Function(...Object.keys(scope), body)(...Object.values(scope));
}
