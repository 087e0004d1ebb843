/**
 * How long a sum of the tensors of all ranks takes, by a model of latency and bandwidth:
 *
 *     deno run -A scripts/distributed_model.ts [--mib=4,256] [--ranks=8,64,1000] [--host=8] [--save]
 *
 * `--save` writes the tables to docs/distributed.md, which explains the model.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { findTool, root, writeTable } from "./tools.ts";

/** A kind of network. */
export interface Link {
  readonly name: string;
  /** Seconds until the first byte of a message arrives: α. */
  readonly latency: number;
  /** Bytes a second in each direction: β. */
  readonly bandwidth: number;
  /** The most ranks that it joins. */
  readonly most?: number;
}

/** The link inside a host. */
const NVLINK: Link = { name: "NVLink", latency: 2e-6, bandwidth: 450e9, most: 8 };

/** The links of the tables. */
export const LINKS: readonly Link[] = [
  { name: "10 GbE", latency: 30e-6, bandwidth: 1.25e9 },
  { name: "100 GbE", latency: 15e-6, bandwidth: 12.5e9 },
  { name: "400 Gb RDMA", latency: 2.5e-6, bandwidth: 50e9 },
  NVLINK,
];

/** Seconds for `bytes` and a number of ranks; undefined where an algorithm does not apply. */
export type Model = (link: Link, ranks: number, bytes: number, host: number) => number | undefined;

const steps = (ranks: number): number => Math.ceil(Math.log2(ranks));

const ring: Model = ({ latency, bandwidth }, ranks, bytes) =>
  2 * (ranks - 1) * (latency + bytes / ranks / bandwidth);

const doubling: Model = ({ latency, bandwidth }, ranks, bytes) =>
  steps(ranks) * (latency + bytes / bandwidth);

const halving: Model = ({ latency, bandwidth }, ranks, bytes) =>
  2 * steps(ranks) * latency + 2 * (ranks - 1) / ranks * bytes / bandwidth;

const hierarchy: Model = (link, ranks, bytes, host) => {
  if (ranks <= host) return undefined;
  return ring(NVLINK, host, bytes, host)! + halving(link, Math.ceil(ranks / host), bytes, host)!;
};

/** The algorithms by their headings. */
export const MODELS: Readonly<Record<string, Model>> = {
  "ring": ring,
  "doubling": doubling,
  "halving": halving,
  "hosts first": hierarchy,
};

function format(seconds: number | undefined): string {
  return seconds === undefined ? "" : `${Number((seconds * 1e3).toPrecision(2))} ms`;
}

/** A table of all links. */
export function makeTable(mib: number, ranks: readonly number[], host: number): string {
  const names = Object.keys(MODELS);
  const lines = [["Link", "Ranks", ...names], ["-", "-:", ...names.map(() => "-:")]];
  for (const link of LINKS) {
    for (const count of ranks) {
      if (count > (link.most ?? Infinity)) continue;
      const times = Object.values(MODELS).map((model) => model(link, count, mib * 2 ** 20, host));
      lines.push([link.name, count.toLocaleString("en"), ...times.map(format)]);
    }
  }
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** The tables of docs/distributed.md. */
export function makeTables(
  sizes: readonly number[] = [4, 256],
  ranks: readonly number[] = [8, 64, 1000],
  host: number = 8,
): string {
  return sizes.map((mib) => `**${mib} MiB:**\n\n${makeTable(mib, ranks, host)}`).join("\n\n");
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      mib: { type: "string", default: "4,256" },
      ranks: { type: "string", default: "8,64,1000" },
      host: { type: "string", default: "8" },
      save: { type: "boolean", default: false },
    },
  });
  const numbers = (text: string) => text.split(",").map(Number);
  console.log(makeTables(numbers(values.mib), numbers(values.ranks), Number(values.host)));
  if (values.save) {
    writeTable("docs/distributed.md", makeTables(), "model");
    spawnSync(findTool("deno"), ["fmt", "--quiet", join(root, "docs", "distributed.md")]);
  }
  process.exit(0);
}
