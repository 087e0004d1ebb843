/**
 * Words of texts weighted by TF-IDF, and the similarity of texts.
 *
 * @module
 */
import { scope, type Tensor, zeros } from "../../mod.ts";

/** How often each word is in each text: float32 [texts, words], and the words in order. */
export function countWords(texts: readonly string[]): { words: string[]; counts: Tensor } {
  const lists = texts.map((text) => text.toLowerCase().match(/[a-z]+/g) ?? []);
  const words = [...new Set(lists.flat())].sort();
  const places = new Map(words.map((word, i) => [word, i]));
  const counts: Tensor = zeros([texts.length, words.length]);
  const data = counts.data;
  lists.forEach((list, row) => {
    for (const word of list) data[row * words.length + places.get(word)!]!++;
  });
  return { words, counts };
}

/** Weights of words in texts: rows of length 1. */
export function tfIdf(counts: Tensor): Tensor {
  return scope(() => {
    const texts = counts.shape[0]!;
    const frequency = counts.div(counts.sum(1, { keepDims: true }));
    const containing = counts.greater(0).sum(0).astype("float32");
    const rarity = containing.add(1).pow(-1).mul(texts + 1).log().add(1);
    const weights = frequency.mul(rarity);
    return weights.div(weights.square().sum(1, { keepDims: true }).sqrt());
  });
}

/** The cosine of every two texts. */
export function similarity(texts: readonly string[]): Tensor {
  return scope(() => {
    const weights = tfIdf(countWords(texts).counts);
    return weights.matmul(weights.T);
  });
}
