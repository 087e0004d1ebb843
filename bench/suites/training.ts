/**
 * Steps of training beside PyTorch: the loss, the derivatives by all parameters and Adam, as one program
 * and by single ops; the first step, and memory. All sides begin with the same numbers, and their losses
 * must agree.
 *
 * @module
 */
import { join } from "node:path";
import { root } from "../../scripts/tools.ts";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, valueAndGrad, vjp } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { environment } from "../harness/line_process.ts";
import { findPython } from "../harness/python.ts";
import { mayHold, ownSides, WholeSide } from "../harness/served.ts";
import {
  type Figure,
  type Goal,
  middle,
  type Outcome,
  peakBytes,
  type RunOptions,
  type Side,
  Stopwatch,
  type Suite,
  uniform,
} from "../harness/suite.ts";

type Params = Readonly<Record<string, rm.Tensor>>;
type Loss = rm.Tensor<"float32", []>;

/** Uniform numbers: a shape, the least one and the limit. */
type Numbers = readonly [shape: readonly number[], low: number, high: number];

interface Model {
  /** The parameters, by names. */
  readonly params: Readonly<Record<string, Numbers>>;
  /** The inputs: whole numbers for an embedding. */
  readonly inputs: Numbers;
  readonly classes: Numbers;
  /** The scores of each class; `keep` says what a part of the model keeps for the way back. */
  readonly scores: (
    p: Params,
    x: rm.Tensor,
    keep: (part: (x: rm.Tensor, p: Params) => rm.Tensor) => typeof part,
  ) => rm.Tensor;
  /** The largest time of a step as a program, as a part of PyTorch's. */
  readonly goal: number;
  /** The steps of a batch: one timing. */
  readonly batch: number;
}

const LEARNING_RATE = 1e-3;
/** Steps before those that are timed. */
const WARM = 5;
const BATCHES = 9;

/** Numbers as PyTorch's layers have them at first. */
const weights = (shape: readonly number[], fan: number): Numbers => [
  shape,
  -1 / Math.sqrt(fan),
  1 / Math.sqrt(fan),
];
const dense = (name: string, outputs: number, inputs: number): Record<string, Numbers> => ({
  [`${name}.w`]: weights([outputs, inputs], inputs),
  [`${name}.b`]: weights([outputs], inputs),
});

function perceptron(sizes: readonly number[], rows: number, goal: number, batch: number): Model {
  const count = sizes.length - 1;
  return {
    params: Object.assign({}, ...sizes.slice(1).map((n, i) => dense(`${i}`, n, sizes[i]!))),
    inputs: [[rows, sizes[0]!], 0, 1],
    classes: [[rows], 0, sizes[count]!],
    scores: (p, x, keep) => {
      for (let i = 0; i < count; i++) {
        const activation = i < count - 1 ? { activation: "relu" } as const : {};
        x = keep((x, p) => x.linear(p[`${i}.w`]!, p[`${i}.b`]!, activation))(x, p);
      }
      return x;
    },
    ...{ goal, batch },
  };
}

function convolutions(side: number, batch: number): Model {
  const flat = 64 * (side / 2) ** 2;
  return {
    params: {
      "c1.w": weights([32, 1, 3, 3], 9),
      "c1.b": weights([32], 9),
      "c2.w": weights([64, 32, 3, 3], 288),
      "c2.b": weights([64], 288),
      ...dense("f1", 128, flat),
      ...dense("f2", 10, 128),
    },
    inputs: [[64, 1, side, side], 0, 1],
    classes: [[64], 0, 10],
    scores: (p, x, keep) => {
      const part = keep((x, p) => {
        const y = nn.conv2d(x, p["c1.w"]!, p["c1.b"]!, { padding: 1 }).relu();
        return nn.conv2d(y, p["c2.w"]!, p["c2.b"]!, { padding: 1 }).relu();
      });
      const y = nn.maxPool2d(
        part(x, p) as rm.Tensor<"float32", [number, number, number, number]>,
        2,
      );
      return y.reshape([64, flat]).linear(p["f1.w"]!, p["f1.b"]!, { activation: "relu" })
        .linear(p["f2.w"]!, p["f2.b"]!);
    },
    goal: 0.9,
    batch,
  };
}

function transformer(): Model {
  const [rows, length, width, heads, layers, count] = [16, 128, 128, 4, 2, 65];
  const norm = (name: string): Record<string, Numbers> => ({
    [`${name}.w`]: [[width], 1, 1],
    [`${name}.b`]: [[width], 0, 0],
  });
  const normalize = (x: rm.Tensor, p: Params, name: string): rm.Tensor =>
    x.layerNorm(-1, { weight: p[`${name}.w`]!, bias: p[`${name}.b`]! });
  const linear = (x: rm.Tensor, p: Params, name: string): rm.Tensor =>
    x.linear(p[`${name}.w`]!, p[`${name}.b`]!);
  return {
    params: {
      characters: [[count, width], -0.02, 0.02],
      places: [[length, width], -0.02, 0.02],
      ...Object.assign(
        {},
        ...Array.from({ length: layers }, (_, i) => ({
          ...norm(`${i}.n1`),
          ...dense(`${i}.qkv`, 3 * width, width),
          ...dense(`${i}.join`, width, width),
          ...norm(`${i}.n2`),
          ...dense(`${i}.up`, 4 * width, width),
          ...dense(`${i}.down`, width, 4 * width),
        })),
      ),
      ...norm("n"),
      ...dense("head", count, width),
    },
    inputs: [[rows, length], 0, count],
    classes: [[rows * length], 0, count],
    scores: (p, ids, keep) => {
      let x: rm.Tensor = nn.embedding(ids.astype("int32"), p.characters!).add(p.places!);
      for (let i = 0; i < layers; i++) {
        x = keep((x, p) => {
          const all = linear(normalize(x, p, `${i}.n1`), p, `${i}.qkv`)
            .reshape([rows, length, 3, heads, width / heads]).permute(2, 0, 3, 1, 4);
          const mixed = nn.attention(all.slice(0), all.slice(1), all.slice(2), { causal: true });
          const y = x.add(
            linear(mixed.permute(0, 2, 1, 3).reshape([rows, length, width]), p, `${i}.join`),
          );
          return y.add(
            linear(linear(normalize(y, p, `${i}.n2`), p, `${i}.up`).gelu(), p, `${i}.down`),
          );
        })(x, p);
      }
      return linear(normalize(x, p, "n"), p, "head").reshape([rows * length, count]);
    },
    goal: 0.85,
    batch: 1,
  };
}

const MODELS: Readonly<Record<string, Model>> = {
  "MLP 64-128-10": perceptron([64, 128, 10], 64, 0.3, 200),
  "MLP 64-768-768-10": perceptron([64, 768, 768, 10], 256, 0.7, 5),
  "CNN 8 × 8": convolutions(8, 5),
  "CNN 28 × 28": convolutions(28, 1),
  "transformer": transformer(),
};

/** The n-th sequence of uniform numbers, as training_peer.py makes it. */
const made = ([shape, low, high]: Numbers, n: number): rm.Tensor =>
  rm.fromBuffer(uniform(shape.reduce((a, b) => a * b, 1), n, low, high)).copy().reshape([...shape]);

/** The bytes of tensors that are in use. */
const live = (): number => rm.memory().bytes - rm.memory().pooledBytes;

function run(group: string): Promise<Outcome> {
  const model = MODELS[group]!;
  const params: Params = Object.fromEntries(
    Object.entries(model.params).map(([name, numbers], i) => [name, made(numbers, i)]),
  );
  const streams = Object.keys(params).length;
  const whole = model.params["characters"] !== undefined;
  const numbers = made(model.inputs, streams);
  const x = whole ? numbers.floor() : numbers;
  const classes = made(model.classes, streams + 1).floor().astype("int32");
  type Data = typeof data;
  const data = { x, classes };
  const lossBy = (keep: Parameters<Model["scores"]>[2]) => (p: Params, data: Data): Loss =>
    nn.crossEntropy(model.scores(p, data.x, keep), data.classes).asShape([]) as Loss;
  const [loss, short] = [lossBy((part) => part), lossBy(checkpoint)];
  const optimizer = optim.adam({ learningRate: LEARNING_RATE });
  const state = optimizer.init(params);
  const stepBy = (loss: (p: Params, data: Data) => Loss) => {
    return (p: Params, s: typeof state, data: Data): Loss => {
      const [value, gradients] = valueAndGrad(loss)(p, data);
      optimizer.update(p, gradients, s);
      return value;
    };
  };
  const figures: Record<string, Figure> = {};

  /** The time of a step, and the losses of the first ones. */
  const timed = (step: (p: Params, s: typeof state, data: Data) => Loss): [Figure, number[]] => {
    const run = (): number => {
      const value = rm.scope(() => step(params, state, data));
      try {
        return value.item() as number;
      } finally {
        value.dispose();
      }
    };
    const losses = Array.from({ length: WARM }, run);
    const each = Array.from({ length: BATCHES }, () => {
      const watch = new Stopwatch();
      for (let i = 0; i < model.batch; i++) run();
      return watch.read(model.batch);
    });
    return [middle(each), losses];
  };
  /** The largest arena of the programs of a step. */
  const arenaOf = (
    program: { explain(): readonly { data: { bytes: { arena: number } } }[] },
  ): Figure => ({
    wall: Math.max(...program.explain().map(({ data }) => data.bytes.arena)),
  });

  const before = live();
  const way = vjp(loss, params, data);
  figures["kept for the way back by single ops"] = { wall: live() - before };
  way.dispose();
  way.value.dispose();

  const step = compile(stepBy(loss));
  const watch = new Stopwatch();
  step(params, state, data).dispose();
  figures["first step"] = watch.read();
  const [time, losses] = timed(step);
  figures["step"] = time;
  figures["largest resident memory"] = { wall: peakBytes() };
  figures["arena"] = arenaOf(step);
  const smaller = compile(stepBy(short));
  smaller(params, state, data).dispose();
  figures["arena with checkpoints"] = arenaOf(smaller);
  [figures["step of single ops"]] = timed(stepBy(loss));
  return Promise.resolve({ figures, result: losses });
}

/** The module that training_peer.py imports. */
const MODULES = ["numpy", "torch"];

function sides(options: RunOptions): Side[] {
  const { threads, level, without } = options;
  const script = join(root, "bench", "suites", "training_peer.py");
  const made: Side[] = [];
  for (const name of ["PyTorch", "torch.compile"]) {
    if (!mayHold(options, name)) continue;
    const python = findPython([], MODULES);
    const [reason] = python.missing.values();
    if (reason !== undefined) without(name, reason);
    else {
      made.push(
        new WholeSide({ name, peer: true }, (group) => {
          const { params, inputs, classes } = MODELS[group]!;
          const model = JSON.stringify({ group, params, inputs, classes });
          const args = [script, name, `--threads=${threads}`, `--level=${level ?? ""}`, model];
          return { command: [python.path!, ...args], env: environment(threads, level) };
        }),
      );
    }
  }
  return [...made, ...ownSides(options)];
}

const bytes = { unit: "bytes" } as const;
const ROWS = [
  { name: "first step" },
  { name: "step" },
  { name: "step of single ops" },
  { name: "largest resident memory", ...bytes },
  { name: "kept for the way back by single ops", ...bytes },
  { name: "arena", ...bytes },
  { name: "arena with checkpoints", ...bytes },
];

/** The suite. */
export const suite: Suite = {
  title: "Steps of training beside PyTorch",
  groups: Object.fromEntries(Object.keys(MODELS).map((name) => [name, name])),
  rows: Object.keys(MODELS).flatMap((group) => ROWS.map((row) => ({ group, ...row }))),
  whole: true,
  ...{ rounds: 3, ms: 0 },
  threads: [1],
  beside: "each",
  lines: "row",
  shortRows: /: (step|step of single ops|largest resident memory)$/,
  modules: MODULES,
  goal: (row, _, threads): Goal | undefined => {
    if (threads > 1) return undefined;
    const [group, name] = row.split(": ") as [string, string];
    if (name === "first step") return { ns: 1e9 };
    const ratio = {
      "step": MODELS[group]?.goal,
      "step of single ops": group === "transformer" ? 1.3 : undefined,
      "largest resident memory": 0.5,
    }[name];
    return ratio === undefined ? undefined : { ratio, beside: "PyTorch" };
  },
  sides,
  run,
};
