/**
 * Batches of texts of about equal length, which need little padding and few programs.
 *
 * @module
 */

/** The most tokens of a batch of several texts: more would not fit the second-level cache. */
const TOKENS = 512;

/** The most texts of a batch. */
const MOST = 32;

/** The least part of a batch's width that each of its texts has. */
const LEAST_PART = 0.75;

/** A length rounded up, so that few programs cover all: by less than a quarter, mostly a sixteenth. */
function widthOf(length: number, longest: number): number {
  const step = Math.max(2, 2 ** Math.ceil(Math.log2(length)) / 8);
  return Math.min(longest, Math.ceil(length / step) * step);
}

/** The largest power of two that is at most `n`, which is at least 1. */
function powerBelow(n: number): number {
  return 2 ** Math.floor(Math.log2(Math.max(1, n)));
}

/** Texts that are computed at once. */
export interface TextBatch<T> {
  /** Their number of tokens, with padding. */
  readonly width: number;
  readonly texts: readonly T[];
}

/**
 * Batches of 1, 2, 4 … texts of about one length, the longest first. Each number of texts and each
 * length is a program of its own. Long lists have few of them: most batches of one length have the
 * same number of texts.
 */
export function batchesOf<T extends { readonly ids: { readonly length: number } }>(
  texts: readonly T[],
  longest: number,
): TextBatch<T>[] {
  const sorted = texts.toSorted((a, b) => b.ids.length - a.ids.length);
  const batches: TextBatch<T>[] = [];
  for (let at = 0; at < sorted.length;) {
    const width = widthOf(sorted[at]!.ids.length, longest);
    const most = Math.min(MOST, powerBelow(TOKENS / width), sorted.length - at);
    const least = Math.min(width * LEAST_PART, width - 2);
    let alike = 1;
    while (alike < most && sorted[at + alike]!.ids.length >= least) alike++;
    const count = powerBelow(alike);
    batches.push({ width, texts: sorted.slice(at, at + count) });
    at += count;
  }
  return batches;
}
