/**
 * Every error of a method names that method, even if the method consists of several ops. Calls all
 * methods with invalid arguments, on tensors of all kinds; none may fail with an error of
 * JavaScript.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { Tensor, zeros } from "../../mod.ts";
import { iota, loose } from "../support.ts";

/** Methods whose errors describe the operation in English. */
const IN_ENGLISH: Record<string, RegExp> = {
  asRank: /^Cannot take shape .* as rank /,
  broadcastTo: /^Cannot broadcast (to )?shape /,
  cuda: /^Cannot move a tensor to /,
  to: /^Cannot move a tensor to /,
};

const receivers: (() => Tensor)[] = [
  () => loose(iota([2, 3])),
  () => loose(iota([2, 2], "int64")),
  () => loose(iota([4])),
  () => loose(zeros([2, 3], { dtype: "bool" })),
  () => loose(zeros([0, 3])),
  () => loose(zeros([])),
  () => loose(iota([2, 3]).readonly()),
  () => {
    const gone = iota([2, 3]);
    gone.dispose();
    return loose(gone);
  },
];

const other = iota([7]);
const badArguments: unknown[][] = [
  [],
  ...[5, -1, 0.5, 5n, "a", true, null, {}, [0, 0, 0], other, Symbol("s")].map((one) => [one]),
  ...[0, 9, "a", other, { typo: 1 }, { out: other }, { dtype: "x" }].map((one) => [null, one]),
  ...["a", null, { typo: 1 }, { out: other }, { dtype: "x" }].map((one) => [0, one]),
  ...[1, "a", other, { typo: 1 }].map((one) => [other, one]),
  [9, 9],
  [0, 0, "a"],
  [0, 0, { typo: 1 }],
  [[5], 1],
  [[0, 0, 0], 1],
  ["a", 1],
];

/** The error of a call, if any. */
async function thrown(x: Tensor, name: string, args: unknown[]): Promise<unknown> {
  try {
    const member = loose(x)[name];
    const made = typeof member === "function" ? member.apply(x, args) : member;
    if (name === "iterate") [...made];
    await made;
    return undefined;
  } catch (error) {
    return error;
  }
}

for (const name of Object.getOwnPropertyNames(Tensor.prototype)) {
  if (name === "constructor") continue;
  test(`Messages: what ${name} refuses, it refuses by its name`, async () => {
    for (const make of receivers) {
      for (const args of badArguments) {
        const error = await thrown(make(), name, args);
        if (error === undefined) continue;
        assert(error instanceof Error);
        const named = new RegExp(`^(Cannot ${name}(?!\\w)|${name}(\\(\\))? (needs|cannot) )`).test(
          error.message,
        ) ||
          IN_ENGLISH[name]?.test(error.message) === true;
        assert(named, `${name}(${args.map((one) => String(one))}): ${error.message}`);
      }
    }
    assertEquals(other.shape, [7]);
  });
}
