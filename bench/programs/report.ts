/**
 * From timings of programs to tables: medians, ratios to each peer, geometric means.
 *
 * Knows nothing of processes or files.
 *
 * @module
 */
import {
  formatNs,
  formatRatio,
  geometricMean,
  median,
  ratioOf,
  round,
  toTable,
} from "../report.ts";
import { GROUPS, keyOf, type PeerName, PEERS, type Row } from "./rows.ts";
import type { TimerFigures, TimerWork } from "./timer.ts";

/** rowmajor in a runtime, compiled or eager. */
export const OURS = ["Deno eager", "Deno", "Bun eager", "Bun"] as const;

/** See {@link OURS}. */
export type Ours = typeof OURS[number];

/** All that is timed. */
export type Contestant = PeerName | Ours;

/** The timings of one row: nanoseconds of a call, one for each round. */
export interface Timing {
  readonly row: Row;
  /** The number of threads of each contestant. */
  readonly threads: number;
  /** Absent if a contestant has no such row. */
  readonly ns: Readonly<Partial<Record<Contestant, number[]>>>;
  /** The same of the fastest batch of each round. */
  readonly least: Readonly<Partial<Record<Contestant, number[]>>>;
}

/** A row of a run. */
export interface ResultRow {
  /** `group/name`. */
  readonly row: string;
  /** The number of threads of each contestant. */
  readonly threads: number;
  /** Nanoseconds per call or op: medians over the rounds. */
  readonly ns: Readonly<Partial<Record<Contestant, number>>>;
  /** Nanoseconds per call or op in the fastest batch of the run. */
  readonly least: Readonly<Partial<Record<Contestant, number>>>;
  /** The time of each of ours divided by that of each peer. */
  readonly ratios: Readonly<Partial<Record<Ours, Readonly<Partial<Record<PeerName, number>>>>>>;
}

/** The lateness of a timer during some work. */
export interface TimerRow extends TimerFigures {
  /** `Deno` or `Bun`. */
  readonly runtime: string;
  /** The number of threads that compute. */
  readonly threads: number;
  /** What the process does. */
  readonly work: TimerWork;
}

/** A run. */
export interface Results {
  /** The date in ISO format. */
  readonly date: string;
  /** The processor, the number of cores, the operating system. */
  readonly machine: string;
  /** The command. */
  readonly mode: string;
  /** The timings of each row. */
  readonly rounds: number;
  /** Runnable processes per core before each count of threads: above 0, the machine was shared. */
  readonly load: readonly number[];
  /** The version of each peer. */
  readonly versions: Readonly<Record<string, string>>;
  /** One entry for each row and number of threads. */
  readonly rows: readonly ResultRow[];
  /** One entry for each runtime, number of threads and kind of work. */
  readonly timer: readonly TimerRow[];
}

/** Summarizes a timing. */
export function summarize({ row, threads, ns, least }: Timing): ResultRow {
  const each = (times: Timing["ns"], summary: (values: readonly number[]) => number) =>
    Object.fromEntries(
      Object.entries(times).map(([name, all]) => [name, round(summary(all) / (row.ops ?? 1))]),
    );
  const ratios = ratiosBy(ns, (name, peer) => ratioOf(ns[name]!, ns[peer]!));
  const smallest = each(least, (values) => Math.min(...values));
  return { row: keyOf(row), threads, ns: each(ns, median), least: smallest, ratios };
}

/**
 * The row with the times of its fastest batches. On a busy machine these are steadier than medians,
 * but they leave out what slows single calls: garbage collection, new memory.
 */
export function byLeast(row: ResultRow): ResultRow {
  const { least } = row;
  return {
    ...row,
    ns: least,
    ratios: ratiosBy(least, (name, peer) => round(least[name]! / least[peer]!)),
  };
}

/** The ratios of those that have figures. */
function ratiosBy(
  figures: Readonly<Partial<Record<Contestant, unknown>>>,
  ratio: (name: Ours, peer: PeerName) => number,
): ResultRow["ratios"] {
  return Object.fromEntries(
    OURS.filter((name) => figures[name] !== undefined).map((name) => [
      name,
      Object.fromEntries(
        PEERS.filter((peer) => figures[peer] !== undefined)
          .map((peer) => [peer, ratio(name, peer)]),
      ),
    ]),
  );
}

/** The measurements of one kind of timer: p99 is the median over the rounds, max the largest. */
export function summarizeTimer(rounds: readonly TimerFigures[]): TimerFigures {
  const of = (name: "p99" | "ticks") => round(median(rounds.map((figures) => figures[name])));
  const speeds = rounds.flatMap(({ gflops }) => gflops ?? []);
  return {
    p99: of("p99"),
    max: round(Math.max(...rounds.map(({ max }) => max))),
    ticks: of("ticks"),
    ...(speeds.length > 0 ? { gflops: round(median(speeds)) } : {}),
  };
}

// ---- tables ------------------------------------------------------------------------------------

interface Section {
  readonly title: string;
  readonly cells: readonly (readonly string[])[];
}

/** The group of a row. */
function groupOf({ row }: ResultRow): string {
  return row.slice(0, row.indexOf("/"));
}

function threadsOf(count: number): string {
  return count === 1 ? "1 thread" : `${count} threads`;
}

function countsOf(rows: readonly { readonly threads: number }[]): number[] {
  return [...new Set(rows.map(({ threads }) => threads))];
}

/** Those of `names` that have a figure in some row. */
function present<N extends Contestant>(names: readonly N[], rows: readonly ResultRow[]): N[] {
  return names.filter((name) => rows.some(({ ns }) => ns[name] !== undefined));
}

/** Geometric means of the ratios to each peer. */
function summary({ rows }: Results): Section[] {
  const ours = present(OURS, rows);
  const peers = present(PEERS, rows);
  const lines = countsOf(rows).flatMap((threads) =>
    GROUPS.flatMap((group) =>
      peers.flatMap((peer) => {
        const mine = rows.filter((row) => row.threads === threads && groupOf(row) === group);
        const means = ours.map((name) =>
          geometricMean(mine.flatMap(({ ratios }) => ratios[name]?.[peer] ?? []))
        );
        return means.every(Number.isNaN)
          ? []
          : [[`${group}, ${threadsOf(threads)}: ${peer}`, ...means.map(formatMean)]];
      })
    )
  );
  return lines.length === 0 ? [] : [{
    title: "time relative to each peer",
    cells: [["geometric means", ...ours], ...lines],
  }];
}

function formatMean(value: number): string {
  return formatRatio(Number.isNaN(value) ? undefined : value);
}

/** The ratio to the peer with the least time. */
function ratioToBest({ ns, ratios }: ResultRow, name: Ours): number | undefined {
  const [best] = PEERS.filter((peer) => ns[peer] !== undefined)
    .sort((a, b) => ns[a]! - ns[b]!);
  return best && ratios[name]?.[best];
}

function timeSections({ rows }: Results): Section[] {
  return countsOf(rows).flatMap((threads) =>
    GROUPS.flatMap((group) => {
      const mine = rows.filter((row) => row.threads === threads && groupOf(row) === group);
      if (mine.length === 0) return [];
      const [peers, ours] = [present(PEERS, mine), present(OURS, mine)];
      const per = group === "small ops" ? "op" : "call";
      return [{
        title: `programs: ${group}, ${threadsOf(threads)}`,
        cells: [
          [
            `ns per ${per}`,
            ...peers,
            ...ours.flatMap((name) => peers.length > 0 ? [name, "ratio"] : [name]),
          ],
          ...mine.map((row) => [
            row.row.slice(group.length + 1),
            ...peers.map((name) => formatNs(row.ns[name])),
            ...ours.flatMap((name) => {
              const time = formatNs(row.ns[name]);
              return peers.length > 0 ? [time, formatRatio(ratioToBest(row, name))] : [time];
            }),
          ]),
        ],
      }];
    })
  );
}

function timerSections({ timer }: Results): Section[] {
  return countsOf(timer).map((threads) => ({
    title: `programs: a timer of 1 ms, ${threadsOf(threads)}`,
    cells: [
      ["meanwhile", "p99 of delays (ms)", "max (ms)", "GFLOP/s"],
      ...timer.filter((row) => row.threads === threads).map((row) => [
        `${row.runtime}, ${row.work}`,
        `${row.p99}`,
        `${row.max}`,
        row.gflops?.toFixed(0) ?? "",
      ]),
    ],
  }));
}

/** The tables as Markdown. */
export function toMarkdown(results: Results): string {
  return [...summary(results), ...timeSections(results), ...timerSections(results)]
    .map(({ title, cells }) =>
      `### ${title[0]!.toUpperCase()}${title.slice(1)}\n\n${toTable(cells, true)}`
    ).join("\n\n");
}

/** The run as JSON, a line for each row. */
export function toJson(results: Results): string {
  const fields = Object.entries(results).map(([name, value]) => {
    const lines = name === "rows" || name === "timer"
      ? `[${
        (value as readonly unknown[]).map((one) => `\n    ${JSON.stringify(one)}`).join(",")
      }\n  ]`
      : JSON.stringify(value);
    return `  ${JSON.stringify(name)}: ${lines}`;
  });
  return `{\n${fields.join(",\n")}\n}\n`;
}
