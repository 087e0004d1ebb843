/**
 * Averages of gradients over ranks, in few large collectives.
 *
 * @module
 */
import { ArgumentError, DTypeError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { brandOf } from "../base/version.ts";
import { applyInPlace, applyInto, applyView } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { dispose, tidy } from "../core/handles.ts";
import { interpreting } from "../core/interpreter.ts";
import { prepareWrite } from "../core/write.ts";
import type { Operand } from "../memory/operand.ts";
import { letGo } from "../memory/pool.ts";
import { checkKind, checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { concat } from "../ops/join/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import { Group, partsOfCall } from "./group.ts";
import { checkEager } from "./run.ts";

/** Options of {@link averageGradients}. */
export interface AverageOptions {
  /**
   * Tensors of one dtype are joined until they have so many bytes, 32 MiB by default, and are then
   * averaged by one call: small messages cost time.
   */
  readonly bucketBytes?: number;
}

const NAME = "averageGradients";
const BUCKET_BYTES = 2 ** 25;

/** The tensors in arrays and records, at any depth, each once, in an order that ranks share. */
function tensorsIn(tree: unknown): Operand[] {
  const found: Operand[] = [];
  const seen = new Set<unknown>();
  const visit = (node: unknown): void => {
    if (node === undefined || node === null || seen.has(node)) return;
    seen.add(node);
    if (brandOf(node, "tensor") !== undefined) found.push(ownOperand(node, NAME));
    else if (listIn(node, visit) !== undefined) return;
    else if (typeof node === "object") {
      // Ranks may have made a record in another order.
      const record = node as Record<string, unknown>;
      for (const key of Object.keys(record).sort()) visit(record[key]);
    } else {
      throw new DTypeError(
        `Cannot ${NAME} ${describe(node)}: it takes tensors, in arrays and records`,
      );
    }
  };
  visit(tree);
  return found;
}

/** Tensors of one dtype, which are averaged together. */
type Bucket = readonly Operand[];

/** Puts tensors into buckets: large ones alone, the others in their order. */
function bucketsOf(tensors: readonly Operand[], bucketBytes: number): Bucket[] {
  const buckets: Operand[][] = [];
  const open = new Map<string, { bucket: Operand[]; bytes: number }>();
  for (const one of tensors) {
    const { storage: { info, device }, layout: { size } } = one;
    if (size === 0) continue;
    const bytes = size * info.bytes;
    if (bytes >= bucketBytes) {
      buckets.push([one]);
      continue;
    }
    const key = `${info.name} ${device}`;
    let last = open.get(key);
    if (last === undefined) {
      last = { bucket: [], bytes: 0 };
      buckets.push(last.bucket);
      open.set(key, last);
    }
    last.bucket.push(one);
    last.bytes += bytes;
    if (last.bytes >= bucketBytes) open.delete(key);
  }
  return buckets;
}

/** The buckets of a tree; throws before anything is written. */
function prepare(group: Group, gradients: unknown, options: AverageOptions): Bucket[] {
  if (!(group instanceof Group)) {
    throw new ArgumentError(
      `Cannot ${NAME} over group ${describe(group)}: it is a World or a Group`,
    );
  }
  checkOptions(NAME, options, ["bucketBytes"]);
  const { bucketBytes = BUCKET_BYTES } = options;
  if (typeof bucketBytes !== "number" || !(bucketBytes > 0)) {
    throw new ArgumentError(
      `Cannot ${NAME} with bucketBytes ${describe(bucketBytes)}: it is a number of bytes`,
    );
  }
  const tensors = tensorsIn(gradients);
  for (const one of tensors) checkKind(one.storage.info, "f", NAME);
  for (const one of tensors) prepareWrite(one, NAME);
  // The average of one rank is there.
  return group.size === 1 ? [] : bucketsOf(tensors, bucketBytes);
}

/** All elements of a bucket in a row: its only tensor if that is one already, else a copy. */
function joined(bucket: Bucket): Operand {
  if (bucket.length === 1 && bucket[0]!.layout.contiguous) return bucket[0]!;
  return concat(bucket, null);
}

/** Divides a sum, and writes it to where its parts came from. */
function giveBack(bucket: Bucket, sum: Operand, size: number): void {
  if (sum === bucket[0]) {
    applyInPlace(MAP.div, NAME, sum, size);
    return;
  }
  tidy(() => {
    let at = 0;
    for (const target of bucket) {
      const { shape, size: count } = target.layout;
      const part = applyView(VIEWS.narrow, sum, NAME, 0, at, count);
      const shaped = applyView(VIEWS.reshape, part, NAME, shape);
      applyInto(MAP.div, NAME, shaped, size, undefined, target);
      at += count;
    }
  });
}

/** The elements of a handle, for as long as this function's caller needs them. */
function held({ storage, layout, flags }: Operand): Operand {
  storage.handles++;
  return { storage, layout, flags };
}

async function average(group: Group, bucket: Bucket): Promise<void> {
  // The program may dispose of its tensors before the end.
  const targets = bucket.map(held);
  const made = joined(targets);
  const sum = made === targets[0] ? made : held(made);
  if (made !== sum) dispose(made);
  try {
    await partsOfCall(group, NAME).allSum(sum as AnyTensor, { out: sum as AnyTensor });
    giveBack(targets, sum, group.size);
  } finally {
    if (made !== sum) letGo(sum.storage);
    for (const { storage } of targets) letGo(storage);
  }
}

/**
 * Replaces gradients by their mean over all ranks, in place.
 *
 * Tensors of one dtype are sent together, in buckets of at least 32 MiB, all concurrently. This
 * needs as much memory as the gradients until the promise settles; the program must not change them
 * before. Sums have the dtype of the gradients, and all ranks get the same bits.
 *
 * @param gradients Tensors of floats, of any shapes, in arrays and records at any depth. All ranks
 *   pass the same names, shapes and dtypes.
 * @throws {DTypeError} For other values and dtypes.
 * @throws {ReadOnlyError} For read-only tensors, before any gradient changes.
 * @throws As {@link Group.allMean}: the gradients may then have changed.
 *
 * @example
 * ```ts
 * import { ones } from "@rowmajor/tensor";
 * import { averageGradients, init } from "@rowmajor/tensor/distributed";
 *
 * await using world = await init();
 * const gradients = { layers: [{ weight: ones([4, 3]), bias: ones([4]) }] };
 * await averageGradients(world, gradients);
 * gradients.layers[0]!.bias.toArray(); // => [1, 1, 1, 1]
 * ```
 */
export async function averageGradients(
  group: Group,
  gradients: object,
  options: AverageOptions = {},
): Promise<void> {
  checkEager(NAME);
  // All begin now, in the same order on all ranks, whatever else a program begins.
  const ends = await Promise.allSettled(
    prepare(group, gradients, options).map((bucket) => average(group, bucket)),
  );
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** {@link averageGradients}, which waits, one bucket after the other. */
export function averageGradientsSync(
  group: Group,
  gradients: object,
  options: AverageOptions = {},
): void {
  const buckets = prepare(group, gradients, options);
  const ranks = partsOfCall(group, NAME);
  for (const bucket of buckets) {
    tidy(() => {
      const all = joined(bucket) as AnyTensor;
      // A traced tensor has no memory to write to.
      const sum = interpreting() ? ranks.allSumSync(all) : ranks.allSumSync(all, { out: all });
      giveBack(bucket, sum as Operand, group.size);
    });
  }
}
