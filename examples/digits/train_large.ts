/**
 * Trains the larger model like train.ts the small one, and stores it in float16.
 *
 *     deno run -A examples/digits/train_large.ts              trains and writes large.safetensors
 *     deno run -A examples/digits/train_large.ts --check      trains and compares with that file
 *     deno run -A examples/digits/train_large.ts --validate   judges the settings, with native code
 *
 * Takes minutes on the js backend, on which Deno and Bun give the same bytes.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { arange, io, random, setBackend, type Tensor, tensor, where, zeros } from "../../mod.ts";
import { type Digits, loadDigits, pick } from "./digits.ts";
import { writeEmbedded } from "./embedded.ts";
import { hiddenLayers, LARGE_FILE, type LargeModel, largeScores, probabilities } from "./large.ts";
import { type Kind, SEED, trainKind } from "./train.ts";

/** The number of passes over the digits for the committed model. */
const EPOCHS = 12;

/** The larger model, from the point of view of training. */
export const LARGE: Kind<LargeModel> = {
  rate: 0.002,

  initialModel(key, device = "cpu") {
    const keys = random.split(key, 3);
    // Within ±sqrt(6 / inputs), so that signals neither grow nor fade (He et al., 2015).
    const within = (inputs: number) => {
      const bound = Math.sqrt(6 / inputs);
      return { low: -bound, high: bound, device };
    };
    return {
      weight1: random.uniform(keys[0]!, [768, 64], within(64)),
      bias1: zeros([768], { device }),
      weight2: random.uniform(keys[1]!, [768, 768], within(768)),
      bias2: zeros([768], { device }),
      weight3: random.uniform(keys[2]!, [10, 768], within(768)),
      bias3: zeros([10], { device }),
    };
  },

  lossAndGradients(model, { images, labels }) {
    const [first, second] = hiddenLayers(model, images);
    const logProbabilities = largeScores(model, second).logSoftmax(1);
    const targets = labels.oneHot(10);
    const loss = logProbabilities.mul(targets).sum(1).mean().neg();

    // The chain rule, from the loss back to the first layer.
    const byScores = logProbabilities.exp().sub(targets).div(images.shape[0]);
    const bySecond = where(second.greater(0), byScores.matmul(model.weight3), 0);
    const byFirst = where(first.greater(0), bySecond.matmul(model.weight2), 0);
    const gradients = {
      weight1: byFirst.T.matmul(images),
      bias1: byFirst.sum(0),
      weight2: bySecond.T.matmul(first),
      bias2: bySecond.sum(0),
      weight3: byScores.T.matmul(second),
      bias3: byScores.sum(0),
    };
    return { loss: loss.item(), gradients };
  },
};

/** The share of the digits that the model classifies correctly. */
export function largeAccuracy(model: LargeModel, { images, labels }: Digits): number {
  return probabilities(model, images).argmax(1).equal(labels).mean().item();
}

/** The bytes of the model's file: its parameters in float16. */
export function encodeLarge(model: LargeModel): Uint8Array {
  const halves = Object.entries<Tensor>(model).map(([name, value]) => {
    return [name, value.astype("float16")];
  });
  return io.encodeSafetensors(Object.fromEntries(halves));
}

/** Trains five times on four fifths of the digits and tests each time on the last fifth. */
function validate(digits: Digits, key: random.Key): number {
  const order = random.permutation(key, digits.labels.size);
  const fold = arange(order.size, { dtype: "int32" }).remainder(5);
  const shares = [0, 1, 2, 3, 4].map((i) => {
    const model = trainKind(LARGE, pick(digits, order.slice(fold.notEqual(i))), key, EPOCHS);
    return largeAccuracy(model, pick(digits, order.slice(fold.equal(i))));
  });
  return tensor(shares).mean().item();
}

async function main(args: readonly string[]): Promise<void> {
  const option = args[0] ?? "--write";
  if (args.length > 1 || !["--write", "--check", "--validate"].includes(option)) {
    throw new Error(`What is ${args.join(" ")}?`);
  }
  const { train: digits } = await loadDigits();
  const key = random.key(SEED);
  if (option === "--validate") {
    return console.log(`accuracy in validation: ${(validate(digits, key) * 100).toFixed(1)}%`);
  }
  // Vector code rounds differently on other processors.
  setBackend("js");
  const bytes = encodeLarge(trainKind(LARGE, digits, key, EPOCHS, (epoch, loss) => {
    console.log(`epoch ${String(epoch + 1).padStart(2)}: loss ${loss.toFixed(5)}`);
  }));
  if (option === "--check") {
    const same = (await readFile(LARGE_FILE)).equals(bytes);
    console.log(`large.safetensors ${same ? "is what this makes" : "differs"}`);
    process.exitCode = same ? 0 : 1;
  } else await writeEmbedded(LARGE_FILE, bytes);
}

if (import.meta.main) {
  await main(process.argv.slice(2));
}
