/**
 * A small transformer that predicts the next character, its training, and texts that it writes.
 *
 * @module
 */
import { arange, ones, random, scope, type Tensor, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { batches } from "../../src/train/mod.ts";

/** Sizes of a transformer. */
export interface Sizes {
  /** The characters that it sees. */
  readonly context: number;
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
}

/** Numbers of characters. */
type Ids = Tensor<"int32">;
type Block = Record<"norm1" | "norm2" | "qkv" | "join" | "up" | "down", Tensor>;

/** The parameters: a tree of tensors. */
export interface Transformer {
  readonly characters: Tensor;
  readonly places: Tensor;
  readonly blocks: readonly Block[];
  readonly norm: Tensor;
}

/** A transformer before training, for so many characters. */
export function initial(key: random.Key, count: number, sizes: Sizes): Transformer {
  const { context, width, layers } = sizes;
  const keys = random.split(key, 2 + 4 * layers);
  const weight = (k: number, shape: readonly [number, number]): Tensor =>
    random.normal(keys[k]!, [...shape], { std: 0.02 });
  return {
    characters: weight(0, [count, width]),
    places: weight(1, [context, width]),
    blocks: Array.from({ length: layers }, (_, i) => ({
      norm1: ones([width]),
      norm2: ones([width]),
      qkv: weight(2 + 4 * i, [3 * width, width]),
      join: weight(3 + 4 * i, [width, width]),
      up: weight(4 + 4 * i, [4 * width, width]),
      down: weight(5 + 4 * i, [width, 4 * width]),
    })),
    norm: ones([width]),
  };
}

/** The scores of each next character: ids [N, T] give [N, T, characters]. */
export function scores(net: Transformer, ids: Ids, heads: number): Tensor {
  const [count, length] = ids.shape as [number, number];
  const width = net.norm.shape[0]!;
  let x: Tensor = nn.embedding(ids, net.characters).add(net.places.slice(`:${length}`));
  for (const { norm1, norm2, qkv, join, up, down } of net.blocks) {
    const all = x.rmsNorm(-1, { weight: norm1 }).linear(qkv)
      .reshape([count, length, 3, heads, width / heads]).permute(2, 0, 3, 1, 4);
    const [q, k, v] = [all.slice(0), all.slice(1), all.slice(2)];
    const mixed = nn.attention(q, k, v, { causal: true }).swapAxes(1, 2);
    x = x.add(mixed.reshape([count, length, width]).linear(join));
    x = x.add(x.rmsNorm(-1, { weight: norm2 }).linear(up).gelu().linear(down));
  }
  // The embedding is the last layer, too.
  return x.rmsNorm(-1, { weight: net.norm }).linear(net.characters);
}

/** The loss of windows [N, T + 1]: each character is predicted by those before it. */
function loss(net: Transformer, windows: Ids, heads: number): Tensor<"float32", []> {
  const made = scores(net, windows.slice(":, :-1"), heads);
  const classes = made.shape.at(-1)!;
  const next = windows.slice(":, 1:").reshape([-1]);
  return nn.crossEntropy(made.reshape([-1, classes]), next).asShape([]) as Tensor<"float32", []>;
}

/** A transformer and the characters that it knows. */
export interface Writer {
  readonly net: Transformer;
  readonly characters: readonly string[];
  readonly sizes: Sizes;
}

/** A transformer fitted to a text. */
export async function learn(
  text: string,
  sizes: Sizes,
  { steps, size = 16, rate = 3e-3 }: { steps: number; size?: number; rate?: number },
  report: (step: number, loss: number) => void = () => {},
): Promise<Writer> {
  const [weightKey, orderKey] = random.split(random.key(1));
  const characters = [...new Set(text)].sort();
  const ids = tensor([...text].map((one) => characters.indexOf(one)), { dtype: "int32" });
  const { context, heads } = sizes;
  const hop = Math.max(1, context >> 2);
  const count = Math.floor((ids.size - context - 1) / hop) + 1;
  if (count < size) throw new Error(`${ids.size} characters are too few for ${size} windows`);
  const starts = arange(count, { dtype: "int32" }).mul(hop).unsqueeze(1);
  const windows: Ids = ids.take(starts.add(arange(context + 1, { dtype: "int32" })));

  const net = initial(weightKey, characters.length, sizes);
  const optimizer = optim.adamw({ learningRate: rate, decays: (_, { length }) => length > 1 });
  const state = optimizer.init(net);
  using run = compile((own: Transformer, ownState: typeof state, batch: Ids, now: number) => {
    const [value, gradients] = valueAndGrad(loss)(own, batch, heads);
    optim.clipByNorm(gradients, 1);
    optimizer.update(own, gradients, ownState, { learningRate: now });
    return value;
  });
  const schedule = optim.cosine({ peak: rate, steps, warmup: Math.min(20, steps - 1) });
  let step = 0;
  const order = { size, key: orderKey, epochs: Infinity, dropLast: true };
  for (const batch of batches(windows, order)) {
    using value = await run.async(net, state, batch as Ids, schedule(step));
    (batch as Ids).dispose();
    step++;
    if (step % 20 === 0 || step === steps) report(step, value.item());
    if (step === steps) break;
  }
  return { net, characters, sizes };
}

/** `length` more characters of a text that begins with `start`. */
export function write(
  { net, characters, sizes: { context, heads } }: Writer,
  start: string,
  length: number,
  key: random.Key,
  temperature = 0.7,
): string {
  const ids = [...start].map((one) => Math.max(0, characters.indexOf(one)));
  for (let k = 0; k < length; k++) {
    ids.push(
      scope(() => {
        const seen: Ids = tensor([ids.slice(-context)], { dtype: "int32" });
        const next = scores(net, seen, heads).slice(0, -1).div(temperature);
        return random.categorical(random.foldIn(key, k), next);
      }).item() as number,
    );
  }
  return ids.map((id) => characters[id]).join("");
}
