/**
 * What reports tell of a program.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";

/** An operand or a result in a {@link ProgramData}. */
export interface ReportedValue {
  /**
   * `"arg 0"` or `"arg 1.scale"` for arguments (counted from 0), `"captured 0"`, `"constant"`,
   * `"packed"`, `"%3"` for the result of op 3, or a number.
   */
  readonly name: string;
  /** Its shape; undefined for numbers. */
  readonly shape?: readonly number[];
  /** Its dtype; undefined for numbers. */
  readonly dtype?: DType;
}

/** An op of a fused chain. */
export interface ReportedStep {
  /** What other steps call its result: `"a"`, `"b"` … */
  readonly name: string;
  /** The name of the op. */
  readonly op: string;
  /** Its operands: those of the chain, or the names of its steps. */
  readonly inputs: readonly string[];
  /** The dtype of its result. */
  readonly dtype: DType;
}

/** An op of a program, after the improvements. */
export interface ReportedOp {
  /** The name of the op; `chain` for several that were fused. */
  readonly op: string;
  /** The methods and functions that the op does the work of: `"linear → relu"`. */
  readonly name: string;
  /** What it reads. */
  readonly inputs: readonly ReportedValue[];
  /** What it writes. */
  readonly outputs: readonly ReportedValue[];
  /** The ops of a chain. */
  readonly steps?: readonly ReportedStep[];
  /** The number of calls of native kernels; those of each tile count once. */
  readonly kernels: number;
  /** Why it does not run in native code; undefined if it does, or if no op does. */
  readonly dispatched?: string;
}

/** A weight that was packed when the program was made. */
export interface ReportedWeight {
  /** [columns, depth] */
  readonly shape: readonly number[];
  /** The dtype of its elements. */
  readonly dtype: DType;
  /** The bytes of the packed copy. */
  readonly bytes: number;
}

/** Ops that run one after the other on a few rows at a time. */
export interface ReportedTiles {
  /** The names of the ops. */
  readonly ops: readonly string[];
  /** The number of tiles. */
  readonly tiles: number;
}

/** What the improvements did. */
export interface ReportedImprovements {
  /** The ops that no result needed. */
  readonly dropped: readonly string[];
  /** The ops that repeated others. */
  readonly shared: readonly string[];
  /** The ops of constants, computed when the program was made. */
  readonly folded: readonly string[];
  /** The weights that were packed. */
  readonly packed: readonly ReportedWeight[];
  /** The products that compute the ops after them too. */
  readonly joined: readonly string[];
  /** The number of convolutions whose images have channels last. */
  readonly channelsLast: number;
  /** How often attention was recognised. */
  readonly attention: number;
  /** The chains, each as the ops that it is made of. */
  readonly fused: readonly (readonly string[])[];
  /** The ops that write their results as parts of those of `concat` and `stack`, without a copy. */
  readonly placed: readonly string[];
  /** The ops that run tile by tile. */
  readonly tiled: readonly ReportedTiles[];
  /** The improvements that are turned off. */
  readonly off: readonly string[];
}

/** All that is known of a program. */
export interface ProgramData {
  /** The name of the function; empty if it has none. */
  readonly function: string;
  /** The kind of each argument. */
  readonly arguments: readonly string[];
  /**
   * What runs it: the kernels of the backend `"native"` or `"wasm"`, `"graph"` (recorded work of a
   * device) or `"replay"` (op by op).
   */
  readonly executor: "native" | "wasm" | "graph" | "replay";
  /** Why it does not run as a program of kernels; undefined if it does. */
  readonly why?: string;
  /** The number of ops of the function. */
  readonly traced: number;
  /** The ops of the program, in order. */
  readonly ops: readonly ReportedOp[];
  /** The tensors that it returns. */
  readonly results: readonly ReportedValue[];
  /** What the improvements did. */
  readonly improvements: ReportedImprovements;
  /**
   * The calls of native kernels in one run, copies that no op asked for included; those of each
   * tile count once.
   */
  readonly kernels: number;
  /** The calls of the native library that start them. */
  readonly nativeCalls: number;
  /** The memory of the program. */
  readonly bytes: {
    /**
     * For intermediate results, while a run lasts; runs one after the other use the same memory, those
     * of other programs too.
     */
    readonly arena: number;
    /** Of constants, without packed weights. */
    readonly constants: number;
    /** Of packed weights. */
    readonly packed: number;
    /** The part of `constants` and `packed` that other programs use too. */
    readonly shared: number;
  };
}
