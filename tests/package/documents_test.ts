/**
 * The documents of packages, on whose pages the paths of the repository lead nowhere.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { textOf } from "../../scripts/release/package.ts";
import { readText } from "../../scripts/tools.ts";

test("links and pictures of documents lead to the repository, or are left out", () => {
  /** The targets of links and pictures. */
  const targets = (text: string) => [...text.matchAll(/\]\(([^)]*)\)/g)].map(([, to]) => to!);
  for (const name of ["README.md", "CHANGELOG.md"]) {
    const text = readText(name);
    assert(targets(text).some((to) => !to.includes(":")), "there are links to mend");
    const alone = textOf(text, undefined);
    assertEquals(targets(alone), targets(text).filter((to) => to.includes(":")));
    assert(!alone.includes("!["));
    const linked = textOf(text, "https://example.org/rowmajor");
    assertEquals(targets(linked).length, targets(text).length);
    for (const to of targets(linked)) assert(/^https:\/\//.test(to), to);
    // Other text stays.
    assertEquals(linked.replace(/\]\([^)]*\)/g, "]"), text.replace(/\]\([^)]*\)/g, "]"));
  }
  assert(
    textOf(readText("README.md"), "https://example.org/rowmajor").includes(
      "](https://example.org/rowmajor/raw/main/docs/benchmarks.svg)",
    ),
  );
});
