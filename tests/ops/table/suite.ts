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
import { renewLoops, runsLayout, type Target, using } from "./backends.ts";
import { checkCasts, checkPatterns } from "./casts.ts";
import { spacing } from "./compare.ts";
import { checkFold, FOLD_LAYOUTS } from "./folds.ts";
import { checkMap, MAP_LAYOUTS } from "./maps.ts";
import { forgetGolden } from "./golden.ts";
import { isSampled, RUNS_ALL } from "../../support/amount.ts";
import { forget, generator, operand, read, sent } from "./operands.ts";

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

/** Whether a part of the table is tested: a row, or the casts, for one dtype on one target. */
export type Choice = (row: string, dtype: DType, target: string) => boolean;

/**
 * Every op of the op table × dtype × layout on `targets`, every cast, and the accuracy of long
 * sums; then a check that nothing was omitted. One test each, in this order. With `chooses`, only
 * the parts that it chooses, without that check.
 */
export function tableTests(targets: readonly Target[], chooses?: Choice): Test[] {
  const tests: Test[] = [];
  const test = (name: string, run: () => void): void => void tests.push([name, run]);
  /** The cases that ran: `op dtype layout backend`. */
  const ran = new Set<string>();
  let current = "";
  const isChosen = (row: string, dtype: DType, { name, every = 1 }: Target): boolean =>
    chooses?.(row, dtype, name) ?? isSampled(`${row} ${dtype} ${name}`, every);

  for (const row of TABLE) {
    for (const target of targets) {
      const dtypes = DTYPES.filter((dtype) => isChosen(row.name, dtype, target));
      if (dtypes.length === 0) continue;
      test(`${row.name}: ${target.name}`, () => {
        if (current !== row.name) {
          current = row.name;
          renewLoops();
          forget();
          forgetGolden();
        }
        const count = (dtype: DType, layout: string): void => {
          ran.add(`${row.name} ${dtype} ${layout} ${target.name}`);
        };
        if (row.kind === "map") checkMap(row, target, dtypes, count);
        else checkFold(row, target, dtypes, count);
      });
    }
  }

  const casts = new Set<string>();

  for (const target of targets) {
    test(`casts: ${target.name}`, () => {
      for (const from of DTYPES) {
        if (chooses?.("casts", from, target.name) === false) continue;
        checkCasts(from, target, (to) => casts.add(`${from} ${to} ${target.name}`));
      }
    });

    test(`all patterns of float16 and bfloat16: ${target.name}`, () => {
      checkPatterns("float16", target);
      checkPatterns("bfloat16", target);
    });

    for (const dtype of ["float32", "float64"] as const) {
      if (!isChosen("sums of a million", dtype, target)) continue;
      test(`sums of a million ${dtype} values: ${target.name}`, () => {
        const { n, array, exact, columns: exactColumns } = millionOf(dtype);
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
            const own = exactColumns[j]!;
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

  if (chooses !== undefined) return tests;
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
    const layouts = new Set([...MAP_LAYOUTS, ...FOLD_LAYOUTS].map(({ name }) => name));
    let expected = 0;
    for (const row of TABLE) {
      const isMap = row.kind === "map";
      for (const dtype of DTYPES.filter((name) => takes(row, name))) {
        for (const layout of isMap ? groups.map : groups.reduce) {
          if (row.kind === "argReduce" && layout === "dtype option") continue;
          if (row.kind === "scan" && layout === "0-d") continue;
          for (const target of targets) {
            if (!isChosen(row.name, dtype, target)) continue;
            if (layouts.has(layout) && !runsLayout(row.name, dtype, layout, target)) continue;
            const key = `${row.name} ${dtype} ${layout} ${target.name}`;
            assert(ran.has(key), `did not run: ${key}`);
            expected++;
          }
        }
      }
    }
    // In addition to these: mixed dtypes, scalars, overlap, special values.
    assert(ran.size > expected, `${ran.size} cases ran, expected more than ${expected}`);
    const least = RUNS_ALL ? 10_000 : 2_000;
    assert(expected > least * targets.length, `only ${expected} cases`);
    assertEquals(casts.size, DTYPES.length ** 2 * targets.length);
    console.log(`${ran.size} cases of ${TABLE.length} rows, ${casts.size} casts`);
  });
  return tests;
}

/** Values with their exact sums. */
interface Million {
  readonly n: number;
  readonly array: Float64Array;
  readonly exact: number;
  /** The sums of the eight columns of the values. */
  readonly columns: readonly number[];
}

const millions = new Map<DType, Million>();

/** A million values of every magnitude and both signs, so that a plain running sum loses digits. */
function millionOf(dtype: DType): Million {
  let million = millions.get(dtype);
  if (million === undefined) {
    const n = 1e6;
    const random = generator(3);
    const array = new DTYPE[dtype].array(n) as Float64Array;
    for (let i = 0; i < n; i++) array[i] = (random() - 0.4) * 10 ** Math.floor(random() * 8);
    const columns = Array.from({ length: 8 }, (_, j) => exactSum(array, j, 8));
    millions.set(dtype, million = { n, array, exact: exactSum(array, 0, 1), columns });
  }
  return million;
}

/**
 * The correctly rounded sum of every `step`th value, from partial sums that do not overlap
 * (Shewchuk).
 */
function exactSum(values: Float64Array, from: number, step: number): number {
  // In the order of their magnitudes.
  const partials: number[] = [];
  for (let k = from; k < values.length; k += step) {
    let x = values[k]!;
    let count = 0;
    for (const y of partials) {
      const sum = x + y;
      const error = Math.abs(x) >= Math.abs(y) ? y - (sum - x) : x - (sum - y);
      if (error !== 0) partials[count++] = error;
      x = sum;
    }
    partials[count++] = x;
    partials.length = count;
  }
  return partials.reduce((sum, x) => sum + x, 0);
}
