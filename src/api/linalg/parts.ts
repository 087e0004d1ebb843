/**
 * Small tensors and numbers that functions of linear algebra need.
 *
 * @module
 */
import { type DType, finfo } from "../../base/dtype.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkOptions } from "../../table/infer.ts";
import { eye } from "../../tensor/create.ts";

/** The identity, of the dtype and on the device of `like`. */
export function identityLike(n: number, { info, device }: Storage): Operand {
  return eye(n, { dtype: info.name, device: device as "cpu" });
}

/** The epsilon of a float dtype. */
export function epsilonOf(dtype: DType): number {
  return finfo(dtype as "float32").eps;
}

/** The checked `upper` option. */
export function upperOf(name: string, options: { readonly upper?: boolean }): { upper: boolean } {
  checkOptions(name, options, ["upper"]);
  return { upper: options.upper ?? false };
}
