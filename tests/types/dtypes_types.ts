/**
 * Dtypes that the compiler infers. Only type-checked, never run.
 *
 * @module
 */
import {
  complex,
  concat,
  type PackedWeight,
  quantize,
  type Tensor,
  tensor,
  where,
  zeros,
} from "./api.ts";
import { type Assert, type Equal, is } from "./assert.ts";
import type { DType } from "../../src/base/dtype.ts";
import type { Promote } from "../../src/types/mod.ts";

declare const some: Tensor<DType, [2]>;
declare const n: number;
const bool = zeros([2], { dtype: "bool" });
const int8 = zeros([2], { dtype: "int8" });
const int32 = zeros([2], { dtype: "int32" });
const int64 = zeros([2], { dtype: "int64" });
const uint8 = zeros([2], { dtype: "uint8" });
const uint32 = zeros([2], { dtype: "uint32" });
const uint64 = zeros([2], { dtype: "uint64" });
const float16 = zeros([2], { dtype: "float16" });
const bfloat16 = zeros([2], { dtype: "bfloat16" });
const float32 = zeros([2]);
const float64 = zeros([2], { dtype: "float64" });

export function promotion(): void {
  is<"int32", [2]>()(int32.add(int32));
  is<"int32", [2]>()(int32.add(int8));
  is<"int16", [2]>()(int8.add(uint8));
  is<"int64", [2]>()(int32.add(uint32));
  is<"uint32", [2]>()(uint8.add(uint32));
  is<"int8", [2]>()(bool.add(int8));
  is<"float16", [2]>()(int64.add(float16));
  is<"float32", [2]>()(float32.add(uint64));
  is<"float32", [2]>()(float16.add(bfloat16));
  is<"float32", [2]>()(bfloat16.add(float32));
  is<"float64", [2]>()(float32.add(float64));
  is<DType, [2]>()(some.add(some));
  is<"float64", [4]>()(concat([int8, float64]));
  is<"float64", [6]>()(concat([int8, int32, float64]));
  is<"float32", [2]>()(where(bool, int8, float32));
  is<"int8", [2]>()(where(bool, int8, 0));
  is<"float32", [2]>()(where(bool, 1, 0));
  is<"int64", [2]>()(where(bool, 1n, 0n));
}

export function scalars(): void {
  is<"int32", [2]>()(int32.add(1));
  is<"int32", [2]>()(int32.add(n));
  is<"int32", [2]>()(int32.add(1n));
  is<"int32", [2]>()(int32.add(true));
  is<"float16", [2]>()(float16.add(1.5));
  is<"float16", [2]>()(float16.add(1n));
  is<"float32", [2]>()(bool.add(1));
  is<"int64", [2]>()(bool.add(1n));
  is<"bool", [2]>()(bool.bitwiseAnd(true));
  is<"int64", [2]>()(bool.bitwiseOr(1n));
  is<"int32", [2]>()(int32.bitwiseLeftShift(1));
}

export function fractions(): void {
  is<"float32", [2]>()(int32.div(0.5));
  is<"float32", [2]>()(int32.atan2(0.5));
  is<"float32", [2]>()(int32.hypot(0.5));
  is<"float32", [2]>()(int32.logaddexp(1e-7));
  is<"float32", [2]>()(int32.copysign(-0.5));
  is<"float16", [2]>()(float16.div(0.5));
  is<"float32", [2]>()(bool.div(2));
  is<"float32", [2]>()(bool.div(true));
  is<"bool", [2]>()(int32.isclose(0.5));
  is<"bool", [2]>()(uint64.isclose(int32));
  is<"bool", [2]>()(bool.isclose(bool));
}

export function asked(): void {
  is<"int32", []>()(uint64.matmul(int32, { dtype: "int32" }));
  is<"float64", []>()(bool.dot(int64, { dtype: "float64" }));
  is<"int32", []>()(int8.matmul(int32, {}));
}

export function inPlace(): void {
  is<"int32", [2]>()(int32.add_(int64));
  is<"int32", [2]>()(int32.add_(uint32));
  is<"float16", [2]>()(float16.div_(float64));
  is<"float32", [2]>()(float32.add_(bool));
  is<"bool", [2]>()(bool.bitwiseAnd_(bool));
  is<"int32", [2]>()(int32.neg_().floor_().relu_());
  is<"float16", [2]>()(float16.exp_());
  is<DType, [2]>()(some.add_(some).div_(2).exp_());
}

/** A tensor with a generic dtype can be overwritten. */
export function overwrite<D extends "float32" | "float64">(x: Tensor<D>): Tensor<D> {
  return x.exp_().neg_();
}

export function results(): void {
  is<"float32", [2]>()(int32.div(int32));
  is<"float32", [2]>()(int32.div(2));
  is<"float64", [2]>()(int32.div(float64));
  is<"float16", [2]>()(float16.div(2));
  is<"int64", []>()(bool.sum());
  is<"int64", []>()(int8.sum());
  is<"int64", []>()(uint32.sum());
  is<"uint64", []>()(uint64.sum());
  is<"float16", []>()(float16.sum());
  is<"float32", []>()(int32.mean());
  is<"bfloat16", []>()(bfloat16.mean());
  is<"int8", []>()(int8.max());
  is<"bool", []>()(int8.any());
  is<"bool", [2]>()(int8.less(1));
  is<"int32", []>()(float64.argmax());
  is<"float32", [2]>()(int32.exp());
  is<"int8", [2]>()(float32.astype("int8"));
  is<"int64", [2]>()(bool.cumulativeSum());
  is<"int32", []>()(int8.sum(null, { dtype: "int32" }));
  is<"int32", [2]>()(int8.cumulativeSum(0, { dtype: "int32" }));
  is<"float64", [1]>()(int8.mean(0, { dtype: "float64", keepDims: true }));
  is<"float64", []>()(int8.var(0, { dtype: "float64", correction: 1 }));
  is<"float64", []>()(int8.std(0, { dtype: "float64" }));
  is<"float64", []>()(int8.norm(0, { dtype: "float64", ord: 1 }));
  is<"float64", []>()(int8.logsumexp(0, { dtype: "float64" }));
  is<DType, []>()(int8.mean(0, { dtype: some.dtype }));
}

const item = {
  bool: () => bool.item(),
  int64: () => int64.item(),
  wide: () => int64.item({ bigint: true }),
  narrow: () => int8.item({ bigint: true }),
  float: () => float32.item(),
  nested: () => uint64.toArray({ bigint: true }),
};

export type Items = [
  Assert<Equal<ReturnType<typeof item.bool>, boolean>>,
  Assert<Equal<ReturnType<typeof item.int64>, number>>,
  Assert<Equal<ReturnType<typeof item.wide>, bigint>>,
  Assert<Equal<ReturnType<typeof item.narrow>, number>>,
  Assert<Equal<ReturnType<typeof item.float>, number>>,
  Assert<Equal<ReturnType<typeof item.nested>, bigint[]>>,
  Assert<Equal<typeof float64.data, Float64Array>>,
  Assert<Equal<Promote<"bool", "bool">, "bool">>,
  Assert<Equal<Promote<"uint16", "int8">, "int32">>,
  Assert<Equal<Promote<"uint16", "int64">, "int64">>,
  Assert<Equal<Promote<"float16" | "float32", "bfloat16">, "float32">>,
];

export function quantized(): void {
  const q = quantize(zeros([4, 64]), "q8_0");
  is<"q8_0", [4, 64]>()(q);
  is<"q4_0", [64]>()(quantize(zeros([64], { dtype: "float16" }), "q4_0"));
  is<"q4_k", [2, 256]>()(zeros([2, 256], { dtype: "q4_k" }));
  is<"float32", [4, 64]>()(q.dequantize());
  is<"float32", [2, 4]>()(zeros([2, 64]).linear(q));
  is<"float32", [2, 4]>()(
    zeros([2, 64]).linear(q, zeros([4]), { activation: "gelu", add: zeros([2, 4]) }),
  );
  is<"float16", [2, 4]>()(zeros([2, 64], { dtype: "float16" }).linear(q));
  is<"float64", [2, 4]>()(
    zeros([2, 64], { dtype: "float16" }).linear(q, zeros([4], { dtype: "float64" })),
  );
  const weight: PackedWeight<"int8", [4, 64]> = quantize(zeros([4, 64]), "int8");
  is<"float32", [2, 4]>()(zeros([2, 64]).linear(weight));
  is<"q8_0", [8, 64]>()(concat([q, q]));
  is<"q8_0", [4, 64]>()(q.copy());
  is<"q8_0", [2, 64]>()(q.slice("1:3"));
  is<"q8_0", [number, 64]>()(q.take([1, 2]));
  const elements: Uint8Array = q.toTypedArray();
  const rows: number[][] = q.toArray();
  const any: Tensor<DType> = q;
  void [elements, rows, any];
}

export function quantizedMistakes(): void {
  // @ts-expect-error: no format that can be made
  quantize(zeros([256]), "q4_k");
}

export function complexNumbers(): void {
  const z = zeros([2], { dtype: "complex64" });
  const wide = zeros([2], { dtype: "complex128" });
  const i = { re: 0, im: 1 };
  is<"complex64", [2]>()(z.add(z));
  is<"complex128", [2]>()(z.add(wide));
  is<"complex64", [2]>()(z.mul(float32));
  is<"complex128", [2]>()(float64.mul(z));
  is<"complex64", [2]>()(int8.add(z));
  is<"complex64", [2]>()(float32.mul(i));
  is<"complex128", [2]>()(float64.mul(i));
  is<"complex64", [2]>()(int32.add(i));
  is<"complex64", [2]>()(z.add(1));
  is<"float32", [2]>()(z.abs());
  is<"float64", [2]>()(wide.real());
  is<"float32", [2]>()(z.angle());
  is<"float32", [2]>()(int8.angle());
  is<"int8", [2]>()(int8.abs());
  is<"complex128", [2]>()(wide.exp());
  is<"bool", [2]>()(z.equal(i));
  is<"complex64", []>()(z.sum());
  is<"complex64", [2]>()(where(bool, z, i));
  is<"complex64", [2]>()(tensor([i, i]));
  is<"complex64", [2]>()(complex(float32, 1));
  is<"complex128", [2]>()(complex(float32, float64));
  const parts: Float32Array = z.data;
  const values: { re: number; im: number }[] = z.toArray();
  void [parts, values];
}

export function complexMistakes(): void {
  const z = zeros([2], { dtype: "complex64" });
  // @ts-expect-error: complex numbers have no order
  z.less(z);
  // @ts-expect-error: complex numbers have no order
  z.maximum(1);
  // @ts-expect-error: a complex result does not fit
  float32.add_(z);
}
