/**
 * A program as a user would write it, some 300 lines: an encoder of two transformer blocks with
 * frozen random weights, and a classifier on top of it that is trained with gradients by hand.
 *
 * Every function names its shapes. typescript_test.ts compiles it with several compilers, against
 * the packages, and runs it.
 *
 * @module
 */
import {
  arange,
  concat,
  io,
  ones,
  random,
  range,
  scope,
  stack,
  type Tensor,
  tensor,
  where,
  zeros,
} from "@rowmajor/tensor";

/** The sizes of the model. */
const TOKENS = 12;
const WIDTH = 24;
const HEADS = 3;
const HEAD = 8;
const HIDDEN = 48;
const LENGTH = 10;
const CLASSES = 3;

type Tokens = typeof TOKENS;
type Width = typeof WIDTH;
type Heads = typeof HEADS;
type Head = typeof HEAD;
type Hidden = typeof HIDDEN;
type Length = typeof LENGTH;
type Classes = typeof CLASSES;

/** Token numbers, a row for each sentence. */
type Sentences = Tensor<"int32", [number, Length]>;
/** A vector for each token of each sentence. */
type States = Tensor<"float32", [number, Length, Width]>;
/** A vector for each head and token of each sentence. */
type HeadStates = Tensor<"float32", [number, Heads, Length, Head]>;
/** A vector for each sentence. */
type Features = Tensor<"float32", [number, Width]>;
/** The number of a class for each sentence. */
type Labels = Tensor<"int32", [number]>;

interface Norm {
  readonly weight: Tensor<"float32", [Width]>;
  readonly bias: Tensor<"float32", [Width]>;
}

interface Attention {
  readonly query: Tensor<"float32", [Width, Width]>;
  readonly key: Tensor<"float32", [Width, Width]>;
  readonly value: Tensor<"float32", [Width, Width]>;
  readonly output: Tensor<"float32", [Width, Width]>;
}

interface Block {
  readonly norm1: Norm;
  readonly attention: Attention;
  readonly norm2: Norm;
  readonly up: Tensor<"float32", [Hidden, Width]>;
  readonly upBias: Tensor<"float32", [Hidden]>;
  readonly down: Tensor<"float32", [Width, Hidden]>;
  readonly downBias: Tensor<"float32", [Width]>;
}

interface Encoder {
  readonly embedding: Tensor<"float32", [Tokens, Width]>;
  readonly positions: Tensor<"float32", [Length, Width]>;
  readonly blocks: readonly Block[];
  readonly norm: Norm;
}

/** What is trained. */
type Classifier = {
  readonly weight: Tensor<"float32", [Classes, Width]>;
  readonly bias: Tensor<"float32", [Classes]>;
};

interface Batch {
  readonly features: Features;
  readonly labels: Labels;
}

// Making a model ---------------------------------------------------------------------------------

/** A source of keys: each call gives another one. */
function keys(seed: number): () => random.Key {
  let count = 0;
  const first = random.key(seed);
  return () => random.foldIn(first, count++);
}

function makeNorm(): Norm {
  return { weight: ones([WIDTH]), bias: zeros([WIDTH]) };
}

/** The bounds within which products with vectors of variance 1 have a variance of about 1. */
function bounds(inputs: number): { low: number; high: number } {
  const bound = Math.sqrt(3 / inputs);
  return { low: -bound, high: bound };
}

function makeProjection(key: random.Key): Tensor<"float32", [Width, Width]> {
  return random.uniform(key, [WIDTH, WIDTH], bounds(WIDTH));
}

function makeBlock(next: () => random.Key): Block {
  return {
    norm1: makeNorm(),
    attention: {
      query: makeProjection(next()),
      key: makeProjection(next()),
      value: makeProjection(next()),
      output: makeProjection(next()),
    },
    norm2: makeNorm(),
    up: random.uniform(next(), [HIDDEN, WIDTH], bounds(WIDTH)),
    upBias: zeros([HIDDEN]),
    down: random.uniform(next(), [WIDTH, HIDDEN], bounds(HIDDEN)),
    downBias: zeros([WIDTH]),
  };
}

/** Sines and cosines of the position, with growing wavelengths. */
function makePositions(): Tensor<"float32", [Length, Width]> {
  const places: Tensor<"float32", [Length, 1]> = arange(LENGTH).reshape([LENGTH, 1]);
  const half: Tensor<"float32", [12]> = arange(12).asShape([12]);
  const rates: Tensor<"float32", [12]> = half.mul(-Math.log(10_000) / 12).exp();
  const angles: Tensor<"float32", [Length, 12]> = places.mul(rates);
  return concat([angles.sin(), angles.cos()], 1);
}

function makeEncoder(seed: number): Encoder {
  const next = keys(seed);
  return {
    embedding: random.normal(next(), [TOKENS, WIDTH]),
    positions: makePositions(),
    blocks: [makeBlock(next), makeBlock(next)],
    norm: makeNorm(),
  };
}

// The forward pass -------------------------------------------------------------------------------

function norm(x: States, { weight, bias }: Norm): States {
  return x.layerNorm(-1, { weight, bias });
}

/** Divides the last axis among heads, and puts the heads before the tokens. */
function splitHeads(x: States): HeadStates {
  return x.reshape([-1, LENGTH, HEADS, HEAD]).permute(0, 2, 1, 3);
}

function joinHeads(x: HeadStates): States {
  return x.permute(0, 2, 1, 3).reshape([-1, LENGTH, WIDTH]);
}

/** Attention to earlier tokens and the token itself. */
function attend(x: States, { query, key, value, output }: Attention): States {
  const queries = splitHeads(x.linear(query));
  const byKeys: Tensor<"float32", [number, Heads, Head, Length]> = splitHeads(x.linear(key))
    .permute(0, 1, 3, 2);
  const values = splitHeads(x.linear(value));
  const scores: Tensor<"float32", [number, Heads, Length, Length]> = queries.matmul(byKeys)
    .div(Math.sqrt(HEAD));
  const seen: Tensor<"bool", [Length, Length]> = ones([LENGTH, LENGTH], { dtype: "bool" }).tril();
  const masked: Tensor<"float32", [number, Heads, Length, Length]> = where(seen, scores, -1e9);
  return joinHeads(masked.softmax(-1).matmul(values)).linear(output);
}

function transform(x: States, block: Block): States {
  const attended: States = x.add(attend(norm(x, block.norm1), block.attention));
  const hidden: Tensor<"float32", [number, Length, Hidden]> = norm(attended, block.norm2)
    .linear(block.up, block.upBias)
    .gelu();
  return attended.add(hidden.linear(block.down, block.downBias));
}

/** The features of sentences: the mean and not the last state, so that every token counts. */
function encode(encoder: Encoder, sentences: Sentences): Features {
  return scope(() => {
    const embedded = encoder.embedding.slice(sentences);
    let states: States = embedded.add(encoder.positions);
    for (const block of encoder.blocks) states = transform(states, block);
    return norm(states, encoder.norm).mean(1);
  });
}

function scores(
  { weight, bias }: Classifier,
  features: Features,
): Tensor<"float32", [number, Classes]> {
  return features.linear(weight, bias);
}

function classify(classifier: Classifier, features: Features): Labels {
  return scores(classifier, features).argmax(1);
}

// The data ---------------------------------------------------------------------------------------

/** Which third of the tokens a sentence has most of; the first one where several are equal. */
function labelsOf(sentences: Sentences): Labels {
  const third: Tensor<"int32", [number, Length]> = sentences.floorDivide(TOKENS / CLASSES);
  const counts = [0, 1, 2].map((n): Tensor<"int64", [number]> => {
    return third.equal(n).sum(1, { dtype: "int64" });
  });
  const [first, second, last] = counts as [
    Tensor<"int64", [number]>,
    Tensor<"int64", [number]>,
    Tensor<"int64", [number]>,
  ];
  const all: Tensor<"int64", [number, 3]> = stack([first, second, last], 1);
  return all.argmax(1);
}

function makeSentences(key: random.Key, count: number): Sentences {
  return random.integers(key, [count, LENGTH], 0, TOKENS);
}

function makeBatch(encoder: Encoder, key: random.Key, count: number): Batch {
  const sentences = makeSentences(key, count);
  return { features: encode(encoder, sentences), labels: labelsOf(sentences) };
}

// Training ---------------------------------------------------------------------------------------

interface Step {
  readonly loss: number;
  readonly gradients: Classifier;
}

/** The mean cross-entropy, and its gradients by the chain rule. */
function lossAndGradients(classifier: Classifier, { features, labels }: Batch): Step {
  const targets: Tensor<"float32", [number, Classes]> = labels.oneHot(CLASSES);
  const logs: Tensor<"float32", [number, Classes]> = scores(classifier, features).logSoftmax(1);
  const loss: Tensor<"float32", []> = logs.mul(targets).sum(1).mean().neg();
  const byScores: Tensor<"float32", [number, Classes]> = logs.exp().sub(targets)
    .div(labels.size);
  return {
    loss: loss.item(),
    gradients: { weight: byScores.T.matmul(features), bias: byScores.sum(0) },
  };
}

function train(batch: Batch, steps: number): { classifier: Classifier; losses: number[] } {
  const classifier: Classifier = { weight: zeros([CLASSES, WIDTH]), bias: zeros([CLASSES]) };
  const size = batch.labels.size >> 1;
  const losses: number[] = [];
  for (let i = 0; i < steps; i++) {
    const half = range((i % 2) * size, (i % 2 + 1) * size);
    losses.push(scope(() => {
      const part: Batch = {
        features: batch.features.slice(half),
        labels: batch.labels.slice(half),
      };
      const { loss, gradients } = lossAndGradients(classifier, part);
      classifier.weight.sub_(gradients.weight.mul(0.5));
      classifier.bias.sub_(gradients.bias.mul(0.5));
      return loss;
    }));
  }
  return { classifier, losses };
}

// Judging ----------------------------------------------------------------------------------------

/** How often a class, the row, was taken for another, the column. */
function confusion(labels: Labels, answers: Labels): Tensor<"float32", [Classes, Classes]> {
  const by: Tensor<"float32", [number, Classes]> = labels.oneHot(CLASSES);
  const told: Tensor<"float32", [number, Classes]> = answers.oneHot(CLASSES);
  return by.T.matmul(told);
}

function report(table: Tensor<"float32", [Classes, Classes]>): string {
  const right: number = table.diagonal().sum().item();
  const rows: number[][] = table.toArray();
  const lines = rows.map((row) => row.map((n) => String(n).padStart(4)).join(""));
  return [...lines, `accuracy ${(right / table.sum().item()).toFixed(2)}`].join("\n");
}

/** The classifier, read from the bytes of a safetensors file. */
function reload(bytes: Uint8Array): Classifier {
  const file = io.decodeSafetensors(bytes);
  return {
    weight: file.get("weight").asDType("float32").asShape([CLASSES, WIDTH]),
    bias: file.get("bias").asDType("float32").asShape([CLASSES]),
  };
}

const encoder = makeEncoder(7);
const { classifier, losses } = train(makeBatch(encoder, random.key(1), 512), 200);
const restored = reload(io.encodeSafetensors(classifier));
const test = makeBatch(encoder, random.key(2), 200);
const table = confusion(test.labels, classify(restored, test.features));
const last = tensor(losses.slice(-10)).mean().item();
console.log(report(table));
console.log(`loss ${losses[0]!.toFixed(2)}, at the end ${last.toFixed(2)}`);
