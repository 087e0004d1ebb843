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
