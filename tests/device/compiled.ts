/**
 * The programs of devices in compiled functions.
 *
 * Knows nothing of any one device.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { compile } from "../../src/compile/mod.ts";
import type { Device } from "../../src/types/mod.ts";
import type { loose } from "../support.ts";
import { type Program, PROGRAMS, type Site, siteOn, told } from "./programs.ts";

type Made = ReturnType<typeof loose>;

/** Programs that ask for ownership, which compiled functions cannot know, or that return views. */
const NOT_COMPILED = new Set([
  ...["copies", "moves"],
  ...["copy on write, the copy is written", "copy on write, the original is written"],
]);

/** The programs that are compiled, by their subjects and names. */
export const COMPILED: readonly (readonly [name: string, program: Program])[] = Object
  .entries(PROGRAMS).flatMap(([about, programs]) =>
    Object.entries(programs)
      .filter(([name]) => !NOT_COMPILED.has(name))
      .map(([name, program]) => [`${about}: ${name}`, program] as const)
  );

/** A site that notes the tensors that it makes, and how each is made again. */
function noting(device: Device, made: Made[], again: (() => Made)[]): Site {
  const site = siteOn(device);
  const note = (make: () => Made): Made => {
    again.push(make);
    const x = make();
    made.push(x);
    return x;
  };
  return {
    device,
    count: (...args) => note(() => site.count(...args)),
    of: (...args) => note(() => site.of(...args)),
  };
}

/**
 * {@link told}, but not whether a tensor is a view of memory that no other handle has: ops that are
 * made of others may return that.
 */
function about(value: unknown, device: Device): unknown {
  const text = told(value, device);
  const plain = (one: unknown): unknown => {
    if (Array.isArray(one)) return one.map(plain);
    if (typeof one !== "object" || one === null) return one;
    return { ...one, ownership: undefined };
  };
  return plain(text);
}

/**
 * Throws unless a compiled `program` does what it does alone: with the tensors that its site makes as
 * arguments, and with them as constants.
 */
export function checkCompiled(program: Program, device: Device): void {
  const first: Made[] = [];
  const again: (() => Made)[] = [];
  const result = program(noting(device, first, again));
  const expected = about(result, device);
  const after = about(first, device);
  const compiled = compile((given: readonly Made[]) => {
    let next = 0;
    const give = (): Made => given[next++]!;
    return program({ device, count: give, of: give });
  });
  const constant = compile(() => program(siteOn(device)));
  // A device may record its work in the second run.
  for (let run = 0; run < 3; run++) {
    const made = again.map((make) => make());
    assertEquals(about(compiled(made), device), expected);
    assertEquals(about(made, device), after);
    assertEquals(about(constant(), device), expected);
  }
  assertEquals([compiled.programs, constant.programs], [1, 1]);
  compiled.dispose();
  constant.dispose();
}
