/**
 * A linear model with an intercept, fitted by least squares.
 *
 * @module
 */
import { concat, linalg, ones, scope, type Tensor } from "../../mod.ts";

/** The coefficients [d + 1] that predict `y` [n] from features [n, d], the intercept last, and R². */
export function fit(features: Tensor, y: Tensor): { coefficients: Tensor; r2: number } {
  return scope(() => {
    const n = features.shape[0]!;
    const design: Tensor = concat([features, ones([n, 1])], 1);
    const coefficients = linalg.lstsq(design, y).x;
    const residuals = y.sub(design.matmul(coefficients));
    const total = y.sub(y.mean()).square().sum().item();
    return { coefficients, r2: 1 - residuals.square().sum().item() / total };
  });
}
