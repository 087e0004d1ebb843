/**
 * Which layers of a model have a sliding window.
 *
 * @module
 */
import type { LayerKind, ModelConfig } from "./config.ts";

/** Every `period`th layer sees all tokens, and the others slide; all slide without a period. */
export function periodicKinds(layers: number, period: number | undefined): LayerKind[] {
  return Array.from(
    { length: layers },
    (_, i) => period === undefined || (i + 1) % period !== 0 ? "sliding" : "full",
  );
}

/** The parts of a config with the window of `size` tokens, 0 for none, in layers of `kinds`. */
export function windowsOf(
  size: number,
  kinds: readonly LayerKind[],
): Pick<ModelConfig, "slidingWindow" | "layerKinds"> {
  const own = size > 0 ? kinds : kinds.map((kind) => kind === "sliding" ? "full" : kind);
  const slidingWindow = own.includes("sliding") ? size : undefined;
  // The usual kinds need no list.
  const usual = slidingWindow === undefined ? "full" : "sliding";
  return own.every((kind) => kind === usual)
    ? { slidingWindow }
    : { slidingWindow, layerKinds: own };
}
