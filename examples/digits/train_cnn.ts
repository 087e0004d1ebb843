/**
 * Trains a convolutional network on the digits: `grad`, an optimizer and one program for a step.
 *
 *     deno run -A examples/digits/main.ts --train
 *     bun examples/digits/main.ts --train
 *
 * @module
 */
import process from "node:process";
import { random, scope, type Tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { batches } from "../../src/train/mod.ts";
import { type Digits, loadDigits } from "./digits.ts";
import { withShifts } from "./train.ts";

const BATCH = 64;
const EPOCHS = 6;

type Matrix = Tensor<"float32", [number, number]>;
type Vector = Tensor<"float32", [number]>;
type Filters = Tensor<"float32", [number, number, number, number]>;

/** Two convolutions and two layers. */
export type Network = {
  readonly conv1: Filters;
  readonly bias1: Vector;
  readonly conv2: Filters;
  readonly bias2: Vector;
  readonly weight3: Matrix;
  readonly bias3: Vector;
  readonly weight4: Matrix;
  readonly bias4: Vector;
};

/** A network before training. */
export function initial(key: random.Key): Network {
  const keys = random.split(key, 4);
  return {
    conv1: nn.kaimingUniform(keys[0], [32, 1, 3, 3]),
    bias1: zeros([32]),
    conv2: nn.kaimingUniform(keys[1], [64, 32, 3, 3]),
    bias2: zeros([64]),
    weight3: nn.kaimingUniform(keys[2], [128, 64 * 4 * 4]),
    bias3: zeros([128]),
    weight4: nn.xavierUniform(keys[3], [10, 128]),
    bias4: zeros([10]),
  };
}

/** The score of each digit: [N, 64] gives [N, 10]; with a key, a part of the features is dropped. */
export function scores(net: Network, images: Tensor, key?: random.Key): Matrix {
  const pixels = images.reshape([-1, 1, 8, 8]);
  const first = nn.conv2d(pixels, net.conv1, net.bias1, { padding: 1 }).relu();
  const second = nn.conv2d(first, net.conv2, net.bias2, { padding: 1 }).relu();
  const features = nn.maxPool2d(second, 2).reshape([-1, 64 * 4 * 4]);
  const third = features.linear(net.weight3, net.bias3).relu();
  return nn.dropout(third, { p: 0.3, key }).linear(net.weight4, net.bias4).asRank(2);
}

function loss(net: Network, { images, labels }: Digits, key: random.Key): Tensor<"float32", []> {
  return nn.crossEntropy(scores(net, images, key), labels).asShape([]);
}

/** A network fitted to `digits`; the event loop goes on meanwhile. */
export async function trainNetwork(
  digits: Digits,
  epochs = EPOCHS,
  report: (step: number, steps: number, loss: number) => void = () => {},
): Promise<Network> {
  const [weightKey, orderKey, dropKey] = random.split(random.key(1998), 3);
  const net = initial(weightKey);
  const optimizer = optim.adamw({ learningRate: 0.002 });
  const state = optimizer.init(net);
  using step = compile(
    (own: Network, ownState: typeof state, batch: Digits, key: random.Key, rate: number) => {
      const [value, gradients] = valueAndGrad(loss)(own, batch, key);
      optimizer.update(own, gradients, ownState, { learningRate: rate });
      return value;
    },
  );
  const data = withShifts(digits);
  const steps = epochs * Math.floor(data.labels.size / BATCH);
  const rate = optim.cosine({ peak: 0.002, steps, warmup: Math.min(50, steps - 1) });
  let done = 0;
  for (const batch of batches(data, { size: BATCH, key: orderKey, epochs, dropLast: true })) {
    using value = await step.async(net, state, batch, random.foldIn(dropKey, done), rate(done));
    done++;
    if (done % 20 === 0 || done === steps) report(done, steps, value.item());
    batch.images.dispose();
    batch.labels.dispose();
  }
  return net;
}

/** The share of the digits that the network classifies correctly. */
export function networkAccuracy(net: Network, { images, labels }: Digits): number {
  return scope(() => scores(net, images).argmax(1).equal(labels).mean()).item();
}

/** Trains, and prints progress, accuracy and the seconds of processors. */
export async function trainAndReport(): Promise<void> {
  const { train, heldOut } = await loadDigits();
  const before = process.cpuUsage();
  const net = await trainNetwork(train, EPOCHS, (step, steps, loss) => {
    const part = Math.round(30 * step / steps);
    const bar = "█".repeat(part) + "░".repeat(30 - part);
    if (process.stdout.isTTY) {
      process.stdout.write(`\r${bar} ${step}/${steps} loss ${loss.toFixed(4)}`);
    } else if (step % 200 === 0) console.log(`step ${step} of ${steps}: loss ${loss.toFixed(4)}`);
  });
  const { user, system } = process.cpuUsage(before);
  if (process.stdout.isTTY) console.log();
  const share = networkAccuracy(net, heldOut);
  console.log(`accuracy on ${heldOut.labels.size} held-out digits: ${(share * 100).toFixed(2)}%`);
  console.log(`seconds of processors: ${((user + system) / 1e6).toFixed(1)}`);
}
