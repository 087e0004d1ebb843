/**
 * What is known of compiled kernels: from what text they were made, and how many registers and bytes
 * they take; see `scripts/gpu/nvrtc_check.ts`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { NamedFamily } from "../../src/backend/cuda/families.ts";
import { readText, root } from "../tools.ts";
import { embeddedHeaders } from "./embedded_headers.ts";

/** From Turing to the newest that the pinned compiler knows. */
export const ARCHITECTURES: readonly number[] = [75, 80, 86, 90, 100, 120];
const STORE = join(root, "bench", "results", "nvrtc.tsv.gz");
/** Registers that a kernel may gain without anyone asking why. */
const MORE_REGISTERS = 8;

// ---- what was compiled before ------------------------------------------------------------------

/** Registers, then bytes of stack, of spill stores, of spill loads, of shared memory. */
export type Figures = readonly number[];
/** Where each of them is. */
export const REGISTERS = 0, STACK = 1, STORES = 2, LOADS = 3;

/** What is kept. */
export interface Store {
  /** Of the compiler that made the figures. */
  version: string;
  /** Of each family: the hash of what was compiled, and for which architectures. */
  readonly families: Map<string, { hash: string; done: Set<number> }>;
  /** Of each kernel: its figures by architecture. */
  readonly kernels: Map<string, Map<number, Figures>>;
}

/** What was kept, or nothing. */
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

/** Writes what `families` have: a line for each family, then those of its kernels. */
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
  writeFileSync(`${STORE}.new`, gzipSync(`${lines.join("\n")}\n`, { level: 9 }));
  renameSync(`${STORE}.new`, STORE);
}

// ---- what there is to compile ------------------------------------------------------------------

/** C without comments, which change nothing. */
function bare(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, " ").replace(/[ \t]+/g, " ").replace(/\s*\n\s*/g, "\n");
}

/** The texts of the headers that the library has for kernels, by their last names. */
const headers = new Map(embeddedHeaders().map(({ name, text }) => [name, bare(text)]));

/**
 * `source` with the text of each header that it includes where that comes first; without those that
 * only the CPU's compiler gets to see.
 */
export function wholeText(source: string): string {
  const seen = new Set<string>();
  const expand = (text: string): string =>
    text.replace(/#include "([^"]+)"/g, (_, name: string) => {
      const header = headers.get(name) ?? "";
      // What has a guard counts once; what is included for one type after another has none.
      if (!header.includes("#ifndef ROWMAJOR_")) return expand(header);
      if (seen.has(name)) return "";
      seen.add(name);
      return expand(header);
    });
  return expand(source);
}

/** The options that the library gives to the compiler, as its source says them. */
export function optionsText(): string {
  const text = readText("shim/cuda/modules/nvrtc.c");
  const options = /common_options\[\] = \{[^}]*\}/.exec(text);
  if (options === null) throw new Error("shim/cuda/modules/nvrtc.c has no common_options");
  return options[0];
}

/** What `family` was made of, in a few letters; `options` are {@link optionsText}. */
export function hashOf({ source, names }: NamedFamily, options: string): string {
  const text = [options, names.join("\n"), wholeText(source)].join("\0");
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

// ---- figures -----------------------------------------------------------------------------------

/** What the compiler said. */
export interface Report {
  readonly figures: Map<string, Figures>;
  /** What the compiler said besides. */
  readonly said: string;
}

/** Tells figures from the rest: see `rm_cuda_compile` in shim/include/rowmajor.h. */
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

/** In words, how `now` is worse than `before`. */
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
