/**
 * Servers with OpenAI's API under load, in Deno and in Bun: embeddings by MiniLM beside transformers.js
 * in a plain server of Bun, and chats with SmolLM2-135M beside node-llama-cpp's batching in Node.
 *
 * The load comes from a process of its own on this machine (tests/serve/load.ts), for the milliseconds of
 * `--ms`. A figure of a request or a token is the wall time of the load, and the processor time of the
 * server, divided by their number. Fails if an answer is wrong or missing.
 *
 * The models are models/minilm (onnx/model.onnx of transformers.js as in the suite "texts") and
 * models/smollm2 (`deno task models`).
 *
 * @module
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { findTool, root } from "../../scripts/tools.ts";
import {
  type Child,
  cpuOf,
  memoryOf,
  startProgram,
  startServer,
} from "../../tests/serve/clients_child.ts";
import type { Setup } from "../../tests/serve/clients_server.ts";
import type { Load } from "../../tests/serve/load.ts";
import { environment } from "../harness/line_process.ts";
import type { Figure, Outcome, Row, RunOptions, Runtime, Side, Suite } from "../harness/suite.ts";
import { PEERS_FOLDER, versionOf } from "./node_peers.ts";
import { llamaCommand, type PeerSetup, transformersCommand } from "./serve_peers.ts";

const MODELS = join(root, "models");
const CHAT = "SmolLM2-135M-Instruct.Q4_1.gguf";
const EMBEDDINGS = join(MODELS, "minilm"), SMOLLM = join(MODELS, "smollm2");
/** The texts of an engine at the same time, by default. */
const SLOTS = 16;
/** Milliseconds of a load before the measured one: programs are compiled in it. */
const WARM_MS = 4000;
const LATE = "lateness of a timer of 1 ms, p99";

/** A load by its group: what is asked, and by how many. */
interface Kind {
  readonly what: "short" | "mixed" | "chat";
  readonly connections: number;
  readonly about: string;
  /** Half of the full load. */
  readonly isHalf?: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  "short": { what: "short", connections: 64, about: "embeddings of 8 words" },
  "mixed": { what: "mixed", connections: 64, about: "embeddings of 4 to 200 words" },
  "chat 1": { what: "chat", connections: 1, about: "prompts of about 80 tokens, answers of 128" },
  "chat 16": { what: "chat", connections: 16, about: "the same by 16 clients" },
  "chat 64": {
    what: "chat",
    connections: 64,
    about: "the same by 64 clients, of whom 16 are served",
  },
  "short, half": {
    ...{ what: "short", connections: 16, isHalf: true },
    about: "half of the full load",
  },
  "chat, half": { what: "chat", connections: 8, isHalf: true, about: "half of the full load" },
};

/** The rows of a group. */
function rowsOf(group: string, { what, isHalf }: Kind): Row[] {
  const names = isHalf === true
    ? ["answer, p99", LATE, `${LATE}, idle`]
    : what === "chat"
    ? ["token", "first token, median", "first token, p99", "gap, p99", "answer, median"]
    : ["request", "answer, median", "answer, p99"];
  return [
    ...names.map((name): Row => ({ group, name })),
    ...isHalf === true ? [] : [{ group, name: "resident memory", unit: "bytes" } as const],
  ];
}

/** The output of a program. */
function output(path: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (part: string) => text += part);
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(text);
      else reject(new Error(`${path} ${args.join(" ")} exited with ${code}`));
    });
  });
}

const figure = (ms: number): Figure => ({ wall: ms * 1e6 });

class ServeSide implements Side {
  readonly name: string;
  readonly peer: boolean;
  readonly runtime?: Runtime;
  readonly version: string;
  readonly #ms: number;
  readonly #whats: readonly string[];
  readonly #start: (kind: Kind) => Promise<Child>;

  constructor(
    about: { name: string; peer: boolean; runtime?: Runtime; version?: string },
    whats: readonly string[],
    ms: number,
    start: (kind: Kind) => Promise<Child>,
  ) {
    const { name, peer, runtime, version = "" } = about;
    [this.name, this.peer, this.version, this.#ms] = [name, peer, version, ms];
    [this.#whats, this.#start] = [whats, start];
    if (runtime !== undefined) this.runtime = runtime;
  }

  has({ group }: Row): boolean {
    if (group === "memory") return !this.peer;
    return this.#whats.includes(KINDS[group]!.what);
  }

  prepare(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async measure([row]: readonly Row[]): Promise<Outcome> {
    if (row!.group === "memory") return await this.#memory();
    const kind = KINDS[row!.group]!;
    const server = await this.#start(kind);
    try {
      return { figures: await this.#figures(server, kind) };
    } finally {
      await server.end();
    }
  }

  async #load(
    server: Child,
    { what, connections }: Kind,
    ms: number,
    rate?: number,
  ): Promise<Load> {
    const model = what === "chat" ? "chat" : "embeddings";
    const given = { port: server.port, connections, seconds: ms / 1000, what, model, rate };
    const args = ["tests/serve/load.ts", JSON.stringify(given)];
    const made = JSON.parse(await output(findTool("bun"), args)) as Load;
    const { statuses, broken, good } = made;
    if (broken > 0 || Object.keys(statuses).some((status) => status !== "200") || good === 0) {
      throw new Error(`answers were wrong or missing: ${JSON.stringify({ statuses, broken })}`);
    }
    return made;
  }

  async #figures(server: Child, kind: Kind): Promise<Record<string, Figure>> {
    await this.#load(server, kind, WARM_MS);
    if (kind.isHalf === true) {
      const full = await this.#load(server, kind, this.#ms / 2);
      const quiet = await this.#lateness(server, () => delay(this.#ms / 4));
      let answers = full.answers;
      const busy = await this.#lateness(server, async () => {
        const rate = full.good / full.seconds / 2;
        answers = (await this.#load(server, kind, this.#ms, rate)).answers;
      });
      return {
        "answer, p99": figure(answers.p99),
        [LATE]: figure(busy),
        [`${LATE}, idle`]: figure(quiet),
      };
    }
    const before = cpuOf(server.pid);
    const { seconds, good, tokens, answers, firsts, gaps } = await this.#load(
      server,
      kind,
      this.#ms,
    );
    const cpu = cpuOf(server.pid) - before;
    const of = (count: number): Figure => ({
      wall: seconds * 1e9 / count,
      cpu: cpu * 1e9 / count,
    });
    const resident = { wall: (await server.stats()).resident };
    if (kind.what !== "chat") {
      return {
        "request": of(good),
        "answer, median": figure(answers.p50),
        "answer, p99": figure(answers.p99),
        "resident memory": resident,
      };
    }
    return {
      "token": of(tokens),
      "first token, median": figure(firsts.p50),
      "first token, p99": figure(firsts.p99),
      "gap, p99": figure(gaps.p99),
      "answer, median": figure(answers.p50),
      "resident memory": resident,
    };
  }

  /** How late a timer in the server is while something happens, in milliseconds. */
  async #lateness(server: Child, during: () => Promise<void>): Promise<number> {
    server.watchTimer();
    await during();
    return (await server.stats()).late.p99;
  }

  /** What two processes of one model take, each a part of what they share. */
  async #memory(): Promise<Outcome> {
    const kind = { ...KINDS["chat 1"]!, connections: 2 };
    const servers = [await this.#start(kind)];
    try {
      await this.#load(servers[0]!, kind, WARM_MS);
      const alone = memoryOf(servers[0]!.pid, "Pss");
      servers.push(await this.#start(kind));
      await this.#load(servers[1]!, kind, WARM_MS);
      const both = servers.reduce((sum, { pid }) => sum + memoryOf(pid, "Pss"), 0);
      return {
        figures: {
          "one process": { wall: alone },
          "the second, proportional": { wall: both - alone },
        },
      };
    } finally {
      for (const server of servers) await server.end();
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function sides(options: RunOptions): Side[] {
  const { threads, ms, runtimes, level, without } = options;
  const env = environment(threads, level);
  const made: Side[] = [];
  const peer = (
    name: string,
    whats: readonly string[],
    version: string,
    command: string[],
  ) => {
    const start = () => startProgram(command, { cwd: PEERS_FOLDER, env });
    made.push(
      new ServeSide({ name, peer: true, version: `${name} ${version}` }, whats, ms, start),
    );
  };
  const shared = { threads, slots: SLOTS };
  const transformers = versionOf(options, "transformers.js", "@huggingface/transformers");
  if (transformers !== undefined && existsSync(join(EMBEDDINGS, "onnx", "model.onnx"))) {
    const setup: PeerSetup = { ...shared, folder: `${MODELS}/`, model: "minilm" };
    const command = transformersCommand(findTool("bun"), setup);
    peer("transformers.js", ["short", "mixed"], transformers, command);
  } else if (transformers !== undefined) {
    without("transformers.js", "scripts/golden/minilm.py makes models/minilm/onnx");
  }
  const llama = versionOf(options, "node-llama-cpp", "node-llama-cpp");
  if (llama !== undefined) {
    const setup: PeerSetup = { ...shared, folder: SMOLLM, model: CHAT };
    peer("node-llama-cpp", ["chat"], llama, llamaCommand(setup));
  }
  for (const runtime of runtimes) {
    const start = (kind: Kind) => {
      const setup: Setup = {
        ...kind.what === "chat" ? { chat: join(SMOLLM, CHAT) } : { embeddings: EMBEDDINGS },
        limits: { perClient: 1000 },
      };
      return startServer(setup, { runtime: runtime === "Deno" ? "deno" : "bun", env });
    };
    const whats = ["short", "mixed", "chat"];
    made.push(new ServeSide({ name: runtime, peer: false, runtime }, whats, ms, start));
  }
  return made;
}

/** The goals: times beside the fastest peer, and of a timer at half of the load. */
const GOALS: Readonly<Record<string, { readonly ratio?: number; readonly ns?: number }>> = {
  "short/request": { ratio: 0.67 },
  "chat 16/token": { ratio: 0.2 },
  [`short, half/${LATE}`]: { ns: 5e6 },
  [`chat, half/${LATE}`]: { ns: 5e6 },
};

/** The suite. */
export const suite: Suite = {
  title: "Servers of OpenAI's API under load",
  groups: {
    ...Object.fromEntries(Object.entries(KINDS).map(([group, { about }]) => [group, about])),
    memory: "two processes of one model",
  },
  rows: [
    ...Object.entries(KINDS).flatMap(([group, kind]) => rowsOf(group, kind)),
    { group: "memory", name: "one process", unit: "bytes" },
    { group: "memory", name: "the second, proportional", unit: "bytes" },
  ],
  whole: true,
  ...{ rounds: 3, ms: 20_000, threads: [1] },
  beside: "fastest",
  lines: "row",
  goal: (row) => GOALS[row],
  unable: () =>
    process.platform !== "linux"
      ? "it needs Linux"
      : existsSync(EMBEDDINGS) && existsSync(join(SMOLLM, CHAT))
      ? undefined
      : "deno task models minilm smollm2 makes models",
  sides,
};
