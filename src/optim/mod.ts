/**
 * Optimizers of parameters, which are trees of tensors, by their derivatives.
 *
 * @example
 * ```ts
 * import { tensor } from "@rowmajor/tensor";
 * import { grad } from "@rowmajor/tensor/grad";
 * import * as optim from "@rowmajor/tensor/optim";
 *
 * const params = { w: tensor([3, -2]) };
 * const optimizer = optim.adam({ learningRate: 0.1 });
 * const state = optimizer.init(params);
 * const slope = grad((p: typeof params) => p.w.square().sum());
 * for (let step = 0; step < 200; step++) optimizer.update(params, slope(params), state);
 * ```
 *
 * @module
 */
import "../tensor/tensor.ts";
export { accumulate, clipByNorm, clipByValue } from "./gradients.ts";
export { minimize, type MinimizeOptions, type Minimum } from "./lbfgs.ts";
export {
  adam,
  type AdamOptions,
  adamw,
  type AdamWOptions,
  type Optimizer,
  type OptimizerOptions,
  type OptimizerState,
  sgd,
  type SgdOptions,
  type UpdateOptions,
} from "./optimizer.ts";
export {
  cosine,
  type CosineOptions,
  linear,
  type LinearOptions,
  type Schedule,
} from "./schedule.ts";
