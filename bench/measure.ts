/**
 * Measures peers in turns: rows of the work list, round by round, and memory in new processes.
 *
 * Knows nothing of tables or files.
 *
 * @module
 */
import process from "node:process";
import { Peer, type PeerName, type PeerOptions } from "./peers.ts";
import type { ByPeer, MemoryRow, Timing } from "./report.ts";
import type { Row } from "./work.ts";
import { keyOf, type Request } from "./worker.ts";

/** The duration of timings, and their number per row. */
export interface Effort {
  /** Milliseconds per timing. */
  readonly ms: number;
  /** Timings per row. */
  readonly rounds: number;
}

/** The number of calls of a row for a measurement of memory. */
const MEMORY_CALLS = 20;

/** The statement for peers in other languages; `null` if the row has none. */
function statementOf(name: PeerName, row: Row): string | null | undefined {
  if (name === "NumPy") return row.numpy ?? null;
  if (name === "PyTorch") return row.torch ?? null;
  return undefined;
}

function requestFor(name: PeerName, row: Row, what: Request["do"], ms = 0): Request {
  const base = { do: what, row: keyOf(row), ms, calls: MEMORY_CALLS };
  const statement = statementOf(name, row);
  return typeof statement === "string" && what !== "time"
    ? { ...base, inputs: row.inputs, statement }
    : base;
}

/** Sends a request; reports a failure, which fails the run, and returns undefined. */
async function ask(peer: Peer, request: Request) {
  const answer = await peer.ask(request);
  if (answer.error === undefined) return answer;
  progress("");
  console.error(`${peer.name} cannot do "${request.row}": ${answer.error}`);
  process.exitCode = 1;
  return undefined;
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** The time in ms that workers of NumPy's OpenBLAS keep a core busy after each call. */
const SPINNING = 120;

/**
 * Times rows; reports and omits those that fail anywhere.
 *
 * Group by group, so that the small calls do not run in a heap full of large arrays of other
 * groups.
 */
export async function measureTimes(
  rows: readonly Row[],
  peers: readonly Peer[],
  threads: number,
  effort: Effort,
): Promise<Timing[]> {
  const timings: Timing[] = [];
  for (const group of new Set(rows.map((row) => row.group))) {
    const mine = rows.filter((row) => row.group === group);
    timings.push(...await measureGroup(mine, peers, threads, effort));
  }
  progress("");
  return timings;
}

async function measureGroup(
  rows: readonly Row[],
  peers: readonly Peer[],
  threads: number,
  { ms, rounds }: Effort,
): Promise<Timing[]> {
  const timings = rows.map((row) => ({ row, threads, ns: {} as Record<PeerName, number[]> }));
  for (let round = 0; round <= rounds; round++) {
    for (const [i, { row, ns }] of timings.entries()) {
      progress(
        `${row.group}, ${threads} threads, round ${round} of ${rounds}, ` +
          `row ${i + 1} of ${rows.length}: ${row.name}`,
      );
      // Each round starts with another peer.
      for (let k = 0; k < peers.length; k++) {
        const peer = peers[(k + round) % peers.length];
        const { name } = peer;
        if (statementOf(name, row) === null || (round > 0 && ns[name] === undefined)) continue;
        const what = round === 0 ? "prepare" : "time";
        const answer = await ask(peer, requestFor(name, row, what, ms));
        if (answer === undefined) delete ns[name];
        else if (round === 0) ns[name] = [];
        else ns[name].push(answer.ns!);
        if (name === "NumPy" && threads > 1 && row.group === "matmul") {
          await new Promise((resolve) => setTimeout(resolve, SPINNING));
        }
      }
    }
  }
  return timings;
}

/**
 * The memory of rows: each peer in a new process that makes the inputs and calls the row 20 times.
 */
export async function measureMemory(
  rows: readonly Row[],
  names: readonly PeerName[],
  options: PeerOptions,
): Promise<MemoryRow[]> {
  const made: MemoryRow[] = [];
  const empty: Partial<Record<PeerName, number>> = {};
  for (const row of rows) {
    const peak: Partial<Record<PeerName, number>> = {};
    for (const name of names) {
      if (statementOf(name, row) === null) continue;
      progress(`memory: ${row.name}, ${name}`);
      const peer = new Peer(name, { ...options, cold: true });
      await peer.ready();
      const answer = await ask(peer, requestFor(name, row, "memory"));
      await peer.close();
      if (answer === undefined) continue;
      peak[name] = answer.peak!;
      empty[name] = Math.min(empty[name] ?? Infinity, answer.before!);
    }
    made.push({ name: row.name, peak });
  }
  progress("");
  return made.length === 0
    ? []
    : [{ name: "idle process", peak: empty as ByPeer<number> }, ...made];
}
