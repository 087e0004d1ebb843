/**
 * From timings to tables: medians, ratios, geometric means; as text, Markdown and JSON.
 *
 * Knows nothing of processes or files.
 *
 * @module
 */
import type { Row } from "./work.ts";

/** What was measured of one row: for each peer the nanoseconds of a call, one for each round. */
export interface Timing {
  /** The row. */
  readonly row: Row;
  /** By peer's name; absent where a peer has no such row. */
  readonly ns: Readonly<Record<string, readonly number[]>>;
}

/** The middle value, or the mean of the two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** A run, as it is saved. */
export interface Results {
  /** When, as an ISO date. */
  readonly date: string;
  /** The processor, the operating system, the number of cores. */
  readonly machine: string;
  /** What each peer says it is. */
  readonly versions: Readonly<Record<string, string>>;
  /** How the run was asked for. */
  readonly mode: string;
  /** One entry for each row: medians over the rounds. */
  readonly rows: readonly ResultRow[];
}

/** A row of a run. */
export interface ResultRow {
  /** See {@link Row}. */
  readonly group: string;
  /** See {@link Row}. */
  readonly name: string;
  /** What a figure is for: a call, or an element. */
  readonly per: "call" | "element";
  /** Nanoseconds per call or element, by peer. */
  readonly ns: Readonly<Record<string, number>>;
  /** The time divided by NumPy's, by runtime. */
  readonly ratio: Readonly<Record<string, number>>;
  /** The goal in words, and which runtimes miss it. */
  readonly goal?: string;
  /** See {@link goal}. */
  readonly misses?: readonly string[];
}

const REFERENCE = "NumPy";

function round(value: number): number {
  return Number(value.toPrecision(3));
}

/** Sums a timing up. */
export function summarize({ row, ns }: Timing): ResultRow {
  const figures: Record<string, number> = {};
  for (const [peer, values] of Object.entries(ns)) {
    figures[peer] = round(median(values) / (row.elements ?? 1));
  }
  // Neighbours in time are compared, so that a slow spell of the machine weighs on both.
  const ratio: Record<string, number> = {};
  const reference = ns[REFERENCE];
  for (const [peer, values] of Object.entries(ns)) {
    if (peer !== REFERENCE && reference !== undefined) {
      ratio[peer] = round(median(values.map((value, i) => value / reference[i])));
    }
  }
  const made = {
    group: row.group,
    name: row.name,
    per: row.elements ? "element" : "call",
  } as const;
  // Without NumPy nobody can tell whether a ratio is met.
  const unknown = row.goal?.ratio !== undefined && reference === undefined;
  if (row.goal === undefined || unknown) return { ...made, ns: figures, ratio };
  const { ns: most, ratio: part } = row.goal;
  const goal = most !== undefined ? `≤ ${most} ns` : `≤ ${part}×`;
  const measured = most !== undefined ? figures : ratio;
  const misses = Object.keys(measured)
    .filter((peer) => peer !== REFERENCE && measured[peer] > (most ?? part!));
  return { ...made, ns: figures, ratio, goal, misses };
}

/** The geometric mean, or NaN of nothing. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

function formatNs(value: number | undefined): string {
  if (value === undefined) return "–";
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} ms`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)} µs`;
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function formatRatio(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return "–";
  return `${value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;
}

/** A group's rows as cells, its geometric means as the last ones. */
interface Section {
  readonly title: string;
  readonly cells: readonly (readonly string[])[];
}

function sections(rows: readonly ResultRow[], peers: readonly string[]): Section[] {
  const runtimes = peers.filter((peer) => peer !== REFERENCE);
  const compared = peers.includes(REFERENCE);
  const header = (unit: string): string[] => [
    unit,
    ...(compared ? [REFERENCE] : []),
    ...runtimes.flatMap((peer) => compared ? [peer, "ratio"] : [peer]),
    "goal",
  ];
  return [...new Set(rows.map((row) => row.group))].map((title) => {
    const mine = rows.filter((row) => row.group === title);
    const body = mine.map(({ name, per, ns, ratio, goal, misses }) => [
      per !== mine[0].per ? `${name}, per ${per}` : name,
      ...(compared ? [formatNs(ns[REFERENCE])] : []),
      ...runtimes.flatMap((peer) =>
        compared ? [formatNs(ns[peer]), formatRatio(ratio[peer])] : [formatNs(ns[peer])]
      ),
      goal === undefined ? "" : misses!.length ? `${goal} missed: ${misses!.join(", ")}` : goal,
    ]);
    const mean = (peer: string): number =>
      geometricMean(mine.flatMap(({ ratio }) => ratio[peer] ?? []));
    const last = compared
      ? [["geometric mean", "", ...runtimes.flatMap((peer) => ["", formatRatio(mean(peer))]), ""]]
      : [];
    return { title, cells: [header(`ns per ${mine[0].per}`), ...body, ...last] };
  });
}

function widths(cells: readonly (readonly string[])[]): number[] {
  return cells[0].map((_, i) => Math.max(3, ...cells.map((row) => row[i].length)));
}

/** Names to the left, figures to the right, the goal to the left. */
function pad(row: readonly string[], width: readonly number[]): string[] {
  return row.map((cell, i) =>
    i === 0 || i === row.length - 1 ? cell.padEnd(width[i]) : cell.padStart(width[i])
  );
}

/** The tables for a terminal, with columns aligned across groups. */
export function toText(rows: readonly ResultRow[], peers: readonly string[]): string {
  const all = sections(rows, peers);
  const width = widths(all.flatMap((section) => section.cells));
  return all.map(({ title, cells }) =>
    [title, ...cells.map((row) => `  ${pad(row, width).join("  ").trimEnd()}`)].join("\n")
  ).join("\n\n");
}

/** The tables as Markdown, in the form that `deno fmt` leaves alone. */
export function toMarkdown(rows: readonly ResultRow[], peers: readonly string[]): string {
  return sections(rows, peers).map(({ title, cells }) => {
    const width = widths(cells);
    const rule = width.map((n, i) =>
      i === 0 || i === width.length - 1 ? "-".repeat(n) : "-".repeat(n - 1) + ":"
    );
    const lines = [cells[0], rule, ...cells.slice(1)]
      .map((row) => `| ${pad(row, width).join(" | ")} |`);
    return [`### ${title[0].toUpperCase()}${title.slice(1)}`, "", ...lines].join("\n");
  }).join("\n\n");
}
