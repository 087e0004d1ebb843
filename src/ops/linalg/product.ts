/**
 * Products whose factors together are beyond what a double can be, such as those of pivots.
 *
 * @module
 */

/** Products within these bounds are plain ones. */
const MOST = 2 ** 900;
const LEAST = 2 ** -900;

/** The binary exponent of a number, about; 0 for 0, infinity and NaN. */
export function exponentOf(x: number): number {
  return x === 0 || x - x !== 0 ? 0 : Math.floor(Math.log2(Math.abs(x)));
}

/** `x` times 2 to the power `exponent`, rounded once. */
export function timesPower(x: number, exponent: number): number {
  for (; exponent > 1000; exponent -= 1000) x *= 2 ** 1000;
  // One step at a time: a subnormal number would be rounded again.
  for (; exponent < -1000; exponent += 1000) x *= 2 ** -1000;
  return x * 2 ** exponent;
}

/** A product of complex numbers: `re` + i `im`, times 2 to the power `exponent`. */
export class ScaledProduct {
  re: number;
  im = 0;
  exponent: number;

  constructor(first: number, exponent = 0) {
    this.re = first;
    this.exponent = exponent;
  }

  /** Multiplies by x + iy. */
  times(x: number, y: number): void {
    if (!this.#multiply(x, y)) {
      const own = exponentOf(Math.max(Math.abs(this.re), Math.abs(this.im)));
      const other = exponentOf(Math.max(Math.abs(x), Math.abs(y)));
      this.re = timesPower(this.re, -own);
      this.im = timesPower(this.im, -own);
      this.exponent += own + other;
      this.#multiply(timesPower(x, -other), timesPower(y, -other), true);
    }
  }

  /** False, and nothing done, if the product is out of bounds. */
  #multiply(x: number, y: number, always = false): boolean {
    const isReal = y === 0 && this.im === 0;
    const re = isReal ? this.re * x : this.re * x - this.im * y;
    const im = isReal ? 0 : this.re * y + this.im * x;
    const size = Math.max(Math.abs(re), Math.abs(im));
    if (!always && !(size > LEAST && size < MOST)) return false;
    this.re = re;
    this.im = im;
    return true;
  }

  /** The real and the imaginary part of the product. */
  get value(): [re: number, im: number] {
    return [timesPower(this.re, this.exponent), timesPower(this.im, this.exponent)];
  }
}
