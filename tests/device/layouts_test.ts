/**
 * Every program on operands in other layouts: strided, reversed, broadcast, of one element along an
 * axis, and empty. It gives what it gives for contiguous copies, or the same error of the library.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import * as errors from "../../src/base/errors.ts";
import { testOnBackends } from "../compile/support.ts";
import type { Any } from "../support.ts";
import { runsHere } from "../support/engine.ts";
import { type Operands, operands, plain, type Program, PROGRAMS } from "../ops/programs.ts";

/** Programs of the process, of files, and of the memory of a tensor. */
const ABOUT = [
  /^(io\.|nn\.(findModel|open)|into|Symbol|with|set(Backend|Threads)$)/,
  /^(capture|cuda|warmUp|offload|constructor|emptyCache|synchronize|dispose|profile|read)$/,
  /^(ownership|strides|byteStrides|offset|isContiguous|flags|access|data|sharesBuffer|asStrided)$/,
];

/** The operand in another layout. */
const LAYOUTS: Record<string, (x: Any) => Any> = {
  reversed: (x) => x.flip().copy().flip(),
  strided: (x) => x.repeat(2, -1).slice("..., ::2"),
  "strided rows": (x) => x.repeat(2, 0).slice("::2"),
  transposed: (x) => x.T.copy().T,
  broadcast: (x) => x.sliceAxis(0, ":1").broadcastTo(x.shape),
  "of one row": (x) => x.sliceAxis(0, ":1"),
  "of one column, reversed": (x) => x.sliceAxis(-1, ":1").flip(),
  "of no row": (x) => x.sliceAxis(0, ":0"),
  "of no row, reversed": (x) => x.sliceAxis(0, ":0").flip(),
  "of no row, strided": (x) => x.repeat(2, -1).slice("..., ::2").sliceAxis(0, ":0"),
  "of no column": (x) => x.sliceAxis(-1, ":0"),
  "of no column, reversed": (x) => x.sliceAxis(-1, ":0").flip(),
};

const TYPED = new Set([...Object.keys(errors), "AssertionError"]);

/** What a program gives and leaves of its operands, each of them changed by `change`; or its error. */
async function outcome(program: Program, change: (x: Any) => Any): Promise<unknown> {
  const given: Operands = Object.fromEntries(
    Object.entries(operands()).map(([key, x]) => [key, x.rank > 0 ? change(x) : x]),
  );
  const later = (one: Promise<unknown>): Promise<unknown> => one.catch(() => {});
  try {
    const value = plain(await program({ ...given, later }));
    return [value, plain(Object.values(given))];
  } catch (error) {
    const { name, message } = error as Error;
    assert(TYPED.has(name), `${name}: ${message}`);
    return name === "ReadOnlyError" ? name : `${name}: ${message}`;
  }
}

for (const [layout, make] of Object.entries(LAYOUTS)) {
  testOnBackends(`every program on operands ${layout}`, async () => {
    for (const [name, program] of PROGRAMS) {
      if (ABOUT.some((pattern) => pattern.test(name))) continue;
      if (!runsHere(`${name} ${layout}`, 4)) continue;
      const found = await outcome(program, make);
      if (layout === "broadcast" && found === "ReadOnlyError") continue;
      assertEquals(found, await outcome(program, (x) => make(x).copy()), name);
    }
  });
}
