/**
 * Regions of text in the map of a detector, and texts of the scores of a reader.
 *
 * @module
 */

/** A region in pixels, from its left top to its right bottom corner. */
export type Region = readonly [left: number, top: number, right: number, bottom: number];

/** A map of probabilities in row-major order. */
export interface Probabilities {
  readonly data: ArrayLike<number>;
  readonly height: number;
  readonly width: number;
}

/** What counts as a region. */
export interface RegionLimits {
  /** The least probability of a pixel of text; 0.3 by default. */
  readonly pixel?: number;
  /** The least mean of a region; 0.6 by default. */
  readonly mean?: number;
  /** How much a region grows: its area by its circumference, times this; 1.6 by default. */
  readonly growth?: number;
}

/** The fewest pixels of a side of a region. */
const LEAST_SIDE = 3;

/** The upright boxes around connected pixels of text, which the detector shrinks, grown again. */
export function regionsOf(
  { data, height, width }: Probabilities,
  { pixel = 0.3, mean = 0.6, growth = 1.6 }: RegionLimits = {},
): Region[] {
  const seen = new Uint8Array(height * width);
  const found: Region[] = [];
  for (let start = 0; start < seen.length; start++) {
    if (seen[start] === 1 || !(data[start]! > pixel)) continue;
    seen[start] = 1;
    const todo = [start];
    let [left, top, right, bottom] = [width, height, 0, 0];
    let sum = 0, count = 0;
    for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
      const x = at % width, y = (at - x) / width;
      [left, right] = [Math.min(left, x), Math.max(right, x + 1)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y + 1)];
      sum += data[at]!;
      count++;
      for (let dy = -1; dy <= 1; dy++) {
        for (let dx = -1; dx <= 1; dx++) {
          const [u, v] = [x + dx, y + dy];
          if (u < 0 || v < 0 || u >= width || v >= height) continue;
          const next = v * width + u;
          if (seen[next] === 1 || !(data[next]! > pixel)) continue;
          seen[next] = 1;
          todo.push(next);
        }
      }
    }
    const [w, h] = [right - left, bottom - top];
    if (Math.min(w, h) < LEAST_SIDE || sum / count < mean) continue;
    const more = w * h * growth / (2 * (w + h));
    found.push([
      Math.max(left - more, 0),
      Math.max(top - more, 0),
      Math.min(right + more, width),
      Math.min(bottom + more, height),
    ]);
  }
  return inOrder(found);
}

/** From the top to the bottom, those of one line from the left to the right. */
function inOrder(regions: readonly Region[]): Region[] {
  const lines: Region[][] = [];
  for (const region of regions.toSorted((a, b) => a[1] + a[3] - b[1] - b[3])) {
    const [, top, , bottom] = region;
    const last = lines.at(-1);
    const middle = (top + bottom) / 2;
    if (last !== undefined && last[0]![1] < middle && middle < last[0]![3]) last.push(region);
    else lines.push([region]);
  }
  return lines.flatMap((line) => line.sort((a, b) => a[0] - b[0]));
}

/** A text, and the mean of the probabilities of its characters. */
export interface Reading {
  readonly text: string;
  readonly score: number;
}

/**
 * The text of scores [steps, classes], where class 0 stands between characters: the most probable class
 * of each step, without repetitions.
 */
export function textOf(
  data: ArrayLike<number>,
  [steps, classes]: readonly [steps: number, classes: number],
  characters: readonly string[],
): Reading {
  let text = "", sum = 0, count = 0, before = 0;
  for (let step = 0; step < steps; step++) {
    let best = 0;
    const from = step * classes;
    for (let k = 1; k < classes; k++) if (data[from + k]! > data[from + best]!) best = k;
    if (best !== 0 && best !== before) {
      text += characters[best - 1] ?? "";
      sum += data[from + best]!;
      count++;
    }
    before = best;
  }
  return { text, score: count === 0 ? 0 : sum / count };
}
