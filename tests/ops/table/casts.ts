/**
 * The cases of casting: every dtype to every dtype, all patterns of the 16-bit floats.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { DTYPE, type DType, DTYPES } from "../../../src/base/dtype.ts";
import { attempt } from "../../../src/base/errors.ts";
import { contiguousCopy } from "../../../src/core/copy.ts";
import { checkStore } from "../../../src/core/write.ts";
import type { Operand } from "../../../src/memory/operand.ts";
import { Layout } from "../../../src/base/layout.ts";
import { download } from "../../../src/memory/device.ts";
import { wrapExternal } from "../../../src/memory/pool.ts";
import { type Target, using } from "./backends.ts";
import { CompiledCases } from "./compiled.ts";
import { assertSame } from "./compare.ts";
import { decode, golden } from "./golden.ts";
import { operand, place, read, sent } from "./operands.ts";

const storables = new Map<string, boolean>();

/** Whether a result of `from` may be written into an output of `to`. */
export function storable(from: DType, to: DType): boolean {
  const key = `${from} ${to}`;
  let isStorable = storables.get(key);
  if (isStorable === undefined) {
    isStorable = attempt(() => checkStore(DTYPE[from], DTYPE[to], "")).error === undefined;
    storables.set(key, isStorable);
  }
  return isStorable;
}

/** Casts the golden values of `from` to every dtype, from a dense and from a strided operand. */
export function checkCasts(from: DType, target: Target, count: (to: DType) => void): void {
  const { x: text, to: golds } = golden(from).casts;
  const values = decode(from, text);
  const compiled = new CompiledCases(`casts of ${from}`, target);
  compiled.begin(from);
  using(target.on, () => {
    for (const view of [{}, { step: [-2] }]) {
      const x = place(from, [values.length], values, view);
      for (const to of DTYPES) {
        const made = compiled.run(([x]) => contiguousCopy(x as Operand, to), [x]);
        assertEquals(made.storage.info.name, to);
        const what = (i: number): string => `${values[i]} from ${from} to ${to} (${target.name})`;
        assertSame(what, read(made), decode(to, golds[to]), to);
        count(to);
      }
    }
    compiled.check(from);
  });
}

/** All patterns of a 16-bit float: their values are NumPy's, and convert back to the same bits. */
export function checkPatterns(dtype: "float16" | "bfloat16", target: Target): void {
  const bits = Uint16Array.from({ length: 65536 }, (_, i) => i);
  using(target.on, () => {
    const x = operand(sent(wrapExternal(dtype, bits)), Layout.contiguous([65536]));
    for (const wide of ["float32", "float64"] as const) {
      const values = contiguousCopy(x, wide);
      const floats = Float32Array.from(read(values) as number[]);
      const words = new Uint32Array(floats.buffer);
      floats.forEach((value, i) => {
        if (value !== value) words[i] = 0x7fc00000;
      });
      const digest = createHash("sha256").update(new Uint8Array(words.buffer)).digest("hex");
      assertEquals(digest, golden(dtype).patterns, `${dtype} to ${wide} (${target.name})`);
      const back = download(contiguousCopy(values, dtype).storage, 0, 65536);
      for (let i = 0; i < 65536; i++) {
        const nan = floats[i] !== floats[i];
        // A NaN comes back as some NaN: as large as any number above infinity.
        const infinity = DTYPE[dtype].name === "float16" ? 0x7c00 : 0x7f80;
        const same = nan ? (Number(back[i]) & 0x7fff) > infinity : back[i] === i;
        if (!same) {
          throw new Error(
            `${dtype} pattern ${i} comes back from ${wide} as ${back[i]} (${target.name})`,
          );
        }
      }
    }
  });
}
