/**
 * The programs of complex numbers for programs.ts.
 *
 * @module
 */
import { complex } from "../../../mod.ts";
import type { Program } from "../programs.ts";

/** The programs of complex numbers. */
export const COMPLEX_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ["complex", ({ x, y }) => complex(x, y), "complex(x, y)"],
  [
    "complex [scalars]",
    ({ x }) => complex(x, 2).mul({ re: 0, im: 1 }).real(),
    "complex(x, 2)",
    "mul(tensor of [2,3], {re: 0, im: 1})",
    "real(tensor of [2,3])",
  ],
  [
    "complex [products]",
    ({ x, y }) => complex(x, y).conj().matmul(complex(y, x).T).abs(),
    "complex(x, y)",
    "conj(tensor of [2,3])",
    "complex(y, x)",
    "T: transpose(tensor of [2,3])",
    "matmul(tensor of [2,3], tensor of [3,2])",
    "abs(tensor of [2,2])",
  ],
];
