/**
 * Reports on programs, as text, as a diagram and as data.
 *
 * @module
 */
import { formatBytes, formatReport, formatValues } from "./text.ts";
import { type DiagramBox, drawDiagram } from "./diagram.ts";
import type { ProgramData, ReportedOp, ReportedValue } from "./data.ts";

const INSPECT = Symbol.for("nodejs.util.inspect.custom");
const JUPYTER = Symbol.for("Jupyter.display");

/**
 * What a compiled function does for arguments of one kind: its ops after the improvements, what each
 * improvement did, and its memory. `explain()` of compiled functions gives one for each program, as
 * it is then.
 *
 * @example
 * ```ts
 * using step = compile((x: Tensor) => x.mul(2).add(1).relu());
 * step(ones([2, 3]));
 * const [report] = step.explain();
 * report?.data.ops.map(({ op }) => op); // => ["chain"]
 * report?.data.improvements.fused; // => [["mul", "add", "relu"]]
 * report?.svg().startsWith("<svg"); // => true
 * ```
 */
export class ProgramReport {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "ProgramReport";
  }

  /** What is known of the program. */
  readonly data: ProgramData;

  /** Made by `explain()`. @internal */
  constructor(data: ProgramData) {
    this.data = data;
  }

  /** The report as text of at most 100 columns. */
  toString(): string {
    return formatReport(this.data);
  }

  /** {@link data}, for JSON.stringify. */
  toJSON(): ProgramData {
    return this.data;
  }

  /**
   * The program as a graph, as the text of an SVG file: boxes with op, shape and dtype from the
   * arguments at the top to the results. A fused chain is one box with its steps. Constants and
   * tensors outside are named in the boxes that read them.
   */
  svg(): string {
    return drawProgram(this.data);
  }

  /** The output of `console.log` in Deno, Bun and Node. */
  [INSPECT](): string {
    return this.toString();
  }

  /** The output in Jupyter. */
  [JUPYTER](): { "text/plain": string; "image/svg+xml": string } {
    return { "text/plain": this.toString(), "image/svg+xml": this.svg() };
  }
}

// ---- the diagram -------------------------------------------------------------------------------

/** Whether a value of this name has a box, and not only its name in others. */
function hasBox({ name, shape }: ReportedValue): boolean {
  return shape !== undefined && /^(%|arg )/.test(name);
}

function boxOf(op: ReportedOp, number: number): DiagramBox {
  const { name, inputs, outputs, steps, dispatched } = op;
  const inside = inputs.filter((input) => !hasBox(input));
  const lines = [`%${number} ${name}`];
  for (const step of steps ?? []) {
    lines.push(`${step.name} = ${step.op}(${step.inputs.join(", ")})`);
  }
  // The steps of a chain name its numbers.
  const shown = steps === undefined ? inside : inside.filter(({ shape }) => shape !== undefined);
  if (shown.length > 0) lines.push(...shown.map((one) => `with ${formatValues([one])}`));
  if (outputs.length > 0) lines.push(`→ ${formatValues(outputs, false)}`);
  if (dispatched !== undefined) lines.push("by dispatch");
  return { lines, kind: steps === undefined ? "op" : "group" };
}

function drawProgram({ function: name, ops, results, executor, bytes }: ProgramData): string {
  const boxes: DiagramBox[] = [];
  const edges: [number, number][] = [];
  const places = new Map<string, number>();
  const all = [...ops.flatMap(({ inputs }) => inputs), ...results];
  for (const value of all) {
    if (!value.name.startsWith("arg ") || !hasBox(value) || places.has(value.name)) continue;
    const lines = [value.name, formatValues([value], false)];
    places.set(value.name, boxes.push({ lines, kind: "input" }) - 1);
  }
  const connect = (values: readonly ReportedValue[], to: number): void => {
    for (const { name } of values) {
      const from = places.get(name);
      if (from !== undefined) edges.push([from, to]);
    }
  };
  ops.forEach((op, i) => {
    const box = boxes.push(boxOf(op, i + 1)) - 1;
    connect(op.inputs, box);
    places.set(`%${i + 1}`, box);
    op.outputs.forEach((_, k) => places.set(`%${i + 1}.${k}`, box));
  });
  results.forEach((result, k) => {
    const lines = [results.length === 1 ? "result" : `result ${k}`, formatValues([result], false)];
    connect([result], boxes.push({ lines, kind: "output" }) - 1);
  });
  const title = `${name === "" ? "A program" : name}: ${ops.length} ops, ${executor}, arena ` +
    formatBytes(bytes.arena);
  return drawDiagram({ title, boxes, edges });
}
