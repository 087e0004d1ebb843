/**
 * What is known of a program: its ops, which improvement did what, and its memory.
 *
 * Compares the graph as it was traced with the one that runs, and reads the plan of native programs.
 *
 * @module
 */
import { Placeholder } from "../base/placeholder.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { whyNotNative } from "../backend/cpu.ts";
import { CHAIN } from "../ops/chain/op.ts";
import type { PackedAttributes } from "../ops/linear/panels.ts";
import type { ChainAttributes } from "../ops/chain/steps.ts";
import { ATTENTION } from "../ops/attention/op.ts";
import { CONV_LAST } from "../ops/conv/channels_last.ts";
import {
  type Graph,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  type TracedStorage,
} from "./graph.ts";
import type { EagerStep, Step } from "./recorder.ts";
import { isJoin, type Joined } from "./joins.ts";
import { Native } from "./native.ts";
import { shareSubexpressions } from "./passes.ts";
import type { Program, ProgramNumber } from "./program.ts";
import type {
  ProgramData,
  ReportedImprovements,
  ReportedOp,
  ReportedStep,
  ReportedTiles,
  ReportedValue,
  ReportedWeight,
} from "./report/data.ts";
import { Recorded, whyNotRecorded } from "./recorded.ts";
import { layoutOf, type Pattern } from "./signature.ts";

// ---- arguments ---------------------------------------------------------------------------------

/** The kind of an argument in words. */
function describePattern(pattern: Pattern): string {
  switch (pattern.kind) {
    case "tensor": {
      const { info, shape, strides, offset, device, readOnly } = pattern;
      const { contiguous } = layoutOf(pattern);
      return [
        `${info.name} ${formatShape(shape)}`,
        ...contiguous ? [] : [`strides ${formatShape(strides)}`],
        ...offset === 0 ? [] : [`offset ${offset}`],
        ...device === "cpu" ? [] : [device],
        ...readOnly ? ["read-only"] : [],
      ].join(" ");
    }
    case "number":
      return `any ${pattern.type}`;
    case "key":
      return "a random key";
    case "constant":
      return describe(pattern.value);
    case "list":
      return `[${pattern.members.map(describePattern).join(", ")}]`;
    case "record":
      return `{ ${
        pattern.keys.map((key, i) => `${key}: ${describePattern(pattern.members[i]!)}`).join(", ")
      } }`;
  }
}

/** The path of the first tensor of each storage of the arguments. */
function pathsOf(patterns: readonly Pattern[]): Map<number, string> {
  const paths = new Map<number, string>();
  const visit = (pattern: Pattern, path: string): void => {
    if (pattern.kind === "tensor" && !paths.has(pattern.group)) paths.set(pattern.group, path);
    else if (pattern.kind === "list") {
      pattern.members.forEach((one, i) => visit(one, `${path}[${i}]`));
    } else if (pattern.kind === "record") {
      pattern.members.forEach((one, i) => visit(one, `${path}.${pattern.keys[i]}`));
    }
  };
  patterns.forEach((pattern, i) => visit(pattern, String(i)));
  return paths;
}

// ---- ops ---------------------------------------------------------------------------------------

/** Names the operands of a graph: storages have the name of the op that wrote them last. */
class Names {
  readonly #paths: Map<number, string>;
  readonly #written = new Map<TracedStorage, string>();
  /** In the order of their first uses. */
  readonly #captured: TracedStorage[] = [];

  constructor(patterns: readonly Pattern[]) {
    this.#paths = pathsOf(patterns);
  }

  of(storage: TracedStorage): string {
    const { origin } = storage;
    const written = this.#written.get(storage);
    if (written !== undefined) return written;
    switch (origin.kind) {
      case "argument":
        return `arg ${this.#paths.get(origin.group)}`;
      case "captured":
        if (!this.#captured.includes(storage)) this.#captured.push(storage);
        return `captured ${this.#captured.indexOf(storage)}`;
      case "created":
        if (origin.op.name === "pack") return "packed";
        return origin.constant === null ? origin.name : "constant";
      default:
        return "empty";
    }
  }

  value(
    { storage, layout: { shape } }: {
      storage: TracedStorage;
      layout: { shape: readonly number[] };
    },
  ): ReportedValue {
    return { name: this.of(storage), shape: [...shape], dtype: storage.info.name };
  }

  input(input: NodeInput): ReportedValue {
    if (isValue(input)) return this.value(input);
    if (!(input instanceof Placeholder)) return { name: String(input) };
    return { name: `arg ${(input as ProgramNumber).path}` };
  }

  /** The storages that `node`, the op of a number, writes. */
  write(node: Node, number: number): void {
    const { outputs, op, inputs } = node;
    outputs.forEach(({ storage }, k) => {
      this.#written.set(storage, outputs.length > 1 ? `%${number}.${k}` : `%${number}`);
    });
    for (const k of op.writes ?? []) {
      const input = inputs[k]!;
      if (isValue(input)) this.#written.set(input.storage, `%${number}`);
    }
  }
}

/** The name of the result of step `s` of a chain. */
const stepName = (s: number): string =>
  String.fromCharCode(97 + s % 26) + (s < 26 ? "" : String(Math.floor(s / 26)));

function stepsOf({ attributes }: Node, inputs: readonly ReportedValue[]): ReportedStep[] {
  const { steps } = attributes as ChainAttributes;
  return steps.map(({ op, result, inputs: operands, parameters }, s) => ({
    name: stepName(s),
    op: op.name,
    inputs: [
      ...operands.map((value) =>
        value < inputs.length ? inputs[value]!.name : stepName(value - inputs.length)
      ),
      ...op.parameters.map((name, i) => `${name} ${parameters[i]}`),
    ],
    dtype: result.name,
  }));
}

/** Why an op of a native program runs by dispatch. */
function whyDispatched({ call: { op, inputs }, why, node }: EagerStep, native: Native): string {
  if (op.kind !== "map" && inputs.some((input) => input instanceof Placeholder)) {
    return "it takes a number of each call";
  }
  if (native.checksFirst(node)) {
    return "an index out of range has to be found before tensors outside are written";
  }
  switch (why) {
    case "memory":
      return "it reads or moves elements in JavaScript";
    case "an array":
      return "it makes a table of numbers";
    default:
      return "the library has no kernel for it";
  }
}

function opsOf(
  graph: Graph,
  names: Names,
  steps: readonly Step[],
  sources: readonly number[],
  native: Native | undefined,
): ReportedOp[] {
  return graph.nodes.map((node, i): ReportedOp => {
    const inputs = node.inputs.filter((input) => input !== undefined).map((one) =>
      names.input(one)
    );
    const all = node.inputs.map((one) => names.input(one));
    names.write(node, i + 1);
    const own = steps.filter((step) => sources[step.node] === i);
    const eager = own.find((step) => step.kind === "eager");
    return {
      op: node.op.name,
      name: node.op === CHAIN ? "chain" : node.name,
      inputs,
      outputs: node.outputs.map((one) => names.value(one)),
      ...node.op === CHAIN ? { steps: stepsOf(node, all) } : {},
      kernels: own.filter(({ kind }) => kind === "native").length,
      ...eager === undefined ? {} : { dispatched: whyDispatched(eager, native!) },
    };
  });
}

// ---- improvements ------------------------------------------------------------------------------

const madeBy = ({ outputs, given }: Node): number | undefined =>
  given ? undefined : outputs[0]?.storage.id;

/** The ops of a chain or of a joined product. */
const partsOf = (name: string): string[] => name.split(" → ");

/** Which nodes of the traced graph the improved one does not need any more. */
function improvementsOf(
  { graph, improved, joined: { graph: { nodes: run }, sources }, passes }: Program,
  tiled: readonly ReportedTiles[],
): ReportedImprovements {
  const shares = passes.subexpressions ? shareSubexpressions(graph) : graph;
  const own = (nodes: readonly Node[]): Set<number | undefined> => new Set(nodes.map(madeBy));
  const [remaining, kept] = [own(shares.nodes), own(improved.nodes)];
  const shared: string[] = [];
  for (const node of graph.nodes) {
    const id = madeBy(node);
    if (id !== undefined && !remaining.has(id)) shared.push(node.name);
  }
  const isFolded = (id: number): boolean => improved.storages[id]!.origin.kind === "created";
  const folded: string[] = [];
  const makers = new Map<number, Node>();
  for (const node of shares.nodes) {
    const id = madeBy(node);
    if (id === undefined) continue;
    makers.set(id, node);
    if (isFolded(id)) folded.push(node.name);
  }
  // The ops that are a part of others: those that lead to an op of the improved graph.
  const absorbed = new Set<number>();
  const visit = (node: Node | undefined): void => {
    if (node === undefined) return;
    for (const { storage: { id } } of readsOf(node)) {
      if (!makers.has(id) || kept.has(id) || isFolded(id) || absorbed.has(id)) continue;
      absorbed.add(id);
      visit(makers.get(id));
    }
  };
  for (const node of improved.nodes) {
    const outputs = node.given ? [] : node.outputs;
    for (const { storage: { id } } of outputs) visit(makers.get(id));
  }
  const counts = new Map<string, number>();
  for (const node of improved.nodes) {
    const { name } = node;
    if (madeBy(node) === undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const dropped = shares.nodes.filter((node) => {
    const id = madeBy(node);
    if (id !== undefined) return !kept.has(id) && !isFolded(id) && !absorbed.has(id);
    // Passes keep the order and the names of those in place.
    const left = counts.get(node.name) ?? 0;
    counts.set(node.name, left - 1);
    return left <= 0;
  });
  return {
    dropped: dropped.map(({ name }) => name),
    shared,
    folded,
    packed: packedWeights(improved),
    joined: improved.nodes.flatMap(({ op, name }) =>
      op !== CHAIN && name.includes(" → ") ? [name] : []
    ),
    channelsLast: improved.nodes.filter(({ op }) => op === CONV_LAST).length,
    attention: improved.nodes.filter(({ op }) => op === ATTENTION).length -
      graph.nodes.filter(({ op }) => op === ATTENTION).length,
    fused: improved.nodes.flatMap(({ op, name }) => op === CHAIN ? [partsOf(name)] : []),
    placed: run.flatMap(({ name, outputs }, i) => {
      const inPart = outputs.some(({ storage: { origin } }) => origin.kind === "joined");
      return inPart && !isJoin(improved.nodes[sources[i]!]!) ? [name] : [];
    }),
    tiled,
    off: Object.entries(passes).flatMap(([name, on]) => on ? [] : [name]),
  };
}

const bytesOf = ({ length, info }: TracedStorage): number => length * info.bytes;

function packedWeights({ nodes }: Graph): ReportedWeight[] {
  const found = new Map<TracedStorage, ReportedWeight>();
  for (const { op, inputs: [, panels], attributes } of nodes) {
    if (op.name !== "linearPacked" || !isValue(panels!)) continue;
    const { storage } = panels;
    if (storage.origin.kind !== "created") continue;
    const { columns, depth } = attributes as PackedAttributes;
    found.set(storage, {
      shape: [columns, depth],
      dtype: storage.info.name,
      bytes: bytesOf(storage),
    });
  }
  return [...found.values()];
}

/** The bytes of the constants that a program uses. */
function constantBytes(
  { improved: { nodes, results }, shared: others }: Program,
): Omit<ProgramData["bytes"], "arena"> {
  const used = new Set([...nodes.flatMap(readsOf), ...results].map(({ storage }) => storage));
  let [constants, packed, shared] = [0, 0, 0];
  for (const storage of used) {
    const { origin } = storage;
    if (origin.kind !== "created" || origin.constant === null) continue;
    const bytes = bytesOf(storage);
    if (origin.op.name === "pack") packed += bytes;
    else constants += bytes;
    if (others.has(origin.constant)) shared += bytes;
  }
  return { constants, packed, shared };
}

// ---- the program -------------------------------------------------------------------------------

/** Why a program does not run as one of kernels. */
function whyByDispatch({ executor, improved }: Program): string {
  if (executor instanceof Recorded) return executor.why ?? "it runs on a device, as recorded work";
  const devices = new Set(improved.storages.map(({ device }) => device));
  const far = [...devices].find((device) => device !== "cpu");
  if (far !== undefined) return `it runs on ${far}: ${whyNotRecorded(improved) ?? "by dispatch"}`;
  return whyNotNative() ?? "the backend was another one when the program was made";
}

/** The steps of a program, those of a loop once, and its loops. */
function stepsAndTiles(native: Native | undefined, { graph: { nodes } }: Joined): {
  steps: readonly Step[];
  tiled: ReportedTiles[];
} {
  if (native === undefined) return { steps: [], tiled: [] };
  const { steps, loops } = native.plan.lowered;
  const repeated = new Set<Step>();
  const tiled = loops.map(({ first, body, rest, tiles }): ReportedTiles => {
    for (const step of steps.slice(first + body, first + body + rest)) repeated.add(step);
    const own = new Set(steps.slice(first, first + body).map(({ node }) => node));
    const ops = [...own].flatMap((i) => {
      const node = nodes[i];
      return node === undefined ? [] : [node.op === CHAIN ? "chain" : node.name];
    });
    return { ops, tiles: tiles + (rest > 0 ? 1 : 0) };
  });
  return { steps: steps.filter((step) => !repeated.has(step)), tiled };
}

/** All that is known of a program of the function `name`. */
export function collect(program: Program, name: string): ProgramData {
  const { improved, joined, patterns, executor } = program;
  const names = new Names(patterns);
  const native = executor instanceof Native ? executor : undefined;
  const { steps, tiled } = stepsAndTiles(native, joined);
  const ops = opsOf(improved, names, steps, joined.sources, native);
  const plan = native?.plan;
  return {
    function: name,
    arguments: patterns.map(describePattern),
    executor: executor.name as ProgramData["executor"],
    ...plan === undefined ? { why: whyByDispatch(program) } : {},
    traced: program.graph.nodes.length,
    ops,
    results: improved.results.map((one) => names.value(one)),
    improvements: improvementsOf(program, tiled),
    kernels: steps.filter(({ kind }) => kind === "native").length,
    nativeCalls: plan?.segments.filter((segment) => "to" in segment).length ?? 0,
    bytes: { arena: plan?.arenaBytes ?? 0, ...constantBytes(program) },
  };
}
