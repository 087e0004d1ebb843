/**
 * Figures of compiled kernels: the hash of their source, and the registers and bytes that they use;
 * see `scripts/gpu/nvrtc_check.ts`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { NamedFamily } from "../../src/backend/cuda/families.ts";
import { readText, root, writeWhole } from "../tools.ts";
import { embeddedHeaders } from "./embedded_headers.ts";

/** From Turing to the newest that the pinned compiler supports. */
export const ARCHITECTURES: readonly number[] = [75, 80, 86, 90, 100, 120];
const STORE = join(root, "bench", "results", "nvrtc.tsv.gz");
/** Additional registers of a kernel that are acceptable. */
const MORE_REGISTERS = 8;

// ---- saved figures -----------------------------------------------------------------------------

/** Registers, then bytes of stack, of spill stores, of spill loads, of shared memory. */
export type Figures = readonly number[];
/** The index of each figure. */
export const REGISTERS = 0, STACK = 1, STORES = 2, LOADS = 3;

/** The saved figures. */
export interface Store {
  /** The version of the compiler that made the figures. */
  version: string;
  /** By family: the hash of the compiled source, and the finished architectures. */
  readonly families: Map<string, { hash: string; done: Set<number> }>;
  /** By kernel: its figures by architecture. */
  readonly kernels: Map<string, Map<number, Figures>>;
}

/** The saved figures, or none. */
export function readStore(): Store {
  const store: Store = { version: "", families: new Map(), kernels: new Map() };
  if (!existsSync(STORE)) return store;
  const [head, ...lines] = gunzipSync(readFileSync(STORE)).toString().trimEnd().split("\n");
  store.version = head!.slice("NVRTC ".length);
  for (const line of lines) {
    const [name, ...cells] = line.split("\t") as [string, ...string[]];
    if (name.startsWith("=")) {
      const done = new Set((cells[1] ?? "").split(" ").filter((cell) => cell !== "").map(Number));
      store.families.set(name.slice(1), { hash: cells[0]!, done });
    } else {
      const figures = new Map<number, Figures>();
      cells.forEach((cell, i) => {
        if (cell !== "") figures.set(ARCHITECTURES[i]!, cell.split(" ").map(Number));
      });
      store.kernels.set(name, figures);
    }
  }
  return store;
}

/** Writes `families`: a line for each family, then those of its kernels. */
export function writeStore(store: Store, families: readonly NamedFamily[]): void {
  const lines = [`NVRTC ${store.version}`];
  for (const { name, names } of families) {
    const known = store.families.get(name);
    if (known === undefined) continue;
    const done = ARCHITECTURES.filter((architecture) => known.done.has(architecture));
    lines.push(`=${name}\t${known.hash}\t${done.join(" ")}`);
    for (const kernel of names) {
      const cells = ARCHITECTURES.map((architecture) => {
        const figures = store.kernels.get(kernel)?.get(architecture);
        return (figures ?? []).join(" ").replace(/( 0)+$/, "");
      });
      lines.push([kernel, ...cells].join("\t").trimEnd());
    }
  }
  writeWhole(STORE, gzipSync(`${lines.join("\n")}\n`, { level: 9 }));
}

// ---- kernels to compile ------------------------------------------------------------------------

/** C without comments, which do not affect the result. */
function bare(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, " ").replace(/[ \t]+/g, " ").replace(/\s*\n\s*/g, "\n");
}

/** The texts of the library's headers for kernels, by their base names. */
const headers = new Map(embeddedHeaders().map(({ name, text }) => [name, bare(text)]));

/**
 * `source` with each included header inserted at its first occurrence, without code for the CPU's
 * compiler only.
 */
export function wholeText(source: string): string {
  const seen = new Set<string>();
  const expand = (text: string): string =>
    text.replace(/#include "([^"]+)"/g, (_, name: string) => {
      const header = headers.get(name) ?? "";
      // A header with a guard is inserted once; a header without one is included once per type.
      if (!header.includes("#ifndef ROWMAJOR_")) return expand(header);
      if (seen.has(name)) return "";
      seen.add(name);
      return expand(header);
    });
  return expand(source);
}

/** The library's options for the compiler, read from its source. */
export function optionsText(): string {
  const text = readText("shim/cuda/modules/nvrtc.c");
  const options = /common_options\[\] = \{[^}]*\}/.exec(text);
  if (options === null) throw new Error("shim/cuda/modules/nvrtc.c has no common_options");
  return options[0];
}

/** A short hash of the source of `family`; `options` are {@link optionsText}. */
export function hashOf({ source, names }: NamedFamily, options: string): string {
  const text = [options, names.join("\n"), wholeText(source)].join("\0");
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

// ---- figures -----------------------------------------------------------------------------------

/** The output of the compiler. */
export interface Report {
  readonly figures: Map<string, Figures>;
  /** The output other than figures. */
  readonly said: string;
}

/** Separates figures from the other output: see `rm_cuda_compile` in shim/include/rowmajor.h. */
export function readReport(report: string): Report {
  const figures = new Map<string, Figures>();
  const said: string[] = [];
  for (const line of report.split("\n")) {
    const [name, ...cells] = line.split("\t") as [string, ...string[]];
    if (cells.length === 5) figures.set(name, cells.map(Number));
    else if (line !== "") said.push(line);
  }
  return { figures, said: said.join("\n") };
}

/** Describes how `now` is worse than `before`. */
export function worse(now: Figures, before: Figures | undefined): string | undefined {
  if (before === undefined) return undefined;
  const at = (figures: Figures, i: number): number => figures[i] ?? 0;
  for (
    const [i, what] of [[STORES, "bytes of spill stores"], [LOADS, "bytes of spill loads"]] as const
  ) {
    if (at(now, i) > at(before, i)) return `${at(before, i)} to ${at(now, i)} ${what}`;
  }
  const [from, to] = [at(before, REGISTERS), at(now, REGISTERS)];
  return to > from + MORE_REGISTERS ? `${from} to ${to} registers` : undefined;
}
