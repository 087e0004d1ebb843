/**
 * Generates and caches the loops of the op table: one function per op, dtypes, rank and strides, so
 * that each stays monomorphic.
 *
 * Knows plans and ops, nothing of tensors. Where code generation is forbidden (a content security
 * policy, `--disallow-code-generation-from-strings`), interpret.ts runs instead.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { resultOf } from "../../table/infer.ts";
import type { Operand } from "../../memory/operand.ts";
import type {
  ArgReduceOp,
  AxisOp,
  Call,
  MapOp,
  ReduceOp,
  ScanOp,
  TableOp,
} from "../../table/op.ts";
import { needsDouble } from "../../table/c_rules.ts";
import { exprFor, REDUCE } from "../../table/table.ts";
import { ATTRIBUTES, OFFSETS, type Plan } from "../../base/plan.ts";
import { Emitter, functionOf, hasCall, number, parameterName, type Value } from "./emit.ts";
import { COLUMNS, environment, type Loop, slowFunction } from "./environment.ts";
import { startOf } from "./interpret.ts";

const ARRAYS = ["o", "A", "B", "C"];
const NAMES = ["x", "y", "z"];
const TILE = 32;
/** The name of an op's BigInt form in loops. */
const SLOW = "slow";
/** From this row length on, the engine's own `fill` writes the elements. */
const FILLED = 64;
/** The elements of a run that are reduced at a time. */
const RUN_BLOCK = 1024;
/** The suffixes of the two accumulators of each of four lanes, and of the results of eight. */
const SUMS = ["_s", "_s1", "_s2", "_s3", "_t", "_t1", "_t2", "_t3"];
const LANES = ["_0", "_1", "_2", "_3", "_4", "_5", "_6", "_7"];

/** Reads the plan into constants: sizes `n0…`, strides `s0_0…` and offsets `i0…`. */
export function header({ parameters }: Pick<TableOp, "parameters">, plan: Plan): string {
  const { operands, rank, needsInt64Index } = plan;
  const literals = digits(plan);
  // Integers are faster, but only up to 2^31.
  const int = needsInt64Index ? "" : " | 0";
  const lines: string[] = [];
  parameters.forEach((name, i) =>
    lines.push(`const ${parameterName(name)} = p[${ATTRIBUTES + i}];`)
  );
  for (let k = 0; k < operands; k++) lines.push(`const i${k}_0 = p[${OFFSETS + k}]${int};`);
  const at = OFFSETS + operands;
  for (let j = 0; j < rank; j++) lines.push(`const n${j} = p[${at + j}]${int};`);
  for (let k = 0; k < operands; k++) {
    for (let j = 0; j < rank; j++) {
      const literal = j === rank - 1 ? literals[k] : 2;
      const value = literal === 2 ? `p[${at + rank + k * rank + j}]${int}` : String(literal);
      lines.push(`const s${k}_${j} = ${value};`);
    }
  }
  return lines.join(" ");
}

/** Opens the loop over axis `j`; its indexes are `i<operand>_<j>`. */
function open(j: number, operands: number): string {
  const inits: string[] = [`c${j} = 0`];
  const steps: string[] = [`c${j}++`];
  for (let k = 0; k < operands; k++) {
    inits.push(`i${k}_${j + 1} = i${k}_${j}`);
    steps.push(`i${k}_${j + 1} += s${k}_${j}`);
  }
  return `for (let ${inits.join(", ")}; c${j} < n${j}; ${steps.join(", ")}) {`;
}

/** The operands' inner strides as digits 0, 1 and 2, the output's first. */
function digits(plan: Plan): number[] {
  const result: number[] = [];
  for (let k = 0, pattern = plan.innerStrideKey; k < plan.operands; k++) {
    result.unshift(pattern % 3);
    pattern = Math.floor(pattern / 3);
  }
  return result;
}

/** One element of a map: the hoistable loads, and the rest. */
function mapBody(
  row: MapOp,
  compute: DType,
  inputs: readonly DType[],
  out: DType,
  strides: readonly number[],
  index: (k: number) => string,
): { hoisted: string; body: string; slow: string | null } {
  const emit = new Emitter();
  const expr = exprFor(row, DTYPE[compute].kind);
  const names: Record<string, Value> = {};
  const read = (k: number): void => {
    const raw = emit.load(inputs[k]!, ARRAYS[k + 1]!, index(k + 1));
    names[NAMES[k]!] = row.condition && k === 0 ? raw : emit.cast(raw, inputs[k]!, compute);
  };
  for (let k = 0; k < inputs.length; k++) if (strides[k + 1] === 0) read(k);
  const hoisted = emit.take();
  for (let k = 0; k < inputs.length; k++) if (strides[k + 1] !== 0) read(k);
  for (const name of row.parameters) names[name] = number(parameterName(name));
  const { wide, kind } = DTYPE[compute];
  const slow = wide && hasCall(expr) ? SLOW : null;
  if (compute === out && emit.storeCall(out, "o", index(0), expr, names)) {
    return { hoisted, body: emit.take(), slow };
  }
  const value = slow !== null
    ? emit.computeWide(expr, names, slow, kind === "i")
    : emit.compute(expr, names, compute, true);
  const result = resultOf(row, compute);
  // Only single operations round exactly through float32.
  const exact = compute === out && row.ulp === 0 && !needsDouble(row);
  emit.store(out, "o", index(0), stored(emit, row, value, result, out), exact);
  return { hoisted, body: emit.take(), slow };
}

/** `value`, a result of dtype `from`, as stored in `to`; the store does its own rounding. */
function stored(emit: Emitter, row: MapOp, value: Value, from: DType, to: DType): Value {
  if (from === to) return value;
  // A copy computes nothing that needs rounding first.
  const settled = row.name === "copy" ? value : emit.settle(value, from);
  const rounds = DTYPE[to].kind === "f" && settled.kind === "number";
  return rounds ? settled : emit.cast(settled, from, to);
}

/** The texts of one element: loads before the inner loop, and its body. */
export interface Body {
  readonly hoisted: string;
  readonly body: string;
}

/**
 * Loops over the elements of a map. `make` writes the body for the inner strides of the operands and
 * their indices; `before` comes right before an inner loop over runs.
 */
export function mapLoops(
  plan: Plan,
  make: (strides: readonly number[], index: (k: number) => string) => Body,
  before = "",
): string[] {
  const { rank, operands, tiled } = plan;
  const strides = digits(plan);
  const inner = rank - 1;
  const parts: string[] = [];
  if (tiled) {
    const made = make(strides.map(() => 2), (k) => `j${k}`);
    for (let j = 0; j < rank - 2; j++) parts.push(open(j, operands));
    const [u, v] = [inner - 1, inner];
    const each = (f: (k: number) => string): string =>
      Array.from({ length: operands }, (_, k) => f(k)).join(", ");
    parts.push(
      `for (let u = 0; u < n${u}; u += ${TILE}) { const ue = $min(u + ${TILE}, n${u});`,
      `for (let v = 0; v < n${v}; v += ${TILE}) { const ve = $min(v + ${TILE}, n${v});`,
      `for (let c = u; c < ue; c++) {`,
      `let ${each((k) => `j${k} = i${k}_${u} + c * s${k}_${u} + v * s${k}_${v}`)};`,
      `for (let d = v; d < ve; d++, ${each((k) => `j${k} += s${k}_${v}`)}) { ${made.body} } } } }`,
      "}".repeat(rank - 2),
    );
    return parts;
  }
  const flat = strides.every((s) => s !== 2);
  // Wrapping 32-bit sums cost less than checked ones.
  const moving = plan.needsInt64Index
    ? (k: number) => `i${k}_${inner} + c`
    : (k: number) => `(i${k}_${inner} + c | 0)`;
  const within = (dense: (k: number) => string): Body =>
    make(
      strides,
      (k) => strides[k] === 0 ? `i${k}_${inner}` : flat ? dense(k) : `i${k}_${rank}`,
    );
  const made = within(moving);
  for (let j = 0; j < inner; j++) parts.push(open(j, operands));
  parts.push(made.hoisted);
  if (flat) {
    // Most operands begin at the same place, and one shared index is by far the fastest.
    const others = strides.flatMap((s, k) => k > 0 && s === 1 ? [`i${k}_${inner}`] : []);
    if (strides[0] === 1 && others.length > 0) {
      const same = others.map((other) => `${other} === i0_${inner}`).join(" && ");
      parts.push(
        `if (${same}) { const e = i0_${inner} + n${inner};`,
        `for (let c = i0_${inner}; c < e; c++) { ${within(() => "c").body} } } else`,
      );
    }
    parts.push(before, `for (let c = 0; c < n${inner}; c++) {`);
  } else parts.push(open(inner, operands));
  parts.push(made.body, "}".repeat(rank));
  return parts;
}

function mapSource(
  row: MapOp,
  compute: DType,
  inputs: readonly DType[],
  out: DType,
  plan: Plan,
): { source: string; slow: string | null } {
  const strides = digits(plan);
  const inner = plan.rank - 1;
  let slow: string | null = null;
  const [to, from, n] = [`i0_${inner}`, `i1_${inner}`, `n${inner}`];
  const fills = row.name === "copy" && inputs[0] === out && !DTYPE[out].wide &&
    strides[0] === 1 && strides[1] === 0;
  const loops = mapLoops(
    plan,
    (strides, index) => {
      const made = mapBody(row, compute, inputs, out, strides, index);
      slow = made.slow;
      return made;
    },
    fills ? `if (${n} >= ${FILLED}) o.fill(${ARRAYS[1]}[${from}], ${to}, ${to} + ${n}); else` : "",
  );
  return { source: [header(row, plan), ...loops].join("\n"), slow };
}

/** An accumulator: a number or two words, in variables or in arrays of columns. */
class Accumulator {
  readonly wide: boolean;
  readonly signed: boolean;
  /** True if sums must wrap at each step, since a double would lose their lower bits. */
  readonly wraps: boolean;
  constructor(readonly dtype: DType) {
    const { kind } = DTYPE[dtype];
    this.wraps = (kind === "i" || kind === "u") && !DTYPE[dtype].wide;
    this.wide = DTYPE[dtype].wide;
    this.signed = DTYPE[dtype].kind === "i";
  }

  declare(suffix: string, identity: string): string {
    if (!this.wide) return `let a${suffix} = ${identity};`;
    const bits = BigInt.asUintN(64, BigInt(identity));
    const [low, high] = [Number(bits & 0xffffffffn) | 0, Number(bits >> 32n) | 0];
    return `let a${suffix} = ${low}, h${suffix} = ${high};`;
  }

  value(suffix: string): Value {
    return this.wide
      ? { kind: "pair", low: `a${suffix}`, high: `h${suffix}`, signed: this.signed }
      : number(`a${suffix}`);
  }

  assign(emit: Emitter, suffix: string, value: Value): void {
    if (!this.wide || value.kind !== "pair") {
      emit.add(`a${suffix} = ${value.kind === "number" ? value.text : value.low};`);
      return;
    }
    emit.add(`a${suffix} = ${value.low}; h${suffix} = ${value.high};`);
  }
}

/** One reduction's operations, for both of its loop shapes. */
class Folding {
  readonly emit = new Emitter();
  readonly acc: Accumulator;
  readonly floats: boolean;
  readonly compute: DType;

  constructor(
    readonly row: ReduceOp,
    readonly input: DType,
    readonly second: DType | null,
    readonly out: DType,
  ) {
    // The accumulator of floats is a double for every dtype.
    this.floats = DTYPE[out].kind === "f";
    this.compute = this.floats ? "float64" : input;
    this.acc = new Accumulator(this.floats ? "float64" : out);
  }

  /** The mapped element at the given indexes. */
  element(index1: string, index2: string): Value {
    const { emit, row } = this;
    const names: Record<string, Value> = {
      x: emit.cast(emit.load(this.input, "A", index1), this.input, this.compute),
    };
    if (this.second !== null) {
      names["y"] = emit.cast(emit.load(this.second, "B", index2), this.second, this.compute);
    }
    for (const name of row.parameters) names[name] = number(parameterName(name));
    return row.map === undefined ? names["x"]! : emit.compute(row.map, names, this.compute);
  }

  /** Folds `x` into the accumulator with the given suffix. */
  fold(suffix: string, x: Value): void {
    const { acc, emit, row } = this;
    const expr = exprFor(row, DTYPE[this.out].kind);
    const folded = emit.compute(expr, { a: acc.value(suffix), x }, acc.dtype);
    acc.assign(emit, suffix, acc.wraps ? emit.settle(folded, acc.dtype) : folded);
  }

  /** Stores the finished accumulator. */
  store(suffix: string, index: string): void {
    const { acc, emit, row } = this;
    let value = acc.value(suffix);
    if (row.finish !== undefined) {
      const names: Record<string, Value> = { a: value };
      for (const name of row.parameters) names[name] = number(parameterName(name));
      value = emit.compute(row.finish, names, acc.dtype);
    }
    emit.store(this.out, "o", index, value);
  }

  /** Whether the order of the elements shows in the last bits. */
  get isOrdered(): boolean {
    return this.floats && (this.row.expr === REDUCE.sum.expr || this.row.expr === REDUCE.prod.expr);
  }

  get compensated(): boolean {
    return this.row.compensated === true && this.out === "float64" && this.input === "float64";
  }
}

/** Adds `value` to the compensated sum (a, e): Knuth's TwoSum. */
function twoSum(a: string, e: string, value: string): string {
  return `{ const t = ${value}, s = ${a} + t, w = s - ${a}; ${e} += (${a} - (s - w)) + (t - w); ${a} = s; }`;
}

/** True if the input's strides are smaller along the kept axes than along the reduced ones. */
export function runsAcross(plan: Plan): boolean {
  const { rank, kept, operands, data } = plan;
  if (kept === 0 || kept === rank) return false;
  const strides = OFFSETS + operands + rank + rank;
  const keptStep = Math.abs(data[strides + kept - 1]!);
  return data[OFFSETS + operands + kept - 1]! >= 16 &&
    keptStep < Math.abs(data[strides + rank - 1]!);
}

function reduceSource(
  row: ReduceOp,
  input: DType,
  second: DType | null,
  out: DType,
  plan: Plan,
): string {
  const { rank, kept, operands } = plan;
  const inner = rank - 1;
  const fold = new Folding(row, input, second, out);
  const identity = String(startOf(row, DTYPE[out].kind === "f" ? "float64" : out));
  const { emit, acc, compensated } = fold;
  const parts: string[] = [header(row, plan)];
  const at = (k: number, level: number): string => `i${k}_${level}`;
  if (runsAcross(plan)) {
    // Rows of the input are read whole: one accumulator per column.
    const column = kept - 1;
    for (let j = 0; j < column; j++) parts.push(open(j, operands));
    parts.push(`for (let q = 0; q < n${column}; q += ${COLUMNS}) {`);
    parts.push(`const w = $min(${COLUMNS}, n${column} - q);`);
    parts.push(acc.declare("", identity));
    parts.push(acc.wide ? "$low.fill(a); $high.fill(h);" : "$sums.fill(a); $errors.fill(0);");
    for (let k = 0; k < operands; k++) {
      parts.push(`const i${k}_${kept} = i${k}_${column} + q * s${k}_${column};`);
    }
    for (let j = kept; j < rank; j++) parts.push(open(j, operands));
    parts.push(`for (let d = 0; d < w; d++) {`);
    const x = fold.element(
      `${at(1, rank)} + d * s1_${column}`,
      `${at(2, rank)} + d * s2_${column}`,
    );
    if (compensated && x.kind === "number") {
      emit.add(
        `let a = $sums[d], e = $errors[d]; ${
          twoSum("a", "e", x.text)
        } $sums[d] = a; $errors[d] = e;`,
      );
    } else {
      emit.add(acc.wide ? "a = $low[d]; h = $high[d];" : "a = $sums[d];");
      fold.fold("", x);
      emit.add(acc.wide ? "$low[d] = a; $high[d] = h;" : "$sums[d] = a;");
    }
    parts.push(emit.take(), "}", "}".repeat(rank - kept));
    parts.push(`for (let d = 0; d < w; d++) {`);
    if (compensated) parts.push("a = $corrected($sums[d], $errors[d]);");
    else parts.push(acc.wide ? "a = $low[d]; h = $high[d];" : "a = $sums[d];");
    fold.store("", `${at(0, column)} + (q + d) * s0_${column}`);
    parts.push(emit.take(), "} }", "}".repeat(column));
    return parts.join("\n");
  }
  for (let j = 0; j < kept; j++) parts.push(open(j, operands));
  parts.push(acc.declare("", identity));
  if (compensated) parts.push("let sum = 0, error = 0;");
  for (let j = kept; j < inner; j++) parts.push(open(j, operands));
  const step = (suffix: string, index: (k: number) => string): string => {
    fold.fold(suffix, fold.element(index(1), index(2)));
    return `{ ${emit.take()} }`;
  };
  if (rank === kept) parts.push(step("", (k) => at(k, rank)));
  else {
    const ins = [1, 2].slice(0, operands - 1);
    const advance = (times = ""): string =>
      ins.map((k) => `j${k} += ${times}s${k}_${inner}`).join(", ");
    parts.push(`let ${ins.map((k) => `j${k} = ${at(k, inner)}`).join(", ")}, c = 0;`);
    if (fold.isOrdered) parts.push(...runLoops(fold, identity, inner, advance, step));
    else {
      if (fold.floats) {
        const others = ["1", "2", "3"];
        parts.push(
          ...others.map((suffix) => acc.declare(suffix, identity)),
          `for (; c + 4 <= n${inner}; c += 4, ${advance("4 * ")}) {`,
          ...["", ...others].map((suffix, i) =>
            step(suffix, (k) => `j${k}${i === 0 ? "" : ` + ${i} * s${k}_${inner}`}`)
          ),
          "}",
        );
        for (const [to, from] of [["", "1"], ["2", "3"], ["", "2"]]) {
          fold.fold(to!, acc.value(from!));
          parts.push(`{ ${emit.take()} }`);
        }
      }
      parts.push(`for (; c < n${inner}; c++, ${advance()}) ${step("", (k) => `j${k}`)}`);
    }
  }
  parts.push("}".repeat(Math.max(0, inner - kept)));
  if (compensated && rank > kept) parts.push("a = $corrected(sum, error);");
  fold.store("", at(0, kept));
  parts.push(emit.take(), "}".repeat(kept));
  return parts.join("\n");
}

/**
 * Reduces one run of floats in the order of the kernels of WebAssembly: few elements one after another, others in
 * eight lanes of two accumulators each.
 */
function runLoops(
  fold: Folding,
  identity: string,
  inner: number,
  advance: (times?: string) => string,
  step: (suffix: string, index: (k: number) => string) => string,
): string[] {
  const { acc, emit, compensated } = fold;
  const n = `n${inner}`;
  const combine = (to: string, from: string): string => {
    fold.fold(to, acc.value(from));
    return `{ ${emit.take()} }`;
  };
  const total = compensated ? twoSum("sum", "error", "a_r") : combine("", "_r");
  const rest = `for (; c < end; c++, ${advance()}) ${step("_r", (k) => `j${k}`)}`;
  const ins = [1, 2].slice(0, fold.row.arity);
  const each = (text: (k: number) => string): string => ins.map(text).join(", ");
  const lane = (by: number): string => each((k) => `l${k} += ${by} * s${k}_${inner}`);
  // Four lanes at a time, with as many accumulators as fit registers.
  const steps = (suffixes: readonly string[]): string[] =>
    suffixes.map((suffix, i) =>
      step(suffix, (k) => `l${k} + ${i < 4 ? i : i + 4} * s${k}_${inner}`)
    );
  return [
    `while (c < ${n}) {`,
    `const end = $min(c + ${RUN_BLOCK}, ${n}), m = end - c;`,
    acc.declare("_r", identity),
    `if (m > 8) {`,
    `for (let l = 0; l < 8; l += 4) { let i = 0, ${
      each((k) => `l${k} = j${k} + l * s${k}_${inner}`)
    };`,
    ...SUMS.map((suffix) => acc.declare(suffix, identity)),
    `for (; i + 16 <= m; i += 16, ${lane(16)}) {`,
    ...steps(SUMS),
    "}",
    `if (i + 8 <= m) {`,
    ...steps(SUMS.slice(0, 4)),
    "}",
    ...[0, 1, 2, 3].map((i) => combine(SUMS[i]!, SUMS[i + 4]!)),
    ...[0, 1, 2, 3].map((i) => `$lanes[l + ${i}] = a${SUMS[i]};`),
    "}",
    `const whole = m & -8; c += whole; ${advance("whole * ")};`,
    ...LANES.map((suffix, l) => acc.declare(suffix, `$lanes[${l}]`)),
    ...[[0, 4], [1, 5], [0, 1], [2, 6], [3, 7], [2, 3], [0, 2]]
      .map(([to, from]) => combine(LANES[to!]!, LANES[from!]!)),
    rest,
    combine(LANES[0]!, "_r"),
    `a_r = a${LANES[0]};`,
    `} else ${rest}`,
    total,
    "}",
  ];
}

function argReduceSource(row: ArgReduceOp, input: DType, plan: Plan): string {
  const { rank, kept, operands } = plan;
  const emit = new Emitter();
  const acc = new Accumulator(input);
  const parts: string[] = [header(row, plan)];
  for (let j = 0; j < kept; j++) parts.push(open(j, operands));
  parts.push(acc.declare("", "0"), "let best = 0, position = 0;");
  acc.assign(emit, "", emit.load(input, "A", `i1_${kept}`));
  parts.push(`{ ${emit.take()} }`);
  for (let j = kept; j < rank; j++) parts.push(open(j, operands));
  const x = emit.load(input, "A", `i1_${rank}`);
  const better = emit.compute(row.expr, { a: acc.value(""), x }, input) as { text: string };
  emit.add(`if (${better.text}) { best = position;`);
  acc.assign(emit, "", x);
  emit.add("} position++;");
  parts.push(emit.take(), "}".repeat(rank - kept), `o[i0_${kept}] = best;`, "}".repeat(kept));
  return parts.join("\n");
}

function scanSource(row: ScanOp, input: DType, out: DType, plan: Plan): string {
  const { rank, operands } = plan;
  const emit = new Emitter();
  const acc = new Accumulator(DTYPE[out].kind === "f" ? "float64" : out);
  const parts: string[] = [header(row, plan)];
  for (let j = 0; j < plan.kept; j++) parts.push(open(j, operands));
  parts.push(acc.declare("", String(startOf(row, acc.dtype))));
  for (let j = plan.kept; j < rank; j++) parts.push(open(j, operands));
  const x = emit.cast(emit.load(input, "A", `i1_${rank}`), input, acc.dtype);
  const folded = emit.compute(row.expr, { a: acc.value(""), x }, acc.dtype);
  acc.assign(emit, "", acc.wraps ? emit.settle(folded, acc.dtype) : folded);
  emit.store(out, "o", `i0_${rank}`, acc.value(""));
  parts.push(emit.take(), "}".repeat(rank));
  return parts.join("\n");
}

function compile(name: string, source: string, slow: (() => void) | null): Loop {
  const env = slow === null ? environment() : { ...environment(), [SLOW]: slow };
  return functionOf(name, ["p", ...ARRAYS], source, env) as Loop;
}

/** The loop of an elementwise call over its plan. */
export function mapLoop(call: Call): Loop {
  const op = call.op as MapOp;
  const plan = call.plan!;
  const compute = call.compute.name;
  const inputs = call.inputs.map((input) => (input as Operand).storage.info.name);
  const { source, slow } = mapSource(op, compute, inputs, call.outputs[0]!.storage.info.name, plan);
  const dtypes = [compute, ...inputs, call.outputs[0]!.storage.info.name].join("_");
  return compile(
    `${op.name}_${dtypes}_${plan.rank}_${plan.innerStrideKey}`,
    source,
    slow === null ? null : slowFunction(op, compute),
  );
}

/** The loop of a reduction or a scan over its plan. */
export function axisLoop(call: Call): Loop {
  const op = call.op as AxisOp;
  const plan = call.plan!;
  const input = call.operand(0).storage.info.name;
  const second = op.arity === 2 ? call.operand(1).storage.info.name : null;
  const out = call.outputs[0]!.storage.info.name;
  const source = op.kind === "reduce"
    ? reduceSource(op, input, second, out, plan)
    : op.kind === "scan"
    ? scanSource(op, input, out, plan)
    : argReduceSource(op, input, plan);
  return compile(`${op.name}_${input}_${out}_${plan.rank}`, source, null);
}
