/**
 * A run: its figures, and the ratios, means and missed goals that follow from them.
 *
 * Knows nothing of processes, files or tables.
 *
 * @module
 */
import type { Timing } from "./runner.ts";
import {
  type Figure,
  geometricMean,
  type Goal,
  keyOf,
  median,
  type Runtime,
  type Side,
  type Suite,
} from "./suite.ts";

/** What took part in a run. */
export interface SideInfo {
  readonly name: string;
  readonly peer: boolean;
  readonly runtime?: Runtime | "Node";
  readonly version: string;
  /** rowmajor's instruction set. */
  readonly level?: string;
}

/** Numbers in the order of a run's sides; null if a side has no such row. */
export type BySide = readonly (number | null)[];

/** A row of a run. */
export interface ResultRow {
  /** `group/name`. */
  readonly row: string;
  readonly threads: number;
  /** What figures are of, if not of a call. */
  readonly per?: string;
  readonly unit?: "bytes";
  /** Nanoseconds or bytes: medians over the rounds. */
  readonly wall: BySide;
  /** Processor time in nanoseconds: medians over the rounds. */
  readonly cpu?: BySide;
  /** Nanoseconds of the fastest batch of the run. */
  readonly least?: BySide;
  /** For each of ours, in order: its wall time divided by that of each side. */
  readonly ratio: readonly BySide[];
  /** The same of processor time. */
  readonly cpuRatio?: readonly BySide[];
}

/** A run. */
export interface Results {
  readonly suite: string;
  /** In ISO format. */
  readonly date: string;
  readonly commit: string;
  readonly command: string;
  readonly machine: {
    readonly processor: string;
    readonly cores: number;
    readonly system: string;
    /** The largest instruction set of the processor. */
    readonly instructions: string;
  };
  /** All sides were held to this instruction set. */
  readonly level?: "v3";
  readonly backend: "js" | "native" | "wasm";
  readonly rounds: number;
  /** Runnable processes per core before each number of threads: above 0, the machine was shared. */
  readonly load: readonly number[];
  readonly sides: readonly SideInfo[];
  /** The peers that were wanted, and why they are missing. */
  readonly missing: Readonly<Record<string, string>>;
  readonly rows: readonly ResultRow[];
}

/** Three digits. */
function round(value: number): number {
  return Number(value.toPrecision(3));
}

/** Whether a side is compared with another: two runtimes are not. */
export function compares(ours: SideInfo, other: SideInfo): boolean {
  return other !== ours && other.peer &&
    (other.runtime === undefined || other.runtime === ours.runtime);
}

/** Summarizes the figures of a row. */
export function summarize(timing: Timing, sides: readonly (SideInfo | Side)[]): ResultRow {
  const { row, threads, figures } = timing;
  const count = row.per?.count ?? 1;
  type Key = "wall" | "cpu" | "least";
  const of = (side: SideInfo, key: Key): (number | undefined)[] =>
    (figures[side.name] ?? []).map((figure: Figure) => figure[key]);
  const each = (key: Key, summary: (values: readonly number[]) => number): BySide =>
    sides.map((side) => {
      const known = of(side, key).filter((value) => value !== undefined);
      return known.length === 0 ? null : round(summary(known) / count);
    });
  // The medians of the ratios of each round: neighbours in time are compared.
  const ratios = (key: Key): BySide[] =>
    sides.filter(({ peer }) => !peer).map((ours) =>
      sides.map((other) => {
        if (!compares(ours, other)) return null;
        const theirs = of(other, key);
        const known = of(ours, key).flatMap((mine, i) =>
          mine === undefined || !theirs[i] ? [] : [mine / theirs[i]!]
        );
        return known.length === 0 ? null : round(median(known));
      })
    );
  const has = (values: BySide): boolean => values.some((value) => value !== null);
  const [cpu, least] = [each("cpu", median), each("least", (values) => Math.min(...values))];
  return {
    row: keyOf(row),
    threads,
    ...(row.per === undefined ? {} : { per: row.per.unit }),
    ...(row.unit === undefined ? {} : { unit: row.unit }),
    wall: each("wall", median),
    ...(has(cpu) ? { cpu } : {}),
    ...(has(least) ? { least } : {}),
    ratio: ratios("wall"),
    ...(has(cpu) ? { cpuRatio: ratios("cpu") } : {}),
  };
}

/** The group of a row, whose name has no slash. */
export function groupOf({ row }: Pick<ResultRow, "row">): string {
  return row.slice(0, row.indexOf("/"));
}

/** The groups of rows, in their order. */
export function groupsOf(rows: readonly ResultRow[]): string[] {
  return [...new Set(rows.map(groupOf))];
}

/** The indexes of our sides, in the order of `ratio`. */
export function oursOf({ sides }: Results): number[] {
  return sides.flatMap(({ peer }, i) => peer ? [] : [i]);
}

/** The index of the side with the least wall time among those that the `k`-th of ours has a ratio to. */
export function fastest(row: ResultRow, k: number): number | undefined {
  const known = row.ratio[k]!.flatMap((ratio, i) => ratio === null ? [] : [i]);
  return known.sort((a, b) => row.wall[a]! - row.wall[b]!)[0];
}

/** A ratio of wall time, and of processor time if that is known. */
export interface Ratio {
  readonly wall: number;
  readonly cpu?: number;
}

/** The ratio of the `k`-th of ours to a side, or to the fastest. */
export function ratioOf(row: ResultRow, k: number, beside?: number): Ratio | undefined {
  const at = beside ?? fastest(row, k);
  const wall = at === undefined ? null : row.ratio[k]![at] ?? null;
  if (wall === null) return undefined;
  const cpu = row.cpuRatio?.[k]?.[at!] ?? null;
  return cpu === null ? { wall } : { wall, cpu };
}

/** A goal of a row that some of ours miss. */
export interface Miss {
  readonly row: string;
  readonly threads: number;
  readonly goal: string;
  readonly side: string;
  readonly value: string;
}

/** Nanoseconds with a unit. */
function nsText(ns: number): string {
  return ns >= 1e6 ? `${Number((ns / 1e6).toPrecision(3))} ms` : `${ns} ns`;
}

/** A goal as text. */
export function goalText({ ratio, ns, beside }: Goal): string {
  if (ns !== undefined) return `≤ ${nsText(ns)}`;
  return `≤ ${ratio}${beside === undefined ? "" : ` of ${beside}`}`;
}

/** By how much the `k`-th of ours misses the goal of a row; undefined if it does not. */
export function missOf(
  results: Results,
  suite: Suite,
  row: ResultRow,
  k: number,
): number | undefined {
  const goal = suite.goal?.(row.row, results.backend, row.threads);
  if (goal === undefined) return undefined;
  const side = oursOf(results)[k]!;
  if (goal.ns !== undefined) return row.wall[side]! > goal.ns ? row.wall[side]! : undefined;
  const beside = goal.beside === undefined
    ? undefined
    : results.sides.findIndex(({ name }) => name === goal.beside);
  const ratio = ratioOf(row, k, beside);
  return ratio !== undefined && ratio.wall > goal.ratio! ? ratio.wall : undefined;
}

/** A line of the short table: ratios of a group or of a row. */
export interface Line {
  readonly name: string;
  /** The side that ours are compared with; "the fastest peer" otherwise. */
  readonly beside?: string;
  /** The rows of each number of threads, if a line is a row. */
  readonly rows?: readonly (ResultRow | undefined)[];
  /** For each number of threads, for each of ours. */
  readonly ratios: readonly (readonly (Ratio | undefined)[])[];
  /** The largest ratio of wall time of a row, and its name. */
  readonly worst?: { readonly row: string; readonly wall: number };
  readonly goal?: number;
}

/** The numbers of threads of a run. */
export function threadsOf({ rows }: Results): number[] {
  return [...new Set(rows.map(({ threads }) => threads))];
}

function meanOf(ratios: readonly (Ratio | undefined)[]): Ratio | undefined {
  const known = ratios.filter((ratio) => ratio !== undefined);
  if (known.length === 0) return undefined;
  const wall = geometricMean(known.map((ratio) => ratio.wall));
  const cpu = known.flatMap((ratio) => ratio.cpu ?? []);
  return cpu.length === known.length ? { wall, cpu: geometricMean(cpu) } : { wall };
}

/** Those of ours that short tables show, as indexes of `ratio`. */
function shownOf(results: Results, { short }: Suite): number[] {
  return oursOf(results).flatMap((side, k) =>
    short === undefined || short.includes(results.sides[side]!.name) ? [k] : []
  );
}

/** The peers that rows are compared with one by one; undefined is the fastest. */
function besides(
  { sides }: Results,
  suite: Suite,
  rows: readonly ResultRow[],
): (number | undefined)[] {
  if (suite.beside === "fastest") return [undefined];
  return sides.flatMap(({ peer }, i) =>
    peer && rows.some(({ wall }) => wall[i] !== null) ? [i] : []
  );
}

/** The line of some rows, if they have ratios. */
function lineOf(
  results: Results,
  suite: Suite,
  name: string,
  rows: readonly ResultRow[],
  beside: number | undefined,
): Line[] {
  const [counts, shown] = [threadsOf(results), shownOf(results, suite)];
  const ratios = counts.map((threads) =>
    shown.map((k) =>
      meanOf(rows.filter((row) => row.threads === threads).map((row) => ratioOf(row, k, beside)))
    )
  );
  if (ratios.flat().every((ratio) => ratio === undefined)) return [];
  const all = rows.flatMap((row) =>
    shown.flatMap((k) => {
      const wall = ratioOf(row, k, beside)?.wall;
      return wall === undefined ? [] : [{ row: row.row.slice(row.row.indexOf("/") + 1), wall }];
    })
  );
  const worst = all.reduce((a, b) => b.wall > a.wall ? b : a);
  const goal = results.backend === "js" ? undefined : suite.meanGoal?.(name);
  return [{
    name,
    ...(beside === undefined ? {} : { beside: results.sides[beside]!.name }),
    ...(suite.lines === "row"
      ? { rows: counts.map((threads) => rows.find((row) => row.threads === threads)) }
      : {}),
    ratios,
    ...(rows.length > counts.length ? { worst } : {}),
    ...(goal === undefined ? {} : { goal }),
  }];
}

/** The lines of the short table. */
export function linesOf(results: Results, suite: Suite): Line[] {
  const parts: (readonly [name: string, rows: readonly ResultRow[]])[] = suite.lines === "row"
    ? [...new Set(results.rows.map(({ row }) => row))].map((key) =>
      [key.replace("/", ": "), results.rows.filter(({ row }) => row === key)] as const
    ).filter(([name]) => suite.shortRows?.test(name) ?? true)
    : groupsOf(results.rows).map((group) =>
      [group, results.rows.filter((row) => groupOf(row) === group)] as const
    );
  const lines = parts.flatMap(([name, rows]) =>
    besides(results, suite, rows).flatMap((beside) => lineOf(results, suite, name, rows, beside))
  );
  const counted = results.rows.filter((row) => suite.overall?.includes(groupOf(row)));
  return counted.length === 0
    ? lines
    : [...lines, ...lineOf(results, suite, "overall", counted, undefined)];
}

/** A line of all rows beside each peer, or beside the fastest. */
export function overallOf(results: Results, suite: Suite): Line[] {
  const rows = results.rows.filter((row) =>
    row.unit === undefined && (suite.overall?.includes(groupOf(row)) ?? true)
  );
  const whole: Suite = { ...suite, lines: "group" };
  return besides(results, suite, rows).flatMap((beside) =>
    lineOf(results, whole, results.suite, rows, beside)
  );
}

/** The goals of rows and of means that a run misses. */
export function missesOf(results: Results, suite: Suite): Miss[] {
  const ours = oursOf(results);
  const rows = results.rows.flatMap((row) =>
    ours.flatMap((side, k) => {
      const value = missOf(results, suite, row, k);
      if (value === undefined) return [];
      const goal = suite.goal!(row.row, results.backend, row.threads)!;
      const { name } = results.sides[side]!;
      return [{
        ...{ row: row.row, threads: row.threads, side: name, goal: goalText(goal) },
        value: goal.ns === undefined ? value.toFixed(2) : nsText(value),
      }];
    })
  );
  const counts = threadsOf(results);
  const names = ours.map((side) => results.sides[side]!.name)
    .filter((name) => suite.short === undefined || suite.short.includes(name));
  const means = linesOf(results, suite).flatMap(({ name, beside, ratios, goal }) =>
    ratios.flatMap((each, t) =>
      each.flatMap((ratio, k) =>
        goal === undefined || ratio === undefined || ratio.wall <= goal ? [] : [{
          ...{ row: `the mean of ${name}${beside === undefined ? "" : ` beside ${beside}`}` },
          ...{ threads: counts[t]!, side: names[k]!, goal: `≤ ${goal}` },
          value: ratio.wall.toFixed(2),
        }]
      )
    )
  );
  return [...rows, ...means];
}

/** The run as JSON, a line for each row. */
export function toJson(results: Results): string {
  const lines = (name: string, value: unknown): string =>
    name === "rows" || name === "sides"
      ? `[\n${
        (value as readonly unknown[]).map((one) => `    ${JSON.stringify(one)}`).join(",\n")
      }\n  ]`
      : JSON.stringify(value);
  const fields = Object.entries(results).map(([name, value]) =>
    `  ${JSON.stringify(name)}: ${lines(name, value)}`
  );
  return `{\n${fields.join(",\n")}\n}\n`;
}
