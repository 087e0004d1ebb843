/**
 * Slices by texts that contain values keep the rank.
 *
 * @module
 */
import { type Tensor, zeros } from "./api.ts";

declare const n: number;
declare const big: bigint;
declare const text: string;

const x = zeros([4, 5, 6]);

export const to: Tensor<"float32", [number, 5, 6]> = x.slice(`:${n}`);
export const between: Tensor<"float32", [number, 5, 6]> = x.slice(`${n}:${n}`);
export const steps: Tensor<"float32", [number, 5, 6]> = x.slice(`::${n}`);
export const second: Tensor<"float32", [4, number, 6]> = x.slice(":", `${n}:`);
export const joined: Tensor<"float32", [4, number, 6]> = x.slice(`:, ${n}:`);
export const texts: Tensor<"float32", [number, 5, 6]> = x.slice(`${text}:${text}`);
export const at: Tensor<"float32", [5, 6]> = x.slice(`${n}`);
export const atBig: Tensor<"float32", [5, 6]> = x.slice(`${big}`);
export const axis: Tensor<"float32", [4, number, 6]> = x.sliceAxis(1, `${n}:`);
export const axisAt: Tensor<"float32", [4, 6]> = x.sliceAxis(1, `${n}`);
// @ts-expect-error: any text may drop axes
export const unknown: Tensor<"float32", [number, 5, 6]> = x.slice(text);
