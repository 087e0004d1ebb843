/**
 * Learning rates that depend on the number of the step.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";

/** The learning rate of a step, counted from 0. Other steps are an ArgumentError. */
export type Schedule = (step: number) => number;

/** Options of {@link linear}. */
export interface LinearOptions {
  /** The largest rate. */
  readonly peak: number;
  /** The number of steps, after which the rate is `end`. */
  readonly steps: number;
  /** The steps in which the rate rises from 0 to `peak`; 0 by default. */
  readonly warmup?: number | undefined;
  /** The last rate; 0 by default. */
  readonly end?: number | undefined;
}

/** Options of {@link cosine}. */
export type CosineOptions = LinearOptions;

function scheduleOf(
  name: string,
  options: LinearOptions,
  fall: (part: number) => number,
): Schedule {
  checkOptions(`make a schedule ${name}`, options, ["peak", "steps", "warmup", "end"]);
  const { peak, steps, warmup = 0, end = 0 } = options;
  for (const [what, value] of Object.entries({ peak, steps, warmup, end })) {
    if (typeof value === "number" && value >= 0 && value < Infinity) continue;
    throw new ArgumentError(
      `Cannot make a schedule ${name} with ${what} ${
        describe(value)
      }: it is a number of at least 0`,
    );
  }
  if (steps <= warmup) {
    throw new ArgumentError(
      `Cannot make a schedule ${name} of ${steps} steps with ${warmup} steps of warmup`,
    );
  }
  return (step) => {
    if (!(typeof step === "number" && step >= 0)) {
      throw new ArgumentError(
        `Cannot give the rate of step ${describe(step)}: it is a number of at least 0`,
      );
    }
    if (step < warmup) return peak * Math.min(1, (step + 1) / warmup);
    const part = Math.min(1, (step - warmup) / (steps - warmup));
    return end + (peak - end) * fall(part);
  };
}

/**
 * A rate that rises linearly, and falls linearly.
 *
 * @example
 * ```ts
 * const rate = optim.linear({ peak: 1, steps: 10, warmup: 2 });
 * [0, 1, 2, 6, 10].map(rate); // => [0.5, 1, 1, 0.5, 0]
 * ```
 */
export function linear(options: LinearOptions): Schedule {
  return scheduleOf("linear", options, (part) => 1 - part);
}

/**
 * A rate that rises linearly, and falls as half a wave of the cosine.
 *
 * @example
 * ```ts
 * const rate = optim.cosine({ peak: 1, steps: 10 });
 * [0, 5, 10].map((step) => Math.round(rate(step) * 100) / 100); // => [1, 0.5, 0]
 * ```
 */
export function cosine(options: CosineOptions): Schedule {
  return scheduleOf("cosine", options, (part) => (1 + Math.cos(Math.PI * part)) / 2);
}
