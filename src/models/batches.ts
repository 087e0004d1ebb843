/**
 * Batches of texts of about equal length, which need little padding and few programs.
 *
 * @module
 */

/** The most texts of a batch. */
const MOST = 8;

/** A length rounded up, so that few programs cover all: by 3 tokens, or less than a quarter. */
function widthOf(length: number, longest: number): number {
  const step = Math.max(4, 2 ** Math.ceil(Math.log2(length)) / 8);
  return Math.min(longest, Math.ceil(length / step) * step);
}

/** Texts that are computed at once. */
export interface TextBatch<T> {
  /** Their number of tokens, with padding. */
  readonly width: number;
  readonly texts: readonly T[];
}

/**
 * Batches of 1, 2, 4 or 8 texts of one length, rounded up. Each number of texts and each length is a
 * program of its own.
 */
export function batchesOf<T extends { readonly ids: { readonly length: number } }>(
  texts: readonly T[],
  longest: number,
): TextBatch<T>[] {
  const byWidth = new Map<number, T[]>();
  for (const text of texts) {
    const width = widthOf(text.ids.length, longest);
    const others = byWidth.get(width);
    if (others === undefined) byWidth.set(width, [text]);
    else others.push(text);
  }
  const batches: TextBatch<T>[] = [];
  for (const [width, all] of byWidth) {
    for (let at = 0; at < all.length;) {
      const count = Math.min(MOST, 2 ** Math.floor(Math.log2(all.length - at)));
      batches.push({ width, texts: all.slice(at, at + count) });
      at += count;
    }
  }
  return batches;
}
