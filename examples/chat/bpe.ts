/**
 * Byte pair encoding: joins neighbours in a word, the pair of the least rank first, until no pair
 * has a rank.
 *
 * @module
 */

/** The rank of the pair of two neighbours; undefined if they are not joined. */
export type RankOf = (left: string, right: string) => number | undefined;

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
    for (const list of [this.#ranks, this.#places]) [list[a], list[b]] = [list[b]!, list[a]!];
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

  /** Takes the first out. */
  pop(): readonly [rank: number, place: number] {
    this.#swap(0, this.size - 1);
    const first = [this.#ranks.pop()!, this.#places.pop()!] as const;
    for (let at = 0;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.size && this.#isBefore(child, least)) least = child;
      }
      if (least === at) return first;
      this.#swap(at, least);
      at = least;
    }
  }
}

/** Joins the parts of a word. */
export function joinPairs(word: readonly string[], rankOf: RankOf): string[] {
  const parts: (string | undefined)[] = [...word];
  const count = parts.length;
  const next = Int32Array.from(parts, (_, i) => i + 1);
  const previous = Int32Array.from(parts, (_, i) => i - 1);
  /** The rank of the pair that begins at a place: what the queue says of another is outdated. */
  const ranks: (number | undefined)[] = [];
  const queue = new Queue();
  const look = (place: number): void => {
    const other = next[place]!;
    const rank = other < count ? rankOf(parts[place]!, parts[other]!) : undefined;
    ranks[place] = rank;
    if (rank !== undefined) queue.push(rank, place);
  };
  for (let i = 0; i < count; i++) look(i);
  while (queue.size > 0) {
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
  return parts.filter((part) => part !== undefined);
}
