/**
 * Types of compiled functions: those of the functions. Only type-checked, never run.
 *
 * @module
 */
import { compile, type Compiled, offload, ones, type Tensor, zeros } from "./api.ts";
import { type Assert, type Equal, is, shape } from "./assert.ts";

const a = zeros([2, 3]);

/** A generic function. */
function gram<N extends number>(x: Tensor<"float32", [N, 3]>): Tensor<"float32", [N, N]> {
  return x.matmul(x.T) as Tensor<"float32", [N, N]>;
}

const fast = compile(gram);

export function generics(): void {
  shape<[2, 2]>()(fast(a));
  shape<[7, 7]>()(fast(ones([7, 3])));
  // @ts-expect-error: two columns
  fast(ones([7, 2]));
  // @ts-expect-error: no argument
  fast();
}

const nested = compile((x: typeof a, { scale }: { scale: number }, how: "sum" | "mean") => ({
  total: how === "sum" ? x.sum() : x.mean(),
  rows: [x.mul(scale), scale] as const,
}));

export function structures(): void {
  const made = nested(a, { scale: 2 }, "sum");
  is<"float32", []>()(made.total);
  is<"float32", [2, 3]>()(made.rows[0]);
  // @ts-expect-error: another text
  nested(a, { scale: 2 }, "max");
}

export type Made = Assert<
  Equal<ReturnType<typeof nested>["rows"][1], number>
>;

export async function later(): Promise<void> {
  shape<[2, 3]>()((await nested.async(a, { scale: 2 }, "sum")).rows[0]);
  const signal = new AbortController().signal;
  await nested.async(a, { scale: 2 }, "sum", { signal });
  shape<[]>()(await offload(() => a.sum()));
  // @ts-expect-error: no such option
  await nested.async(a, { scale: 2 }, "sum", { stop: signal });
}

export function outputs(): void {
  nested(a, { scale: 2 }, "sum", { out: { total: zeros([]), rows: [a, 0] } });
  // @ts-expect-error: no rows
  nested(a, { scale: 2 }, "sum", { out: { total: zeros([]) } });
  const both: Compiled<(x: Tensor) => Tensor> = compile((x: Tensor) => x.neg());
  both.dispose();
}

/** Read-only tensors, as of mapped files and broadcasts, as arguments. */
export async function readOnly(): Promise<void> {
  const frozen = a.readonly();
  const weighted = compile((x: typeof a, weights: { first: typeof a; more: (typeof a)[] }) =>
    x.add(weights.first)
  );
  shape<[2, 3]>()(weighted(frozen, { first: frozen, more: [a, frozen] }));
  shape<[2, 3]>()(weighted(zeros([3]).broadcastTo([2, 3]), { first: a, more: [] }, { out: a }));
  shape<[2, 3]>()(await weighted.async(frozen, { first: frozen, more: [] }));
  // @ts-expect-error: another shape
  weighted(zeros([3, 2]).readonly(), { first: a, more: [] });
}
