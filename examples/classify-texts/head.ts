/**
 * A classifier of texts: a layer on the vectors of an embedding model, which stays as it is.
 *
 * @module
 */
import { scope, type Tensor, tensor, zeros } from "../../mod.ts";
import type { Embedder } from "../../src/models/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";

/** The layer, and the names of its classes. */
export interface Head {
  readonly labels: readonly string[];
  readonly weight: Tensor;
  readonly bias: Tensor;
}

/** Texts with their labels. */
export interface Example {
  readonly text: string;
  readonly label: string;
}

/** A head fitted to examples: logistic regression, of which L-BFGS finds the minimum. */
export async function fitHead(embedder: Embedder, examples: readonly Example[]): Promise<Head> {
  const labels = [...new Set(examples.map(({ label }) => label))].sort();
  if (labels.length < 2) throw new Error(`${labels.length} labels are too few to tell apart`);
  const vectors: Tensor = tensor(await embedder.embed(examples.map(({ text }) => text)));
  const numbers = examples.map(({ label }) => labels.indexOf(label));
  const classes = tensor(numbers, { dtype: "int32" });
  const params: { weight: Tensor; bias: Tensor } = {
    weight: zeros([labels.length, vectors.shape[1]!]),
    bias: zeros([labels.length]),
  };
  const loss = ({ weight, bias }: typeof params): Tensor<"float32", []> => {
    const fit = nn.crossEntropy(vectors.linear(weight, bias), classes);
    return fit.add(weight.square().sum().mul(0.002)).asShape([]);
  };
  optim.minimize(loss, params, { tolerance: 1e-4 });
  return { labels, ...params };
}

/** The label of each text, and how likely it is. */
export async function classifyTexts(
  embedder: Embedder,
  { labels, weight, bias }: Head,
  texts: readonly string[],
): Promise<{ label: string; probability: number }[]> {
  const vectors: Tensor = tensor(await embedder.embed(texts));
  const rows = scope(() => vectors.linear(weight, bias).softmax(1)).toArray() as number[][];
  return rows.map((row) => {
    const probability = Math.max(...row);
    return { label: labels[row.indexOf(probability)]!, probability };
  });
}
