/**
 * Fits the digits classifier by data parallelism: every rank has the model, and the gradients of its
 * part of each batch; averages of all parts move the model.
 *
 *     mpiexec -n 4 deno run -A examples/distributed/data_parallel.ts
 *     mpiexec -n 4 bun examples/distributed/data_parallel.ts
 *
 * Gives the same bits on 1, 2, 4 and 8 ranks: a batch always has eight parts, whose gradients are
 * rounded to multiples of 2⁻²⁰, so that their sums are exact, in whatever order.
 *
 * @module
 */
import { io, random, range, scope, setThreads, type Tensor } from "../../mod.ts";
import { averageGradients, type Group, init } from "../../src/distributed/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Digits, loadDigits, pick } from "../digits/digits.ts";
import { hidden, type Model, scores } from "../digits/model.ts";
import { accuracy, adam, initialModel, SEED } from "../digits/train.ts";

const BATCH = 64;
/** The parts of a batch: each rank has as many. */
const PARTS = 8;
const RATE = 0.01;
const GRID = 2 ** 20;

/** Multiples of 2⁻²⁰, of which float32 adds some without rounding, as gradients are below 1. */
function onGrid(x: Tensor): Tensor {
  return x.mul(GRID).round().div(GRID);
}

const lossAndGradients = valueAndGrad((model: Model, { images, labels }: Digits) =>
  nn.crossEntropy(scores(model, hidden(model, images)), labels)
);

/** The mean gradients, and loss, of some parts of a batch: [parts, rows] of `digits`. */
function meanOfParts(
  model: Model,
  digits: Digits,
  parts: Tensor<"int32", [number, number]>,
): Record<string, Tensor> {
  return scope(() => {
    const sums: Record<string, Tensor> = {};
    for (const rows of parts) {
      const [loss, gradients] = lossAndGradients(model, pick(digits, rows));
      for (const [name, x] of Object.entries<Tensor>({ ...gradients, loss })) {
        const rounded = onGrid(x);
        sums[name] = sums[name] === undefined ? rounded : sums[name].add(rounded);
      }
    }
    const count = parts.shape[0];
    return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum.div(count)]));
  });
}

/** A model that all ranks have fitted to `digits`, the same on all. */
export async function fit(
  group: Group,
  digits: Digits,
  epochs: number,
  report: (epoch: number, loss: number) => void = () => {},
): Promise<Model> {
  if (PARTS % group.size !== 0) throw new Error(`${PARTS} parts of a batch, ${group.size} ranks`);
  // One key for all: the same model and the same order everywhere.
  const [modelKey, orderKey] = random.split(random.key(SEED));
  const model = initialModel(modelKey);
  const update = adam(model);
  const batches = Math.floor(digits.labels.size / BATCH);
  for (let epoch = 0; epoch < epochs; epoch++) {
    using order = random.permutation(random.foldIn(orderKey, epoch), digits.labels.size);
    let total = 0;
    for (let batch = 0; batch < batches; batch++) {
      using rows = order.slice(range(batch * BATCH, (batch + 1) * BATCH)).reshape([PARTS, -1]);
      using mine = group.shard(rows, 0);
      const { loss, ...gradients } = meanOfParts(model, digits, mine.asRank(2));
      await averageGradients(group, { loss, gradients });
      total += loss!.item();
      scope(() => update(gradients as unknown as Model, RATE));
      for (const x of [loss!, ...Object.values(gradients)]) x.dispose();
    }
    report(epoch, total / batches);
  }
  return model;
}

/** The first digits of a hash of the model's bits. */
export async function fingerprint(model: Model): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", io.encodeSafetensors(model));
  return Array.from(new Uint8Array(hash, 0, 8), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
}

if (import.meta.main) {
  await using world = await init();
  // Ranks of one machine share its processors.
  setThreads(1);
  const { train, heldOut } = await loadDigits();
  const model = await fit(world, train, 5, (epoch, loss) => {
    if (world.rank === 0) console.log(`epoch ${epoch + 1}: loss ${loss.toFixed(5)}`);
  });
  if (world.rank === 0) {
    console.log(`accuracy on held-out digits: ${(accuracy(model, heldOut) * 100).toFixed(1)}%`);
    console.log(`the model's bits: ${await fingerprint(model)}`);
  }
}
