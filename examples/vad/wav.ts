/**
 * WAV files of 16-bit samples.
 *
 * @module
 */

/** Sound. */
export interface Sound {
  /** Samples per second. */
  readonly rate: number;
  /** The samples from −1 to 1; of several channels, their mean. */
  readonly samples: Float32Array;
}

/** Reads a WAV file; throws an Error that says why it cannot. */
export function readWav(bytes: Uint8Array): Sound {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (at: number): string => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || text(0) !== "RIFF" || text(8) !== "WAVE") {
    throw new Error("it is no WAV file");
  }
  let format: { channels: number; rate: number } | undefined;
  for (let at = 12; at + 8 <= bytes.length;) {
    const [name, size] = [text(at), view.getUint32(at + 4, true)];
    const begin = at + 8;
    if (name === "fmt " && begin + 16 <= bytes.length) {
      const [kind, bits] = [view.getUint16(begin, true), view.getUint16(begin + 14, true)];
      // 0xfffe: the kind is in an extension, which is that of integers for 16 bits.
      if ((kind !== 1 && kind !== 0xfffe) || bits !== 16) {
        throw new Error(`it has samples of kind ${kind} with ${bits} bits, not integers of 16`);
      }
      format = { channels: view.getUint16(begin + 2, true), rate: view.getUint32(begin + 4, true) };
    } else if (name === "data") {
      if (format === undefined) throw new Error("its samples come before their format");
      const { channels, rate } = format;
      // Recorders that were cut off leave a wrong size.
      const bytesOf = Math.min(size, bytes.length - begin);
      const samples = new Float32Array(Math.floor(bytesOf / (2 * channels)));
      for (let i = 0; i < samples.length; i++) {
        let sum = 0;
        for (let c = 0; c < channels; c++) {
          sum += view.getInt16(begin + 2 * (i * channels + c), true);
        }
        samples[i] = sum / channels / 32768;
      }
      return { rate, samples };
    }
    at = begin + size + (size & 1);
  }
  throw new Error("it has no samples");
}
