/**
 * Shapes that the compiler infers. Only type-checked, never run.
 *
 * @module
 */
import {
  arange,
  asStrided,
  concat,
  einsum,
  eye,
  fromBuffer,
  linalg,
  ones,
  pack,
  random,
  range,
  Slice,
  stack,
  type Tensor,
  tensor,
  where,
  zeros,
} from "./api.ts";
import { type Assert, type Equal, is, shape } from "./assert.ts";

declare const n: number;
declare const text: string;
declare const sizes: number[];
declare function takesMatrix<X extends Tensor<"float32", [number, 2]>>(x: X): X;
declare const dynamic: Tensor;
const a = zeros([2, 3]);
const b = zeros([2, 3, 4]);
const v = zeros([3]);
const x = zeros([6, 6, 4, 4]);
const loose = zeros([n, 3]);
const mask = zeros([2, 3], { dtype: "bool" });
const indexes = zeros([5, 7], { dtype: "int32" });

export function creation(): void {
  shape<[2, 3]>()(zeros([2, 3]));
  shape<[]>()(zeros([]));
  shape<[0, 3]>()(ones([0, 3]));
  shape<[number, 3]>()(zeros([n, 3]));
  shape<readonly number[]>()(zeros(sizes));
  shape<[2, 3]>()(zeros([2, 3] as const));
  is<"int64", [2]>()(zeros([2], { dtype: "int64" }));
  shape<[3, 3]>()(eye(3));
  shape<[2, 3]>()(eye(2, 3, { k: 1 }));
  shape<[number, number]>()(eye(n));
  is<"float64", [3, 3]>()(eye(3, { dtype: "float64", k: 1 }));
  is<"int8", [3, number]>()(eye(3, undefined, { dtype: "int8" }));
}

export function literals(): void {
  shape<[]>()(tensor(5));
  shape<[3]>()(tensor([1, 2, 3]));
  shape<[2, 2]>()(tensor([[1, 2], [3, 4]]));
  shape<[2, 1, 3]>()(tensor([[[1, 2, 3]], [[4, 5, 6]]]));
  shape<[0]>()(tensor([]));
  shape<[2, 0]>()(tensor([[], []]));
  shape<[number]>()(tensor(sizes));
  shape<[number, number]>()(tensor([sizes, sizes].slice()));
  shape<[2, number]>()(tensor([sizes, sizes]));
  shape<[2, 2]>()(tensor([1, 2, 3, 4], { shape: [2, 2] }));
  shape<[number]>()(tensor(new Float32Array(4)));
  shape<[2, 2]>()(tensor(new Float32Array(4), { shape: [2, 2] }));
  is<"int64", [2]>()(tensor([1n, 2n]));
  is<"bool", [2]>()(tensor([true, false]));
  is<"uint8", [number]>()(tensor(new Uint8Array(4)));
  is<"int64", [number]>()(tensor(new BigInt64Array(4)));
  is<"float64", [1]>()(tensor([1], { dtype: "float64" }));
  is<"bool", [2, 3]>()(tensor(mask));
  is<"int32", [2, 3]>()(tensor(a, { dtype: "int32" }));
  is<"float32", [6]>()(tensor(a, { shape: [6] }));
  shape<readonly number[]>()(tensor(dynamic));
  const unknownData: Tensor<"float32"> = tensor(JSON.parse("[[1]]"), { dtype: "float32" });
  void unknownData;
  const anything: unknown = [[1]];
  shape<readonly number[]>()(tensor(anything, { dtype: "float32" }));
}

export function inPlace(): void {
  const flexible: Tensor<"float32", [number, number]> = a;
  shape<[number, number]>()(flexible.add_(a));
  const anyShape: Tensor = a;
  anyShape.add_(a);
  a.add_(anyShape);
}

export function elementwise(): void {
  shape<[2, 3]>()(a.add(a));
  shape<[2, 3]>()(a.add(2));
  shape<[2, 3]>()(a.add(0.5));
  shape<[2, 3]>()(a.add(v));
  shape<[2, 3]>()(v.add(a));
  shape<[3, 4]>()(zeros([]).add(zeros([3, 4])));
  shape<[3, 4]>()(zeros([1, 4]).add(zeros([3, 1])));
  shape<[2, 3, 4]>()(zeros([3, 4]).add(b));
  shape<[2, 3, 4]>()(zeros([1, 3, 1]).add(b));
  shape<[3, 4, 5, 2]>()(zeros([2]).add(zeros([3, 4, 5, 2])));
  shape<[2, 3, 5, 4]>()(zeros([1, 1, 5, 1]).add(zeros([2, 3, 5, 4])));
  shape<[3, 4, 5]>()(zeros([1, 4, 5]).add(zeros([3, 1, 5])));
  shape<[2, 3, 4, 5]>()(zeros([1, 3, 1, 5]).add(zeros([2, 1, 4, 1])));
  shape<[3, 2, 4, 2]>()(zeros([2, 1, 2]).add(zeros([3, 1, 4, 2])));
  shape<[0]>()(zeros([0]).add(zeros([1])));
  shape<[number, 3]>()(loose.add(v));
  shape<[2, 3]>()(loose.add(a));
  shape<[number, 3]>()(loose.add(zeros([1, 3])));
  shape<[number, 3]>()(loose.add(loose));
  shape<readonly number[]>()(dynamic.add(a));
  shape<readonly number[]>()(a.add(dynamic));
  is<"bool", [2, 3]>()(a.less(v));
  is<"bool", [2, 3]>()(a.equal(1));
  shape<[2, 3]>()(a.relu().neg().exp());
  is<"bool", [2, 3]>()(a.isnan());
  shape<[2, 3]>()(a.add_(v));
  shape<[2, 3]>()(a.add_(1));
  shape<[2, 3]>()(where(mask, a, v));
  shape<[2, 3]>()(where(mask, a, 0));
  shape<[4, 2, 3]>()(where(mask, zeros([4, 1, 1]), 1));
}

export function products(): void {
  shape<[2, 4]>()(a.matmul(zeros([3, 4])));
  shape<[]>()(v.matmul(v));
  shape<[2]>()(a.matmul(v));
  shape<[4]>()(v.matmul(zeros([3, 4])));
  shape<[2, 3, 5]>()(b.matmul(zeros([4, 5])));
  shape<[2, 3, 5]>()(b.matmul(zeros([2, 4, 5])));
  shape<[7, 3, 5]>()(zeros([1, 3, 4]).matmul(zeros([7, 4, 5])));
  shape<[8, 2, 3, 5]>()(b.matmul(zeros([8, 1, 4, 5])));
  shape<[2, 3]>()(b.matmul(zeros([4])));
  shape<[number, 4]>()(loose.matmul(zeros([3, 4])));
  shape<readonly number[]>()(dynamic.matmul(a));
  shape<[]>()(v.dot(v));
  shape<[2, 5]>()(zeros([2]).outer(zeros([5])));
  shape<[8, 10]>()(zeros([8, 64]).linear(zeros([10, 64]), zeros([10])));
  shape<[8, 10]>()(zeros([8, 64]).linear(zeros([10, 64]), zeros([n])));
  shape<[8, 10]>()(zeros([8, 64]).linear(zeros([10, 64]), dynamic, {}));
  shape<[8, 10]>()(zeros([8, 64]).linear(zeros([10, 64]), undefined, {}));
  is<"float64", [2, 4]>()(a.matmul(zeros([3, 4], { dtype: "float64" })));
  const packed = pack(zeros([10, 3]));
  const half = pack(zeros([10, 3], { dtype: "bfloat16" }));
  is<"float32", [2, 10]>()(a.linear(packed));
  is<"float32", [2, 10]>()(
    a.linear(half, zeros([10]), { activation: "gelu", add: zeros([2, 10]) }),
  );
  is<"bfloat16", [2, 10]>()(a.astype("bfloat16").linear(half));
  is<"float32", [10]>()(v.linear(packed));
  shape<[number, 10]>()(loose.linear(packed));
  shape<readonly number[]>()(dynamic.linear(packed, zeros([n]), { add: dynamic }));
  is<"int32", [2, 10]>()(
    a.astype("int32").linear(zeros([10, 3], { dtype: "int32" }), undefined, {
      activation: "relu",
    }),
  );
  is<"float32", [2, 10]>()(
    a.astype("int32").linear(zeros([10, 3], { dtype: "int32" }), undefined, {
      activation: "silu",
    }),
  );
}

export function reshapes(): void {
  shape<[6]>()(a.reshape([6]));
  shape<[6]>()(a.reshape([-1]));
  shape<[3, 2]>()(a.reshape([3, -1]));
  shape<[3, 2]>()(a.reshape([-1, 2]));
  shape<[1, 6, 1]>()(a.reshape([1, 6, 1]));
  shape<[]>()(zeros([1, 1]).reshape([]));
  shape<[0, 5]>()(zeros([0, 3]).reshape([0, 5]));
  shape<[0, 3]>()(zeros([0, 3]).reshape([-1, 3]));
  shape<[64, 197, 12, 64]>()(zeros([64, 197, 768]).reshape([64, 197, 12, 64]));
  shape<[151296, 64]>()(zeros([64, 197, 768]).reshape([-1, 64]));
  shape<[123456789, 987654]>()(zeros([987654, 123456789]).reshape([123456789, 987654]));
  shape<[121932591483006]>()(zeros([987654, 123456789]).reshape([-1]));
  shape<[1000000, 1000000]>()(zeros([1000, 1000, 1000, 1000]).reshape([1000000, 1000000]));
  shape<[number, 3]>()(a.reshape([n, 3]));
  shape<[number, 3]>()(dynamic.reshape([-1, 3]));
  shape<[number, 3]>()(loose.reshape([-1, 3]));
  shape<[number]>()(loose.reshape([-1]));
  shape<readonly number[]>()(a.reshape(sizes));
  shape<[2, 3, 1]>()(a.asDynamic().reshape([2, 3, 1]));
}

export function axes(): void {
  shape<[4, 2, 3]>()(b.permute(2, 0, 1));
  shape<[3, 2]>()(a.permute(-1, 0));
  shape<[number, number]>()(a.permute(n, n));
  shape<[4, 3, 2]>()(b.transpose());
  shape<[4, 3, 2]>()(b.T);
  shape<[2, 4, 3]>()(b.mT);
  shape<readonly number[]>()(dynamic.T);
  shape<[4, 3, 2]>()(b.swapAxes(0, -1));
  shape<[3, 4, 2]>()(b.moveAxis(0, -1));
  shape<[number]>()(zeros([1, 2]).squeeze(n));
  shape<[2, 4]>()(zeros([2, 3]).matmul(zeros([n, 4])));
  shape<[1, 2, 3]>()(a.unsqueeze());
  shape<[2, 3, 1]>()(a.unsqueeze(2));
  shape<[2, 3, 1]>()(a.expandDims(-1));
  shape<[2, 1, 3]>()(a.expandDims(-2));
  shape<[number, number, number]>()(a.expandDims(n));
  shape<[2, 3]>()(zeros([1, 2, 1, 3, 1]).squeeze());
  shape<[2, 1]>()(zeros([1, 2, 1]).squeeze(0));
  shape<[2]>()(zeros([1, 2, 1]).squeeze([0, -1]));
  shape<[3]>()(loose.squeeze(0));
  shape<readonly number[]>()(loose.squeeze());
  shape<[2, 3]>()(a.flip());
  shape<[2, 3]>()(a.flip([0, -1]));
  shape<[5, 2, 3]>()(a.broadcastTo([5, 2, 3]));
  shape<[2, 3]>()(zeros([1, 1]).broadcastTo([2, 3]));
  takesMatrix(fromBuffer(new Float32Array(4), { shape: [2, 2] }));
  takesMatrix(asStrided(zeros([4]), [2, 2], [2, 1]));
  const [square] = [fromBuffer(new Float32Array(4), { shape: [2, 2] })];
  takesMatrix(square);
  const [windows] = [asStrided(zeros([4]), [3, 2], [1, 1])];
  shape<[3, 2]>()(windows);
  takesMatrix(windows);
  shape<[2, number]>()(b.diagonal(0, 1, 2));
  shape<[2, 3]>()(a.softmax(-1));
  shape<[2, 3]>()(a.layerNorm());
  shape<[2, 3]>()(a.layerNorm([0, -1], { weight: a }));
  shape<[2, 3]>()(a.rmsNorm(0));
  shape<[number, number]>()(a.tile([2, 2]));
  shape<[number, number, number]>()(b.tile([2]));
  shape<[2, number]>()(a.repeat(3, 1));
  shape<[2, 3]>()(a.sort(0, { descending: true }));
  shape<[2, 3]>()(a.sort(n));
  is<"int32", [2, 3]>()(a.argsort(-1));
  is<"float32", [2, 1]>()(a.topk(1).values);
  is<"int32", [1, 3]>()(a.topk(1, 0).indices);
  is<"float32", [2, 3]>()(a.partition(1));
  is<"int32", [2, 3]>()(a.argpartition([0, 1], 0));
  is<"float32", [2]>()(a.median(1));
  is<"float32", []>()(a.nanmedian());
  is<"float32", [2, 1]>()(a.quantile(0.5, 1, { keepDims: true }));
  is<"float32", [3, 2]>()(a.quantile([0.1, 0.5, 0.9], -1));
  is<"float32", [2]>()(a.nanpercentile([10, 50]));
  is<"float32", [3]>()(a.mode(0).values);
  is<"int32", [2, 1]>()(a.mode(1, { keepDims: true }).counts);
  shape<[1, 3]>()(a.diff(1, 0));
  shape<[2, 3]>()(a.roll(1));
  shape<[2, 3]>()(a.roll([1, 2], [0, 0]));
  shape<[number]>()(a.repeat(3));
  shape<[number]>()(dynamic.repeat([3]));
  shape<[number, number]>()(a.repeat(3, n));
  shape<readonly number[]>()(dynamic.repeat(3, 0));
  shape<[3]>()(v.cumulativeSum());
  shape<[2, 3]>()(a.cumulativeSum(-1));
  shape<[2, 3]>()(a.cumulativeProd(n));
  shape<readonly number[]>()(dynamic.cumulativeSum());
  shape<[number]>()(v.cumulativeProd(undefined, { includeInitial: true }));
  shape<[5, 7, 3]>()(a.take(indexes));
  shape<[2, 5, 7]>()(a.take(indexes, 1));
  shape<[5, 7, 10]>()(indexes.oneHot(10));
}

export function reductions(): void {
  shape<[]>()(b.sum());
  shape<[2, 4]>()(b.sum(1));
  shape<[2, 3]>()(b.sum(-1));
  shape<[3]>()(b.sum([0, 2]));
  shape<[3]>()(b.sum([0, -1]));
  shape<[2, 1, 4]>()(b.sum(1, { keepDims: true }));
  shape<[1, 3, 1]>()(b.sum([0, -1], { keepDims: true }));
  shape<[1, 1, 1]>()(b.sum(undefined, { keepDims: true }));
  shape<[]>()(b.sum([0, 1, 2]));
  shape<[2, 3, 4]>()(b.sum([]));
  shape<[number, number]>()(b.sum(n));
  shape<readonly number[]>()(b.sum(sizes));
  shape<readonly number[]>()(dynamic.sum(0));
  shape<[]>()(dynamic.sum());
  is<"int32", [2, 4]>()(b.argmax(1));
  is<"int32", []>()(b.argmax());
  is<"bool", [2]>()(a.any(1));
}

export function joins(): void {
  shape<[4, 3]>()(concat([a, a]));
  shape<[2, 8]>()(concat([a, zeros([2, 5])], 1));
  shape<[2, 8]>()(concat([a, zeros([2, 5])], -1));
  shape<[7, 3]>()(concat([a, a, zeros([3, 3])]));
  shape<[number, 3]>()(concat([a, loose]));
  shape<[number, 3]>()(concat([a, a].slice()));
  shape<[number, number]>()(concat([a, dynamic]));
  shape<readonly number[]>()(concat([dynamic, dynamic]));
  shape<[2, 2, 3]>()(stack([a, a]));
  shape<[2, 3, 3]>()(stack([a, a, a], -1));
  shape<[number, 2, 3]>()(stack([a, a].slice()));
  is<"float64", [4, 3]>()(concat([a, zeros([2, 3], { dtype: "float64" })]));
  const parts: Tensor<"float32", [2, 3, 2]>[] = b.split(2, -1);
  void parts;
}

export function slices(): void {
  shape<[4, 4]>()(x.slice("2:, 3, :, 1"));
  shape<[4, 4]>()(x.slice("2:", 3, ":", 1));
  shape<[3, 4]>()(x.slice("2:, 3, :, 1").slice("1:, :4"));
  shape<[3]>()(a.slice(0));
  shape<[3]>()(a.slice(-2));
  shape<[]>()(a.slice(1, 2));
  shape<[3]>()(a.slice(n));
  shape<[2, 3]>()(a.slice());
  const t = zeros([10]);
  shape<[10]>()(t.slice(":"));
  shape<[3]>()(t.slice("2:5"));
  shape<[5]>()(t.slice(":5"));
  shape<[8]>()(t.slice("2:"));
  shape<[0]>()(t.slice("5:2"));
  shape<[0]>()(t.slice("5:5"));
  shape<[10]>()(t.slice("-99:99"));
  shape<[2]>()(t.slice("-2:"));
  shape<[8]>()(t.slice(":-2"));
  shape<[5]>()(t.slice("::2"));
  shape<[3]>()(t.slice("1:8:3"));
  shape<[4]>()(t.slice("::3"));
  shape<[10]>()(t.slice("::-1"));
  shape<[5]>()(t.slice("::-2"));
  shape<[number]>()(t.slice("8:2:-2"));
  shape<[999998]>()(zeros([1000000]).slice("1 : -1"));
  shape<[number, 3]>()(loose.slice("1:"));
  shape<[number]>()(t.slice(Slice.from(2)));
  shape<[number]>()(t.slice(range(2, 5)));
  shape<[1, 2, 3]>()(a.slice(null));
  shape<[2, 1, 3]>()(a.slice(":", null));
  shape<[2, 3]>()(b.slice("...", 0));
  shape<[2, 3]>()(b.slice("..., 0"));
  shape<[4]>()(b.slice(0, 1, "..."));
  shape<[2, 3, 4, 1]>()(b.slice("...", null));
  shape<[2, 1, 4]>()(b.slice("..., 2:, :"));
  shape<[1, 3, 4]>()(b.slice("newaxis, 0"));
  shape<[number]>()(a.slice(mask));
  shape<[number, 4]>()(b.slice(mask));
  shape<[5, 7, 3]>()(a.slice(indexes));
  shape<[2, 2]>()(a.slice(":", [0, 2]));
  shape<readonly number[]>()(a.slice(indexes, indexes));
  shape<[number, 3]>()(a.slice([true, false]));
  shape<readonly number[]>()(a.slice([true, false], 0));
  shape<readonly number[]>()(b.slice([true, false], [0, 1]));
  shape<readonly number[]>()(b.slice(0, ":", [true, false, true, true]));
  shape<readonly number[]>()(a.slice(text));
  shape<[number, 3]>()(a.slice(`${n}:`));
  shape<readonly number[]>()(dynamic.slice(0));
  shape<[3]>()(t.sliceAxis(0, "2:5"));
  shape<[2, 4]>()(b.sliceAxis(1, 0));
  shape<[2, 4]>()(b.sliceAxis(-2, "0"));
  shape<[2, number, 4]>()(b.sliceAxis(1, range(0, 2)));
  shape<[number, number]>()(b.sliceAxis(n, 0));
}

export function ranks(): void {
  shape<[number, number]>()(dynamic.asRank(2));
  shape<[2, 3]>()(a.asRank(2));
  shape<readonly number[]>()(a.asDynamic());
  shape<[2, 3]>()(dynamic.asShape([2, 3]));
  shape<[5, 3]>()(loose.asShape([5, 3]));
  shape<[2, 3]>()(dynamic.like(a));
  const rows = [...a];
  shape<[3]>()(rows[0]);
  for (const row of b) shape<[3, 4]>()(row);
}

/** A loop that changes the rank compiles with an annotation. */
export function foldAll(t: Tensor): Tensor<"float32", []> {
  let h: Tensor = t;
  while (h.rank > 1) h = h.add(1).matmul(zeros([3])).sum(0);
  h = h.unsqueeze(0).slice(0);
  return h.sum();
}

/** Sizes may grow in a loop if an annotation names the fixed ones. */
export function grow(steps: number): Tensor<"float32", [number, 4]> {
  let h: Tensor<"float32", [number, 4]> = zeros([1, 4]);
  for (let i = 0; i < steps; i++) h = concat([h, zeros([1, 4])]);
  return h;
}

/** Code that is generic in its sizes is checked once, for all of them. */
export class Linear<I extends number, O extends number> {
  constructor(
    readonly weight: Tensor<"float32", [I, O]>,
    readonly bias: Tensor<"float32", [O]>,
  ) {}

  forward<B extends number>(input: Tensor<"float32", [B, I]>): Tensor<"float32", [B, O]> {
    return input.matmul(this.weight).add(this.bias).relu();
  }
}

/** A shape that is generic as a whole goes through `asDynamic` and `like`. */
export function twice<S extends readonly number[]>(t: Tensor<"float32", S>): Tensor<"float32", S> {
  return t.asDynamic().add(t.asDynamic()).like(t);
}

export function classifier(): void {
  const first = new Linear(zeros([64, 32]), zeros([32]));
  const second = new Linear(zeros([32, 10]), zeros([10]));
  const logits = second.forward(first.forward(zeros([8, 64])));
  shape<[8, 10]>()(logits);
  is<"int32", [8]>()(logits.softmax().argmax(1));
}

/** A tensor is assignable to types with fewer known properties. */
export function widening(): void {
  const anyShape: Tensor = a;
  const anySize: Tensor<"float32", [number, 3]> = a;
  const anyDType: Tensor<"float32" | "int8", [2, 3]> = a;
  const frozen: Tensor<"float32", [2, 3], "cpu" | "cuda", "read"> = a.readonly();
  shape<[2, 3]>()(a.readonly().add(1));
  shape<[2, 3]>()(a.readonly().add(1).add_(2));
  const either = n > 0 ? a : zeros([4, 3]);
  void either.add(v);
  void [anyShape, anySize, anyDType, frozen];
}

const onCuda = zeros([2], { device: "cuda:1" });
const copied = tensor(onCuda);
const onFirst = zeros([2], { device: "cuda:0" });
const counted = arange(3, { device: "cuda", dtype: "int8" });
const drawn = random.normal(random.key(1), [2], { device: "cuda:0" });
const movedTo = b.to("cuda:0");
const nested = b.toArray();
const elements = [a.get(0, n), a.get(...sizes), dynamic.get(1), a.sum().get()];
const flag = mask.get(0, -1);
const sized = zeros([2, 3]).rank;

export type Others = [
  Assert<Equal<typeof onCuda.device, "cuda:1">>,
  Assert<Equal<typeof copied.device, "cuda:1">>,
  Assert<Equal<typeof onFirst.device, "cuda">>,
  Assert<Equal<typeof counted, Tensor<"int8", [number], "cuda">>>,
  Assert<Equal<typeof drawn, Tensor<"float32", [2], "cuda">>>,
  Assert<Equal<typeof movedTo.device, "cuda">>,
  Assert<Equal<ReturnType<typeof onCuda.cpu>["device"], "cpu">>,
  Assert<Equal<typeof nested, number[][][]>>,
  Assert<Equal<typeof elements, number[]>>,
  Assert<Equal<typeof flag, boolean>>,
  Assert<Equal<typeof sized, 2>>,
];

export function equations(): void {
  shape<[2, 4]>()(einsum("ij,jk->ik", a, zeros([3, 4])));
  shape<[2, 4]>()(einsum("ij,jk->ik", a, zeros([3, 4]), { out: zeros([2, 4]) }));
  shape<[4, 2]>()(einsum("ij, jk -> ki", a, zeros([3, 4])));
  shape<[3, 2]>()(einsum("ba", a));
  shape<[2, 4]>()(einsum("ij,jk", a, zeros([3, 4])));
  shape<[]>()(einsum("ii", zeros([3, 3])));
  shape<[3]>()(einsum("ii->i", zeros([3, 3])));
  shape<[number, 4]>()(einsum("ij,jk->ik", zeros([n, 3]), zeros([3, 4])));
  shape<[2, 3]>()(einsum("ij,j->ij", zeros([2, 1]), v));
  shape<[6, 4]>()(einsum("abcd->ad", x));
  shape<readonly number[]>()(einsum("...ij->...ji", b));
  shape<readonly number[]>()(einsum(text, a));
  shape<[number, number]>()(einsum("ij", dynamic));
  is<"float64", [2, 4]>()(einsum("ij,jk->ik", a, zeros([3, 4], { dtype: "float64" })));
}

export function matrices(): void {
  const many = zeros([5, 3, 3], { dtype: "float64" });
  const integers = zeros([3, 3], { dtype: "int32" });
  is<"float64", [5, 3, 3]>()(linalg.inv(many));
  is<"float64", [5, 3, 3]>()(linalg.cholesky(many));
  is<"float64", [5, 3, 3]>()(linalg.expm(many));
  is<"float64", [5]>()(linalg.det(many));
  is<"float32", []>()(linalg.det(integers));
  is<"int64", [5]>()(linalg.matrixRank(many));
  is<"float64", [5]>()(linalg.slogdet(many).logabsdet);
  is<"float32", [3]>()(linalg.solve(integers, v));
  is<"float32", [3, 2]>()(linalg.solve(integers, zeros([3, 2])));
  is<"float64", [5, 3, 2]>()(linalg.solve(many, zeros([3, 2], { dtype: "float64" })));
  is<"float64", [5, 3]>()(linalg.eigh(many).eigenvalues);
  is<"float64", [5, 3, 3]>()(linalg.eigh(many).eigenvectors);
  is<"complex128", [5, 3]>()(linalg.eig(many).eigenvalues);
  is<"complex64", [3, 3]>()(linalg.eig(integers).eigenvectors);
  is<"float64", [5, 3]>()(linalg.svd(many).s);
  is<"float32", [3, 3]>()(linalg.qr(integers).q);
  is<"int32", [5, 3]>()(linalg.lu(many).p);
  shape<readonly number[]>()(linalg.inv(dynamic));
  shape<[3, 3]>()(linalg.solve(integers as Tensor<"int32", [3, 3]>, loose));
}
