/**
 * Results whose number the types know are tuples.
 *
 * @module
 */
import { broadcastTensors, meshgrid, random, type Tensor, zeros } from "./api.ts";

declare const n: number;
type Key = ReturnType<typeof random.key>;
type Indices = Tensor<"int32", [number]>;

const x = zeros([4, 5, 6]);

export const keys: [Key, Key] = random.split(random.key(1));
export const three: [Key, Key, Key] = random.split(random.key(1), 3);
export const list: Key[] = random.split(random.key(1), n);
// @ts-expect-error: a list may be empty
export const one: [Key] = random.split(random.key(1), n);
// @ts-expect-error: three keys
export const two: [Key, Key] = random.split(random.key(1), 3);

export const found: [Indices, Indices, Indices] = x.nonzero();
export const free: Indices[] = (x as Tensor).nonzero();

export const halves: [Tensor<"float32", [2, 5, 6]>, Tensor<"float32", [2, 5, 6]>] = x.split(2);
export const cut: [Tensor, Tensor, Tensor] = x.split([1, 2]);
export const parts: Tensor<"float32", [number, 5, 6]>[] = x.split(n);

export const grid: [Tensor, Tensor] = meshgrid([zeros([2]), zeros([3])]);
export const both: [Tensor, Tensor<"int32">] = broadcastTensors(
  zeros([2]),
  zeros([1], { dtype: "int32" }),
);
