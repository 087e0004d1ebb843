/**
 * The example `vad`: the model with random weights, window by window and op by op; WAV files, spans,
 * the command; and Silero VAD against PyTorch, where `deno task models` has fetched it.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { io, random, tensor, zeros } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { Silero } from "../../examples/vad/silero.ts";
import { spans } from "../../examples/vad/spans.ts";
import { readWav } from "../../examples/vad/wav.ts";
import { modelFolder } from "../../scripts/models.ts";
import { type Any, loose } from "../support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-vad-"));
after(() => rmSync(folder, { recursive: true }));

const SHAPES: Record<string, number[]> = {
  "stft_conv.weight": [258, 1, 256],
  "conv1.weight": [128, 129, 3],
  "conv1.bias": [128],
  "conv2.weight": [64, 128, 3],
  "conv2.bias": [64],
  "conv3.weight": [64, 64, 3],
  "conv3.bias": [64],
  "conv4.weight": [128, 64, 3],
  "conv4.bias": [128],
  "lstm_cell.weight_ih": [512, 128],
  "lstm_cell.weight_hh": [512, 128],
  "lstm_cell.bias_ih": [512],
  "lstm_cell.bias_hh": [512],
  "final_conv.weight": [1, 128, 1],
  "final_conv.bias": [1],
};
const WEIGHTS: Record<string, Any> = Object.fromEntries(
  Object.entries(SHAPES).map(([name, shape], i) => {
    const inputs = shape.slice(1).reduce((a, b) => a * b, 1);
    const x = loose(random.normal(random.key(i), shape)).div(
      Math.sqrt(shape.length > 1 ? inputs : 9),
    );
    return [name, x];
  }),
);
const bytes = io.encodeSafetensors(WEIGHTS);

/** The sound of scripts/golden/silero.py, in 16-bit samples. */
function sound(count: number): Int16Array {
  const samples = new Int16Array(count);
  let state = 1;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    const noise = (state >> 16) % 601 - 300;
    const pitch = 100 + Math.floor(i / 4000) * 7;
    const word = Math.floor(i / 4000) % 3 < 2;
    const buzz = Math.floor((i % pitch) * 20000 / pitch) - 10000 + (i % 23) * 300;
    samples[i] = Math.max(-32768, Math.min(32767, (word ? buzz : 0) + noise));
  }
  return samples;
}

const floats = (samples: Int16Array): Float32Array => Float32Array.from(samples, (x) => x / 32768);

/** The model, a window at a time, by functions. */
function expectedOf(samples: Float32Array): number[] {
  const w = WEIGHTS;
  let hidden: Any = zeros([1, 128]), cell: Any = zeros([1, 128]);
  const result: number[] = [];
  for (let first = 0; first < samples.length; first += 512) {
    const window = new Float32Array(576);
    for (let i = 0; i < 576; i++) window[i] = samples[first - 64 + i] ?? 0;
    const mirrored = loose(tensor(window)).reshape([1, 1, 576])
      .pad([[0, 0], [0, 0], [0, 64]], { mode: "reflect" });
    const both: Any = nn.conv1d(mirrored, w["stft_conv.weight"], undefined, { stride: 128 });
    let y = both.slice(":", ":129").square().add(both.slice(":", "129:").square()).sqrt();
    for (const [k, stride] of [[1, 1], [2, 2], [3, 2], [4, 1]] as const) {
      const [weight, bias] = [w[`conv${k}.weight`], w[`conv${k}.bias`]];
      y = loose(nn.conv1d(y, weight, bias, { stride, padding: 1 })).relu();
    }
    const gates = y.reshape([1, 128]).linear(w["lstm_cell.weight_ih"], w["lstm_cell.bias_ih"])
      .add(hidden.linear(w["lstm_cell.weight_hh"], w["lstm_cell.bias_hh"]));
    const [i, f, g, o] = gates.split(4, 1);
    cell = f.sigmoid().mul(cell).add(i.sigmoid().mul(g.tanh()));
    hidden = o.sigmoid().mul(cell.tanh());
    const last = hidden.relu().linear(
      w["final_conv.weight"].reshape([1, 128]),
      w["final_conv.bias"],
    );
    result.push(last.sigmoid().item());
  }
  return result;
}

test("the model runs over batches of windows as over one after the other", async () => {
  using model = await Silero.open(bytes);
  // More than a batch, and a part of a window.
  const samples = floats(sound(70 * 512 + 100));
  const made = model.probabilities(samples);
  const expected = expectedOf(samples);
  assertEquals(made.length, 71);
  expected.forEach((x, i) =>
    assert(Math.abs(made[i]! - x) < 1e-5, `window ${i}: ${made[i]}, ${x}`)
  );
  assertEquals([...model.probabilities(samples.slice(0, 512))], [made[0]]);
  assertEquals(model.probabilities(new Float32Array()).length, 0);
});

/** A WAV file. */
function wav(
  samples: Int16Array,
  { rate = 16000, channels = 1, kind = 1, bits = 16 } = {},
): Uint8Array {
  const data = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  const view = new DataView(new ArrayBuffer(44 + 10));
  const text = (at: number, value: string): void =>
    [...value].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF"), view.setUint32(4, 46 + data.length, true), text(8, "WAVE");
  text(12, "fmt "), view.setUint32(16, 16, true), view.setUint16(20, kind, true);
  view.setUint16(22, channels, true), view.setUint32(24, rate, true);
  view.setUint32(28, rate * channels * 2, true), view.setUint16(32, channels * 2, true);
  view.setUint16(34, bits, true);
  // A chunk that readers skip, of an odd size.
  text(36, "note"), view.setUint32(40, 1, true);
  text(46, "data"), view.setUint32(50, data.length, true);
  const made = new Uint8Array(view.byteLength + data.length);
  made.set(new Uint8Array(view.buffer)), made.set(data, view.byteLength);
  return made;
}

test("WAV files are read, and others are refused with a reason", () => {
  const samples = Int16Array.of(0, 16384, -32768, 32767);
  assertEquals(readWav(wav(samples)), {
    rate: 16000,
    samples: Float32Array.of(0, 0.5, -1, 32767 / 32768),
  });
  assertEquals(readWav(wav(samples, { channels: 2 })).samples, Float32Array.of(0.25, -1 / 65536));
  assertEquals(readWav(wav(samples).subarray(0, 58)).samples, Float32Array.of(0, 0.5));
  assertThrows(() => readWav(new Uint8Array(40)), Error, "no WAV file");
  assertThrows(() => readWav(wav(samples, { bits: 8 })), Error, "8 bits");
  assertThrows(() => readWav(wav(samples, { kind: 3 })), Error, "kind 3");
  assertThrows(() => readWav(wav(samples).subarray(0, 44)), Error, "no samples");
});

test("spans begin and end where the probability crosses the threshold", () => {
  assertEquals(spans([0, 0.6, 0.5, 0.4, 0.9], 0.5, 2), [[2, 6], [8, 10]]);
  assertEquals([spans([], 0.5, 1), spans([0.1], 0.5, 1)], [[], []]);
});

const MAIN = fileURLToPath(new URL("../../examples/vad/main.ts", import.meta.url));
const start = "Deno" in globalThis ? ["run", "-A", "--no-check", MAIN] : [MAIN];
const command = (...args: string[]) =>
  spawnSync(process.execPath, [...start, ...args], { encoding: "utf8" });

test("the command prints spans, and says what is wrong with a file", async () => {
  const [weights, file, slow] = ["w.safetensors", "a.wav", "b.wav"].map((name) =>
    join(folder, name)
  );
  writeFileSync(weights!, bytes);
  const samples = sound(5120);
  writeFileSync(file!, wav(samples));
  writeFileSync(slow!, wav(samples, { rate: 8000 }));
  using model = await Silero.open(bytes);
  const expected = model.probabilities(floats(samples));
  const made = command(weights!, file!, "--json", "--threshold", "0.4");
  assertEquals([made.status, made.stderr], [0, ""]);
  const told: { spans: number[][]; probabilities: number[] } = JSON.parse(made.stdout);
  assertEquals(told.probabilities.length, 10);
  told.probabilities.forEach((x, i) => assert(Math.abs(x - expected[i]!) < 1e-6));
  assertEquals(told.spans, spans(expected, 0.4, 0.032));
  const refused = command(weights!, slow!);
  assertEquals(refused.status, 1);
  assertStringIncludes(refused.stderr, "8000 samples a second");
  assertStringIncludes(command("--help").stdout, "usage");
  assertEquals(command(weights!).status, 2);
});

const silero = modelFolder("silero");
const why = silero === undefined ? " (skipped: deno task models silero has not run)" : "";

test(`Silero VAD gives PyTorch's probabilities${why}`, { skip: silero === undefined }, async () => {
  const golden = new URL("../golden/models/silero.json", import.meta.url);
  const expected: number[] = JSON.parse(readFileSync(golden, "utf8"));
  using model = await Silero.open(join(silero!, "silero_vad_16k.safetensors"));
  const made = model.probabilities(floats(sound(40000)));
  assertEquals(made.length, expected.length);
  const logit = (p: number): number => Math.log(p / (1 - p));
  expected.forEach((p, i) => {
    assert(Math.abs(made[i]! - p) < 1e-5, `window ${i}: ${made[i]}, ${p}`);
    assert(Math.abs(logit(made[i]!) - logit(p)) < 1e-3, `window ${i}: ${made[i]}, ${p}`);
  });
});
