/**
 * Reports on programs as text.
 *
 * @module
 */
import { formatShape } from "../../base/shape.ts";
import { shorten } from "../../base/text.ts";
import type { ProgramData, ReportedImprovements, ReportedOp, ReportedValue } from "./data.ts";

/** The most columns. */
const WIDTH = 100;
/** The columns before the text of a line with a title. */
const TITLE = 13;

/** `"512 B"`, `"1.5 KiB"`, `"20 MiB"`. */
export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, "B"];
  for (const next of ["KiB", "MiB", "GiB"]) {
    if (value < 1024) break;
    [value, unit] = [value / 1024, next];
  }
  return `${unit === "B" || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${unit}`;
}

/** `"%1 float32 [2, 3]"` for each; a dtype is left out if it is that of the value before. */
export function formatValues(values: readonly ReportedValue[], named = true): string {
  let before: string | undefined;
  return values.map(({ name, shape, dtype }) => {
    const words = named ? [name] : [];
    if (dtype !== undefined && dtype !== before) words.push(dtype);
    before = dtype ?? before;
    if (shape !== undefined) words.push(formatShape(shape));
    return words.join(" ");
  }).join(", ");
}

/** `text` after `first`, in lines of at most `WIDTH` columns; those after it have an indent. */
function wrap(first: string, text: string, indent: number): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  // Shapes stay in one line.
  for (const word of text.split(/ (?![^[\]]*\])/)) {
    for (let rest = word; rest !== "";) {
      const part = rest.slice(0, WIDTH - indent);
      rest = rest.slice(part.length);
      if (line.length + part.length + (isEmpty ? 0 : 1) <= WIDTH) {
        line += isEmpty ? part : ` ${part}`;
      } else {
        if (line.trim() !== "") lines.push(line.trimEnd());
        line = " ".repeat(indent) + part;
      }
      isEmpty = false;
    }
  }
  return [...lines, line.trimEnd()];
}

const titled = (title: string, text: string): string[] => wrap(title.padEnd(TITLE), text, TITLE);

/** `"add"`, `"add ×2"` for a list of names, in the order of their first uses. */
function counted(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, n]) => n === 1 ? name : `${name} ×${n}`).join(", ");
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

function formatImprovements(of: ReportedImprovements): string[] {
  const {
    dropped,
    shared,
    folded,
    packed,
    joined,
    channelsLast,
    attention,
    fused,
    placed,
    tiled,
    off,
  } = of;
  const lines: string[] = [];
  const add = (title: string, count: number, text: string): void => {
    if (count > 0) lines.push(...titled(`  ${title}`, text));
  };
  add("shared", shared.length, `${plural(shared.length, "repeated op")}: ${counted(shared)}`);
  add("folded", folded.length, `${plural(folded.length, "op")} of constants: ${counted(folded)}`);
  add(
    "dropped",
    dropped.length,
    `${plural(dropped.length, "op")} without use: ${counted(dropped)}`,
  );
  const weights = packed.map(({ shape, dtype, bytes }) =>
    `${dtype} ${formatShape(shape)} (${formatBytes(bytes)})`
  );
  add("packed", packed.length, `${plural(packed.length, "weight")}: ${counted(weights)}`);
  add("attention", attention, `recognised ${attention === 1 ? "once" : `${attention} times`}`);
  add("joined", joined.length, `into ${plural(joined.length, "product")}: ${counted(joined)}`);
  add("channels", channelsLast, `last in ${plural(channelsLast, "convolution")}`);
  const ops = fused.flat().length;
  const chains = fused.map((one) => one.join(" → "));
  add("fused", ops, `${ops} ops into ${plural(fused.length, "chain")}: ${counted(chains)}`);
  const parts = `${plural(placed.length, "op")} into results of concat and stack`;
  add("placed", placed.length, `${parts}: ${counted(placed)}`);
  for (const { ops, tiles } of tiled) add("tiled", tiles, `${ops.join(", ")}: in ${tiles} tiles`);
  add("turned off", off.length, off.join(", "));
  return lines;
}

function formatOp(op: ReportedOp, number: number, width: number): string[] {
  const { name, inputs, outputs, steps, dispatched } = op;
  const result = outputs.length === 0 ? "" : ` → ${formatValues(outputs, false)}`;
  const indent = width + 2;
  const lines = wrap(
    `%${number}`.padEnd(indent),
    `${shorten(name, 60)}(${formatValues(inputs)})${result}`,
    indent + 2,
  );
  const outer = outputs[0]?.dtype;
  for (const { name, op, inputs, dtype } of steps ?? []) {
    const cast = dtype === outer ? "" : ` → ${dtype}`;
    const text = `${name} = ${op}(${inputs.join(", ")})${cast}`;
    lines.push(...wrap(" ".repeat(indent + 2), text, indent + 6));
  }
  if (dispatched !== undefined) {
    lines.push(...wrap(" ".repeat(indent + 2), `by dispatch: ${dispatched}`, indent + 6));
  }
  return lines;
}

/** How a program runs, in words. */
function formatExecutor({ executor, why, kernels, nativeCalls, ops }: ProgramData): string {
  switch (executor) {
    case "native":
    case "wasm": {
      const eager = ops.filter(({ dispatched }) => dispatched !== undefined).length;
      return `${executor}: ${plural(kernels, "kernel")} in ${plural(nativeCalls, "call")} of the ${
        executor === "native" ? "library" : "module"
      }` +
        (eager === 0 ? "" : `, ${plural(eager, "op")} by dispatch`);
    }
    case "graph":
      return "as recorded work of the device";
    default:
      return `op by op, by dispatch: ${why}`;
  }
}

/** A report as text of at most 100 columns. */
export function formatReport(data: ProgramData): string {
  const { ops, results, improvements, bytes } = data;
  const args = data.arguments.length === 0
    ? titled("arguments", "none")
    : data.arguments.flatMap((one, i) => titled(i === 0 ? "arguments" : "", `${i}: ${one}`));
  const width = String(ops.length).length + 1;
  const memory = [
    ["arena", bytes.arena],
    ["constants", bytes.constants],
    ["packed weights", bytes.packed],
    ...bytes.shared > 0 ? [["of these shared", bytes.shared]] as const : [],
  ] as const;
  return [
    ...wrap("", `program of ${data.function === "" ? "a function" : data.function}`, 2),
    ...args,
    ...titled("runs", formatExecutor(data)),
    ...titled("memory", memory.map(([name, n]) => `${name} ${formatBytes(n)}`).join(", ")),
    ...titled("ops", `${data.traced} traced, ${ops.length} after the improvements`),
    ...formatImprovements(improvements),
    "",
    ...ops.flatMap((op, i) => formatOp(op, i + 1, width)),
    ...titled("results", formatValues(results) || "none"),
  ].join("\n");
}
