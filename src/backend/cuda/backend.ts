/**
 * The CUDA backend: chooses the kernels of a call.
 *
 * Work on a device runs in the order of the calls; nothing here waits. Knows nothing of tensors.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { planMap } from "../../base/plan.ts";
import type { Backend, Recording } from "../../core/backend.ts";
import { gatherBlocks, scatterBlocks } from "../../ops/index/kernels.ts";
import { copyInto } from "../../core/dispatch.ts";
import { gemmOf, gemmProblem, isPlainGemm } from "../../ops/matmul/problem.ts";
import { deviceEngine } from "../../ops/collective/problem.ts";
import { isRowCall, type RowKernel, rowsOf } from "../../ops/softmax_norm/problem.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { RandomAttributes } from "../../ops/random/op.ts";
import { type SortAttributes, sortsLastAxis } from "../../ops/sort/op.ts";
import { type AxisOp, type Call, isTableOp, type MapOp, type Op } from "../../table/op.ts";
import { attention, attentionRows, isTensorCoreAttention } from "./attention.ts";
import { chain, isSmallChain } from "./chain.ts";
import { complexMap } from "./complex.ts";
import type { CudaDevice } from "./device.ts";
import { fft, isDeviceFft } from "./fft.ts";
import { DEVICE_LINALG, isDeviceLinalg, linalg } from "./linalg.ts";
import { fold } from "./reduce.ts";
import { record } from "./graphs.ts";
import { map } from "./maps.ts";
import { linear, matmul } from "./matmul.ts";
import { gather, nonzeroIndices, ravelIndex, scatter } from "./move.ts";
import { dequantizeBlocks, isQuantizedLinear, linearQuantized } from "./quantized.ts";
import { random } from "./random.ts";
import { alongRows } from "./softmax_norm.ts";
import { sort } from "./sort.ts";
import { familiesOf } from "./warm.ts";

/** The kernel, or the few kernels, of a call. */
interface Kernel {
  supports(call: Call): boolean;
  /** Queues the kernel; false if it is unavailable. */
  run(device: CudaDevice, call: Call): boolean | void;
}

const always = (): boolean => true;

function queueSort(device: CudaDevice, call: Call, values: Operand, order: Operand | null): void {
  const { storage, layout: { offset, shape, size } } = values;
  const length = shape.at(-1)!;
  const { descending } = call.attributes as SortAttributes;
  sort(device, storage, offset, size / length, length, descending, order && order.storage);
}

/** Products of bytes may be 32-bit integers, which tensor cores compute from the bytes. */
function isNotEmpty(call: Call): boolean {
  return call.operand(0).layout.size > 0 && call.operand(1).layout.size > 0;
}

/** Whether a call is a product with a weight plus a bias, of one dtype, and nothing else. */
function isPlainLinear(call: Call): boolean {
  const { inputs: [, , bias, add], attributes } = call;
  const { activation } = (attributes ?? {}) as { readonly activation?: unknown };
  return isOperand(bias) && bias.layout.contiguous && add === undefined &&
    activation === undefined && isPlainGemm(call) && bias.storage.info === call.specs[0]!.dtype;
}

function runLinear(device: CudaDevice, call: Call): boolean {
  const { storage, layout, flags } = call.operand(1);
  const columns = { storage, layout: layout.transpose(), flags };
  const product = gemmProblem(call.outputs[0]!, call.operand(0), columns);
  return linear(device, product, call.operand(2));
}

const rows: Kernel = {
  supports: isRowCall,
  run: (device, call) => {
    const { storage, layout } = call.operand(0);
    const out = call.outputs[0]!.storage;
    return alongRows(device, call.op.name as RowKernel, rowsOf(call), out, storage, layout.offset);
  },
};

const collective: Kernel = {
  supports: (call) => deviceEngine?.supports(call) ?? false,
  run: (_, call) => deviceEngine!.run(call),
};

const KERNELS: ReadonlyMap<string, Kernel> = new Map(Object.entries(
  {
    gather: { supports: always, run: (device, call) => gather(device, gatherBlocks(call)) },
    scatter: {
      supports: always,
      run: (device, call) => scatter(device, scatterBlocks(call), false),
    },
    scatterAdd: {
      supports: always,
      run: (device, call) => scatter(device, scatterBlocks(call), true),
    },
    ravelIndex: {
      supports: always,
      run: (device, call) => {
        const [positions, index] = [call.operand(0), call.operand(1)];
        const { size, stride } = call.attributes;
        const plan = planMap(positions.layout, index.layout, null, null);
        ravelIndex(device, plan, positions.storage, index.storage, size, stride);
      },
    },
    nonzeroIndices: {
      supports: always,
      run: (device, call) => {
        const { storage, layout: { offset, size } } = call.operand(0);
        nonzeroIndices(device, call.outputs[0]!.storage, storage, offset, size);
      },
    },
    sort: {
      supports: sortsLastAxis,
      run: (device, call) => {
        copyInto(call.outputs[0]!, call.operand(0));
        queueSort(device, call, call.outputs[0]!, null);
      },
    },
    argsort: {
      supports: sortsLastAxis,
      run: (device, call) => queueSort(device, call, call.operand(0), call.outputs[0]!),
    },
    random: {
      supports: always,
      run: (device, call) => {
        const { distribution, key, low, high } = call.attributes as RandomAttributes;
        random(device, call.operand(0).storage, distribution, key[0], key[1], low, high);
      },
    },
    matmul: { supports: isPlainGemm, run: (device, call) => matmul(device, gemmOf(call)) },
    matmulInt8: { supports: isNotEmpty, run: (device, call) => matmul(device, gemmOf(call)) },
    linear: { supports: isPlainLinear, run: runLinear },
    fft: { supports: isDeviceFft, run: fft },
    ...Object.fromEntries(
      DEVICE_LINALG.map((name) => [name, { supports: isDeviceLinalg, run: linalg }]),
    ),
    allReduce: collective,
    allGather: collective,
    reduceScatter: collective,
    broadcast: collective,
    allToAll: collective,
    complexMap: { supports: always, run: complexMap },
    attention: { supports: isTensorCoreAttention, run: attention },
    attentionRows: { supports: always, run: attentionRows },
    chain: { supports: isSmallChain, run: chain },
    dequantizeBlocks: { supports: always, run: dequantizeBlocks },
    linearQuantized: { supports: isQuantizedLinear, run: linearQuantized },
    softmax: rows,
    logSoftmax: rows,
    layerNorm: rows,
    rmsNorm: rows,
  } satisfies Record<string, Kernel>,
));

/** Runs on one CUDA device. */
export class CudaBackend implements Backend {
  readonly name = "cuda";
  readonly #device: CudaDevice;

  constructor(device: CudaDevice) {
    this.#device = device;
  }

  warmUp(ops: readonly string[], dtypes: readonly DType[]): void {
    for (const { source, names } of ops.flatMap((op) => familiesOf(op, dtypes))) {
      if (names.length > 0) this.#device.load(source, names);
    }
  }

  record(body: () => void): Recording {
    return record(this.#device, body);
  }

  hasKernel(op: Op): boolean {
    return isTableOp(op) || KERNELS.has(op.name);
  }

  supports(call: Call): boolean {
    return isTableOp(call.op) || (KERNELS.get(call.op.name)?.supports(call) ?? false);
  }

  run(call: Call): boolean {
    this.#note(call);
    const { op, inputs, plan } = call;
    switch (op.kind) {
      case "map": {
        const [a, b, c] = inputs.map((input) => (input as Operand).storage);
        const out = call.outputs[0]!.storage;
        map(this.#device, op as MapOp, call.compute.name, plan!, out, a!, b ?? null, c ?? null);
        return true;
      }
      case "reduce":
      case "argReduce":
      case "scan": {
        const [a, b] = inputs.map((input) => (input as Operand | undefined)?.storage);
        fold(this.#device, op as AxisOp, plan!, call.outputs[0]!.storage, a!, b ?? null);
        return true;
      }
      default:
        return KERNELS.get(op.name)!.run(this.#device, call) ?? true;
    }
  }

  /** Notes the storages that the call uses in the graph under recording, if any. */
  #note({ op, inputs, outputs }: Call): void {
    const { notes } = this.#device;
    if (notes === null) return;
    // A call of an op without outputs may have room for one output.
    for (const out of outputs) if (out !== undefined) notes.write(out.storage);
    inputs.forEach((input, k) => {
      if (!isOperand(input)) return;
      if (op.writes?.includes(k)) notes.write(input.storage);
      else notes.read(input.storage);
    });
  }
}
