/**
 * The angles of rotary position embeddings.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { listIn } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { checkOptions } from "../../table/infer.ts";
import { tensor } from "../../tensor/create.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { Operand } from "../../memory/operand.ts";

/**
 * How angles are changed for sequences that are longer than those of training, as `rope_scaling` in
 * config.json says it.
 *
 * - `linear`: all frequencies over `factor`.
 * - `dynamic`: a greater base for positions beyond `originalLength`.
 * - `llama3`: low frequencies over `factor`, high ones as they are.
 * - `yarn`: the same between two numbers of turns, and longer vectors.
 * - `longrope`: a factor for each frequency, for short and for long sequences.
 */
export type RopeScaling =
  | {
    readonly type: "linear";
    readonly factor: number;
    /** The length of turned vectors; 1 by default. */
    readonly attentionFactor?: number | undefined;
  }
  | { readonly type: "dynamic"; readonly factor: number; readonly originalLength: number }
  | {
    readonly type: "llama3";
    readonly factor: number;
    readonly originalLength: number;
    readonly lowFrequencyFactor: number;
    readonly highFrequencyFactor: number;
  }
  | {
    readonly type: "yarn";
    readonly factor: number;
    readonly originalLength: number;
    /** Turns over the original length from which frequencies stay; 32 by default. */
    readonly betaFast?: number | undefined;
    /** Turns up to which frequencies are divided; 1 by default. */
    readonly betaSlow?: number | undefined;
    /** The length of turned vectors; 1 + ln(factor) / 10 by default. */
    readonly attentionFactor?: number | undefined;
    /** Whether the ramp between both numbers of turns has whole pairs as its ends, as by default. */
    readonly truncate?: boolean | undefined;
  }
  | {
    readonly type: "longrope";
    readonly originalLength: number;
    /** R / 2 divisors for sequences up to the original length. */
    readonly shortFactors: readonly number[];
    /** R / 2 divisors for longer ones. */
    readonly longFactors: readonly number[];
    /** The greatest length over the original one, by which vectors grow. */
    readonly factor?: number | undefined;
    /** The length of turned vectors; by default √(1 + ln(factor) / ln(originalLength)). */
    readonly attentionFactor?: number | undefined;
  };

/** Options of angles. */
export interface RopeAngleOptions<V extends t.Device = "cpu"> {
  /** R, the number of rotated columns: even, and at most 65536. */
  readonly dimensions: number;
  /** The base of the frequencies base^(−2i / R); 10000 by default. */
  readonly base?: number | undefined;
  /** The scaling for sequences longer than those of training; none by default. */
  readonly scaling?: RopeScaling | undefined;
  /**
   * The length of the sequence, on which `dynamic` and `longrope` depend; up to the last position by
   * default.
   */
  readonly length?: number | undefined;
  /** R / 2 divisors of the frequencies, such as `rope_freqs.weight` of GGUF files. */
  readonly factors?: readonly number[] | Float32Array | undefined;
  /** The device of the angles; the CPU by default. */
  readonly device?: V | undefined;
}

/** Frequencies, and the length of turned vectors. */
interface Frequencies {
  readonly each: readonly number[];
  readonly length: number;
}

/** Where frequencies begin to be divided, and from where they are as a whole: yarn's ramp. */
function yarnRamp(
  turns: number,
  dimensions: number,
  base: number,
  originalLength: number,
): number {
  return dimensions * Math.log(originalLength / (turns * 2 * Math.PI)) / (2 * Math.log(base));
}

/** The numbers that each kind of scaling needs. */
const NEEDED: Readonly<Record<RopeScaling["type"], readonly string[]>> = {
  linear: ["factor"],
  dynamic: ["factor", "originalLength"],
  llama3: ["factor", "originalLength", "lowFrequencyFactor", "highFrequencyFactor"],
  yarn: ["factor", "originalLength"],
  longrope: ["originalLength"],
};

function checkScaling(scaling: RopeScaling): void {
  const { type } = scaling;
  if (typeof type !== "string" || !Object.hasOwn(NEEDED, type)) {
    throw new ArgumentError(
      `Cannot ropeAngles with scaling ${describe(type)}: it is linear, dynamic, llama3, yarn or ` +
        "longrope",
    );
  }
  const given = scaling as Readonly<Record<string, unknown>>;
  for (const key of [...NEEDED[type], "factor", "betaFast", "betaSlow", "attentionFactor"]) {
    const value = given[key];
    if (value === undefined && !NEEDED[type].includes(key)) continue;
    if (typeof value === "number" && value > 0 && Number.isFinite(value)) continue;
    throw new ArgumentError(
      `Cannot ropeAngles with ${key} ${describe(value)}: it is a number greater than 0`,
    );
  }
}

/** The frequencies of a sequence of `count` positions. */
function frequenciesOf(
  { dimensions, base = 10000, scaling }: RopeAngleOptions<t.Device>,
  count: number,
): Frequencies {
  const half = dimensions / 2;
  const made = (from: number): number[] =>
    Array.from({ length: half }, (_, i) => from ** (-2 * i / dimensions));
  const plain = made(base);
  if (scaling === undefined) return { each: plain, length: 1 };
  checkScaling(scaling);
  switch (scaling.type) {
    case "linear":
      return {
        each: plain.map((f) => f / scaling.factor),
        length: scaling.attentionFactor ?? 1,
      };
    case "dynamic": {
      const { factor, originalLength } = scaling;
      if (count <= originalLength) return { each: plain, length: 1 };
      const growth = factor * count / originalLength - (factor - 1);
      return { each: made(base * growth ** (dimensions / (dimensions - 2))), length: 1 };
    }
    case "llama3": {
      const { factor, originalLength, lowFrequencyFactor: low, highFrequencyFactor: high } =
        scaling;
      const each = plain.map((f) => {
        const turns = originalLength * f / (2 * Math.PI);
        if (turns < low) return f / factor;
        if (turns > high) return f;
        const part = (turns - low) / (high - low);
        return (1 - part) * f / factor + part * f;
      });
      return { each, length: 1 };
    }
    case "yarn": {
      const { factor, originalLength, betaFast = 32, betaSlow = 1 } = scaling;
      const { truncate = true } = scaling;
      const [start, end] = [betaFast, betaSlow].map((turns) =>
        yarnRamp(turns, dimensions, base, originalLength)
      ) as [number, number];
      const from = Math.max(0, truncate ? Math.floor(start) : start);
      const to = Math.min(dimensions - 1, truncate ? Math.ceil(end) : end);
      const width = to === from ? 0.001 : to - from;
      const each = plain.map((f, i) => {
        const divided = Math.min(1, Math.max(0, (i - from) / width));
        return f * (1 - divided) + f / factor * divided;
      });
      const { attentionFactor = factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1 } = scaling;
      return { each, length: attentionFactor };
    }
    case "longrope": {
      const { originalLength, shortFactors, longFactors, factor = 1 } = scaling;
      const divisors = count > originalLength ? longFactors : shortFactors;
      const {
        attentionFactor = factor <= 1
          ? 1
          : Math.sqrt(1 + Math.log(factor) / Math.log(originalLength)),
      } = scaling;
      return { each: divided(plain, divisors, "longrope"), length: attentionFactor };
    }
  }
}

function divided(each: readonly number[], by: ArrayLike<number>, what: string): number[] {
  if (by.length !== each.length) {
    throw new ArgumentError(
      `Cannot ropeAngles with ${by.length} factors of ${what}: there are ${each.length} frequencies`,
    );
  }
  return each.map((f, i) => {
    const factor: unknown = by[i];
    if (typeof factor === "number") return f / factor;
    throw new ArgumentError(
      `Cannot ropeAngles with the factor ${describe(factor)} of ${what}: it is a number`,
    );
  });
}

/** The most columns of a head: models have 64 to 512. */
const MOST_DIMENSIONS = 65536;
const OPTIONS = ["dimensions", "base", "scaling", "length", "factors", "device"];

/**
 * Cosines and sines for {@link rope}: [M, R / 2] of float32 for M positions. Computed in JavaScript, in
 * float64, so that far positions are exact: a compiled function takes them as arguments.
 *
 * @throws {ArgumentError} For positions that are no integers of at least 0, and for numbers of
 *   dimensions, factors and scalings that make no sense.
 *
 * @example
 * ```ts
 * const { cos } = nn.ropeAngles([0, 5], { dimensions: 4 });
 * cos.shape; // => [2, 2]
 * cos.slice(0).toArray(); // => [1, 1]
 * ```
 */
export function ropeAngles<V extends t.Device = "cpu">(
  positions: readonly number[],
  options: RopeAngleOptions<V>,
): {
  cos: Tensor<"float32", [number, number], t.OnDevice<V>>;
  sin: Tensor<"float32", [number, number], t.OnDevice<V>>;
};
export function ropeAngles(
  positions: readonly number[],
  options: RopeAngleOptions<t.Device>,
): Readonly<Record<"cos" | "sin", Operand>> {
  checkOptions("ropeAngles", options, OPTIONS);
  const { dimensions, factors, device, base = 10000, length: given } = options;
  const inRange = dimensions >= 2 && dimensions <= MOST_DIMENSIONS;
  if (!Number.isInteger(dimensions) || !inRange || dimensions % 2 !== 0) {
    throw new ArgumentError(
      `Cannot ropeAngles with ${
        describe(dimensions)
      } dimensions: it is an even integer from 2 to ${MOST_DIMENSIONS}`,
    );
  }
  if (typeof base !== "number" || !(base > 0 && base < Infinity)) {
    throw new ArgumentError(
      `Cannot ropeAngles with base ${describe(base)}: it is a number greater than 0`,
    );
  }
  if (given !== undefined && (!Number.isInteger(given) || given < 0)) {
    throw new ArgumentError(
      `Cannot ropeAngles with length ${describe(given)}: it is an integer of at least 0`,
    );
  }
  let last = -1;
  const at = listIn(positions, (position) => {
    if (!Number.isInteger(position) || position as number < 0) {
      throw new ArgumentError(
        `Cannot ropeAngles at position ${describe(position)}: it is an integer of at least 0`,
      );
    }
    last = Math.max(last, position as number);
    return position as number;
  });
  if (at === undefined) {
    throw new ArgumentError(`Cannot ropeAngles at ${describe(positions)}: it takes an array`);
  }
  const { each, length } = frequenciesOf(options, given ?? last + 1);
  const all = factors === undefined ? each : divided(each, factors, "the file");
  const wrong = all.findIndex((frequency) => !Number.isFinite(frequency));
  if (wrong >= 0) {
    throw new ArgumentError(
      `Cannot ropeAngles: base, scaling and factors give the frequency ${
        all[wrong]
      } to pair ${wrong}`,
    );
  }
  const half = dimensions / 2;
  const cos = new Float32Array(at.length * half), sin = new Float32Array(cos.length);
  at.forEach((position, row) => {
    for (let i = 0; i < half; i++) {
      const angle = position * all[i]!;
      cos[row * half + i] = Math.cos(angle) * length;
      sin[row * half + i] = Math.sin(angle) * length;
    }
  });
  const place = { shape: [at.length, half], ...device !== undefined && { device } };
  return { cos: tensor(cos, place), sin: tensor(sin, place) };
}
