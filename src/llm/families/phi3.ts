/**
 * Phi-3 and Phi-4: Llama's layers, with joined tensors.
 *
 * @module
 */
import { gatedMlp } from "../blocks/mlp.ts";
import { type Family, GGUF, SILU, TRANSFORMERS } from "./family.ts";
import { preNorm } from "./llama.ts";

export const phi3: Family = {
  name: "Phi-3",
  features: "Phi-3, Phi-3.5 and Phi-4, also mini: joined tensors, part of each head without " +
    "positions, longrope, sliding window",
  gguf: { ...GGUF, architectures: ["phi3"] },
  transformers: { ...TRANSFORMERS, types: ["phi3"] },
  activations: SILU,
  block: preNorm({ fused: true }, (w, model) => gatedMlp(w, model, { fused: true })),
};
