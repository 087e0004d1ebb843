/**
 * Twelve programs that must not compile: typescript_test.ts expects the message after each mark,
 * from several compilers.
 *
 * @module
 */
import { arange, concat, io, random, type Tensor, tensor, where, zeros } from "@rowmajor/tensor";

const x = tensor([[1, 2, 3], [4, 5, 6]]);

export function product() {
  // @ts-expect-error: Cannot matmul shapes [2, 3] and [2, 3]: inner sizes 3 and 2 differ
  return x.matmul(x);
}

export function broadcasting(images: Tensor<"float32", [number, 64]>) {
  // @ts-expect-error: Cannot add shapes [?, 64] and [10]: axis -1 has sizes 64 and 10
  return images.add(zeros([10]));
}

export function layer(weight: Tensor<"float32", [768, 64]>) {
  // @ts-expect-error: Cannot linear shapes [2, 3] and [768, 64]
  return x.linear(weight);
}

export function shape() {
  // @ts-expect-error: Cannot reshape [2, 3] to [4, -1]: 6 elements do not divide by 4
  return x.reshape([4, -1]);
}

export function axis() {
  // @ts-expect-error: Cannot sum along axis 2: rank 2 has axes -2 to 1
  return x.sum(2);
}

export function index() {
  // @ts-expect-error: Cannot slice axis 1 of shape [2, 3] at 3: it has size 3
  return x.slice(":, 3");
}

export function joining() {
  // @ts-expect-error: Cannot concat shapes
  return concat([x, zeros([2, 4])]);
}

export function integers() {
  // @ts-expect-error: Cannot add 1.5 to int32: it is not an integer
  return tensor([1, 2], { dtype: "int32" }).add(1.5);
}

export function dtypes() {
  const wide = zeros([2], { dtype: "uint64" });
  // @ts-expect-error: Cannot add int32 and uint64: no integer dtype holds both
  return zeros([2], { dtype: "int32" }).add(wide);
}

export function writing() {
  // @ts-expect-error: Cannot add_ a read-only tensor: copy it with toOwned()
  x.readonly().add_(1);
}

export function conditions() {
  // @ts-expect-error: Tensor<"float32", [2, 3], "cpu", "write">
  return where(x, x, 0);
}

export function results(): Tensor<"float32", [2, 2]> {
  // @ts-expect-error: Type 'Tensor<"float32", [2, 3], "cpu", "write">' is not assignable to type
  return random.uniform(random.key(1), [2, 3]);
}

/** What is right next to all that: it compiles. */
export function right(): Tensor<"float32", [2, 2]> {
  const read = io.decodeNpy(io.encodeNpy(arange(6))).asDType("float32").reshape([2, 3]);
  return x.matmul(read.asShape([2, 3]).T);
}
