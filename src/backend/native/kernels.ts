/**
 * The kernels of the shim for ops without an expression in the table: the calls that each supports,
 * and its arguments. Every operand is checked against its storage first, as C does not check.
 *
 * @module
 */
import { ATTENTION_KERNELS } from "./attention.ts";
import { chain } from "./chain.ts";
import { COLLECTIVE_KERNELS } from "./collective.ts";
import { complexMap } from "./complex.ts";
import { CONV_KERNELS } from "./conv.ts";
import { FFT_KERNELS } from "./fft.ts";
import { IMAGE_KERNELS } from "./image.ts";
import { INDEX_KERNELS } from "./index.ts";
import type { Kernel } from "./kernel.ts";
import { LINALG_KERNELS } from "./linalg.ts";
import { LINEAR_KERNELS } from "./linear.ts";
import { matmul } from "./matmul.ts";
import { QUANTIZED_KERNELS } from "./quantized.ts";
import { RANDOM_KERNELS } from "./random.ts";
import { recurrent } from "./recurrent.ts";
import { sampleRows } from "./sampling.ts";
import { SET_KERNELS } from "./sets.ts";
import { ROW_KERNELS } from "./softmax_norm.ts";
import { SORT_KERNELS } from "./sort.ts";

/** The kernels by the names of their ops. */
export const KERNELS: ReadonlyMap<string, Kernel> = new Map(Object.entries({
  ...INDEX_KERNELS,
  ...SORT_KERNELS,
  complexMap,
  ...RANDOM_KERNELS,
  sampleRows,
  matmul,
  ...ROW_KERNELS,
  chain,
  ...ATTENTION_KERNELS,
  ...LINEAR_KERNELS,
  ...QUANTIZED_KERNELS,
  ...CONV_KERNELS,
  recurrent,
  ...IMAGE_KERNELS,
  ...LINALG_KERNELS,
  ...FFT_KERNELS,
  ...COLLECTIVE_KERNELS,
  ...SET_KERNELS,
}));
