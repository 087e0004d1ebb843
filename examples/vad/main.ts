/**
 * Finds speech in a WAV file with Silero VAD.
 *
 *     deno task models silero
 *     bun examples/vad/main.ts models/silero/silero_vad_16k.safetensors FILE.wav
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { RATE, Silero, STEP } from "./silero.ts";
import { spans } from "./spans.ts";
import { readWav } from "./wav.ts";

const USAGE = `usage: main.ts WEIGHTS FILE.wav [--json] [--threshold P]

WEIGHTS is silero_vad_16k.safetensors; FILE.wav has 16-bit samples at 16 kHz.

  --threshold P  the probability from which a part counts as speech; 0.5 by default
  --json         prints {"spans": [[begin, end], ...], "probabilities": [...]}, in seconds
  -h, --help     prints this`;

const { values, positionals: [weights, file] } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    threshold: { type: "string", default: "0.5" },
    help: { type: "boolean", short: "h", default: false },
  },
});
const threshold = Number(values.threshold);
if (values.help) console.log(USAGE);
else if (weights === undefined || file === undefined || !(threshold >= 0 && threshold <= 1)) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  try {
    const { rate, samples } = readWav(readFileSync(file));
    if (rate !== RATE) {
      throw new Error(
        `it has ${rate} samples a second: ffmpeg -i ${file} -ar ${RATE} -ac 1 out.wav`,
      );
    }
    using model = await Silero.open(weights);
    const probabilities = model.probabilities(samples);
    const found = spans(probabilities, threshold, STEP);
    if (values.json) {
      console.log(JSON.stringify({ spans: found, probabilities: [...probabilities] }));
    } else if (found.length === 0) console.log("no speech");
    else {for (const [begin, end] of found) {
        console.log(`${begin.toFixed(2)} s to ${end.toFixed(2)} s`);
      }}
  } catch (error) {
    console.error(`${file}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
