/**
 * Counts the functions of the library that one call enters, by V8's precise coverage, on the fourth
 * call: `deno task bench:calls`. `--save` writes the counts to bench/results/calls.json, and
 * `--functions NAME` prints the functions of one call.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { fileURLToPath } from "node:url";
import { arange, ones, pack } from "../mod.ts";
import { compile } from "../src/compile/mod.ts";
import { fft } from "../src/api/fft.ts";
import { attention } from "../src/nn/mod.ts";

/** The saved counts. */
const RESULTS = fileURLToPath(new URL("results/calls.json", import.meta.url));
/** The folder of the library's sources. */
const SOURCES = new URL("../src/", import.meta.url).href;
/** The calls before the counted one: the first ones make loops and pooled objects. */
const WARM = 3;

const a = ones([16]), b = ones([16]), whole = arange(16).astype("int32");
const line = ones([64]), wave = line.astype("complex64"), matrix = ones([8, 8]);
const x = ones([4, 32]), weight = ones([32, 32]), bias = ones([32]), packed = pack(weight);
const heads = ones([2, 8, 16]);
const program = compile((p: typeof a, q: typeof a) => p.add(q).mul(2));

/** The calls by name. */
const CALLS: Readonly<Record<string, () => unknown>> = {
  "a.add(b)": () => a.add(b),
  "a.add(2)": () => a.add(2),
  "int32.add(2)": () => whole.add(2),
  "float32.add(int32)": () => a.add(whole),
  "a.add_(b)": () => a.add_(b),
  "x.transpose()": () => x.transpose(),
  "x.sum()": () => x.sum(),
  "x.sum(dtype)": () => x.sum(null, { dtype: "float64" }),
  "matmul": () => matrix.matmul(matrix),
  "softmax": () => x.softmax(),
  "fft of real": () => fft(line),
  "fft of complex": () => fft(wave),
  "plain linear": () => x.linear(weight),
  "plain linear with bias": () => x.linear(weight, bias),
  "packed linear with bias": () => x.linear(packed, bias),
  "attention": () => attention(heads, heads, heads),
  "compiled program": () => program(a, b),
};

interface FunctionCoverage {
  readonly functionName: string;
  readonly ranges: readonly { readonly count: number }[];
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly FunctionCoverage[];
}

/** A function that a call entered. */
interface Entered {
  readonly file: string;
  readonly name: string;
  readonly count: number;
}

/** The counts of one call. */
interface Counts {
  /** The functions entered: a function that is entered twice counts twice. */
  readonly calls: number;
  readonly functions: number;
  readonly files: number;
}

const session = new Session();
session.connect();

function post<R>(method: string, parameters: object = {}): Promise<R> {
  return new Promise((resolve, reject) => {
    session.post(
      method,
      parameters,
      (error: Error | null, made?: object) => error === null ? resolve(made as R) : reject(error),
    );
  });
}

/** The functions of the library entered since the last use. */
async function take(): Promise<Entered[]> {
  const { result } = await post<{ result: readonly ScriptCoverage[] }>(
    "Profiler.takePreciseCoverage",
  );
  return result.filter(({ url }) => url.startsWith(SOURCES)).flatMap(({ url, functions }) =>
    functions.map(({ functionName, ranges }): Entered => ({
      file: url.slice(SOURCES.length),
      name: functionName,
      count: ranges[0]!.count,
    })).filter(({ count }) => count > 0)
  );
}

async function enteredBy(call: () => unknown): Promise<Entered[]> {
  for (let i = 0; i < WARM; i++) call();
  await take();
  call();
  return await take();
}

function count(entered: readonly Entered[]): Counts {
  return {
    calls: entered.reduce((sum, one) => sum + one.count, 0),
    functions: entered.length,
    files: new Set(entered.map(({ file }) => file)).size,
  };
}

await post("Profiler.enable");
await post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const wanted = Deno.args.indexOf("--functions");
if (wanted >= 0) {
  const entered = await enteredBy(CALLS[Deno.args[wanted + 1]!]!);
  for (const { file, name, count } of entered) console.log(`${count} ${name} ${file}`);
} else {
  const counts: Record<string, Counts> = {};
  for (const [name, call] of Object.entries(CALLS)) counts[name] = count(await enteredBy(call));
  const before = JSON.parse(readFileSync(RESULTS, "utf8")) as Record<string, Counts>;
  console.log("call".padEnd(26), "entered", "(saved)", "functions", "files");
  for (const [name, { calls, functions, files }] of Object.entries(counts)) {
    const saved = before[name]?.calls ?? "-";
    console.log(
      name.padEnd(26),
      String(calls).padStart(7),
      `(${saved})`.padStart(7),
      String(functions).padStart(9),
      String(files).padStart(5),
    );
  }
  if (Deno.args.includes("--save")) {
    writeFileSync(RESULTS, JSON.stringify(counts, null, 2) + "\n");
  }
}
