/**
 * Trains the model: gradients worked out by hand, Adam, and one key for all random numbers.
 *
 *     deno run -A examples/digits/train.ts              trains and writes model.safetensors
 *     deno run -A examples/digits/train.ts --check      trains and compares with model.safetensors
 *     deno run -A examples/digits/train.ts --validate   judges the settings below
 *
 * `--device cuda` trains on a graphics card, and writes nothing, as numbers differ in the last place.
 *
 * The settings were chosen with --validate, on parts of the training digits: the held-out digits
 * have no influence here. Uses the js backend, on which Deno and Bun give the same bytes.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import process from "node:process";
import {
  arange,
  concat,
  io,
  random,
  range,
  scope,
  setBackend,
  type Tensor,
  tensor,
  type types,
  where,
  zeros,
  zerosLike,
} from "../../mod.ts";
import { deviceIn } from "./device.ts";
import { type Digits, loadDigits, pick } from "./digits.ts";
import { writeEmbedded } from "./embedded.ts";
import { classify, hidden, type Model, MODEL_FILE, scores } from "./model.ts";

/** The seed of the committed model. */
export const SEED = 1998;
/** The number of passes over the digits. */
export const EPOCHS = 30;
const BATCH = 64;
const RATE = 0.01;

/**
 * A kind of model from the point of view of training: its parameters by name, their initial values
 * and the loss.
 */
export interface Kind<M> {
  /** Small random weights, and biases of 0. */
  initialModel(key: random.Key, device?: types.Device): M;
  /** The mean cross-entropy over a batch, and its gradient by each parameter. */
  lossAndGradients(model: M, digits: Digits): { loss: number; gradients: M };
  /** Adam's step for the first batch, from which the steps shrink to 0. */
  readonly rate: number;
}

/** Small random weights, and biases of 0. */
export function initialModel(key: random.Key, device: types.Device = "cpu"): Model {
  const [key1, key2] = random.split(key);
  // Within ±sqrt(6 / inputs), so that signals neither grow nor fade (He et al., 2015).
  const [bound1, bound2] = [Math.sqrt(6 / 64), Math.sqrt(6 / 128)];
  return {
    weight1: random.uniform(key1, [128, 64], { low: -bound1, high: bound1, device }),
    bias1: zeros([128], { device }),
    weight2: random.uniform(key2, [10, 128], { low: -bound2, high: bound2, device }),
    bias2: zeros([10], { device }),
  };
}

/** The mean cross-entropy over a batch, and its gradient by each parameter. */
export function lossAndGradients(
  model: Model,
  { images, labels }: Digits,
): { loss: number; gradients: Model } {
  const features = hidden(model, images);
  const logProbabilities = scores(model, features).logSoftmax(1);
  const targets = labels.oneHot(10);
  const loss = logProbabilities.mul(targets).sum(1).mean().neg();

  // The chain rule, from the loss back to the first layer.
  const byScores = logProbabilities.exp().sub(targets).div(images.shape[0]);
  const byFeatures = where(features.greater(0), byScores.matmul(model.weight2), 0);
  const gradients = {
    weight1: byFeatures.T.matmul(images),
    bias1: byFeatures.sum(0),
    weight2: byScores.T.matmul(features),
    bias2: byScores.sum(0),
  };
  return { loss: loss.item(), gradients };
}

/**
 * Adam (Kingma and Ba, 2015), as a function that moves the model's parameters against their
 * gradients: by the running mean of each over the root of the running mean of its square.
 */
export function adam<M extends object>(model: M): (gradients: M, rate: number) => void {
  const parameters = Object.entries<Tensor>(model as Record<string, Tensor>).map(
    ([name, value]) => ({ name, value, mean: zerosLike(value), square: zerosLike(value) }),
  );
  let steps = 0;
  return (gradients, rate) => {
    steps++;
    for (const { name, value, mean, square } of parameters) {
      const gradient = (gradients as Record<string, Tensor>)[name]!;
      mean.mul_(0.9).add_(gradient.mul(0.1));
      square.mul_(0.999).add_(gradient.square().mul(0.001));
      // The running means begin at 0: the division corrects for it.
      const direction = mean.div(1 - 0.9 ** steps);
      const size = square.div(1 - 0.999 ** steps).sqrt().add(1e-8);
      value.sub_(direction.div(size).mul(rate));
    }
  };
}

/** The digits, and copies of them moved by one pixel up, down, left and right. */
export function withShifts({ images, labels }: Digits): Digits {
  const padded = images.reshape([-1, 8, 8]).pad([[0, 0], [1, 1], [1, 1]]);
  const corners = [[1, 1], [2, 1], [0, 1], [1, 2], [1, 0]] as const;
  const moved = corners.map(([y, x]) => padded.slice(":", range(y, y + 8), range(x, x + 8)));
  return {
    images: concat(moved).reshape([-1, 64]),
    labels: labels.tile([corners.length]),
  };
}

/** The demo's model. */
const SMALL: Kind<Model> = { initialModel, lossAndGradients, rate: RATE };

/** A model trained on `digits`: the same key gives the same model. */
export function train(
  digits: Digits,
  key: random.Key,
  epochs: number,
  report?: (epoch: number, loss: number) => void,
): Model {
  return trainKind(SMALL, digits, key, epochs, report);
}

/** A model of any kind, trained on `digits`: the same key gives the same model. */
export function trainKind<M extends object>(
  kind: Kind<M>,
  digits: Digits,
  key: random.Key,
  epochs: number,
  report: (epoch: number, loss: number) => void = () => {},
): M {
  const [modelKey, orderKey] = random.split(key);
  const { device } = digits.images;
  const model = kind.initialModel(modelKey, device);
  const update = adam(model);
  const shifted = withShifts(digits);
  const batches = Math.floor(shifted.labels.size / BATCH);
  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = random.permutation(random.foldIn(orderKey, epoch), shifted.labels.size, {
      device,
    });
    let total = 0;
    for (let batch = 0; batch < batches; batch++) {
      const done = (epoch + batch / batches) / epochs;
      // The memory of a step's temporaries is reused by the next one.
      total += scope(() => {
        const part = pick(shifted, order.slice(range(batch * BATCH, (batch + 1) * BATCH)));
        const { loss, gradients } = kind.lossAndGradients(model, part);
        update(gradients, kind.rate * (1 - done));
        return loss;
      });
    }
    report(epoch, total / batches);
  }
  return model;
}

/** The share of the digits that the model classifies correctly. */
export function accuracy(model: Model, { images, labels }: Digits): number {
  return classify(model, images).equal(labels).mean().item();
}

/** Trains five times on four fifths of the digits and tests each time on the last fifth. */
function validate(digits: Digits, key: random.Key): number {
  const { device } = digits.images;
  const order = random.permutation(key, digits.labels.size, { device });
  const fold = arange(order.size, { dtype: "int32", device }).remainder(5);
  const shares = [0, 1, 2, 3, 4].map((i) => {
    const model = train(pick(digits, order.slice(fold.notEqual(i))), key, EPOCHS);
    return accuracy(model, pick(digits, order.slice(fold.equal(i))));
  });
  return tensor(shares).mean().item();
}

async function main(args: readonly string[]): Promise<void> {
  const device = deviceIn(args);
  // Vector code rounds differently on other processors.
  if (device === "cpu") setBackend("js");
  const option = args.find((arg) => arg.startsWith("--") && !arg.startsWith("--device")) ??
    "--write";
  if (!["--write", "--check", "--validate"].includes(option)) throw new Error(`What is ${option}?`);
  const { train: digits } = await loadDigits(device);
  const key = random.key(SEED);
  if (option === "--validate") {
    return console.log(`accuracy in validation: ${(validate(digits, key) * 100).toFixed(1)}%`);
  }
  const model = train(digits, key, EPOCHS, (epoch, loss) => {
    console.log(`epoch ${String(epoch + 1).padStart(2)}: loss ${loss.toFixed(5)}`);
  });
  if (device !== "cpu") {
    return console.log(`accuracy in training: ${(accuracy(model, digits) * 100).toFixed(1)}%`);
  }
  const bytes = io.encodeSafetensors(model);
  if (option === "--check") {
    const same = (await readFile(MODEL_FILE)).equals(bytes);
    console.log(`model.safetensors ${same ? "is what this makes" : "differs"}`);
    process.exitCode = same ? 0 : 1;
  } else await writeEmbedded(MODEL_FILE, bytes);
}

if (import.meta.main) {
  await main(process.argv.slice(2));
}
