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
import "../tensor/tensor.ts";
export { findModel, type FindModelOptions } from "../io/find_model.ts";
export type { Metadata, MetadataValue } from "../io/metadata.ts";
export { attention, type AttentionOptions } from "./attention.ts";
export {
  cachedAttention,
  type CachedAttentionOptions,
  type CachedKeys,
} from "./decoder/cached_attention.ts";
export { type CacheDType, KVCache, type KVCacheOptions } from "./decoder/kv_cache.ts";
export { rope, type RopeOptions } from "./decoder/rope.ts";
export { type RopeAngleOptions, ropeAngles, type RopeScaling } from "./decoder/rope_angles.ts";
export { conv1d, conv2d, conv3d } from "./conv.ts";
export { type ConvLayer, type ConvLayerOptions, fold, type SpatialShape } from "./conv_layer.ts";
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
  RmsNormLayerOptions,
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
export {
  type Activated,
  type ActivationOptions,
  celu,
  elu,
  type EluOptions,
  gelu,
  type GeluOptions,
  glu,
  hardSigmoid,
  hardSwish,
  hardTanh,
  type HardTanhOptions,
  leakyRelu,
  type LeakyReluOptions,
  logSigmoid,
  mish,
  prelu,
  relu6,
  selu,
  softplus,
  type SoftplusOptions,
  softsign,
  swiglu,
  tanhshrink,
} from "./activation.ts";
export type { Like } from "./arguments.ts";
export {
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  adaptiveAvgPool3d,
  adaptiveMaxPool1d,
  adaptiveMaxPool2d,
  adaptiveMaxPool3d,
  type AdaptiveSize,
  avgPool1d,
  avgPool2d,
  avgPool3d,
  type AvgPoolOptions,
  maxPool1d,
  maxPool2d,
  maxPool3d,
  type MaxPoolOptions,
} from "./pool.ts";
export { unfold } from "./unfold.ts";
export { embedding } from "./embedding.ts";
export {
  type AffineNormOptions,
  batchNorm,
  dropout,
  type DropoutOptions,
  groupNorm,
  instanceNorm,
  localResponseNorm,
  type LocalResponseNormOptions,
  type Normed,
  type TrainingNorm,
  type TrainingNormOptions,
} from "./norm.ts";
export {
  type InitOptions,
  kaimingNormal,
  type KaimingOptions,
  kaimingUniform,
  xavierNormal,
  type XavierOptions,
  xavierUniform,
} from "./init.ts";
export {
  gru,
  lstm,
  type LstmOptions,
  type LstmResult,
  type RecurrentOptions,
  type RecurrentResult,
  type RecurrentWeights,
  rnn,
  type RnnOptions,
} from "./rnn.ts";
export {
  crossEntropy,
  type CrossEntropyOptions,
  nllLoss,
  type NllLossOptions,
} from "./cross_entropy.ts";
export {
  gridSample,
  type GridSampleOptions,
  interpolate,
  type InterpolateOptions,
  type InterpolationMode,
} from "./interpolate.ts";
export {
  bceWithLogits,
  type BceWithLogitsOptions,
  binaryCrossEntropy,
  type BinaryCrossEntropyOptions,
  cosineEmbeddingLoss,
  type CosineEmbeddingLossOptions,
  cosineSimilarity,
  type CosineSimilarityOptions,
  huberLoss,
  type HuberLossOptions,
  klDiv,
  type KlDivOptions,
  l1Loss,
  type LossOptions,
  mseLoss,
  type Reduction,
  smoothL1Loss,
  type SmoothL1LossOptions,
} from "./loss.ts";
