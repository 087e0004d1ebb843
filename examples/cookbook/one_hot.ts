/**
 * Categories as columns of zeros and ones, and back.
 *
 * @module
 */
import { scope, type Tensor, tensor } from "../../mod.ts";

/** The distinct names, in order, and a row for each of the given ones: float32 [n, categories]. */
export function encode(names: readonly string[]): { categories: string[]; rows: Tensor } {
  const seen = new Map<string, number>();
  const labels = new Int32Array(names.length);
  for (let i = 0; i < names.length; i++) {
    let place = seen.get(names[i]!);
    if (place === undefined) seen.set(names[i]!, place = seen.size);
    labels[i] = place;
  }
  const categories = [...seen.keys()].sort();
  const ranks = new Int32Array(seen.size);
  categories.forEach((name, rank) => ranks[seen.get(name)!] = rank);
  for (let i = 0; i < labels.length; i++) labels[i] = ranks[labels[i]!]!;
  return scope(() => ({ categories, rows: tensor(labels).oneHot(categories.length) }));
}

/** The names of rows. */
export function decode(categories: readonly string[], rows: Tensor): string[] {
  return scope(() => Array.from(rows.argmax(1).toTypedArray(), (i) => categories[Number(i)]!));
}
