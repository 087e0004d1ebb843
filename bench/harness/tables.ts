/**
 * Runs as tables, all in one format: a short table of ratios, and a long one of all figures.
 *
 * Knows nothing of processes or files.
 *
 * @module
 */
import {
  goalText,
  groupOf,
  groupsOf,
  linesOf,
  missesOf,
  oursOf,
  type Ratio,
  ratioOf,
  type ResultRow,
  type Results,
  threadsOf,
} from "./results.ts";
import type { Suite } from "./suite.ts";

/** A table: `names` columns of texts, numbers, and `texts` columns of texts. */
export interface Table {
  readonly cells: readonly (readonly string[])[];
  readonly names: number;
  readonly texts: number;
}

/** Nanoseconds for a table; a dash if there are none. */
export function formatNs(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 1e9) return `${(value / 1e9).toPrecision(3)} s`;
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} ms`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)} µs`;
  if (value < 0.1) return value.toFixed(4);
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function formatFigure(value: number | null, { unit }: ResultRow): string {
  if (value === null) return "–";
  return unit === "bytes" ? `${(value / 2 ** 20).toPrecision(3)} MiB` : formatNs(value);
}

/** A figure with its unit. */
function withUnit(value: number, row: ResultRow): string {
  if (row.unit === "bytes" || value >= 1e4) return formatFigure(value, row);
  return value >= 1e3 ? `${(value / 1e3).toPrecision(3)} µs` : `${formatNs(value)} ns`;
}

/** Wall time, and after a dot processor time; a dash if there is none. */
export function formatRatio(ratio: Ratio | undefined): string {
  if (ratio === undefined) return "–";
  return ratio.wall.toFixed(2) + (ratio.cpu === undefined ? "" : ` · ${ratio.cpu.toFixed(2)}`);
}

/** `1 thread`, or the number of them. */
export function formatThreads(count: number): string {
  return count === 1 ? "1 thread" : `${count} threads`;
}

/** Removes columns without a text below the heading. */
function compact({ cells, names, texts }: Table): Table {
  const kept = cells[0]!.map((_, i) => i === 0 || cells.slice(1).some((row) => row[i] !== ""));
  const first = cells[0]!.length - texts;
  return {
    cells: cells.map((row) => row.filter((_, i) => kept[i])),
    names: kept.filter((keep, i) => keep && i < names).length,
    texts: kept.filter((keep, i) => keep && i >= first).length,
  };
}

/** Whether a column has texts, which are aligned left. */
function isText({ cells, names, texts }: Table, i: number): boolean {
  return i < names || i >= cells[0]!.length - texts;
}

function pad(table: Table, row: readonly string[], width: readonly number[]): string[] {
  return row.map((cell, i) => isText(table, i) ? cell.padEnd(width[i]!) : cell.padStart(width[i]!));
}

function widths(cells: Table["cells"]): number[] {
  return cells[0]!.map((_, i) => Math.max(3, ...cells.map((row) => row[i]!.length)));
}

/** A table in the format of `deno fmt`. */
export function toMarkdown(table: Table): string {
  const { cells } = table;
  const width = widths(cells);
  const rule = width.map((n, i) => isText(table, i) ? "-".repeat(n) : `${"-".repeat(n - 1)}:`);
  return [cells[0]!, rule, ...cells.slice(1)]
    .map((row) => `| ${pad(table, row, width).join(" | ")} |`).join("\n");
}

/** A table for a terminal. */
export function toText(table: Table): string {
  const width = widths(table.cells);
  return table.cells.map((row) => `  ${pad(table, row, width).join("  ").trimEnd()}`).join("\n");
}

/** The short table: our time divided by that of peers. */
export function shortTable(results: Results, suite: Suite): Table | undefined {
  const lines = linesOf(results, suite);
  if (lines.length === 0) return undefined;
  const ours = oursOf(results).filter((side) =>
    suite.short === undefined || suite.short.includes(results.sides[side]!.name)
  );
  const header = [
    "",
    "beside",
    ...threadsOf(results).flatMap((count) =>
      ours.map((side) => `${results.sides[side]!.name}, ${formatThreads(count)}`)
    ),
    "goal",
    "largest ratio of a row",
  ];
  return compact({
    cells: [
      header,
      ...lines.map(({ name, beside, rows, ratios, worst, goal }) => [
        suite.lines === "group" ? suite.groups[name] ?? name : name,
        beside ?? "",
        ...ratios.flatMap((each, t) =>
          each.map((ratio, k) => {
            const row = rows?.[t];
            const wall = row?.wall[ours[k]!] ?? null;
            return wall === null || ratio === undefined
              ? formatRatio(ratio)
              : `${withUnit(wall, row!)}, ${formatRatio(ratio)}`;
          })
        ),
        goal === undefined ? "" : `≤ ${goal}`,
        worst === undefined ? "" : `${worst.wall.toFixed(2)}: ${worst.row}`,
      ]),
    ],
    names: 2,
    texts: 2,
  });
}

/** The long tables: all figures, and ours beside the fastest peer. */
export function longTables(
  results: Results,
  suite: Suite,
): { readonly title: string; readonly table: Table }[] {
  const { sides } = results;
  const ours = oursOf(results);
  return threadsOf(results).flatMap((threads) =>
    groupsOf(results.rows).flatMap((group) => {
      const rows = results.rows.filter((row) => row.threads === threads && groupOf(row) === group);
      if (rows.length === 0) return [];
      const shown = sides.flatMap((_, i) => rows.some(({ wall }) => wall[i] !== null) ? [i] : []);
      const [{ per }] = rows as [ResultRow];
      const header = [
        rows[0]!.unit === "bytes" ? "" : `ns per ${per ?? "call"}`,
        ...shown.map((i) => {
          const k = ours.indexOf(i);
          const compared = k >= 0 && rows.some((row) => ratioOf(row, k) !== undefined);
          return sides[i]!.name + (compared ? ", ratio · CPU" : "");
        }),
        "goal",
      ];
      const body = rows.map((row) => {
        const goal = suite.goal?.(row.row, results.backend, row.threads);
        return [
          row.row.slice(group.length + 1),
          ...shown.map((i) => {
            const text = formatFigure(row.wall[i]!, row);
            const ratio = sides[i]!.peer ? undefined : ratioOf(row, ours.indexOf(i));
            return ratio === undefined ? text : `${text}, ${formatRatio(ratio)}`;
          }),
          goal === undefined ? "" : goalText(goal),
        ];
      });
      const title = `${suite.groups[group] ?? group}, ${formatThreads(threads)}`;
      return [{ title, table: compact({ cells: [header, ...body], names: 1, texts: 1 }) }];
    })
  );
}

/** What a table needs to be read: processor, instruction set, date, commit, versions. */
export function about(results: Results): string {
  const { machine, level, backend, date, commit, rounds, sides, load } = results;
  const own = sides.find((side) => side.level !== undefined)?.level;
  const held = level === undefined
    ? machine.instructions
    : `${machine.instructions}, all held to AVX2`;
  const used = backend === "js" || own === "none"
    ? ", rowmajor in JavaScript"
    : backend === "wasm"
    ? ", rowmajor in WebAssembly"
    : own === undefined || level !== undefined || held.startsWith(own)
    ? ""
    : `, rowmajor by ${own}`;
  const most = Math.max(...load);
  const busy = most > 0.5 ? [`load ${most} per core before it`] : [];
  const versions = [...new Set(sides.map(({ version }) => version))].filter((text) => text !== "");
  return [
    `${machine.processor}, ${machine.cores} cores, ${held}${used}`,
    `${date}, commit ${commit}`,
    rounds === 1 ? "1 round" : `medians of ${rounds} rounds`,
    ...(versions.length === 0 ? [] : [versions.join(", ")]),
    ...busy,
  ].join("; ");
}

/** Text in lines of at most 100 characters, as `deno fmt` writes it. */
export function wrap(text: string): string {
  const lines: string[] = [""];
  // A link is not broken.
  for (const word of text.match(/\[[^\]]*\]\([^)]*\)\S*|\S+/g) ?? []) {
    const last = lines.at(-1)!;
    const next = last === "" ? word : `${last} ${word}`;
    if (next.length <= 100 || last === "") lines[lines.length - 1] = next;
    else lines.push(word);
  }
  return lines.join("\n");
}

/** The missed goals of a run as a list. */
export function missedGoals(results: Results, suite: Suite): string[] {
  return missesOf(results, suite).map(({ row, threads, side, value, goal }) =>
    `${row}, ${formatThreads(threads)}, ${side}: ${value} (goal ${goal})`
  );
}

/** A run for a terminal; the short table comes last, where it is visible. */
export function printed(results: Results, suite: Suite): string {
  const short = shortTable(results, suite);
  const misses = missedGoals(results, suite);
  return [
    ...longTables(results, suite).map(({ title, table }) => `${title}\n${toText(table)}`),
    ...(short === undefined ? [] : [
      `${suite.title}: our wall time · processor time, divided by the peer's` +
      (suite.beside === "fastest" ? " (the fastest)" : "") + `\n${toText(short)}`,
    ]),
    about(results),
    ...(misses.length === 0 ? [] : [`missed goals:\n  ${misses.join("\n  ")}`]),
  ].join("\n\n");
}

/** All figures of a run as a page. */
export function toPage(results: Results, suite: Suite): string {
  const short = shortTable(results, suite);
  const misses = missedGoals(results, suite);
  return [
    `# ${suite.title}`,
    `Generated by \`${results.command}\`. ${about(results)}.`,
    ...Object.entries(results.missing).map(([name, why]) => `Without ${name}: ${why}.`),
    ...(short === undefined ? [] : [`## Ratios\n\n${toMarkdown(short)}`]),
    ...(misses.length === 0
      ? []
      : [`## Missed goals\n\n${misses.map((miss) => `- ${miss}`).join("\n")}`]),
    ...longTables(results, suite).map(({ title, table }) => `## ${title}\n\n${toMarkdown(table)}`),
  ].join("\n\n") + "\n";
}
