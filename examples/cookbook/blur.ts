/**
 * A Gaussian blur of an image: one pass along the columns, one along the rows.
 *
 * @module
 */
import { arange, range, scope, type Tensor } from "../../mod.ts";

/** `image` [h, w], blurred; edges count as if they went on. */
export function blur(image: Tensor, sigma: number): Tensor {
  return scope(() => along(along(image, sigma, 0), sigma, 1));
}

function along(image: Tensor, sigma: number, axis: 0 | 1): Tensor {
  const radius = Math.ceil(3 * sigma);
  const n = image.shape[axis]!;
  const weights = arange(-radius, radius + 1).div(sigma).square().mul(-0.5).exp();
  const kernel = weights.div(weights.sum()).toArray();
  const padded = image.take(arange(-radius, n + radius).clip(0, n - 1).astype("int32"), axis);
  const part = (k: number): Tensor =>
    axis === 0 ? padded.slice(range(k, k + n)) : padded.slice(":", range(k, k + n));
  const sum = part(0).mul(kernel[0]!);
  for (let k = 1; k < kernel.length; k++) sum.add_(part(k).mul(kernel[k]!));
  return sum;
}
