/**
 * Moving averages of a series.
 *
 * @module
 */
import { range, scope, type Tensor } from "../../mod.ts";

/** The means of all windows of `width` values of a series [n]: [n - width + 1]. */
export function movingAverage(series: Tensor<"float64">, width: number): Tensor<"float64"> {
  return scope(() => {
    const sums = series.cumulativeSum(0, { includeInitial: true });
    const n = series.size + 1;
    return sums.slice(range(width, n)).sub(sums.slice(range(0, n - width))).div(width);
  });
}
