/**
 * What slow steps of the packages made is kept, whole, and the results that are used stay.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findKept, keep } from "../../scripts/release/kept.ts";

test("results are kept under their hashes, and those used last stay", () => {
  const step = `test-${process.pid}`;
  const write = (text: string) => (folder: string) => writeFileSync(join(folder, "file"), text);
  assertEquals(findKept(step, "a"), undefined);
  const path = keep(step, "a", write("first"));
  try {
    assertEquals(findKept(step, "a"), path);
    // Another process may have made it in the meantime.
    assertEquals(keep(step, "a", write("second")), path);
    assertEquals(readFileSync(join(path, "file"), "utf8"), "first");

    const fail = () => {
      throw new Error("no space");
    };
    assertThrows(() => keep(step, "b", fail), Error, "no space");
    assertEquals(readdirSync(dirname(path)), ["a"]);

    for (let k = 0; k < 20; k++) {
      utimesSync(keep(step, `c${k}`, write("")), k, k);
      findKept(step, "a");
    }
    assertEquals(findKept(step, "a"), path);
    assertEquals(findKept(step, "c0"), undefined);
    assertEquals(readdirSync(dirname(path)).length, 12);
  } finally {
    rmSync(dirname(path), { recursive: true });
  }
});
