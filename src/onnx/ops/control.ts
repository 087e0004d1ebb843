/**
 * Control flow, sequences and optional values.
 *
 * @module
 */
import { concat, stack } from "../../api/functions/tensors.ts";
import { Slice } from "../../base/slice.ts";
import { interpreting } from "../../core/interpreter.ts";
import { scalar, zeros } from "../../tensor/create.ts";
import { keep, Tensor } from "../../tensor/tensor.ts";
import type { Call, Implementation, Rounds } from "../graph/call.ts";
import type { Graph } from "../graph/graph.ts";
import { dtypeOf } from "../graph/initializers.ts";
import { MOST_UNROLLED, NeedsHost } from "../graph/needs.ts";
import {
  elementsOf,
  int64,
  isKnownTensor,
  isList,
  type T,
  tensorsIn,
  type Value,
} from "../graph/values.ts";

function* chooseBranch(call: Call): Rounds {
  const all = call.elements(0);
  if (all.length !== 1) call.failShape(`the condition has ${all.length} elements`);
  const graph = call.node.graph(all[0] === true ? "then_branch" : "else_branch");
  return yield { graph, inputs: [] };
}

/** A count that a loop of a program may have. */
function checkUnrolled(count: number): void {
  if (interpreting() && count > MOST_UNROLLED) {
    throw new NeedsHost(`it has ${count} rounds, more than the ${MOST_UNROLLED} of a program`);
  }
}

/** Whether a condition holds, which must be known. */
function holds(condition: Value): boolean {
  if (!(condition instanceof Tensor)) return true;
  if (!isKnownTensor(condition)) throw new NeedsHost("its condition depends on elements");
  return elementsOf(condition)[0] === true;
}

/** Disposes of tensors that the next round does not use. */
function drop(values: readonly Value[], kept: readonly Value[]): void {
  if (interpreting()) return;
  const used = new Set(tensorsIn(kept));
  for (const x of tensorsIn(values)) if (!used.has(x)) x.dispose();
}

function* loop(call: Call): Rounds {
  const body = call.node.graph("body");
  const most = call.has(0) ? call.number(0) : Infinity;
  checkUnrolled(most === Infinity ? 0 : most);
  let goes = call.has(1) ? call.elements(1)[0] === true : true;
  const given = call.inputs.slice(2);
  const states = given.length;
  if (body.outputs.length < 1 + states) {
    call.fail(`its body has ${body.outputs.length} outputs for ${states} values`);
  }
  let state: readonly Value[] = given;
  const scans: T[][] = Array.from({ length: body.outputs.length - 1 - states }, () => []);
  let round = 0;
  for (; round < most && goes; round++) {
    checkUnrolled(round);
    const own = [int64([round], []), scalar(true, { dtype: "bool" }) as T];
    const made = yield { graph: body, inputs: [...own, ...state] };
    const [condition, ...rest] = made;
    goes = holds(condition);
    const next = rest.slice(0, states);
    drop(state.filter((one) => !given.includes(one)), next);
    state = next;
    rest.slice(states).forEach((one, k) => scans[k]!.push(one as T));
  }
  return [
    ...state.map((one) => one),
    ...scans.map((parts, k) => stackParts(parts, body, 1 + states + k)),
  ];
}

/** Results of all rounds, along a new first axis. */
function stackParts(parts: readonly T[], body: Graph, output: number, axis = 0): T {
  if (parts.length > 0) return stack(parts, axis) as T;
  const { dtype, shape } = body.outputs[output]!;
  const sizes = (shape ?? []).map((n) => typeof n === "number" ? n : 0);
  return zeros([0, ...sizes], { dtype: dtypeOfName(dtype) }) as T;
}

function dtypeOfName(name: string): T["dtype"] {
  for (let type = 1; type <= 16; type++) {
    const dtype = dtypeOf(type);
    if (dtype === name) return dtype;
  }
  return "float32";
}

function* scan(call: Call): Rounds {
  const { node } = call;
  const body = node.graph("body");
  const count = node.int("num_scan_inputs");
  const states = call.inputs.length - count;
  if (count < 1 || states < 0 || body.outputs.length < states) {
    call.fail(
      `num_scan_inputs is ${count}, of ${call.inputs.length} inputs, and its body has ` +
        `${body.outputs.length} outputs`,
    );
  }
  if (call.opset < 9) return yield* scanOfBatches(call, body, count);
  return yield* scanOnce(
    call,
    body,
    call.inputs.slice(0, call.inputs.length - count),
    call.inputs.slice(-count),
  );
}

/** The scan of opset 8: each batch by itself. */
function* scanOfBatches(call: Call, body: Graph, count: number): Rounds {
  const [lengths, ...given] = call.inputs;
  if (lengths !== undefined) return call.fail("lengths of sequences are not read");
  const all = given.map((_, k) => call.tensor(k + 1));
  const batches = all[0]!.shape[0]!;
  const rows: Value[][] = [];
  for (let b = 0; b < batches; b++) {
    // They are in use in several rounds.
    const own = all.map((x) => keep(x.sliceAxis(0, b) as T));
    const cut = own.length - count;
    rows.push([...yield* scanOnce(call, body, own.slice(0, cut), own.slice(cut))]);
    drop(own, rows.at(-1)!);
  }
  return rows[0]!.map((_, k) => stack(rows.map((row) => row[k] as T), 0) as T);
}

function* scanOnce(
  call: Call,
  body: Graph,
  initial: readonly Value[],
  sequences: readonly Value[],
): Rounds {
  const { node } = call;
  const xs = sequences.map((x) =>
    x instanceof Tensor ? x as T : call.fail("it scans values that are no tensors")
  );
  const outputs = body.outputs.length - initial.length;
  const zerosOf = (n: number): number[] => Array<number>(n).fill(0);
  const axes = node.ints("scan_input_axes") ?? zerosOf(xs.length);
  const backwards = node.ints("scan_input_directions") ?? node.ints("directions") ??
    zerosOf(xs.length);
  const outAxes = node.ints("scan_output_axes") ?? zerosOf(outputs);
  const outBackwards = node.ints("scan_output_directions") ?? zerosOf(outputs);
  const places = xs.map((x, k) => call.axis(axes[k] ?? 0, x.rank));
  const rounds = xs[0]?.shape[places[0]!] ?? 0;
  checkUnrolled(rounds);
  let state = initial;
  const scans: T[][] = Array.from({ length: outputs }, () => []);
  for (let round = 0; round < rounds; round++) {
    const parts = xs.map((x, k) =>
      x.sliceAxis(places[k]!, backwards[k] === 1 ? rounds - 1 - round : round) as T
    );
    const made = yield { graph: body, inputs: [...state, ...parts] };
    const next = made.slice(0, initial.length);
    drop(state.filter((one) => !initial.includes(one)), next);
    state = next;
    made.slice(initial.length).forEach((one, k) => scans[k]!.push(one as T));
  }
  return [
    ...state,
    ...scans.map((parts, k) => {
      const ordered = outBackwards[k] === 1 ? parts.toReversed() : parts;
      const rank = (parts[0]?.rank ?? 0) + 1;
      return stackParts(ordered, body, initial.length + k, call.axis(outAxes[k] ?? 0, rank));
    }),
  ];
}

// ---- sequences ---------------------------------------------------------------------------------

/** A place in a list of `length` values. */
function placeIn(call: Call, k: number, length: number, end: number): number {
  const given = call.number(k);
  const place = given < 0 ? given + length : given;
  if (place < 0 || place > end) return call.fail(`index ${given} of a list of ${length} values`);
  return place;
}

function insert(call: Call): readonly Value[] {
  const list = call.list(0);
  const at = call.has(2) ? placeIn(call, 2, list.length, list.length) : list.length;
  return [list.toSpliced(at, 0, call.inputs[1])];
}

function erase(call: Call): readonly Value[] {
  const list = call.list(0);
  const at = call.has(1) ? placeIn(call, 1, list.length, list.length - 1) : list.length - 1;
  return [list.toSpliced(at, 1)];
}

function splitToSequence(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const axis = call.axis(call.node.int("axis", 0), x.rank);
  const size = x.shape[axis]!;
  if (!call.has(1)) {
    const keepDims = call.node.flag("keepdims", true);
    return [
      Array.from(
        { length: size },
        (_, k) => x.sliceAxis(axis, keepDims ? new Slice(k, k + 1) : k) as T,
      ),
    ];
  }
  const given = call.numbers(1);
  const each = call.tensor(1).rank === 0 ? given[0]! : undefined;
  if (each !== undefined && each < 1) call.failShape(`parts of ${each} elements`);
  const sizes = each === undefined ? given : Array.from(
    { length: Math.ceil(size / each) },
    (_, k) => Math.min(each, size - k * each),
  );
  let start = 0;
  return [sizes.map((n) => x.sliceAxis(axis, new Slice(start, start += n)) as T)];
}

function concatFromSequence(call: Call): readonly Value[] {
  const parts = call.list(0).map((one) =>
    one instanceof Tensor ? one as T : call.fail("the list has values that are no tensors")
  );
  const isNew = call.node.flag("new_axis");
  const rank = (parts[0]?.rank ?? 0) + (isNew ? 1 : 0);
  const axis = call.axis(call.node.int("axis"), rank);
  return [(isNew ? stack(parts, axis) : concat(parts, axis)) as T];
}

/** Runs a graph on each value of a list. */
function* sequenceMap(call: Call): Rounds {
  const body = call.node.graph("body");
  const [first, ...others] = call.inputs;
  if (!isList(first)) return call.fail("input 0 is no list");
  checkUnrolled(first.length);
  const rows: Value[][] = [];
  for (const [k, one] of first.entries()) {
    const inputs = [one, ...others.map((other) => isList(other) ? other[k] : other)];
    rows.push(yield { graph: body, inputs });
  }
  return body.outputs.map((_, k) => rows.map((row) => row[k]));
}

/** The ops. */
export const CONTROL: Readonly<Record<string, Implementation>> = {
  If: chooseBranch,
  Loop: loop,
  Scan: scan,
  SequenceConstruct: (call) => [call.inputs],
  SequenceEmpty: () => [[]],
  SequenceAt: (call) => {
    const list = call.list(0);
    return [list[placeIn(call, 1, list.length, list.length - 1)]];
  },
  SequenceInsert: insert,
  SequenceErase: erase,
  SequenceLength: (call) => [int64([call.list(0).length], [])],
  SequenceMap: sequenceMap,
  SplitToSequence: splitToSequence,
  ConcatFromSequence: concatFromSequence,
  Optional: (call) => [call.inputs[0] ?? null],
  OptionalHasElement: (call) => [scalar(call.has(0), { dtype: "bool" }) as T],
  OptionalGetElement: (call) => [
    call.has(0) ? call.inputs[0] : call.fail("the optional value is absent"),
  ],
};
