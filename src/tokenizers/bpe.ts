/**
 * Byte pair encoding: joins neighbors in a word, the pair of the lowest rank first, until no pair has
 * a rank. A queue makes the time of a long word linear but for a logarithm.
 *
 * @module
 */
import type { Steps } from "./steps.ts";

/** The rank of the pair of two neighbors; undefined if they are not joined. */
export type RankOf = (left: string, right: string) => number | undefined;

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

/** Joins the parts of a word. */
export function* joinPairs(word: readonly string[], rankOf: RankOf): Steps<string[]> {
  const parts: (string | undefined)[] = [...word];
  const count = parts.length;
  const next = new Int32Array(count), previous = new Int32Array(count);
  /** The rank of the pair that begins at a place: what the queue has of another is outdated. */
  const ranks: (number | undefined)[] = [];
  const queue = new Queue();
  const look = (place: number): void => {
    const other = next[place]!;
    const rank = other < count ? rankOf(parts[place]!, parts[other]!) : undefined;
    ranks[place] = rank;
    if (rank !== undefined) queue.push(rank, place);
  };
  for (let i = 0; i < count; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
    look(i);
    if (i % STEP === STEP - 1) yield;
  }
  for (let joined = 0; queue.size > 0; joined++) {
    if (joined % STEP === STEP - 1) yield;
    const [rank, place] = queue.pop();
    if (ranks[place] !== rank) continue;
    const other = next[place]!, after = next[other]!;
    parts[place]! += parts[other]!;
    parts[other] = ranks[other] = undefined;
    next[place] = after;
    if (after < count) previous[after] = place;
    look(place);
    if (previous[place]! >= 0) look(previous[place]!);
  }
  const all: string[] = [];
  for (let place = 0, done = 1; place < count; place = next[place]!, done++) {
    all.push(parts[place]!);
    if (done % STEP === 0) yield;
  }
  return all;
}
