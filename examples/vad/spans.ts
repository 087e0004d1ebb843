/**
 * Spans of speech.
 *
 * @module
 */

/** The spans of steps whose probability is at least `threshold`, in units of `step`. */
export function spans(
  probabilities: ArrayLike<number>,
  threshold: number,
  step: number,
): [begin: number, end: number][] {
  const found: [number, number][] = [];
  let begin: number | undefined;
  for (let i = 0; i <= probabilities.length; i++) {
    const speaks = i < probabilities.length && probabilities[i]! >= threshold;
    if (speaks) begin ??= i;
    else if (begin !== undefined) {
      found.push([begin * step, i * step]);
      begin = undefined;
    }
  }
  return found;
}
