/**
 * Windows that slide along axes, as regions of windows that lie regularly.
 *
 * @module
 */

/** The windows of one axis, without the elements in the padding. */
export interface WindowRegion {
  /** The place of the first window among the results, and the distance to the next one. */
  readonly first: number;
  readonly every: number;
  /** How many windows there are. */
  readonly length: number;
  /** The first element of the first window, and the distance to that of the next one. */
  readonly start: number;
  readonly step: number;
  /** How many elements a window has, and their distance. */
  readonly size: number;
  readonly dilation: number;
  /** What a sum is divided by for the mean. */
  readonly count: number;
}

/** How windows of one size slide along an axis. */
export interface Sliding {
  readonly size: number;
  readonly stride: number;
  readonly dilation: number;
  /** The elements of padding before and after the axis. */
  readonly before: number;
  readonly after: number;
  /** Whether windows may end beyond the padding. */
  readonly ceil: boolean;
  /** Whether means count the padding. */
  readonly padded: boolean;
}

/** The elements from the first to the last of a window. */
function extentOf({ size, dilation }: Sliding): number {
  return (size - 1) * dilation + 1;
}

/** How many windows an axis of `n` elements has; below 1 if it is too short. */
export function countWindows(n: number, by: Sliding): number {
  const { stride, before, after, ceil } = by;
  const places = n + before + after - extentOf(by);
  if (!ceil) return Math.floor(places / stride) + 1;
  const count = Math.ceil(places / stride) + 1;
  // The last window begins inside the axis or the padding before it.
  return (count - 1) * stride >= n + before ? count - 1 : count;
}

/** The regions of the windows that slide along an axis of `n` elements. */
export function slidingRegions(n: number, by: Sliding): WindowRegion[] {
  const { size, stride, dilation, before, after, padded } = by;
  const total = countWindows(n, by);
  const alone = (first: number): WindowRegion => {
    const from = first * stride - before;
    const skipped = from < 0 ? Math.ceil(-from / dilation) : 0;
    const start = from + skipped * dilation;
    const inside = Math.max(0, Math.min(size - skipped, Math.ceil((n - start) / dilation)));
    // The elements of a window that lie in the padding count, those beyond it do not.
    const all = Math.min(size, Math.ceil((n + after - from) / dilation));
    const count = padded ? all : inside;
    return { first, every: 1, length: 1, start, step: 1, size: inside, dilation, count };
  };
  // Between them, windows are whole.
  const low = Math.min(total, Math.ceil(before / stride));
  const high = Math.max(low, Math.min(total, Math.floor((n + before - extentOf(by)) / stride) + 1));
  const regions: WindowRegion[] = [];
  for (let i = 0; i < low; i++) regions.push(alone(i));
  if (high > low) {
    const start = low * stride - before;
    const length = high - low;
    regions.push({
      first: low,
      every: 1,
      length,
      start,
      step: stride,
      size,
      dilation,
      count: size,
    });
  }
  for (let i = high; i < total; i++) regions.push(alone(i));
  return regions;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** The regions of `total` windows that divide an axis of `n` elements: window i ends where it must. */
export function adaptiveRegions(n: number, total: number): WindowRegion[] {
  // Windows repeat after `period` ones.
  const common = gcd(n, total);
  const [period, step] = [total / common, n / common];
  return Array.from({ length: period }, (_, first) => {
    const start = Math.floor(first * n / total);
    const size = Math.ceil((first + 1) * n / total) - start;
    return {
      first,
      every: period,
      length: common,
      start,
      step,
      size,
      dilation: 1,
      count: size,
    };
  });
}
