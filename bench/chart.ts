/**
 * Draws the newest results as docs/benchmarks.svg: for each group and runtime the ratios of all
 * rows and their geometric mean, on a logarithmic axis. Running this file writes it.
 *
 * Knows nothing of measurements.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../scripts/tools.ts";
import { newest } from "./harness/pages.ts";
import { groupOf, linesOf, oursOf, ratioOf, type Results, threadsOf } from "./harness/results.ts";
import { suite } from "./suites/primitives.ts";

const FILE = "docs/benchmarks.svg";

const WIDTH = 760;
/** The axis, in pixels. */
const LEFT = 134;
const RIGHT = 690;
const TOP = 84;
const LINE = 17;
const GAP = 9;
/** The ends of the axis as powers of 2; ratios beyond them are drawn there. */
const LOWEST = -4;
const HIGHEST = 2;

const RUNTIMES = ["Deno", "Bun"] as const;

const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2933 }
  .title { font-size: 16px; font-weight: 600 }
  .soft { fill: #5a6673; font-size: 12px }
  .total, .mean { font-weight: 600 }
  .page { fill: #ffffff } .grid { stroke: #d9dee4 } .one { stroke: #1f2933; stroke-width: 1.5 }
  .Deno { fill: #0f766e } .Bun { fill: #c2410c } .row { opacity: 0.3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e3e7ec } .soft { fill: #a4afbb }
    .page { fill: #1b1b1f } .grid { stroke: #3a4149 } .one { stroke: #e3e7ec }
    .Deno { fill: #2dd4bf } .Bun { fill: #fb923c }
  }`;

function x(ratio: number): string {
  const power = Math.min(HIGHEST, Math.max(LOWEST, Math.log2(ratio)));
  return (LEFT + (power - LOWEST) / (HIGHEST - LOWEST) * (RIGHT - LEFT)).toFixed(1);
}

/** A power of 2 as readers say it. */
function label(power: number): string {
  return power < 0 ? `1/${2 ** -power}×` : `${2 ** power}×`;
}

/** Circles and diamonds, so that color is not all that distinguishes the runtimes. */
function mark(runtime: (typeof RUNTIMES)[number], ratio: number, y: number, mean: boolean): string {
  const [size, kind] = mean ? [6, "mean"] : [2.5, "row"];
  const attributes = `class="${runtime} ${kind}"`;
  if (runtime === "Deno") return `<circle ${attributes} cx="${x(ratio)}" cy="${y}" r="${size}"/>`;
  const [center, half] = [Number(x(ratio)), size * 1.25];
  const points = [[center, y - half], [center + half, y], [center, y + half], [center - half, y]];
  return `<polygon ${attributes} points="${
    points.map((point) => point.map((value) => value.toFixed(1)).join()).join(" ")
  }"/>`;
}

/** The picture of the rows with one thread. */
export function toSvg(results: Results): string {
  const rows = results.rows.filter(({ threads }) => threads === 1);
  const one = threadsOf(results).indexOf(1);
  const names = oursOf(results).map((side) => results.sides[side]!.name);
  const at = Object.fromEntries(RUNTIMES.map((runtime) => [runtime, names.indexOf(runtime)]));
  const lines = linesOf(results, suite).filter(({ name }) => name !== "memory")
    .map(({ name, ratios }) => ({ name, ratio: ratios[one]! }));
  const height = TOP + lines.length * (2 * LINE + GAP) + 44;
  const bottom = height - 40;
  const parts: string[] = [];
  for (let power = LOWEST; power <= HIGHEST; power++) {
    const line = x(2 ** power);
    const kind = power === 0 ? "one" : "grid";
    parts.push(
      `<line class="${kind}" x1="${line}" x2="${line}" y1="${TOP - 6}" y2="${bottom}"/>`,
      `<text class="soft" x="${line}" y="${TOP - 12}" text-anchor="middle">${
        power === LOWEST ? "≤ " : ""
      }${label(power)}</text>`,
    );
  }
  for (const [i, { name, ratio }] of lines.entries()) {
    const y = TOP + i * (2 * LINE + GAP) + LINE / 2;
    const total = name === "overall";
    parts.push(
      `<text x="12" y="${y + LINE / 2 + 4}"${total ? ' class="total"' : ""}>${name}</text>`,
    );
    for (const [k, runtime] of RUNTIMES.entries()) {
      const mean = ratio[at[runtime]!]?.wall;
      if (mean === undefined) continue;
      const own = y + k * LINE;
      const mine = total ? [] : rows.filter((row) => groupOf(row) === name);
      parts.push(
        ...mine.flatMap((row) => ratioOf(row, at[runtime]!)?.wall ?? [])
          .map((value) => mark(runtime, value, own, false)),
        mark(runtime, mean, own, true),
        `<text class="mean ${runtime}" x="${RIGHT + 14}" y="${own + 4}">${mean.toFixed(2)}×</text>`,
      );
    }
  }
  const key = RUNTIMES.map((runtime, i) =>
    mark(runtime, 2 ** HIGHEST, 26, true).replace(
      /^<(\w+)/,
      `<$1 transform="translate(${i * 62 - 72} 0)"`,
    ) +
    `<text x="${RIGHT + i * 62 - 60}" y="30">${runtime}</text>`
  );
  const overall = lines.find(({ name }) => name === "overall")?.ratio;
  const spoken = RUNTIMES.filter((runtime) => overall?.[at[runtime]!] !== undefined)
    .map((runtime) => `${overall![at[runtime]!]!.wall.toFixed(2)} in ${runtime}`).join(", ");
  const { date, machine, sides, commit } = results;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" ` +
    `aria-label="Time relative to the faster of NumPy and PyTorch, one thread; overall: ${spoken}">`,
    `<style>${STYLE}\n</style>`,
    `<rect class="page" width="${WIDTH}" height="${height}" rx="8"/>`,
    `<text class="title" x="12" y="30">Time relative to the faster of NumPy and PyTorch</text>`,
    `<text class="soft" x="12" y="50">Left of 1× rowmajor is faster. Large: geometric means, ` +
    `also as numbers. Small: single benchmarks.</text>`,
    ...key,
    ...parts,
    `<text class="soft" x="12" y="${height - 14}">${date}, ${machine.processor}, ` +
    `${machine.instructions}, 1 thread, commit ${commit}; ${
      sides.map(({ version }) => version).join(", ")
    }</text>`,
    "</svg>\n",
  ].join("\n");
}

/** The picture of the newest whole run in bench/results. */
export function makeChart(): string {
  return toSvg(newest("primitives")!);
}

/** Writes the picture. */
export function writeChart(): void {
  writeFileSync(join(root, FILE), makeChart());
  console.log(`wrote ${FILE}`);
}

if (import.meta.main) writeChart();
