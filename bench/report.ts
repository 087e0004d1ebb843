/**
 * From timings to tables: medians, ratios, geometric means, goals; as text, Markdown and JSON.
 *
 * Knows nothing of processes or files.
 *
 * @module
 */
import { COUNTED, type Goal, goalOf, NATIVE_GOALS } from "./goals.ts";
import type { PeerName } from "./peers.ts";
import { GROUPS, type Row } from "./work.ts";

/** A value for each peer that has one. */
export type ByPeer<T> = Readonly<Partial<Record<PeerName, T>>>;

/** The timings of one row: for each peer the nanoseconds of a call, one for each round. */
export interface Timing {
  /** The row. */
  readonly row: Row;
  /** The number of threads of each peer. */
  readonly threads: number;
  /** Absent if a peer has no such row. */
  readonly ns: ByPeer<readonly number[]>;
}

/** The middle value, or the mean of the two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The geometric mean; NaN for no values. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** The largest resident sets of fresh processes that ran a row, in bytes. */
export interface MemoryRow {
  /** The row's name, or another description of the work. */
  readonly name: string;
  /** By peer. */
  readonly peak: ByPeer<number>;
}

/** A run. */
export interface Results {
  /** The date in ISO format. */
  readonly date: string;
  /** The processor, the operating system, the number of cores. */
  readonly machine: string;
  /** The version of each peer; tables list the peers in this order. */
  readonly versions: ByPeer<string>;
  /** The backend of rowmajor's ops, which selects the goals. */
  readonly backend: "js" | "native";
  /** The options of the run. */
  readonly mode: string;
  /** One entry for each row and number of threads. */
  readonly rows: readonly ResultRow[];
  /** Measurements of memory, if any. */
  readonly memory: readonly MemoryRow[];
}

/** A row of a run. */
export interface ResultRow {
  /** See {@link Row}. */
  readonly group: Row["group"];
  /** See {@link Row}. */
  readonly name: string;
  /** The number of threads of each peer. */
  readonly threads: number;
  /** The unit of a figure: a call, or an element. */
  readonly per: "call" | "element";
  /** Nanoseconds per call or element: medians over the rounds. */
  readonly ns: ByPeer<number>;
  /** rowmajor's time divided by that of the faster of NumPy and PyTorch. */
  readonly ratio: ByPeer<number>;
  /** The goal as text, and the runtimes that miss it. */
  readonly goal?: string;
  /** See {@link goal}. */
  readonly misses: readonly PeerName[];
}

const OTHERS = ["NumPy", "PyTorch"] as const;
const RUNTIMES = ["Deno", "Bun"] as const;

/** Three digits. */
export function round(value: number): number {
  return Number(value.toPrecision(3));
}

/**
 * The median of the ratios of each round: neighbours in time are compared, so that a slow spell of
 * the machine weighs on both.
 */
export function ratioOf(mine: readonly number[], other: readonly number[]): number {
  return round(median(mine.map((value, i) => value / other[i])));
}

/** Summarizes a timing. */
export function summarize({ row, threads, ns }: Timing, backend: "js" | "native"): ResultRow {
  const figures: Partial<Record<PeerName, number>> = {};
  for (const [peer, values] of Object.entries(ns)) {
    figures[peer as PeerName] = round(median(values) / (row.elements ?? 1));
  }
  const [best] = OTHERS.filter((name) => ns[name] !== undefined)
    .sort((a, b) => figures[a]! - figures[b]!);
  const ratios = (other: readonly number[] | undefined): ByPeer<number> =>
    Object.fromEntries(
      RUNTIMES.filter((name) => ns[name] && other)
        .map((name) => [name, ratioOf(ns[name]!, other!)]),
    );
  const ratio = ratios(best && ns[best]);
  const wanted: Goal = backend === "js" && threads > 1
    ? {}
    : goalOf(`${row.group}/${row.name}`, backend) ?? {};
  const limit = wanted.ns ?? wanted.ratio;
  // The goals of the JavaScript backend were set against NumPy alone.
  const compared = backend === "js" ? ratios(ns.NumPy) : ratio;
  const measured = wanted.ns !== undefined ? figures : compared;
  // Without the other libraries, a ratio is unknown.
  const known = RUNTIMES.some((name) => measured[name] !== undefined);
  return {
    group: row.group,
    name: row.name,
    threads,
    per: row.elements ? "element" : "call",
    ns: figures,
    ratio,
    goal: limit === undefined || !known
      ? undefined
      : wanted.ns !== undefined
      ? `≤ ${limit} ns`
      : `≤ ${limit}×`,
    misses: limit === undefined ? [] : RUNTIMES.filter((name) => measured[name]! > limit),
  };
}

/** A line of the summary: geometric means of ratios. */
export interface Mean {
  /** A group, or "overall". */
  readonly name: string;
  /** The number of threads of each peer. */
  readonly threads: number;
  /** By runtime. */
  readonly ratio: ByPeer<number>;
  /** The goal of the native backend. */
  readonly goal?: number;
  /** The runtimes that miss it. */
  readonly misses: readonly PeerName[];
}

/** The geometric means of each group and of all counted groups, for each number of threads. */
export function means({ rows, backend }: Results): Mean[] {
  const mean = (name: string, threads: number, mine: readonly ResultRow[], goal?: number): Mean => {
    const ratio = Object.fromEntries(
      RUNTIMES.map((peer) => [peer, mine.flatMap((row) => row.ratio[peer] ?? [])] as const)
        .filter(([, ratios]) => ratios.length > 0)
        .map(([peer, ratios]) => [peer, geometricMean(ratios)]),
    ) as ByPeer<number>;
    const limit = backend === "native" ? goal : undefined;
    const misses = limit === undefined ? [] : RUNTIMES.filter((peer) => ratio[peer]! > limit);
    return { name, threads, ratio, goal: limit, misses };
  };
  return [...new Set(rows.map((row) => row.threads))].flatMap((threads) => {
    const all = rows.filter((row) => row.threads === threads);
    const groups = GROUPS.map((name) => [name, all.filter((row) => row.group === name)] as const)
      .filter(([, mine]) => mine.length > 0);
    const counted = all.filter((row) => COUNTED.includes(row.group));
    return [
      ...groups.map(([name, mine]) =>
        mean(name, threads, mine, COUNTED.includes(name) ? NATIVE_GOALS.group : undefined)
      ),
      ...counted.length > 0 ? [mean("overall", threads, counted, NATIVE_GOALS.overall)] : [],
    ].filter(({ ratio }) => Object.keys(ratio).length > 0);
  });
}

// ---- cells -------------------------------------------------------------------------------------

/** Nanoseconds for a table; a dash if there are none. */
export function formatNs(value: number | undefined): string {
  if (value === undefined) return "–";
  if (value >= 1e9) return `${(value / 1e9).toPrecision(3)} s`;
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} ms`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)} µs`;
  if (value < 0.1) return value.toFixed(4);
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A ratio for a table; a dash if there is none. */
export function formatRatio(value: number | undefined): string {
  if (value === undefined) return "–";
  return `${value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;
}

function formatBytes(value: number | undefined): string {
  return value === undefined ? "–" : (value / 1e6).toFixed(0);
}

function formatGoal(goal: string | undefined, misses: readonly PeerName[]): string {
  if (goal === undefined) return "";
  return misses.length > 0 ? `${goal} (missed: ${misses.join(", ")})` : goal;
}

/** A table with a title: names on the left, goals on the right, figures in between. */
interface Section {
  readonly title: string;
  readonly cells: readonly (readonly string[])[];
}

function threadsOf(count: number): string {
  return count === 1 ? "1 thread" : `${count} threads`;
}

function summary(results: Results): Section[] {
  const lines = means(results);
  if (lines.length === 0) return [];
  const counts = [...new Set(lines.map(({ threads }) => threads))];
  const runtimes = RUNTIMES.filter((name) => name in results.versions);
  const names = [...new Set(lines.map(({ name }) => name))];
  return [{
    title: "geometric means",
    cells: [
      ["", ...counts.flatMap((n) => runtimes.map((peer) => `${peer}, ${threadsOf(n)}`)), "goal"],
      ...names.map((name) => {
        const mine = counts.map((threads) =>
          lines.find((line) => line.name === name && line.threads === threads)
        );
        const goal = mine.find((line) => line?.goal !== undefined)?.goal;
        const misses = mine.flatMap((line) => line?.misses ?? []);
        return [
          name,
          ...mine.flatMap((line) => runtimes.map((peer) => formatRatio(line?.ratio[peer]))),
          formatGoal(goal === undefined ? goal : `≤ ${goal}×`, [...new Set(misses)]),
        ];
      }),
    ],
  }];
}

function memorySection({ memory, versions }: Results): Section[] {
  if (memory.length === 0) return [];
  const peers = Object.keys(versions) as PeerName[];
  return [{
    title: "memory",
    cells: [
      ["peak resident memory (MB)", ...peers, ""],
      ...memory.map((
        { name, peak },
      ) => [name, ...peers.map((peer) => formatBytes(peak[peer])), ""]),
    ],
  }];
}

function timeSections({ rows, versions }: Results): Section[] {
  const others = OTHERS.filter((name) => name in versions);
  const runtimes = RUNTIMES.filter((name) => name in versions);
  const counts = [...new Set(rows.map((row) => row.threads))];
  const titles = counts.flatMap((threads) => GROUPS.map((group) => ({ threads, group })));
  return titles.flatMap(({ threads, group }) => {
    const mine = rows.filter((row) => row.group === group && row.threads === threads);
    if (mine.length === 0) return [];
    const header = [
      group === "matmul" ? "ns per multiply-add" : `ns per ${mine[0].per}`,
      ...others,
      ...runtimes.flatMap((peer) => others.length > 0 ? [peer, "ratio"] : [peer]),
      "goal",
    ];
    const body = mine.map(({ name, ns, ratio, goal, misses }) => [
      name,
      ...others.map((peer) => formatNs(ns[peer])),
      ...runtimes.flatMap((peer) =>
        others.length > 0 ? [formatNs(ns[peer]), formatRatio(ratio[peer])] : [formatNs(ns[peer])]
      ),
      formatGoal(goal, misses),
    ]);
    return [{ title: `${group}, ${threadsOf(threads)}`, cells: [header, ...body] }];
  });
}

function sections(results: Results): Section[] {
  return [...summary(results), ...memorySection(results), ...timeSections(results)];
}

function widths(cells: readonly (readonly string[])[]): number[] {
  return cells[0].map((_, i) => Math.max(3, ...cells.map((row) => row[i].length)));
}

/** Aligns text left: the first column, and the last one unless all others are `numbers`. */
function pad(row: readonly string[], width: readonly number[], numbers = false): string[] {
  return row.map((cell, i) =>
    i === 0 || (i === row.length - 1 && !numbers) ? cell.padEnd(width[i]) : cell.padStart(width[i])
  );
}

/** A table in the format of `deno fmt`. */
export function toTable(cells: readonly (readonly string[])[], numbers = false): string {
  const width = widths(cells);
  const rule = pad(width.map(() => ":"), width, numbers)
    .map((cell) => cell.startsWith(":") ? "-".repeat(cell.length) : cell.replaceAll(" ", "-"));
  return [cells[0], rule, ...cells.slice(1)]
    .map((row) => `| ${pad(row, width, numbers).join(" | ")} |`).join("\n");
}

/** The tables for a terminal; summaries come last, where they are visible. */
export function toText(results: Results): string {
  const all = [...timeSections(results), ...memorySection(results), ...summary(results)];
  return all.map(({ title, cells }) => {
    const width = widths(cells);
    return [title, ...cells.map((row) => `  ${pad(row, width).join("  ").trimEnd()}`)].join("\n");
  }).join("\n\n");
}

/** The tables as Markdown. */
export function toMarkdown(results: Results): string {
  return sections(results).map(({ title, cells }) =>
    `### ${title[0].toUpperCase()}${title.slice(1)}\n\n${toTable(cells)}`
  ).join("\n\n");
}

/** The geometric means that have goals, as Markdown for README. */
export function toMeans(results: Results): string {
  const cells = summary(results).flatMap(({ cells }) => cells).filter((row) => row.at(-1) !== "");
  return toTable(
    cells.map(([name, ...rest]) => [
      name === "" ? "Group" : name === "overall" ? `**${name}**` : name,
      ...rest.slice(0, -1),
    ]),
    true,
  );
}

/** The run that {@link toJson} has written, without the goals of its rows. */
export function fromJson(text: string): Results {
  const { peers, ratios, rows, memory, ...head } = JSON.parse(text);
  const byPeer = (names: readonly PeerName[], values: readonly (number | null)[]) =>
    Object.fromEntries(
      names.map((name, i) => [name, values[i]] as const).filter(([, value]) => value !== null),
    ) as ByPeer<number>;
  return {
    ...head,
    rows: rows.map(
      ({ row, ns, ratio, ...rest }: {
        row: string;
        ns: (number | null)[];
        ratio: (number | null)[];
        threads: number;
        per: ResultRow["per"];
      }) => {
        const [group, ...name] = row.split("/");
        return {
          ...rest,
          group,
          name: name.join("/"),
          ns: byPeer(peers, ns),
          ratio: byPeer(ratios, ratio),
          misses: [],
        };
      },
    ),
    memory: memory.map(({ name, peak }: { name: string; peak: (number | null)[] }) => ({
      name,
      peak: byPeer(peers, peak),
    })),
  };
}

/** The run as JSON, a line for each row; figures are in the order of `peers`. */
export function toJson({ rows, memory, ...head }: Results): string {
  const peers = Object.keys(head.versions) as PeerName[];
  const runtimes = RUNTIMES.filter((name) => name in head.versions);
  const list = (values: readonly unknown[]): string =>
    values.length === 0
      ? "[]"
      : `[\n${values.map((value) => `    ${JSON.stringify(value)}`).join(",\n")}\n  ]`;
  const fields: [string, string][] = [
    ...Object.entries(head).map(([name, value]) =>
      [name, JSON.stringify(value)] as [string, string]
    ),
    ["peers", JSON.stringify(peers)],
    ["ratios", JSON.stringify(runtimes)],
    [
      "rows",
      list(rows.map(({ group, name, threads, per, ns, ratio }) => ({
        row: `${group}/${name}`,
        threads,
        per,
        ns: peers.map((peer) => ns[peer] ?? null),
        ratio: runtimes.map((peer) => ratio[peer] ?? null),
      }))),
    ],
    [
      "memory",
      list(memory.map(({ name, peak }) => ({
        name,
        peak: peers.map((peer) => peak[peer] ?? null),
      }))),
    ],
  ];
  return `{\n${fields.map(([name, value]) => `  "${name}": ${value}`).join(",\n")}\n}\n`;
}
