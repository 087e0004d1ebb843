/**
 * Compares this checkout with another one, row by row of the work list, in one run.
 *
 *     deno run -A bench/compare.ts BEFORE [--filter=text] [--runtime=deno|bun] [--rounds=N] [--ms=N]
 *                                  [--threads=N] [--backend=js|native] [--worst=N]
 *
 * BEFORE is the other checkout, with its library built. Per runtime, three processes take turns:
 * before, before again (the control) and after. Prints the time after divided by the time before,
 * as geometric means of groups, next to the same for the control, which shows the noise.
 *
 * @module
 */
import { resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { Peer, type PeerName } from "./peers.ts";
import { median } from "./report.ts";
import { WORK } from "./work.ts";
import { keyOf } from "./worker.ts";

const { values: options, positionals: [before] } = parseArgs({
  allowPositionals: true,
  options: {
    filter: { type: "string", default: "" },
    runtime: { type: "string", multiple: true, default: ["deno", "bun"] },
    rounds: { type: "string", default: "7" },
    ms: { type: "string", default: "20" },
    threads: { type: "string", default: "1" },
    backend: { type: "string" },
    worst: { type: "string", default: "12" },
  },
});
if (before === undefined) {
  console.error("usage: compare.ts BEFORE [--filter=text] [--runtime=deno|bun] [--rounds=N] ...");
  process.exit(2);
}
const [rounds, ms] = [Number(options.rounds), Number(options.ms)];
const rows = WORK.filter((row) =>
  keyOf(row).includes(options.filter) && !(options.backend === "js" && row.heavy)
);

/** The median time of each row, by process: before, control, after. */
async function timeRows(name: PeerName): Promise<Map<string, number[]>> {
  const started = [before, before, undefined].map((checkout) =>
    new Peer(name, {
      threads: Number(options.threads),
      backend: options.backend as "js" | "native" | undefined,
      checkout: checkout && resolve(checkout),
    })
  );
  await Promise.all(started.map((peer) => peer.ready()));
  const times = new Map<string, number[]>();
  const missing = new Set<string>();
  for (const group of new Set(rows.map((row) => row.group))) {
    const mine = rows.filter((row) => row.group === group);
    const all = mine.map(() => started.map((): number[] => []));
    for (let round = 0; round <= rounds; round++) {
      for (const [i, row] of mine.entries()) {
        for (let k = 0; k < started.length; k++) {
          const at = (k + round) % started.length;
          const request = { do: round === 0 ? "prepare" : "time", row: keyOf(row), ms } as const;
          const { ns, error } = await started[at]!.ask(request);
          // An older checkout lacks newer rows.
          if (error?.startsWith("no row ")) missing.add(keyOf(row));
          else if (error !== undefined) throw new Error(`${keyOf(row)}: ${error}`);
          if (ns !== undefined) all[i]![at]!.push(ns);
        }
      }
    }
    mine.forEach((row, i) => {
      if (!missing.has(keyOf(row))) times.set(keyOf(row), all[i]!.map(median));
    });
  }
  await Promise.all(started.map((peer) => peer.close()));
  return times;
}

const mean = (ratios: readonly number[]): number =>
  Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);

for (const runtime of options.runtime) {
  const name = runtime === "deno" ? "Deno" : "Bun";
  const times = await timeRows(name);
  const line = (title: string, keys: readonly string[]): string => {
    const of = (k: number): string =>
      mean(keys.map((key) => times.get(key)![k]! / times.get(key)![0]!)).toFixed(3);
    return `  ${title.padEnd(42)} ${of(2)}   control ${of(1)}`;
  };
  console.log(`${name}: time after / time before (geometric mean of ${rounds} rounds' medians)`);
  for (const group of new Set(rows.map((row) => row.group))) {
    const keys = rows.filter((row) => row.group === group).map(keyOf);
    console.log(line(group, keys.filter((key) => times.has(key))));
  }
  console.log(line("overall", [...times.keys()]));
  const slowest = [...times].sort(([, a], [, b]) => b[2]! / b[0]! - a[2]! / a[0]!);
  for (const [key, [first, , after]] of slowest.slice(0, Number(options.worst))) {
    console.log(`${line(key, [key])}   ${first!.toFixed(0)} → ${after!.toFixed(0)} ns`);
  }
}
