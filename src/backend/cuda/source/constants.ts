/**
 * The constants that the kernels share with the code that launches them. Every source begins with them,
 * as `#define RM_...`.
 *
 * @module
 */
import { DTYPES } from "../../../base/dtype.ts";
import { COMPLEX_NUMBER } from "../../../ops/complex/op.ts";

/** `notEqual` as `NOT_EQUAL`. */
function upper(name: string): string {
  return name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** By the header in shim/cuda/kernels that needs the constants. */
export const CONSTANTS = {
  "device.h": {
    /** Threads of a block, unless a kernel says otherwise. */
    THREADS: 256,
    /** Axes that most kernels have room for, and the maximum. */
    FEW_AXES: 8,
    MAX_AXES: 64,
  },
  "map.h": {
    /** Elements of a thread that fetches each element separately. */
    MAP_ELEMENTS: 4,
    /** Rows and columns of a tile, and of one of cheap ops on elements of at most 2 bytes. */
    MAP_TILE: 32,
    MAP_LARGE_TILE: 64,
    /** Flag of contiguous operands: one instruction can move a pack. */
    MAP_ALIGNED: 8,
  },
  "reduce.h": {
    /**
     * Rows that a lane loads at a time where outputs are neighbors; half as many for 8-byte
     * elements.
     */
    REDUCE_ROWS: 16,
    /** Flags: elements are taken in packs, one load fetches a pack, b varies within an output. */
    REDUCE_PACKS: 1,
    REDUCE_ALIGNED: 2,
    REDUCE_SECOND_VARIES: 4,
  },
  "scan.h": {
    /** Flags: one load fetches a pack of the input, one store writes a pack of the output. */
    SCAN_ALIGNED_IN: 1,
    SCAN_ALIGNED_OUT: 2,
  },
  "softmax_norm.h": {
    /** Bytes of struct rm_row_part. */
    PART_BYTES: 32,
  },
  "sort.h": {
    /** The longest run that is sorted by ranks, which is also the size of those blocks. */
    SORT_RANK_MAX: 512,
    /** Values of a digit. */
    SORT_DIGITS: 256,
    /** Elements of a thread, and of a thread with 8-byte elements. */
    SORT_ITEMS: 16,
    SORT_WIDE_ITEMS: 8,
    /**
     * Flags above the bits of the mantissa of floats in `order`: signed integers; descending order.
     */
    SORT_SIGNED: 256,
    SORT_DESCENDING: 512,
    /** One thread each adds up rows of at most this many counts. */
    FEW_COUNTS: 16,
    /** The most threads of a block that adds up the counts of a row. */
    COUNTS_THREADS: 1024,
  },
  "gather_scatter.h": {
    /** Elements that a block of nonzero reads. */
    NONZERO_TILE: 4096,
    /** Sorted indices of a chunk of scatter-add. */
    ADD_CHUNK: 32,
    /** Flag next to the bytes of an index: the index is signed. */
    INDEX_SIGNED: 16,
    /** Words of 8 bytes of struct rm_faults. */
    FAULT_WORDS: 4,
  },
  "matmul.h": {
    /** Rows and columns of the tile that a block computes. */
    MATMUL_TILE: 64,
  },
  "attention.h": {
    /** Axes of the batch that a launch has room for. */
    ATTENTION_AXES: 3,
  },
  "quantized.h": {
    /** Columns of a product that a block computes, and lanes that load scales of each. */
    QUANT_COLUMNS: 4,
    QUANT_SLOTS: 8,
    /** The most warps of such a block. */
    QUANT_WARPS: 8,
  },
  "random.h": {},
  /** The ops, by their numbers. */
  "complex.h": Object.fromEntries(
    [...COMPLEX_NUMBER].map(([op, id]) => [`COMPLEX_${upper(op)}`, id]),
  ) as Readonly<Record<string, number>>,
} as const;

/** A header that defines kernels. */
export type Header = keyof typeof CONSTANTS;

const texts = new Map<Header, string>();

function defineAll(constants: Readonly<Record<string, number>>): string {
  return Object.entries(constants).map(([name, value]) => `#define RM_${name} ${value}\n`).join("");
}

/** The first lines of a source that includes `header`. */
export function constantsOf(header: Header): string {
  let text = texts.get(header);
  if (text === undefined) {
    const ids = Object.fromEntries(DTYPES.map((dtype, id) => [dtype.toUpperCase(), id]));
    text = defineAll(ids) + defineAll(CONSTANTS["device.h"]) +
      (header === "device.h" ? "" : defineAll(CONSTANTS[header]));
    texts.set(header, text);
  }
  return text;
}
