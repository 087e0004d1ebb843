/**
 * The table of all ops as tests, for the files that register them.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { DTYPE, type DType, DTYPES } from "../../../src/base/dtype.ts";
import { dispatch } from "../../../src/core/dispatch.ts";
import { readElement } from "../../../src/memory/element.ts";
import { Layout } from "../../../src/base/layout.ts";
import { takes } from "../../../src/table/infer.ts";
import { REDUCE, SCAN, TABLE } from "../../../src/table/table.ts";
import { wrapExternal } from "../../../src/memory/pool.ts";
import "../../../src/tensor/tensor.ts";
import { type Target, using } from "./backends.ts";
import { checkCasts, checkPatterns } from "./casts.ts";
import { spacing } from "./compare.ts";
import { checkFold, FOLD_LAYOUTS } from "./folds.ts";
import { checkMap, MAP_LAYOUTS } from "./maps.ts";
import { generator, operand, read, sent } from "./operands.ts";

/** A test: its name and what it does. */
export type Test = readonly [name: string, run: () => void];

/**
 * All of the tests or, if `ROWMAJOR_TEST_PART`, or `usual` without it, is `1/4`, share 1 of the shares
 * 0 to 3, without the last test, which checks the coverage of the others.
 */
export function shareOf(tests: readonly Test[], usual = "0/1"): readonly Test[] {
  const [part, parts] = (process.env.ROWMAJOR_TEST_PART ?? usual).split("/").map(Number);
  return parts === 1 ? tests : tests.slice(0, -1).filter((_, i) => i % parts! === part);
}

/**
 * Every op of the op table × dtype × layout on `targets`, every cast, and the accuracy of long
 * sums; then a check that nothing was omitted. One test each, in this order.
 */
export function tableTests(targets: readonly Target[]): Test[] {
  const tests: Test[] = [];
  const test = (name: string, run: () => void): void => void tests.push([name, run]);
  /** The cases that ran: `op dtype layout backend`. */
  const ran = new Set<string>();

  for (const row of TABLE) {
    for (const target of targets) {
      test(`${row.name}: ${target.name}`, () => {
        const count = (dtype: DType, layout: string): void => {
          ran.add(`${row.name} ${dtype} ${layout} ${target.name}`);
        };
        if (row.kind === "map") checkMap(row, target, count);
        else checkFold(row, target, count);
      });
    }
  }

  const casts = new Set<string>();

  for (const target of targets) {
    test(`casts: ${target.name}`, () => {
      for (const from of DTYPES) {
        checkCasts(from, target, (to) => casts.add(`${from} ${to} ${target.name}`));
      }
    });

    test(`all patterns of float16 and bfloat16: ${target.name}`, () => {
      checkPatterns("float16", target);
      checkPatterns("bfloat16", target);
    });

    for (const dtype of ["float32", "float64"] as const) {
      test(`sums of a million ${dtype} values: ${target.name}`, () => {
        const n = 1e6;
        const random = generator(3);
        const array = new DTYPE[dtype].array(n) as Float64Array;
        // Of every magnitude and both signs, so that a plain running sum loses digits.
        for (let i = 0; i < n; i++) array[i] = (random() - 0.4) * 10 ** Math.floor(random() * 8);
        const exact = exactSum(array);
        using(target.on, () => {
          const storage = sent(wrapExternal(dtype, array.slice()));
          for (const shape of [[n], [1000, 1000], [2, 500, 1000]]) {
            const x = operand(storage, Layout.contiguous(shape));
            const [sum] = read(dispatch(REDUCE.sum, [x], { axis: null })) as [number];
            const error = Math.abs(sum - exact) / spacing(exact, dtype);
            assert(error <= 1, `the sum of shape [${shape}] is ${sum}, ${error} ulp from ${exact}`);
            const [mean] = read(
              dispatch(REDUCE.mean, [x], { axis: null }),
            ) as [number];
            const far = Math.abs(mean - exact / n) / spacing(mean, dtype);
            assert(far <= 1, `the mean of shape [${shape}] is ${mean}, ${far} ulp off`);
          }
          // Column sums, which are kept side by side.
          const columns = read(
            dispatch(REDUCE.sum, [operand(storage, Layout.contiguous([n / 8, 8]))], { axis: 0 }),
          );
          columns.forEach((sum, j) => {
            const own = exactSum(array.filter((_, i) => i % 8 === j));
            const error = Math.abs(Number(sum) - own) / spacing(own, dtype);
            // Blocks of a column are summed plainly.
            assert(
              error <= (dtype === "float32" ? 1 : 4),
              `the sum of column ${j} is ${sum}, ${error} ulp from ${own}`,
            );
          });
          const scanned = dispatch(
            SCAN.cumulativeSum,
            [operand(storage, Layout.contiguous([n]))],
            { axis: 0 },
          );
          const last = readElement(scanned.storage, n - 1) as number;
          // Rounded to the dtype at the end only; in float64 each step may lose half a unit.
          const ulp = dtype === "float32" ? 1 : n / 2;
          assert(
            Math.abs(last - exact) <= ulp * spacing(exact, dtype),
            `the running sum ends at ${last}`,
          );
        });
      });
    }
  }

  test("no row, dtype, layout or backend was left out", () => {
    const groups = {
      map: [
        "golden",
        "out as a view",
        "out of another dtype",
        ...MAP_LAYOUTS.map(({ name }) => name),
      ],
      reduce: [
        "golden",
        "empty",
        "out of another dtype, strided",
        "dtype option",
        ...FOLD_LAYOUTS.map(({ name }) => name),
      ],
    };
    let expected = 0;
    for (const row of TABLE) {
      const isMap = row.kind === "map";
      for (const dtype of DTYPES.filter((name) => takes(row, name))) {
        for (const layout of isMap ? groups.map : groups.reduce) {
          if (row.kind === "argReduce" && layout === "dtype option") continue;
          if (row.kind === "scan" && layout === "0-d") continue;
          for (const { name } of targets) {
            const key = `${row.name} ${dtype} ${layout} ${name}`;
            assert(ran.has(key), `did not run: ${key}`);
            expected++;
          }
        }
      }
    }
    // In addition to these: mixed dtypes, scalars, overlap, special values.
    assert(ran.size > expected, `${ran.size} cases ran, expected more than ${expected}`);
    assert(expected > 10_000 * targets.length, `only ${expected} cases`);
    assertEquals(casts.size, DTYPES.length ** 2 * targets.length);
    console.log(`${ran.size} cases of ${TABLE.length} rows, ${casts.size} casts`);
  });
  return tests;
}

/** The correctly rounded sum, from partial sums that do not overlap (Shewchuk). */
function exactSum(values: Float64Array): number {
  let partials: number[] = [];
  for (let x of values) {
    const next: number[] = [];
    for (const y of partials) {
      const sum = x + y;
      const bigger = Math.abs(x) >= Math.abs(y) ? x : y;
      const error = (bigger === x ? y : x) - (sum - bigger);
      if (error !== 0) next.push(error);
      x = sum;
    }
    partials = [...next, x];
  }
  return partials.reduce((sum, x) => sum + x, 0);
}
