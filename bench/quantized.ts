/**
 * All products of a token of a language model of 135 million weights, of one row and of 128 rows (a
 * prompt), in each quantized format, packed and as in a file, and of int8.
 *
 *     deno run -A bench/quantized.ts [formats...]
 *     bun bench/quantized.ts [formats...]
 *
 * Prints a line of JSON for each: the format, the threads, the rows, the fastest time in milliseconds
 * and the median. Lines of one row have the bytes of the weights per second, and those that a sum over
 * as many bytes reads; lines of 128 rows, the multiply-adds per second. The kinds take turns.
 *
 * @module
 */

import { fromBuffer, ones, pack, random, scope, setThreads, type Tensor, zeros } from "../mod.ts";
import { DTYPE } from "../src/base/dtype.ts";
import { QUANT, type QuantName } from "../src/ops/quantized/formats.ts";
import { quantizeInt8 } from "../src/ops/linear/int8.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** The products of a layer: columns, depth; and how many layers there are. */
const SHAPES = [[960, 576], [576, 576], [3072, 576], [576, 1536]] as const;
const LAYERS = 30, HEAD = [49152, 576] as const;
const ALL = [...Array.from({ length: LAYERS }, () => SHAPES).flat(), HEAD];
/** The measured time of each, in milliseconds. */
const BUDGET_MS = 1500;

const asked = (globalThis.process?.argv ?? []).slice(2).filter((name) => name in QUANT);
const FORMATS = asked.length > 0 ? asked : ["q4_1", "q8_0", "q4_0"];

/** A weight of a format; the depth is that of whole blocks. */
function weightOf(format: string, [columns, depth]: readonly [number, number]): Any {
  const { size, bytes } = QUANT[format as QuantName];
  const whole = Math.ceil(depth / size) * size;
  const blocks = new Uint8Array(columns * whole / size * bytes);
  // Small float16 numbers wherever the scales are.
  for (let i = 0; i < blocks.length; i++) blocks[i] = i * 37 % 41;
  return (fromBuffer as Any)(blocks, { dtype: format, shape: [columns, whole] });
}

/** The same for int8. */
function int8Of([columns, depth]: readonly [number, number]): Any {
  return quantizeInt8(random.normal(random.key(1), [columns, depth]));
}

/** The products of `rows` rows with all weights. */
function products(weights: readonly Any[], rows: number): () => void {
  const depthOf = ({ shape }: Any): number => shape[1];
  const inputs = new Map<number, Tensor>();
  const outputs = new Map<number, Tensor>();
  for (const w of weights) {
    inputs.set(depthOf(w), random.normal(random.key(1), [rows, depthOf(w)]));
    outputs.set(w.shape[0], zeros([rows, w.shape[0]]));
  }
  return () =>
    weights.forEach((w) =>
      (inputs.get(depthOf(w)) as Any).linear(w, undefined, { out: outputs.get(w.shape[0]) })
    );
}

for (const threads of [1, 2]) {
  setThreads(threads);
  for (const format of [...FORMATS, "int8"]) {
    scope(() => {
      const isInt8 = format === "int8";
      const plain = isInt8 ? [] : ALL.map((shape) => weightOf(format, shape));
      const packed = isInt8 ? ALL.map(int8Of) : plain.map((w) => pack(w));
      const bytes = isInt8
        ? packed.reduce((sum, w) => sum + w.bytes, 0)
        : plain.reduce((sum, { shape: [o, i] }) => sum + o * i * DTYPE[format as "int8"].bytes, 0);
      const read = ones([Math.ceil(bytes / 4)]);
      // A prompt needs the last row of the output layer only.
      const layers = packed.slice(0, -1);
      const kinds: Record<string, () => unknown> = {
        packed: products(packed, 1),
        ...isInt8 ? {} : { "as in a file": products(plain, 1) },
        "packed, 128": products(layers, 128),
        read: () => read.sum(),
      };
      const times = new Map(Object.keys(kinds).map((name) => [name, [] as number[]]));
      for (const run of Object.values(kinds)) run();
      const end = performance.now() + BUDGET_MS;
      while (performance.now() < end) {
        for (const [name, run] of Object.entries(kinds)) {
          const start = performance.now();
          run();
          times.get(name)!.push(performance.now() - start);
        }
      }
      const best = (name: string): number => Math.min(...times.get(name)!);
      const work = 128 * layers.reduce((sum, { shape: [o, i] }) => sum + o * i, 0);
      for (const [kind, all] of times) {
        if (kind === "read") continue;
        const [ms, median] = [best(kind), all.toSorted((a, b) => a - b)[all.length >> 1]!];
        const speed = kind === "packed, 128"
          ? { gmac: work / ms / 1e6 }
          : { gb: bytes / ms / 1e6, readGb: bytes / best("read") / 1e6 };
        console.log(JSON.stringify({ format, kind, threads, ms, median, ...speed }));
      }
    });
  }
}
