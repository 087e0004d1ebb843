/**
 * Neural networks: functions on tensors, and layers with the weights of a file.
 *
 * @example
 * ```ts
 * const q = ones([1, 2, 4, 8]); // [batch, heads, queries, columns]
 * nn.attention(q, q, q, { causal: true }).shape; // => [1, 2, 4, 8]
 * ```
 *
 * @module
 */
export { findModel, type FindModelOptions } from "../io/find_model.ts";
export { attention, type AttentionOptions } from "./attention.ts";
export { conv1d, conv2d, conv3d } from "./conv.ts";
export {
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
  type ConvTransposeOptions,
} from "./conv_transpose.ts";
export type { Convolved, ConvOptions, Padding, PerAxis } from "./windows.ts";
export { type MergeHeads, mergeHeads, type SplitHeads, splitHeads } from "./heads.ts";
export type {
  BatchNormLayer,
  ChannelNormLayer,
  ChannelNormOptions,
  EmbeddingLayer,
  EmbeddingOptions,
  LastAxis,
  LayerNormLayerOptions,
  NormCallOptions,
  NormLayer,
  NormLayerOptions,
} from "./layers.ts";
export {
  type AnyLinear,
  fuse,
  type FusedCallOptions,
  type FusedHeads,
  type FusedLayer,
  type FusedParts,
  type Layer,
  type LinearCallOptions,
  type LinearLayer,
  type LinearLayerOptions,
  type LinearSizes,
  type ProductDType,
} from "./linear.ts";
export * from "./weights.ts";
