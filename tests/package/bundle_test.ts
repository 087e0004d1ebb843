/**
 * Source maps of the packages, shortened: each place of a script leads to its line, as before.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { linesOf } from "../../scripts/release/bundle.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** A place in a script, and what it comes from: source, line and column; nothing for other code. */
type Segment = readonly [at: number, from?: readonly [number, number, number]];

function digits(number: number): string {
  const bits = (number < 0 ? -2 * number + 1 : 2 * number).toString(2);
  const groups = bits.padStart(Math.ceil(bits.length / 5) * 5, "0").match(/.{5}/g)!.reverse();
  return groups.map((group, i) => DIGITS[parseInt(group, 2) + (i < groups.length - 1 ? 32 : 0)])
    .join("");
}

/** The mappings of a source map, whose numbers are differences. */
function mappingsOf(lines: readonly (readonly Segment[])[]): string {
  let before = [0, 0, 0];
  return lines.map((segments) => {
    let last = 0;
    return segments.map(([at, from]) => {
      const steps = from?.map((number, i) => number - before[i]!) ?? [];
      const text = [at - last, ...steps].map(digits).join("");
      last = at;
      before = from === undefined ? before : [...from];
      return text;
    }).join(",");
  }).join(";");
}

test("a shortened source map keeps the first segment of each line of a source", () => {
  const first: Segment[] = [
    [0, [0, 4, 2]],
    [3, [0, 4, 9]],
    [8, [0, 3, 0]],
    [20, [1, 3, 5]],
    [21],
    [22],
    [40, [1, 3, 700]],
    [90, [1, 3, 12]],
  ];
  const third: Segment[] = [[5, [1, 3, 12]], [70_000, [0, 100_000, 31]]];
  const kept = [0, 2, 3, 4, 6].map((i) => first[i]!);
  assertEquals(linesOf(mappingsOf([first, [], third])), mappingsOf([kept, [], third]));
  assertEquals(linesOf(""), "");
});

test("the names of a source map are left out", () => {
  // "A" stands for the name after the column.
  assertEquals(linesOf("AAAAA,CAEAA"), "AAAA,CAEA");
});
