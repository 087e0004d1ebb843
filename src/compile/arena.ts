/**
 * Places buffers in one arena: those that are never needed at the same time share bytes.
 *
 * @module
 */

/** A buffer of the arena, needed from one step to another, both included. */
export interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** A place in the arena. */
export interface Arena {
  /** The first byte of each buffer. */
  readonly offsets: readonly number[];
  readonly bytes: number;
}

/** A cache line, so that no two threads write one line. */
const ALIGNMENT = 64;

/**
 * Rows that are a multiple of 4 KiB apart share few cache sets: buffers of this size and more begin
 * at different lines of a page.
 */
const STAGGER_FROM = 4096;

/** The places of buffers, the largest first, each in the smallest gap that is large enough. */
export function planArena(lifetimes: readonly Lifetime[]): Arena {
  const offsets: number[] = new Array(lifetimes.length).fill(0);
  const order = lifetimes.map((_, i) => i).sort((i, j) =>
    lifetimes[j]!.bytes - lifetimes[i]!.bytes || lifetimes[i]!.first - lifetimes[j]!.first
  );
  const placed: number[] = [];
  const sizes = lifetimes.map(({ bytes }, i) =>
    up(bytes) + (bytes >= STAGGER_FROM ? i % 8 * ALIGNMENT : 0)
  );
  let total = 0;
  for (const i of order) {
    const { first, last } = lifetimes[i]!;
    const others = placed
      .filter((j) => lifetimes[j]!.first <= last && lifetimes[j]!.last >= first)
      .sort((j, k) => offsets[j]! - offsets[k]!);
    let best = -1;
    let bestGap = Infinity;
    let end = 0;
    for (const j of others) {
      const gap = offsets[j]! - end;
      if (gap >= sizes[i]! && gap < bestGap) [best, bestGap] = [end, gap];
      end = Math.max(end, offsets[j]! + sizes[j]!);
    }
    offsets[i] = best >= 0 ? best : end;
    total = Math.max(total, offsets[i]! + sizes[i]!);
    placed.push(i);
  }
  return { offsets, bytes: total };
}

function up(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}
