/**
 * A recording interpreter sees one call for each op of a program, with its arguments, and every
 * read of values. The programs are compared with `Tensor.prototype`, the functions and the
 * namespaces: a name missing on either side fails.
 *
 * @module
 */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import * as programs from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as profiles from "../../src/profile/mod.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { interpret, type Interpreter } from "../../src/core/interpreter.ts";
import { Storage } from "../../src/memory/storage.ts";
import { type Call, OPS } from "../../src/table/op.ts";
import "../device/mirror.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { IN_BUN, runsHere } from "../support/engine.ts";
import { type Operands, operands, plain, PROGRAMS } from "./programs.ts";

/** Notes calls and reads as text, and runs the calls. */
class Recorder implements Interpreter {
  readonly record: string[] = [];

  constructor(readonly operands: Operands) {}

  #show(value: unknown): string {
    const name = Object.keys(this.operands).find((key) => this.operands[key] === value);
    if (name !== undefined) return name;
    if (value instanceof rm.Tensor) return `tensor of [${value.layout.shape}]`;
    if (Array.isArray(value)) return `[${value.map((one) => this.#show(one)).join(", ")}]`;
    if (typeof value === "bigint") return `${value}n`;
    if (value instanceof Storage) return "Storage";
    if (ArrayBuffer.isView(value)) return value.constructor.name;
    if (typeof value === "object" && value !== null) return this.#fields(value);
    return value === undefined
      ? "-"
      : typeof value === "number"
      ? `${value}`
      : JSON.stringify(value);
  }

  #fields(attributes: object): string {
    const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
    return `{${given.map(([key, value]) => `${key}: ${this.#show(value)}`).join(", ")}}`;
  }

  run(call: Call): void {
    const { op, name, inputs, outputs: [out], attributes } = call;
    const fields = attributes === undefined ? "{}" : this.#fields(attributes);
    const text = `${op.name}(${inputs.map((input) => this.#show(input)).join(", ")})` +
      (fields === "{}" ? "" : ` ${fields}`) + (out === undefined ? "" : ` into ${this.#show(out)}`);
    this.record.push(name === op.name ? text : `${name}: ${text}`);
    const versions = (op.writes ?? []).map((k) => call.operand(k).storage.version);
    performCall(call);
    (op.writes ?? []).forEach((k, i) => {
      assert(call.operand(k).storage.version > versions[i]!, `${text} writes nothing`);
    });
    for (const one of call.outputs) assert(one instanceof rm.Tensor, `${text} gives no tensor`);
    const aliases = op.aliases === "each"
      ? call.inputs.map((_, k) => [k, k] as const)
      : op.aliases ?? [];
    for (const [output, input] of aliases) {
      const [made, source] = [call.outputs[output]!, call.operand(input)];
      assertStrictEquals(made.storage, source.storage, `${text} gives no view`);
    }
  }

  read(x: unknown, how: string): void {
    this.record.push(`${how} reads ${this.#show(x)}`);
  }
}

/** Every public method, function and member of a namespace. */
function publicNames(): string[] {
  const { prototype } = rm.Tensor;
  const isClass = (value: unknown): boolean => /^class\b/.test(String(value));
  const functions = Object.entries({ ...rm, ...programs, ...profiles })
    .filter(([, value]) => typeof value === "function" && !isClass(value))
    .map(([name]) => name);
  return [
    ...Object.getOwnPropertyNames(prototype),
    ...Object.getOwnPropertySymbols(prototype).map(String),
    ...functions,
    ...Object.keys(rm.random).map((name) => `random.${name}`),
    ...Object.keys(rm.fft).map((name) => `fft.${name}`),
    ...Object.keys(rm.linalg).map((name) => `linalg.${name}`),
    ...Object.keys(rm.special).map((name) => `special.${name}`),
    ...Object.keys(rm.io).map((name) => `io.${name}`),
    ...Object.keys(nn).map((name) => `nn.${name}`),
  ];
}

test("every method, function and member of a namespace has a program here", () => {
  // Other ways to call one are in brackets after its name.
  const names = PROGRAMS.map(([name]) => name).filter((name) => !name.endsWith("]"));
  assertEquals(publicNames().sort(), names.sort());
});

const seen = new Set<string>();

for (const [name, program, ...record] of PROGRAMS) {
  if (!runsHere(name, 4)) continue;
  test(`${name} is seen as it was asked for, and does what it does alone`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-record-"));
    try {
      const path = (file: string): string => join(folder, file);
      const waiting: Promise<unknown>[] = [];
      const later = (promise: Promise<unknown>): void => void waiting.push(promise);
      const recorder = new Recorder(operands());
      const made = interpret(recorder, () => {
        const result = program({ ...recorder.operands, path, later });
        return result;
      });
      await Promise.allSettled(waiting);
      assertEquals(recorder.record, record);
      const alone = operands();
      const expected = program({ ...alone, path, later });
      await Promise.allSettled(waiting);
      assertEquals(plain(made), plain(expected));
      const profiled = operands();
      const report = profiles.profile(() => program({ ...profiled, path, later }));
      await Promise.allSettled(waiting);
      assertEquals(plain(report.result), plain(expected));
      const asked = record.flatMap((text) => {
        const [, name, op] = /^(?:([^(]*): )?(\w+)\(/.exec(text) ?? [];
        return op === undefined ? [] : [name === undefined || name.includes(" ") ? op : name];
      });
      const profiledOps = report.calls.filter(({ depth }) => depth === 0).map(({ op }) => op);
      // Without a device, this call fails; a compiled function runs as one.
      if (!["cuda", "compile", "offload"].includes(name)) assertEquals(profiledOps, asked);
      for (const key of Object.keys(alone)) {
        assertEquals(plain(recorder.operands[key]), plain(alone[key]), `${name} changes ${key}`);
      }
      for (const text of recorder.record) {
        const op = /^(?:[^(:]*: )?(\w+)\(/.exec(text)?.[1];
        if (op !== undefined) seen.add(op);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

/** Ops that only others are made of: no program asks for them. */
const PARTS = [
  ...["gather", "scatter", "scatterAdd", "ravelIndex", "nonzeroIndices", "random", "narrow"],
  ...["norm1", "norm2", "normP", "normMax", "normMin", "logSumExp", "var", "std", "isclose"],
  ...["chain", "dequantizeBlocks", "packBlocks", "complexMap", "convolveSpectra", "unpack"],
  ...["quantilesOfRows", "modesOfRows"],
  // Weights of int8.
  ...["dequantizeInt8", "matmulInt8"],
  // Sets and histograms.
  ...["uniqueRuns", "runIndices", "uniqueTable", "isAmong", "searchIndices", "binCounts"],
  ...["histogramCounts", "binIndices", "scatterFold", "interpolate"],
  // Few choices of many.
  "distinctPlaces",
  // Means and variances without NaN.
  ...["countNumbers", "nanSquares"],
  // Attention of rows whose values may be hidden.
  "attentionRows",
  // What only ONNX has: other functions of recurrent layers, places of windows, products of few bits.
  ...["affine", "leakyRelu", "thresholdedRelu", "scaledTanh", "hardSigmoid", "elu", "softsign"]
    .map((name) => `nn_recurrent_${name}`),
  ...["nn_recurrent_softplus", "nn_kept", "nn_coupled", "nn_blended", "maxPoolIndices", "roiAlign"],
  ...["packBytes", "unpackBytes", "matmulBytes", "convBytes", "quantizeDynamic"],
  ...["packNibbles", "dequantizeNibbles", "linearNibbles"],
  // What convolutions apply to their sums, and the derivative by rows of a quantized weight.
  ...["nn_convClip", "nn_convLeakyRelu", "nn_convHardSigmoid", "nn_convElu", "linearBack"],
  // Convolutions of programs with channels last.
  "convLast",
  // The beta function.
  ...["special_stirling", "special_logBeta"],
];

test("every op is seen in some program, but those that others are made of", {
  skip: IN_BUN && !RUNS_ALL && "Bun runs a sample of the programs",
}, () => {
  const missing = [...OPS.keys()].filter((op) => !seen.has(op) && !PARTS.includes(op));
  assertEquals(missing, []);
});

test("an interpreter may use ops itself, and one around it sees those", () => {
  const { x, y } = operands();
  const [outer, inner] = [new Recorder({ x, y }), new Recorder({ x, y })];
  const log = (call: Call): void => {
    inner.run(call);
    x.mul(y).dispose();
  };
  interpret(outer, () => {
    interpret({ run: log, read: () => {} }, () => x.add(y));
    x.sub(y);
  });
  assertEquals(inner.record, ["add(x, y)"]);
  assertEquals(outer.record, ["add(x, y)", "mul(x, y)", "sub(x, y)"]);
});

test("an error of an op, or of an interpreter, leaves the interpreter around it in place", () => {
  const { x, y, v } = operands();
  const recorder = new Recorder({ x, y, v });
  const fails: Interpreter = {
    run() {
      throw new RangeError("no");
    },
    read() {},
  };
  interpret(recorder, () => {
    assertThrows(() => x.add(rm.ones([5])), rm.ShapeError);
    assertThrows(() => interpret(fails, () => x.add(y)), RangeError, "no");
    x.neg();
  });
  x.abs();
  const ones = 'ones: full() {shape: [5], value: 1, dtype: "float32"}';
  assertEquals(recorder.record, [ones, "add(x, tensor of [5])", "neg(x)"]);
});

test("an async program is refused: code after its first await would run outside", () => {
  const recorder = new Recorder({});
  const body = (): Promise<never> => Promise.reject(new Error("nothing waits for this"));
  assertThrows(() => interpret(recorder, body), TypeError, "async");
});
