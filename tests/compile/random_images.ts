/**
 * Random programs of images and rows: convolutions of all kinds, what comes between them in networks,
 * joins, views, writes in place and several results. Compiled, they give what they give alone, but for
 * the rounding of sums.
 *
 * @module
 */
import { assert } from "@std/assert";
import { attempt, concat, type DType, random, scope, stack, where, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { ALL_PASSES } from "../../src/compile/optimize.ts";
import { checkpoint, valueAndGrad } from "../../src/grad/mod.ts";
import * as layers from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { generator } from "../ops/table/operands.ts";
import { type Any, loose } from "../support.ts";

const nn = loose(layers);

/** Adds the results of one op to the tensors. */
type Instruction = (tensors: Any[]) => void;
type Worded = readonly [Instruction, string];

const CHANNELS = [1, 3, 8, 16, 17, 24, 32, 40];
const SIZES = [1, 2, 3, 5, 7, 8, 9, 12, 14];

/** Draws numbers, and of lists. */
class Draw {
  readonly next: () => number;

  constructor(seed: number) {
    this.next = generator(seed);
    // Neighbors among seeds begin alike.
    for (let i = 0; i < 5; i++) this.next();
  }

  int(n: number): number {
    return Math.floor(this.next() * n);
  }

  of<T>(list: readonly T[]): T {
    return list[this.int(list.length)]!;
  }

  is(chance: number): boolean {
    return this.next() < chance;
  }
}

/** A program, and what it is called with. */
interface RandomProgram {
  /** Computes results of arguments: the last tensor, and others. */
  readonly f: (args: readonly Any[]) => Any[];
  /** Makes its arguments: the same for each call. */
  readonly args: () => Any[];
  /** The tensors that it captures. */
  readonly outside: readonly Any[];
  readonly text: string;
  /** The largest absolute element in it. */
  readonly largest: number;
  /** Whether it has tensors of float16. */
  readonly isShort: boolean;
}

const ACTIVATIONS: Record<string, (x: Any) => Any> = {
  relu: (x) => x.relu(),
  clip: (x) => x.clip(0, 6),
  "clip −0.5": (x) => x.clip(-0.5, 0.5),
  hardSwish: (x) => nn.hardSwish(x),
  hardSigmoid: (x) => nn.hardSigmoid(x),
  silu: (x) => x.silu(),
  sigmoid: (x) => x.sigmoid(),
  leakyRelu: (x) => nn.leakyRelu(x, { slope: 0.1 }),
  gelu: (x) => x.gelu(),
  tanh: (x) => x.tanh(),
  elu: (x) => nn.elu(x),
  mish: (x) => nn.mish(x),
  "mul 2": (x) => x.mul(2),
  neg: (x) => x.neg(),
};

/** A random program of `length` instructions; one `pure` writes nothing in place. */
function randomProgram(seed: number, length: number, device: string, pure = false): RandomProgram {
  const draw = new Draw(seed);
  const outside: Any[] = [];
  const keyOf = (): Any => random.key(draw.int(1e6));
  const capture = (shape: number[], sums = 1, dtype: DType = "float32"): Any => {
    const made = random.normal(keyOf(), shape).div(Math.sqrt(Math.max(1, sums)));
    outside.push(made.astype(dtype).to(loose(device)));
    return outside.at(-1);
  };
  const isNetwork = draw.is(0.5);
  const short = draw.is(0.12), double = draw.is(0.05);
  const dtype: DType = short ? "float16" : double ? "float64" : "float32";
  const specs = Array.from({ length: 1 + draw.int(3) }, (_, i) => {
    const [h, w] = [draw.of(SIZES), draw.of(SIZES)];
    const batch = pure ? 1 + draw.int(2) : draw.is(0.03) ? 0 : 1 + draw.int(2);
    const image = [batch, draw.of(CHANNELS), h, w];
    if (i === 0 && isNetwork) {
      image.splice(2, 2, ...draw.is(0.1) ? [33, 40] : [8 + draw.int(6), 8 + draw.int(6)]);
    }
    const shape = i === 0 || draw.is(0.5) ? image : [draw.of(SIZES), draw.of(CHANNELS)];
    const own: DType = i === 0 || pure || draw.is(0.8) ? dtype : draw.of(["int32", "float32"]);
    return [keyOf(), shape, own] as const;
  });
  const kinds = specs.map(() => draw.of(["", "", "", "last", "part", "flipped"]));
  const isShared = draw.is(0.1);
  const args = (): Any[] => {
    const made = specs.map(([key, shape, own], i) => {
      const x = random.normal(key, shape);
      const plain = (own === "int32" ? x.mul(3) : x).astype(own).to(loose(device));
      return laidOut(plain, kinds[i]!);
    });
    if (isShared) made.push(made[0].view());
    return made;
  };
  const instructions: Instruction[] = [];
  const words: string[] = specs.map(([, shape, own], i) => `${i}: ${own} [${shape}]`);
  const trial = args();
  let largest = 1;
  for (let tries = 0; instructions.length < length && tries < 30 * length; tries++) {
    const [captured, before] = [outside.length, trial.length];
    const [instruction, text] = isNetwork && instructions.length < 5
      ? convolution(draw, before - 1, trial.at(-1), capture, instructions.length)
      : instructionOf(draw, trial, capture, pure);
    // Each instruction runs here once on real tensors: those that throw are not taken.
    const { error } = attempt(() => instruction(trial));
    const made = trial.slice(before);
    const most = error === undefined ? Math.max(...trial.map(mostOf)) : Infinity;
    if (most <= 1e3 && made.every((x) => x.size <= 60_000)) {
      largest = Math.max(largest, most);
      instructions.push(instruction);
      words.push(`${before}: ${text} → ${made.map((x) => `${x.dtype} [${x.shape}]`)}`);
      continue;
    }
    trial.length = before;
    outside.length = captured;
    // What was written is too large to go on.
    if (error === undefined && made.length === 0) break;
  }
  const views: ((x: Any) => Any)[] = [
    (x) => x,
    (x) => x,
    (x) => x.T,
    (x) => x.reshape([-1]),
    (x) => x.rank > 0 ? x.slice("::2") : x,
  ];
  const leaves = Array.from(
    { length: 1 + draw.int(3) },
    () => [draw.next(), draw.of(views)] as const,
  );
  const f = (given: readonly Any[]): Any[] => {
    const tensors = given.slice();
    for (const instruction of instructions) instruction(tensors);
    const own = leaves.map(([at, view]) => view(tensors[Math.floor(at * tensors.length)]));
    return [tensors.at(-1), ...own];
  };
  const isShort = trial.some((x) => x.dtype === "float16");
  return { f, args, outside, text: words.join("\n"), largest, isShort };
}

/** The largest absolute element. */
function mostOf(x: Any): number {
  return x.size === 0 ? 0 : x.astype("float64").abs().max().item();
}

/** The elements of `x` in memory of another layout. */
function laidOut(x: Any, kind: string): Any {
  switch (kind) {
    case "last":
      return x.rank === 4 ? x.permute(0, 2, 3, 1).copy().permute(0, 3, 1, 2) : x.T.copy().T;
    case "part":
      return stack(loose([x, x]), 0).slice("1");
    case "flipped":
      return x.flip(0).copy().flip(0);
    default:
      return x;
  }
}

/** A random instruction for tensors like `known`. */
function instructionOf(
  draw: Draw,
  known: readonly Any[],
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
  pure: boolean,
): Worded {
  const place = (): number => draw.is(0.5) ? known.length - 1 : draw.int(known.length);
  const a = place();
  const x = known[a];
  if (x.rank === 4 && draw.is(0.55)) return convolution(draw, a, x, capture);
  const like = known.flatMap((y, i) => `${y.shape}` === `${x.shape}` ? [i] : []);
  const b = draw.of(like), c = draw.is(0.7) ? draw.of(like) : place();
  const axis = draw.int(Math.max(1, x.rank));
  const more = { a, b, c, axis, x };
  const kind = x.rank === 4 && draw.is(0.2) ? 5 : draw.int(pure ? 8 : 10);
  switch (kind) {
    case 0:
    case 1: {
      const name = draw.of(Object.keys(ACTIVATIONS));
      return [(t) => void t.push(ACTIVATIONS[name]!(t[a])), `${name} ${a}`];
    }
    case 2: {
      const name = draw.of(["add", "mul", "sub", "maximum"]);
      return [(t) => void t.push(t[a][name](t[c])), `${name} ${a} ${c}`];
    }
    case 3:
    case 4:
      return joined(draw, more);
    case 5:
      return viewed(draw, more, capture);
    case 6:
      return reduced(draw, more, capture);
    case 7:
      return x.rank === 4 ? resized(draw, a, capture) : rows(draw, more, capture);
    case 8: {
      const name = draw.of(["add_", "mul_", "sub_", "maximum_"]);
      const value = draw.is(0.5) ? 0.5 : undefined;
      return [(t) => void t[a][name](value ?? t[c]), `${name} ${a} ${value ?? c}`];
    }
    default: {
      const writes: Worded[] = [
        [(t) => void t[a].set([0], t[c].slice("0")), `set_ ${a} [0] ${c}`],
        [(t) => void t[a].set(["..."], t[c]), `set_ ${a} ${c}`],
        [(t) => void t[a].sigmoid_(), `sigmoid_ ${a}`],
        [(t) => void t[b].add(t[a], { out: t[c] }), `add_ ${b} ${a} out ${c}`],
        [(t) => void t[b].sigmoid({ out: t[c] }), `sigmoid_ ${b} out ${c}`],
        [(t) => void t[a].sliceAxis(axis, ":1").mul_(0.5), `sliceAxis mul_ ${a}`],
      ];
      return draw.of(writes);
    }
  }
}

/** A convolution, of several kinds. */
function convolution(
  draw: Draw,
  a: number,
  { shape, dtype }: Any,
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
  start?: number,
): Worded {
  const channels = shape[1];
  // Networks begin with images that have many channels.
  const kind = start === 0
    ? "full"
    : start !== undefined
    ? "depthwise"
    : draw.of(["depthwise", "depthwise", "pointwise", "pointwise", "full", "groups"]);
  const size = kind === "pointwise" ? 1 : draw.of([1, 3, 3, 5]);
  const outputs = kind === "depthwise"
    ? channels
    : start === 0
    ? 24
    : draw.is(0.4)
    ? channels
    : draw.of(CHANNELS);
  // An op of no channels is refused by itself.
  if (channels === 0) return [(t) => void t[a].sliceAxis(4), `conv ${a}`];
  const groups = kind === "depthwise" ? channels : kind === "groups" && channels % 8 === 0 ? 8 : 1;
  const own = Math.ceil(outputs / groups) * groups;
  const options = {
    groups,
    stride: draw.is(start === undefined ? 0.25 : 0) ? draw.of<Any>([2, [2, 1]]) : 1,
    dilation: draw.is(0.1) ? 2 : 1,
    padding: draw.is(0.8) ? size >> 1 : draw.of<Any>([0, [[1, 2], [0, 1]]]),
  };
  const sums = channels / groups * size * size;
  const weight = capture([own, channels / groups, size, size], sums, dtype);
  const bias = draw.is(0.5) ? capture([own], 4, dtype) : undefined;
  const after = draw.is(0.5) ? ACTIVATIONS[draw.of(Object.keys(ACTIVATIONS))]! : undefined;
  const isOnly = draw.is(0.6);
  const text = `conv ${kind} ${a} [${weight.shape}] ${JSON.stringify(options)}${
    bias ? " bias" : ""
  }`;
  return [(t) => {
    const made = nn.conv2d(t[a], weight, bias, options);
    if (after === undefined || !isOnly) t.push(made);
    if (after !== undefined) t.push(after(made));
  }, after === undefined ? text : `${text} activation`];
}

/** What instructions are made of: places of tensors, and one of them. */
interface Places {
  readonly a: number;
  /** That of one of the same shape. */
  readonly b: number;
  /** That of any. */
  readonly c: number;
  readonly axis: number;
  readonly x: Any;
}

function joined(draw: Draw, { a, b, c, axis, x }: Places): Worded {
  const half = x.rank > 0 ? x.shape[axis] >> 1 : 0;
  const cases: Worded[] = [
    [(t) => void t.push(concat(loose([t[a], t[b]]), axis)), `concat ${a} ${b} ${axis}`],
    [(t) => void t.push(concat(loose([t[a], t[c], t[b]]), axis)), `concat ${a} ${c} ${b} ${axis}`],
    [(t) => void t.push(concat(loose([t[a], t[a].neg()]), axis)), `concat ${a} neg ${axis}`],
    [(t) => {
      const activated = [t[a].relu(), t[b].tanh()];
      t.push(...activated, concat(loose(activated), axis));
    }, `concat relu ${a} tanh ${b} ${axis}`],
    [
      (t) => void t.push(stack(loose([t[a], t[b].mul(2)]), axis).slice("-1")),
      `stack ${a} ${b} ${axis}`,
    ],
    [(t) => {
      const parts = [t[a].sliceAxis(axis, `:${half}`), t[b].sliceAxis(axis, `${half}:`)];
      t.push(...parts, concat(loose(parts), axis));
    }, `halves ${a} ${b} ${axis}`],
    [(t) => {
      const parts = t[a].split([half, x.shape[axis] - half], axis);
      t.push(parts[0], concat(loose([parts[1].sigmoid(), parts[0]]), axis));
    }, `split ${a} ${axis}`],
    [(t) => void t.push(concat(loose([t[a], t[b]]), null)), `concat ${a} ${b} null`],
  ];
  return draw.of(cases);
}

function viewed(
  draw: Draw,
  { a, axis, x }: Places,
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
): Worded {
  const { shape, rank } = x;
  const order = [...shape.keys()].sort(() => draw.next() - 0.5);
  const shuffled = shape.slice().sort(() => draw.next() - 0.5);
  const [first = 1, second = 1, third = 1, last = 1] = shape;
  const cases: Worded[] = [
    [(t) => void t.push(t[a].permute(...order)), `permute ${a} ${order}`],
    [(t) => void t.push(t[a].reshape(shuffled)), `reshape ${a} [${shuffled}]`],
    [(t) => void t.push(t[a].flip(axis)), `flip ${a} ${axis}`],
    [(t) => void t.push(t[a].sliceAxis(axis, "1:")), `sliceAxis ${a} ${axis}`],
    [(t) => void t.push(t[a].sliceAxis(axis, "::2")), `sliceAxis 2 ${a} ${axis}`],
    [(t) => void t.push(t[a].pad(1)), `pad ${a}`],
    [(t) => void t.push(t[a].roll(1, axis)), `roll ${a} ${axis}`],
    [(t) => void t.push(t[a].take(loose([0, 0]), axis)), `take ${a} ${axis}`],
    [(t) => void t.push(t[a].view()), `view ${a}`],
  ];
  if (rank === 2) {
    cases.push([
      (t) => void t.push(t[a].reshape([1, last, 1, first].slice(0, 1).concat([second, first, 1]))),
      `image ${a}`,
    ]);
  }
  if (rank === 4 && draw.is(0.5)) {
    // The same elements as another image, which something reads at once.
    const other = draw.of([shuffled, [first, second * third, 1, last], [
      first,
      last,
      second,
      third,
    ]]);
    const [, channels = 1, height = 1] = other;
    const weight = capture([16, channels, 1, 1], channels, x.dtype);
    const factors = capture([channels, 1, 1, 1], 1, x.dtype);
    const read = draw.of<(x: Any) => Any>([
      (x) => x.mean([2, 3]),
      (x) => x.relu(),
      (x) => x.max(1),
      (x) => nn.conv2d(x, weight),
      (x) => nn.conv2d(x, factors, undefined, { groups: channels }),
      (x) => x.sliceAxis(2, height > 1 ? "1:" : ":"),
    ]);
    return [(t) => void t.push(read(t[a].reshape(other))), `read ${a} as [${other}]`];
  }
  if (rank === 4) {
    const parts = second % 2 === 0 ? 2 : 1;
    cases.push(
      [(t) => void t.push(t[a].reshape([first, -1])), `rows ${a}`],
      [
        (t) => void t.push(t[a].reshape([first, second, -1]).permute(0, 2, 1).slice("0")),
        `tokens ${a}`,
      ],
      // As ShuffleNet does.
      [(t) => {
        const apart = t[a].reshape([first, parts, second / parts, third, last]);
        t.push(apart.permute(0, 2, 1, 3, 4).reshape(shape));
      }, `shuffle ${a}`],
      [
        (t) => void t.push(t[a].reshape([first, parts, second / parts, third * last]).mul(2)),
        `grouped ${a}`,
      ],
      [
        (t) => void t.push(t[a].permute(0, 2, 3, 1).layerNorm().permute(0, 3, 1, 2)),
        `channel norm ${a}`,
      ],
    );
  }
  return draw.of(cases);
}

function reduced(
  draw: Draw,
  { a, b, axis, x }: Places,
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
): Worded {
  const name = draw.of(["mean", "sum", "max", "min"]);
  const scale = name === "sum" ? 0.1 : 1;
  const keepDims = draw.is(0.5);
  const axes = x.rank === 4 && draw.is(0.6) ? [2, 3] : axis;
  const options = { keepDims };
  const cases: Worded[] = [
    [(t) => void t.push(t[a][name](axes, options).mul(scale)), `${name} ${a} ${axes} ${keepDims}`],
    [(t) => void t.push(t[a].softmax(axis)), `softmax ${a} ${axis}`],
    [
      (t) => void t.push(t[a].sub(t[b].mean(axis, { keepDims: true }))),
      `centered ${a} ${b} ${axis}`,
    ],
  ];
  if (x.rank !== 4) return draw.of(cases);
  const [, channels] = x.shape;
  const [down, up] = [
    capture([8, channels, 1, 1], channels, x.dtype),
    capture([channels, 8, 1, 1], 8, x.dtype),
  ];
  const linear = draw.is(0.5);
  cases.push([(t) => {
    const mean = t[a].mean([2, 3], { keepDims: !linear });
    const factor = linear
      ? mean.linear(down.reshape([8, channels])).relu().linear(up.reshape([channels, 8])).sigmoid()
      : nn.hardSigmoid(nn.conv2d(nn.conv2d(mean, down).relu(), up));
    t.push(t[a].mul(linear ? factor.expandDims(2).expandDims(3) : factor));
  }, `excite ${a} ${linear}`]);
  return draw.of([...cases, cases.at(-1)!, cases.at(-1)!]);
}

function resized(
  draw: Draw,
  a: number,
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
): Worded {
  const cases: (() => Worded)[] = [
    () => [(t) => void t.push(nn.maxPool2d(t[a], 2)), `maxPool ${a}`],
    () => [
      (t) => void t.push(nn.maxPool2d(t[a], 3, { stride: 1, padding: 1 })),
      `maxPool same ${a}`,
    ],
    () => [(t) => void t.push(nn.avgPool2d(t[a], 3, { stride: 2, padding: 1 })), `avgPool ${a}`],
    () => [(t) => void t.push(nn.adaptiveAvgPool2d(t[a], 1)), `global ${a}`],
    () => [(t) => void t.push(nn.interpolate(t[a], { scaleFactor: 2 })), `nearest ${a}`],
    () => [
      (t) => void t.push(nn.interpolate(t[a], { size: [5, 7], mode: "bilinear" })),
      `bilinear ${a}`,
    ],
    () => {
      const size = draw.of([1, 8]);
      return [(t) => void t.push(nn.groupNorm(t[a], size)), `groupNorm ${a} ${size}`];
    },
    () => {
      const scale = capture([draw.of(CHANNELS), 1, 1]);
      return [(t) => void t.push(t[a].mul(scale).add(scale)), `affine ${a} [${scale.shape}]`];
    },
  ];
  return draw.of(cases)();
}

function rows(
  draw: Draw,
  { a, b, x }: Places,
  capture: (shape: number[], sums?: number, dtype?: DType) => Any,
): Worded {
  const last = x.shape.at(-1) ?? 1;
  const outputs = draw.of(CHANNELS);
  const weight = capture([outputs, last], last, x.dtype === "int32" ? "float32" : x.dtype);
  const cases: Worded[] = [
    [(t) => void t.push(t[a].linear(weight)), `linear ${a} ${outputs}`],
    [(t) => void t.push(t[a].linear(weight).relu()), `linear relu ${a} ${outputs}`],
    [(t) => void t.push(t[a].layerNorm()), `layerNorm ${a}`],
    [(t) => void t.push(t[a].add(t[b]).layerNorm().mul(0.5)), `add layerNorm ${a} ${b}`],
    [(t) => void t.push(where(t[a].greater(t[b]), t[a], t[b])), `larger ${a} ${b}`],
    [(t) => void t.push(t[a].astype("float32")), `astype ${a}`],
    [(t) => void t.push(t[a].matmul(t[b].T).div(last)), `matmul ${a} ${b}`],
  ];
  return draw.of(cases);
}

/** What differs between two tensors that have to be the same but for rounding; undefined for nothing. */
function differenceOf(made: Any, exact: Any, most: number): string | undefined {
  const [own, other] = [made, exact].map(({ dtype, shape }) => `${dtype} [${shape}]`);
  if (own !== other) return `${own} instead of ${other}`;
  if (exact.size === 0) return undefined;
  const [x, y] = [made, exact].map((one) => one.to("cpu").astype("float64"));
  const off = x.sub(y).abs().max().item();
  return off <= most ? undefined : `${own} is off by ${off}`;
}

/** What a call gives, or its error. */
async function attempted(call: () => unknown): Promise<{ value?: Any; error?: Error }> {
  try {
    return { value: await call() };
  } catch (error) {
    return { error: error as Error };
  }
}

/** How much results may differ, of so much as the largest element of a program. */
const [ROUNDING, SHORT_ROUNDING] = [1e-5, 1e-2];

/** Tensors for results like `exact`: strided, parts of larger tensors, and some of the arguments. */
function outFor(exact: readonly Any[], args: readonly Any[], seed: number): Any[] {
  const free = args.at(-1).storage === args[0].storage ? [] : args.slice(0, -1);
  return exact.map((x, i) => {
    const make = (shape: readonly number[]): Any =>
      zeros(loose(shape), { dtype: x.dtype, device: x.device });
    const at = free.findIndex((y) => y.dtype === x.dtype && `${y.shape}` === `${x.shape}`);
    if (at >= 0 && (seed + i) % 2 === 0) return free.splice(at, 1)[0];
    const kind = (seed + i) % 3;
    if (kind === 0) return make(x.shape);
    return kind === 1 ? make(x.shape.toReversed()).T : make([2, ...x.shape]).slice(1);
  });
}

/** Throws unless a random program of `length` instructions does compiled what it does alone. */
export async function checkImages(seed: number, length: number, device = "cpu"): Promise<void> {
  const program = scope(() => randomProgram(seed, length, device));
  const { f, args, outside, text, largest, isShort } = program;
  const most = largest * (isShort ? SHORT_ROUNDING : ROUNDING);
  const off = new Draw(seed).of(Object.keys(ALL_PASSES));
  const optimize: Any = seed % 3 === 0 ? { [off]: false } : true;
  using compiled = loose(compile(f, { optimize }));
  const rounds: Record<string, (args: Any[], out: Any[]) => Any> = {
    first: (own) => compiled(own),
    again: (own) => compiled(own),
    "off the event loop": (own) => compiled.async(own),
    out: (own, out) => compiled(own, { out }),
    "out off the event loop": (own, out) => compiled.async(own, { out }),
    // Constants were computed of what the program captures.
    changed: (own) => compiled(own),
  };
  for (const [name, call] of Object.entries(rounds)) {
    const about = `seed ${seed}, ${name}, ${JSON.stringify(optimize)}:\n${text}\n`;
    if (name === "changed") { for (const x of outside) x.mul_(x.dtype === "int32" ? 2 : 0.75); }
    const saved = outside.map((x) => x.copy());
    const given = args(), own = args();
    const exact = f(given);
    const out = name.startsWith("out") ? outFor(exact, own, seed) : [];
    const { value: made, error } = await attempted(() => call(own, out));
    if (error !== undefined) throw new Error(about + error.stack);
    const check = (what: string, x: Any, y: Any): void => {
      const difference = differenceOf(x, y, most);
      assert(difference === undefined, `${about}${what}: ${difference}`);
    };
    exact.forEach((x, i) => {
      check(`result ${i}`, made[i], x);
      const same = out.length > 0 ? out[i] : made[exact.indexOf(x)];
      assert(made[i] === same, `${about}result ${i} is another tensor`);
    });
    own.forEach((x, i) => {
      const at = out.indexOf(x);
      check(`argument ${i}`, x, at < 0 ? given[i] : exact[at]);
    });
    outside.forEach((x, i) => assert(x.equals(saved[i]), `${about}captured ${i} has changed`));
    for (const x of [...made, ...own, ...exact, ...given, ...saved]) x.dispose();
  }
  for (const x of outside) x.dispose();
}

/** The loss of the results of a program: they are about 1. */
function lossOf(results: readonly Any[]): Any {
  return results
    .filter((x) => x.size > 0)
    .map((x) => x.astype("float32").sin().mean())
    .reduce((sum, x) => sum.add(x));
}

/**
 * Throws unless derivatives of a random program, and three steps of an optimizer, are compiled what they
 * are alone. Returns whether it has derivatives.
 */
export function checkImageDerivatives(seed: number, length: number): boolean {
  return scope(() => checkSteps(seed, length));
}

function checkSteps(seed: number, length: number): boolean {
  const { f, args, text, isShort } = randomProgram(seed, length, "cpu", true);
  if (isShort) return false;
  const draw = new Draw(seed);
  const run = draw.is(0.4) ? checkpoint(f) : f;
  const both = loose(valueAndGrad)((params: Any) => lossOf(run(params)));
  const optimizer: Any = draw.is(0.5)
    ? optim.sgd({ learningRate: 0.05, momentum: draw.of([0, 0.9]) })
    : optim.adam({ learningRate: 0.01, epsilon: 0.1 });
  const start = (): Any => {
    const params = args();
    return { params, state: optimizer.init(params) };
  };
  const step = ({ params, state }: Any): Any => {
    const [value, gradients] = both(params);
    optimizer.update(params, gradients, state);
    return [value, gradients];
  };
  if (attempt(() => scope(() => void step(start()))).error !== undefined) return false;
  using program = compile(step);
  const alone = start(), own = start();
  for (let round = 0; round < 3; round++) {
    const about = `seed ${seed}, step ${round}:\n${text}\n`;
    const [value, gradients] = step(alone);
    const { value: made, error } = attempt(() => loose(program)(own));
    if (error !== undefined) throw new Error(about + error.stack);
    const check = (what: string, x: Any, y: Any): void => {
      const most = Math.max(1e-3, y.abs().max().item()) * 1e-4 * (round + 1);
      const difference = differenceOf(x, y, most);
      assert(difference === undefined, `${about}${what}: ${difference}`);
    };
    check("value", made[0], value);
    gradients.forEach((y: Any, i: number) => check(`derivative ${i}`, made[1][i], y));
    alone.params.forEach((y: Any, i: number) => check(`parameter ${i}`, own.params[i], y));
  }
  return true;
}
