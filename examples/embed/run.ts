/**
 * What the commands do with an embedder: print vectors, or rank lines.
 *
 * @module
 */
import type { Embedder } from "./embedder.ts";

/** What is asked for. */
export interface Request {
  readonly json: boolean;
  /** The lines to rank. */
  readonly lines?: readonly string[] | undefined;
  /** How many of them to print. */
  readonly top: number;
}

/** The cosine of the angle between vectors of length 1. */
function likeness(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, x, i) => sum + x * b[i]!, 0);
}

/** Embeds `texts` and prints what is asked for. */
export async function run(
  embedder: Embedder,
  texts: readonly string[],
  { json, lines, top }: Request,
): Promise<void> {
  if (lines === undefined) {
    const vectors = await embedder.embed(texts);
    if (json) console.log(JSON.stringify(vectors.map((vector) => [...vector])));
    else {
      vectors.forEach((vector, i) => {
        const first = [...vector.subarray(0, 4)].map((x) => x.toFixed(4)).join(", ");
        console.log(`${texts[i]}: [${first}, …] (${vector.length} numbers)`);
      });
    }
    return;
  }
  const [wanted, ...vectors] = await embedder.embed([texts.join(" "), ...lines]);
  const ranked = lines
    .map((line, i) => ({ line, score: likeness(wanted!, vectors[i]!) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, top);
  if (json) console.log(JSON.stringify(ranked));
  else for (const { line, score } of ranked) console.log(`${score.toFixed(3)}  ${line}`);
}
