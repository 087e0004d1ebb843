/**
 * Prices of European options by the formula of Black and Scholes, and by simulation.
 *
 * @module
 */
import { random, scope, type Tensor } from "../../mod.ts";

/** What an option is about; tensors of one shape. */
export interface Option {
  /** The price of the share now. */
  readonly spot: Tensor<"float64">;
  /** The price at which it may be bought. */
  readonly strike: Tensor<"float64">;
  /** The time until then, in years. */
  readonly years: Tensor<"float64">;
}

/** The price of calls, for an interest rate and a volatility per year. */
export function callPrice(
  { spot, strike, years }: Option,
  rate: number,
  volatility: number,
): Tensor<"float64"> {
  return scope(() => {
    const deviation = years.sqrt().mul(volatility);
    const growth = years.mul(rate + volatility ** 2 / 2);
    const d1 = spot.div(strike).log().add(growth).div(deviation);
    const d2 = d1.sub(deviation);
    const discounted = years.mul(-rate).exp().mul(strike);
    return normalCdf(d1).mul(spot).sub(normalCdf(d2).mul(discounted));
  });
}

/** The probability of a standard normal number below x. */
function normalCdf(x: Tensor<"float64">): Tensor<"float64"> {
  return x.mul(Math.SQRT1_2).erf().add(1).mul(0.5);
}

/** The price of one call as the mean of random outcomes. */
export function simulatedPrice(
  key: random.Key,
  [spot, strike, years]: readonly [number, number, number],
  rate: number,
  volatility: number,
  outcomes: number,
): number {
  return scope(() => {
    const z = random.normal(key, [outcomes], { dtype: "float64" });
    const drift = (rate - volatility ** 2 / 2) * years;
    const prices = z.mul(volatility * Math.sqrt(years)).add(drift).exp().mul(spot);
    return prices.sub(strike).maximum(0).mean().item() * Math.exp(-rate * years);
  });
}
