/**
 * OLMo 2 and 3: norms after both parts only, and norms of queries and keys of all heads.
 *
 * @module
 */
import { selfAttention } from "../blocks/attention.ts";
import { gatedMlp } from "../blocks/mlp.ts";
import type { MakeBlock } from "../blocks/step.ts";
import { type Family, GGUF, SILU, TRANSFORMERS } from "./family.ts";

const block: MakeBlock = (w, model, place) => {
  const { names, norm, sizes: { hidden } } = model;
  const attend = selfAttention(w, model, place, { normOver: "all heads" });
  const feed = gatedMlp(w, model);
  const first = w.rmsNorm(names.attentionPostNorm, hidden, norm);
  const second = w.rmsNorm(names.mlpPostNorm, hidden, norm);
  return (x, memory) => {
    const y = x.add(first(attend(x, memory)));
    return y.add(second(feed(y, memory)));
  };
};

export const olmo2: Family = {
  name: "OLMo 2",
  features:
    "OLMo 2 and 3: norms after each part, norms over all heads of queries and of keys, and in " +
    "OLMo 3 a window in three of four layers",
  gguf: {
    ...GGUF,
    architectures: ["olmo2"],
    read: (fields, { rope, slidingWindow }) => {
      const base = fields.real("rope.freq_base_swa", rope.base);
      // Positions in windows are not scaled.
      const isOther = slidingWindow !== undefined &&
        (rope.scaling !== undefined || base !== rope.base);
      return isOther ? { slidingRope: { ...rope, base, scaling: undefined } } : {};
    },
  },
  transformers: {
    ...TRANSFORMERS,
    types: ["olmo2", "olmo3"],
    read: (_, { rope, slidingWindow }) =>
      slidingWindow === undefined || rope.scaling === undefined
        ? {}
        : { slidingRope: { ...rope, scaling: undefined } },
  },
  activations: SILU,
  windowPeriod: 4,
  block,
};
