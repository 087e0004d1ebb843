/**
 * Types of layers: shapes from the sizes that are asked for, dtypes from those of the weights. Only
 * type-checked, never run.
 *
 * @module
 */
import type { DType, PackedWeight, Shape, Tensor } from "../../mod.ts";
import { ones } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Assert, type Equal, is, shape } from "./assert.ts";

declare const w: nn.Weights;
declare const half: nn.Weights<"float16">;
declare const single: nn.Weights<"float32">;
declare const double: nn.Weights<"float64">;
declare const n: number;
declare const dynamic: Tensor<"float32", Shape>;
declare const someShape: Tensor<"float32", [number, number, 3]>;

const x = ones([2, 5, 3]);

export function linear(): void {
  const a = w.linear("a", 4, 3);
  shape<[2, 5, 4]>()(a(x));
  shape<[number, number, 4]>()(a(someShape));
  shape<Shape>()(a(dynamic));
  shape<[2, 5, number]>()(w.linear("a", n, 3)(x));
  shape<[2, 5, 4]>()(w.linear("a", 4, n)(x));
  shape<[2, 5, 4]>()(a(x, { add: ones([2, 5, 4]) }));
  // @ts-expect-error: inner sizes 5 and 3 differ
  a(ones([2, 5]));
  // @ts-expect-error: no such activation
  w.linear("a", 4, 3, { activation: "swish" });
  // @ts-expect-error: no such option
  w.linear("a", 4, 3, { transpose: true });
  const weight: PackedWeight<"float16" | "int8", [4, 3]> | Tensor<"float16", [4, 3]> =
    half.linear("a", 4, 3).weight;
  weight.shape;
}

export function dtypes(): void {
  is<"float32", [4]>()(half.linear("a", 4, 3)(ones([3])));
  is<"float16", [4]>()(half.linear("a", 4, 3)(ones([3], { dtype: "float16" })));
  is<"float64", [4]>()(double.linear("a", 4, 3)(ones([3])));
  is<"float32" | "float16", [4]>()(w.linear("a", 4, 3)(ones([3], { dtype: "float16" })));
  is<"float16", [5]>()(half.layerNorm("n", 5)(ones([5], { dtype: "float16" })));
}

export function embeddings(): void {
  const ids = ones([2, 7], { dtype: "int32" });
  is<"float16", [2, 7, 8]>()(half.embedding("e", 100, 8)(ids));
  is<"float32", [2, 7, 8]>()(half.embedding("e", 100, 8, { dtype: "float32" })(ids));
  is<"float32", Shape>()(single.embedding("e", 100, 8)(dynamic));
}

export function norms(): void {
  shape<[2, 5, 3]>()(w.layerNorm("n", 3)(x));
  shape<[2, 5, 3]>()(w.rmsNorm("n", n)(x, { add: x }));
  shape<[2, 5, 3]>()(w.groupNorm("n", 1, 5)(x));
  shape<[2, 5, 3]>()(w.batchNorm("n", 5)(x));
  // @ts-expect-error: its last axis has size 3, not 4
  w.layerNorm("n", 4)(x);
  // @ts-expect-error: it needs at least 1 axis
  w.rmsNorm("n", 4)(ones([]));
  // @ts-expect-error: an RMS norm has no bias
  w.rmsNorm("n", 4, { bias: false });
}

export function fused(): void {
  const qkv = nn.fuse(
    w.linear("q", 8, 3),
    w.linear("k", 4, 3),
    w.linear("v", 4, 3),
  );
  const [q, k, v] = qkv(x);
  shape<[2, 5, 8]>()(q);
  shape<[2, 5, 4]>()(k);
  shape<[2, 5, 4]>()(v);
  const [heads] = qkv(x, { heads: 2 });
  shape<[2, number, 5, number]>()(heads);
  nn.attention(...qkv(x, { heads: 2 }));
  // @ts-expect-error: inner sizes 2 and 3 differ
  qkv(ones([4, 2]));
  // @ts-expect-error: no linear layer
  nn.fuse(w.layerNorm("n", 3));
}

export function heads(): void {
  shape<[2, 3, 5, number]>()(nn.splitHeads(ones([2, 5, 12]), 3));
  shape<[2, 5, number]>()(nn.mergeHeads(ones([2, 3, 5, 4])));
}

export function tensors(): void {
  is<DType, [2, 3]>()(w.tensor("t", [2, 3]));
  is<"float32", [2, 3]>()(w.tensor("t", [2, 3], { dtype: "float32" }));
  is<"int64", Shape>()(w.tensor("t", undefined, { dtype: "int64" }));
  is<DType, Shape>()(w.tensor("t"));
  const gate = half.layer("g", { scale: [2], shift: { shape: [n, 3], optional: true } }, (
    { scale, shift },
    own,
  ) => {
    is<"float16", [2]>()(own(scale));
    if (shift !== undefined) is<"float16", [number, 3]>()(shift);
    // @ts-expect-error: the file may lack it
    shift.shape;
    return (x: Tensor<"float32", [2]>) => x.mul(2);
  });
  shape<[2]>()(gate(ones([2])));
  const path: string = gate.path;
  path.at(0);
}

/** A function of any weights. */
const block = (w: nn.Weights) => w.linear("up", 4, 3);

export function assignability(): void {
  const blocks = [...single.list("a", block), ...half.list("a", 2, block), block(single)];
  shape<[2, 5, 4]>()(blocks[0]!(x));
  const layer: nn.LinearLayer = single.linear("a", 4, 3);
  layer.dispose();
}

export async function opened(): Promise<void> {
  const device = (await nn.open("model", { device: "cuda:0", dtype: "float32" })).tensor("t", [2]);
  const there: Assert<Equal<typeof device.device, "cuda">> = true;
  const usual = await nn.open("model");
  const same: Assert<Equal<typeof usual, nn.Weights>> = true;
  return void [there, same];
}
