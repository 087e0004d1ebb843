/**
 * Softmax regression: a linear classifier, trained by gradient descent.
 *
 * @module
 */
import { scope, type Tensor, zeros } from "../../mod.ts";

/** Weights [d, classes] and biases [classes]. */
export interface Model {
  readonly weights: Tensor;
  readonly biases: Tensor;
}

/** A model of points [n, d] and their classes, int32 [n]. */
export function train(
  points: Tensor,
  labels: Tensor<"int32">,
  classes: number,
  steps: number,
  rate: number,
): Model {
  const [n, d] = points.shape as readonly number[];
  const model = { weights: zeros([d!, classes]), biases: zeros([classes]) };
  const targets = labels.oneHot(classes);
  for (let step = 0; step < steps; step++) {
    scope(() => {
      const gradient = scores(model, points).softmax().sub(targets).div(n!);
      model.weights.sub_(points.T.matmul(gradient).mul(rate));
      model.biases.sub_(gradient.sum(0).mul(rate));
    });
  }
  return model;
}

function scores({ weights, biases }: Model, points: Tensor): Tensor {
  return points.matmul(weights).add(biases);
}

/** The class of each point, int32 [n]. */
export function classify(model: Model, points: Tensor): Tensor<"int32"> {
  return scope(() => scores(model, points).argmax(1));
}
