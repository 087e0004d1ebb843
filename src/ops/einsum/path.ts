/**
 * The order in which the terms of a contraction are multiplied.
 *
 * @module
 */
import type { Label } from "./equation.ts";

/** Two terms of those that are left; their product then becomes the last one. */
export type Step = readonly [i: number, j: number];

/** Up to this number of terms, all orders are tried. */
const MOST_TRIED = 4;

type Sizes = ReadonlyMap<Label, number>;
type Labels = readonly Label[];

function elements(labels: Iterable<Label>, sizes: Sizes): number {
  let size = 1;
  for (const label of labels) size *= sizes.get(label)!;
  return size;
}

/** The indices of the product of terms i and j, the other terms, and the cost of the product. */
function multiplied(terms: readonly Labels[], i: number, j: number, output: Labels, sizes: Sizes) {
  const rest = terms.filter((_, k) => k !== i && k !== j);
  const all = [...new Set([...terms[i]!, ...terms[j]!])];
  const made = all.filter((label) =>
    output.includes(label) || rest.some((term) => term.includes(label))
  );
  return { rest: [...rest, made], made, cost: elements(all, sizes) };
}

function* pairs(count: number): Generator<Step> {
  for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) yield [i, j];
}

/** The cheapest of all orders. */
function cheapest(terms: readonly Labels[], output: Labels, sizes: Sizes): [Step[], number] {
  if (terms.length < 2) return [[], 0];
  let best: [Step[], number] = [[], Infinity];
  for (const [i, j] of pairs(terms.length)) {
    const { rest, cost } = multiplied(terms, i, j, output, sizes);
    if (cost >= best[1]) continue;
    const [steps, more] = cheapest(rest, output, sizes);
    if (cost + more < best[1]) best = [[[i, j], ...steps], cost + more];
  }
  // Sizes whose product overflows have no order that is better than another.
  if (best[1] === Infinity) return [terms.slice(1).map(() => [0, 1]), Infinity];
  return best;
}

/** The pair whose product saves most elements, and of those the one that costs least. */
function greediest(terms: readonly Labels[], output: Labels, sizes: Sizes): Step {
  let best: Step = [0, 1];
  let [saved, least] = [-Infinity, Infinity];
  for (const [i, j] of pairs(terms.length)) {
    const { made, cost } = multiplied(terms, i, j, output, sizes);
    const saves = elements(terms[i]!, sizes) + elements(terms[j]!, sizes) - elements(made, sizes);
    if (saves > saved || (saves === saved && cost < least)) {
      best = [i, j];
      [saved, least] = [saves, cost];
    }
  }
  return best;
}

/**
 * The steps that multiply all terms: the cheapest of all for up to 4 terms, otherwise a greedy choice,
 * whose last steps are the cheapest.
 */
export function contractionOrder(
  terms: readonly Labels[],
  output: Labels,
  sizes: Sizes,
): readonly Step[] {
  if (terms.length <= 1) return [];
  if (terms.length === 2) return [[0, 1]];
  const steps: Step[] = [];
  let rest = terms;
  while (rest.length > MOST_TRIED) {
    const [i, j] = greediest(rest, output, sizes);
    steps.push([i, j]);
    rest = multiplied(rest, i, j, output, sizes).rest;
  }
  return [...steps, ...cheapest(rest, output, sizes)[0]];
}
