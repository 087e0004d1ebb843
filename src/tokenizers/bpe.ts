/**
 * Byte pair encoding: joins neighbors in a word, the pair of the lowest rank first, until no pair has
 * a rank. A queue makes the time of a long word linear but for a logarithm.
 *
 * @module
 */
import type { Steps } from "./steps.ts";

/**
 * The rank of the pair of two neighbors, by the text of both and the length of the left one; undefined
 * if they are not joined.
 */
export type RankOf = (both: string, left: number) => number | undefined;

/** The joins and the lookups between two pauses. */
const STEP = 2000;

/** A binary heap of places in a word by rank, and by place among equal ranks. */
class Queue {
  readonly #ranks: number[] = [];
  readonly #places: number[] = [];

  get size(): number {
    return this.#ranks.length;
  }

  #isBefore(a: number, b: number): boolean {
    const ranks = this.#ranks, places = this.#places;
    return ranks[a]! < ranks[b]! || (ranks[a] === ranks[b] && places[a]! < places[b]!);
  }

  #swap(a: number, b: number): void {
    const ranks = this.#ranks, places = this.#places;
    const rank = ranks[a]!, place = places[a]!;
    ranks[a] = ranks[b]!;
    places[a] = places[b]!;
    ranks[b] = rank;
    places[b] = place;
  }

  push(rank: number, place: number): void {
    this.#ranks.push(rank);
    this.#places.push(place);
    for (let at = this.size - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  /** Removes the first. */
  pop(): readonly [rank: number, place: number] {
    this.#swap(0, this.size - 1);
    const first = [this.#ranks.pop()!, this.#places.pop()!] as const;
    for (let at = 0;;) {
      const child = 2 * at + 1;
      let least = at;
      if (child < this.size && this.#isBefore(child, least)) least = child;
      if (child + 1 < this.size && this.#isBefore(child + 1, least)) least = child + 1;
      if (least === at) return first;
      this.#swap(at, least);
      at = least;
    }
  }
}

/**
 * Joins the characters of a word to parts.
 *
 * Parts are places in the word, and no texts of their own: JavaScriptCore visits an array of a million
 * new texts again and again.
 */
export function* joinPairs(word: string, rankOf: RankOf): Steps<string[]> {
  const { length } = word;
  /** Where the part after the one that begins at a place begins, and the one before it. */
  const next = new Int32Array(length), previous = new Int32Array(length);
  /** The rank of the pair that begins at a place: what the queue has of another is outdated. */
  const ranks = new Float64Array(length).fill(NaN);
  const queue = new Queue();
  const look = (place: number): void => {
    const other = next[place]!;
    const rank = other < length
      ? rankOf(word.slice(place, next[other]!), other - place)
      : undefined;
    ranks[place] = rank ?? NaN;
    if (rank !== undefined) queue.push(rank, place);
  };
  for (let at = 0, before = -1; at < length;) {
    const end = at + (word.codePointAt(at)! > 0xffff ? 2 : 1);
    next[at] = end;
    previous[at] = before;
    before = at;
    at = end;
  }
  for (let at = 0, done = 1; at < length; at = next[at]!, done++) {
    look(at);
    if (done % STEP === 0) yield;
  }
  for (let joined = 1; queue.size > 0; joined++) {
    if (joined % STEP === 0) yield;
    const [rank, place] = queue.pop();
    if (ranks[place] !== rank) continue;
    const other = next[place]!, after = next[other]!;
    ranks[other] = NaN;
    next[place] = after;
    if (after < length) previous[after] = place;
    look(place);
    if (previous[place]! >= 0) look(previous[place]!);
  }
  const all: string[] = [];
  for (let place = 0, done = 1; place < length; place = next[place]!, done++) {
    all.push(word.slice(place, next[place]!));
    if (done % STEP === 0) yield;
  }
  return all;
}
