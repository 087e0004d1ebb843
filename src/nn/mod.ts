/**
 * Neural networks: functions on tensors.
 *
 * @example
 * ```ts
 * const q = ones([1, 2, 4, 8]); // [batch, heads, queries, columns]
 * nn.attention(q, q, q, { causal: true }).shape; // => [1, 2, 4, 8]
 * ```
 *
 * @module
 */
export { attention, type AttentionOptions } from "./attention.ts";
export { conv1d, conv2d, conv3d } from "./conv.ts";
export {
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
  type ConvTransposeOptions,
} from "./conv_transpose.ts";
export type { Convolved, ConvOptions, Padding, PerAxis } from "./windows.ts";
