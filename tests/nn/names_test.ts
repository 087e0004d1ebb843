/**
 * Patterns of names: stars stand for any characters, in steps that grow with the name alone.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { matcher } from "../../src/nn/weights/names.ts";

/** Whether a pattern fits, by all ways to divide the name among the stars. */
function fits(pattern: string, name: string): boolean {
  if (pattern === "") return name === "";
  if (pattern[0] !== "*") {
    return name !== "" && name[0] === pattern[0] && fits(pattern.slice(1), name.slice(1));
  }
  return fits(pattern.slice(1), name) || (name !== "" && fits(pattern, name.slice(1)));
}

/** All texts of up to `most` of the letters. */
function texts(letters: string, most: number): string[] {
  const all = [""];
  for (let i = 0; all[i]!.length < most; i++) {
    for (const letter of letters) all.push(all[i]! + letter);
  }
  return all;
}

test("patterns: every one of up to 5 characters, for every name of up to 5 letters", () => {
  const names = texts("ab", 5);
  for (const pattern of texts("ab*", 5)) {
    const matches = matcher(pattern);
    for (const name of names) {
      assertEquals(matches(name), fits(pattern, name), `${pattern} ${name}`);
    }
  }
});

test("patterns: no other character is special", () => {
  assertEquals(matcher("a.b[0]+(c)$*")("a.b[0]+(c)$\n/x"), true);
  assertEquals(matcher("a.b")("axb"), false);
  assertEquals(matcher("?")("a"), false);
});

test("patterns: many stars do not backtrack", () => {
  // A regular expression of as many stars tries 10^30 ways.
  const name = "a".repeat(1000);
  assertEquals(matcher(`${"*a".repeat(40)}b`)(name), false);
  assertEquals(matcher(`${"*a".repeat(40)}*`)(name), true);
  assertEquals(matcher("*".repeat(100_000))(name), true);
  assertEquals(matcher(`${"*".repeat(100_000)}b`)(name), false);
});
