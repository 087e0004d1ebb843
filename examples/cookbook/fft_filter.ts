/**
 * A low-pass filter: removes the high frequencies of a signal.
 *
 * @module
 */
import { concat, fft, range, scope, type Tensor, zeros } from "../../mod.ts";

/** `signal` [n] with its `keep` lowest frequencies only. */
export function lowPass(signal: Tensor, keep: number): Tensor {
  return scope(() => {
    const spectrum = fft.rfft(signal);
    const rest = zeros([spectrum.shape[0]! - keep], { dtype: "complex64" });
    const kept = concat([spectrum.slice(range(0, keep)), rest]);
    return fft.irfft(kept, { n: signal.size });
  });
}
