/**
 * Random numbers on a CUDA device: the kernel of shim/cuda/kernels/random.h for a distribution and a dtype.
 *
 * @module
 */
import type { Distribution } from "../../ops/random/op.ts";
import { DTYPE, type DType, type DTypeInfo, DTYPES } from "../../base/dtype.ts";
import type { Storage } from "../../memory/storage.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, kernelOf, type KernelVariant } from "./device.ts";
import type { Family } from "./source/mod.ts";

const { THREADS } = CONSTANTS["device.h"];
/** The most blocks; each of them loops over the rest. */
const MOST_BLOCKS = 2 ** 20;
/** The largest range of integers for which one word is enough. */
const NARROW = 0x10000n;

/** The C type that integers of a dtype are made in: their bits. */
function unsigned({ bytes }: DTypeInfo): string {
  return `uint${8 * bytes}_t`;
}

/** Float dtypes: the stored type, and the functions that make uniform and normal numbers. */
const FLOATS: Partial<Record<DType, readonly [stored: string, uniform: string, normal: string]>> = {
  float16: ["uint16_t", "rm_uniform<rm_f16, 11>()", "rm_normal<rm_f16>()"],
  bfloat16: ["uint16_t", "rm_uniform<rm_bf16, 8>()", "rm_normal<rm_bf16>()"],
  float32: ["float", "rm_uniform<rm_f32, 24>()", "rm_normal<rm_f32>()"],
  float64: ["double", "rm_uniform_f64()", "rm_normal_f64()"],
};

function instanceOf(info: DTypeInfo, kind: Distribution, narrow: boolean): KernelVariant {
  let name: string, type: string, maker: string;
  if (kind === "integers") {
    type = unsigned(info);
    const width = narrow ? "narrow" : "wide";
    name = `random_${width}_${info.bytes}`;
    maker = `rm_${width}_integers<${type}>{low, range}`;
  } else if (kind === "bits") [name, type, maker] = ["random_bits", "uint32_t", "rm_bits_u32()"];
  else {
    const [stored, uniform, normal] = FLOATS[info.name]!;
    name = `random_${kind}_${info.name}`;
    type = stored;
    maker = kind === "uniform" ? uniform : normal;
  }
  return { name, header: "random.h", line: `RM_RANDOM_KERNEL(${name}, ${type}, ${maker})` };
}

/** Every kernel that {@link random} uses. */
export function randomFamily(): Family {
  const variants = new Map<string, KernelVariant>();
  const add = (variant: KernelVariant): unknown => variants.set(variant.name, variant);
  for (const dtype of DTYPES) {
    const info = DTYPE[dtype];
    if (info.kind === "f") {
      for (const kind of ["uniform", "normal"] as const) add(instanceOf(info, kind, false));
    } else for (const narrow of [true, false]) add(instanceOf(info, "integers", narrow));
  }
  add(instanceOf(DTYPE.uint32, "bits", false));
  return familyOf([...variants.values()]);
}

const args = new Arguments();

/** Queues filling `out` with random numbers. */
export function random(
  device: CudaDevice,
  out: Storage,
  kind: Distribution,
  key0: number,
  key1: number,
  low: bigint,
  high: bigint,
): void {
  const { info, length } = out;
  if (length === 0) return;
  const range = high - low;
  const kernel = kernelOf(device, instanceOf(info, kind, range <= NARROW));
  const key = BigInt(key0 >>> 0) | BigInt(key1 >>> 0) << 32n;
  args.clear().address(out).integer(length).long(key).long(low).long(range);
  // Each thread makes at least two elements.
  const blocks = Math.min(MOST_BLOCKS, Math.ceil(length * Math.min(8, info.bytes) / 16 / THREADS));
  device.launch(kernel, [blocks], [THREADS], args);
}
