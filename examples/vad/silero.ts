/**
 * Silero VAD: how likely each 32 ms of sound contain speech, from its safetensors file.
 *
 * @module
 */
import { type AnyTensor, fromBuffer, scope, type Tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";

/** Samples per second. */
export const RATE = 16000;
/** The samples of a window, those before it that the model also sees, and those that it mirrors. */
const [WINDOW, CONTEXT, MIRRORED] = [512, 64, 64];
/** The seconds of a window. */
export const STEP: number = WINDOW / RATE;
/** The parts of a spectrum. */
const BINS = 129;
const HIDDEN = 128;
/** The windows that are computed together. */
const BATCH = 64;

type Floats = Tensor<"float32">;

/** The model. */
export class Silero implements Disposable {
  readonly #weights: nn.Weights<"float32">;
  readonly #features: (windows: Floats) => Floats;
  readonly #recurrent: nn.RecurrentWeights;
  readonly #last: nn.ConvLayer<1, "float32">;

  private constructor(w: nn.Weights<"float32">) {
    this.#weights = w;
    const spectrum = w.conv1d("stft_conv", 2 * BINS, 1, 256, { bias: false, stride: 128 });
    const same = { padding: 1, activation: "relu" } as const;
    const convs = [
      w.conv1d("conv1", 128, BINS, 3, same),
      w.conv1d("conv2", 64, 128, 3, { ...same, stride: 2 }),
      w.conv1d("conv3", 64, 64, 3, { ...same, stride: 2 }),
      w.conv1d("conv4", 128, 64, 3, same),
    ];
    const cell = w.at("lstm_cell");
    this.#recurrent = {
      weightIh: cell.tensor("weight_ih", [4 * HIDDEN, HIDDEN]),
      weightHh: cell.tensor("weight_hh", [4 * HIDDEN, HIDDEN]),
      biasIh: cell.tensor("bias_ih", [4 * HIDDEN]),
      biasHh: cell.tensor("bias_hh", [4 * HIDDEN]),
    };
    this.#last = w.conv1d("final_conv", 1, HIDDEN, 1);
    this.#features = (windows) => {
      const padded = windows.pad([[0, 0], [0, MIRRORED]], { mode: "reflect" }).unsqueeze(1);
      const both = spectrum(padded) as Floats;
      const [re, im] = [both.slice(":", `:${BINS}`), both.slice(":", `${BINS}:`)] as Floats[];
      let y = re!.mul(re!).add(im!.mul(im!)).sqrt() as Floats;
      for (const conv of convs) y = conv(y) as Floats;
      return y.squeeze(2) as Floats;
    };
  }

  /** Opens the weights: silero_vad_16k.safetensors, by its path or its bytes. */
  static async open(file: string | URL | Uint8Array): Promise<Silero> {
    const weights = await nn.open(file, { dtype: "float32" });
    try {
      const made = new Silero(weights);
      weights.done();
      return made;
    } catch (error) {
      weights.dispose();
      throw error;
    }
  }

  /**
   * The probability of speech in each 512 samples of mono sound at 16 kHz, from −1 to 1; the last ones
   * are filled up with silence.
   */
  probabilities(samples: Float32Array): Float32Array {
    const count = Math.ceil(samples.length / WINDOW);
    const padded = new Float32Array(CONTEXT + count * WINDOW);
    padded.set(samples, CONTEXT);
    const made = new Float32Array(count);
    let state: { hidden: AnyTensor; cell: AnyTensor } | undefined;
    for (let first = 0; first < count; first += BATCH) {
      const n = Math.min(BATCH, count - first);
      const windows = new Float32Array(n * (CONTEXT + WINDOW));
      for (let i = 0; i < n; i++) {
        const at = (first + i) * WINDOW;
        windows.set(padded.subarray(at, at + CONTEXT + WINDOW), i * (CONTEXT + WINDOW));
      }
      const before = state;
      const next = scope(() => {
        const x = fromBuffer(windows).reshape([n, CONTEXT + WINDOW]) as Floats;
        const input = this.#features(x).unsqueeze(1) as Floats;
        const { output, hidden, cell } = nn.lstm(input, this.#recurrent, before);
        const y = this.#last((output as Floats).relu().permute(0, 2, 1)) as Floats;
        made.set(y.sigmoid().toTypedArray() as Float32Array, first);
        return { hidden, cell };
      });
      state?.hidden.dispose();
      state?.cell.dispose();
      state = next as { hidden: AnyTensor; cell: AnyTensor };
    }
    state?.hidden.dispose();
    state?.cell.dispose();
    return made;
  }

  /** Frees the weights. */
  [Symbol.dispose](): void {
    this.#weights.dispose();
  }
}
