/**
 * The kernels of the JavaScript backend: the definitions of ops without an expression in the table.
 *
 * @module
 */
import { hasIndexTensor } from "../../ops/index/kernels.ts";
import { runCollective } from "../../ops/collective/problem.ts";
import { runsConvolve } from "../../ops/fft/convolve.ts";
import { isPlainGemm } from "../../ops/matmul/problem.ts";
import { DTYPE } from "../../base/dtype.ts";
import { hasFloatRows, isPackedCall } from "../../ops/linear/panels.ts";
import { sortsLastAxis } from "../../ops/sort/op.ts";
import type { Call } from "../../table/op.ts";
import { dequantizeNibbles, packBytes, packNibbles, unpackBytes } from "./bytes.ts";
import { chain, runsChain } from "./chain.ts";
import { complexMap } from "./complex.ts";
import { conv, convWeightGrad, runsConv } from "./conv.ts";
import { categorical, covarianceFactor, deviates, distinctPlaces } from "./deviates.ts";
import {
  gather,
  nonzeroIndices,
  ravelIndex,
  scatter,
  scatterAdd,
  takeAlongAxis,
} from "./gather.ts";
import { convolve } from "./convolve.ts";
import { gridSample, maxPoolGrad, maxPoolIndices, roiAlign } from "./image.ts";
import { fft, runsFft } from "./fft.ts";
import { attentionRows } from "./attention.ts";
import { LINALG_KERNELS } from "./linalg/kernels.ts";
import { dequantizeInt8, linearInt8, quantizeInt8 } from "./int8.ts";
import { matmul } from "./matmul.ts";
import { linearPacked } from "./packed_weight.ts";
import { dequantizeBlocks, isQuantizeCall, packBlocks, quantize } from "./quantized.ts";
import { random } from "./random.ts";
import { sampleRows } from "./sampling.ts";
import { argpartition, modesOfRows, partition, quantilesOfRows } from "./selection.ts";
import { argsort, sort } from "./sort.ts";
import {
  binIndices,
  countBins,
  interpolate,
  isAmong,
  runIndices,
  scatterFold,
  searchIndices,
  uniqueRuns,
  uniqueTable,
} from "./sets.ts";

/** The definition of an op. */
export interface Kernel {
  /** Whether it can run the call; else the op is decomposed. */
  supports(call: Call, generate: boolean): boolean;
  /** Runs it; `generate` says whether functions may be made from text. */
  run(call: Call, generate: boolean): void;
}

const always = (): boolean => true;
const COLLECTIVE_KERNEL: Kernel = { supports: always, run: runCollective };
const isFloat32 = (call: Call): boolean => call.operand(0).storage.info === DTYPE.float32;

/** The kernels by the names of their ops. */
export const KERNELS: ReadonlyMap<string, Kernel> = new Map(Object.entries(
  {
    gather: { supports: always, run: gather },
    scatter: { supports: always, run: scatter },
    scatterAdd: { supports: always, run: scatterAdd },
    ravelIndex: { supports: always, run: ravelIndex },
    takeAlongAxis: { supports: hasIndexTensor, run: takeAlongAxis },
    nonzeroIndices: { supports: always, run: nonzeroIndices },
    sort: { supports: sortsLastAxis, run: sort },
    argsort: { supports: sortsLastAxis, run: argsort },
    partition: { supports: sortsLastAxis, run: partition },
    argpartition: { supports: sortsLastAxis, run: argpartition },
    quantilesOfRows: { supports: always, run: quantilesOfRows },
    modesOfRows: { supports: always, run: modesOfRows },
    sampleRows: { supports: always, run: sampleRows },
    matmul: { supports: isPlainGemm, run: matmul },
    random: { supports: always, run: random },
    complexMap: { supports: always, run: complexMap },
    deviates: { supports: always, run: deviates },
    distinctPlaces: { supports: always, run: distinctPlaces },
    categorical: { supports: always, run: categorical },
    covarianceFactor: { supports: always, run: covarianceFactor },
    chain: { supports: runsChain, run: chain },
    linearPacked: { supports: isPackedCall, run: linearPacked },
    conv: { supports: runsConv, run: conv },
    convWeightGrad: { supports: runsConv, run: convWeightGrad },
    roiAlign: { supports: always, run: roiAlign },
    gridSample: { supports: always, run: gridSample },
    maxPoolIndices: { supports: always, run: maxPoolIndices },
    maxPoolGrad: { supports: always, run: maxPoolGrad },
    dequantizeBlocks: { supports: always, run: dequantizeBlocks },
    quantize: { supports: isQuantizeCall, run: quantize },
    quantizeInt8: { supports: isFloat32, run: quantizeInt8 },
    dequantizeInt8: { supports: always, run: dequantizeInt8 },
    linearInt8: { supports: hasFloatRows, run: linearInt8 },
    packBytes: { supports: always, run: packBytes },
    unpackBytes: { supports: always, run: unpackBytes },
    packNibbles: { supports: always, run: packNibbles },
    dequantizeNibbles: { supports: always, run: dequantizeNibbles },
    attentionRows: { supports: always, run: attentionRows },
    convolve: { supports: runsConvolve, run: convolve },
    fft: { supports: runsFft, run: fft },
    allReduce: COLLECTIVE_KERNEL,
    allGather: COLLECTIVE_KERNEL,
    reduceScatter: COLLECTIVE_KERNEL,
    broadcast: COLLECTIVE_KERNEL,
    allToAll: COLLECTIVE_KERNEL,
    packBlocks: { supports: always, run: packBlocks },
    ...LINALG_KERNELS,
    uniqueRuns: { supports: always, run: uniqueRuns },
    runIndices: { supports: always, run: runIndices },
    uniqueTable: { supports: always, run: uniqueTable },
    isAmong: { supports: always, run: isAmong },
    searchIndices: { supports: always, run: searchIndices },
    interpolate: { supports: always, run: interpolate },
    binCounts: { supports: always, run: countBins },
    histogramCounts: { supports: always, run: countBins },
    binIndices: { supports: always, run: binIndices },
    scatterFold: { supports: always, run: scatterFold },
  } satisfies Record<string, Kernel>,
));
