/**
 * Mixtures of experts: feed-forward parts of which each token uses a few.
 *
 * The tokens of a prompt compute all experts and weigh most of them by 0, as the choice of a token is
 * not known when a program is compiled. Steps, whose results do not depend on their number, take copies
 * of their experts' weights, for some tokens at a time.
 *
 * @module
 */
import { concat } from "../../api/functions/tensors.ts";
import { arange } from "../../tensor/create.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type { ExpertsConfig } from "../config/config.ts";
import type { AnyWeights, ExpertLayer, ExpertWeights, Model, Part, State } from "./step.ts";

type Floats = Tensor<"float32">;

/** The experts of each token, and their weights: [M, used] each. */
export interface Chosen {
  readonly ids: Tensor<"int32">;
  readonly weights: Floats;
}

/** Chooses the experts of each token by their scores [M, count]. */
export type Choose = (scores: Floats, experts: ExpertsConfig) => Chosen;

/** The largest of the softmax of all scores, over their sum if the config says so. */
export const chooseOfSoftmax: Choose = (scores, { used, normalized }) => {
  const { values, indices } = scores.softmax(-1).topk(used);
  const weights = normalized ? values.div(values.sum(-1, { keepDims: true })) : values;
  return { ids: indices, weights };
};

/** The softmax of the largest scores. */
export const softmaxOfChosen: Choose = (scores, { used }) => {
  const { values, indices } = scores.topk(used);
  return { ids: indices, weights: values.softmax(-1) };
};

/** What a gate and its product become. */
export type Combine = (gate: Floats, up: Floats) => Floats;

/** silu(gate) · up. */
export const swiglu: Combine = (gate, up) => gate.silu().mul(up);

/** Experts in GGUF files: three tensors for all of them. */
export const ggufExperts: ExpertLayer = (w, name, { count, inner, hidden }) => {
  const optional = true as const;
  const parts = {
    "ffn_gate_exps.weight": [count, inner, hidden],
    "ffn_up_exps.weight": [count, inner, hidden],
    "ffn_down_exps.weight": [count, hidden, inner],
    "ffn_gate_exps.bias": { shape: [count, inner], optional },
    "ffn_up_exps.bias": { shape: [count, inner], optional },
    "ffn_down_exps.bias": { shape: [count, hidden], optional },
  };
  return w.layer(name, parts, (tensors, own) => {
    const weights: ExpertWeights = {
      gate: own(tensors["ffn_gate_exps.weight"]),
      up: own(tensors["ffn_up_exps.weight"]),
      down: own(tensors["ffn_down_exps.weight"]),
      gateBias: tensors["ffn_gate_exps.bias"] && own(tensors["ffn_gate_exps.bias"]),
      upBias: tensors["ffn_up_exps.bias"] && own(tensors["ffn_up_exps.bias"]),
      downBias: tensors["ffn_down_exps.bias"] && own(tensors["ffn_down_exps.bias"]),
    };
    return () => weights;
  });
};

/** What differs between families. */
export interface ExpertOptions {
  readonly choose: Choose;
  readonly combine: Combine;
}

/** [n, O, I] times [1 or n, M, I]: [n, M, O], with biases [n, O]. */
function productsOf(x: Floats, weight: AnyTensor, bias: AnyTensor | undefined): Floats {
  const made = x.matmul(weight.astype("float32").mT);
  return bias === undefined ? made : made.add(bias.expandDims(1));
}

/** The results of experts [n, M, hidden] for states [1 or n, M, hidden]. */
function resultsOf(x: Floats, all: ExpertWeights, combine: Combine): Floats {
  const gate = productsOf(x, all.gate, all.gateBias), up = productsOf(x, all.up, all.upBias);
  return productsOf(combine(gate, up), all.down, all.downBias);
}

/** The weights of the experts `ids`. */
function taken(all: ExpertWeights, ids: AnyTensor): ExpertWeights {
  const rows = (x: AnyTensor): AnyTensor => x.take(ids, 0);
  const { gateBias, upBias, downBias } = all;
  return {
    gate: rows(all.gate),
    up: rows(all.up),
    down: rows(all.down),
    gateBias: gateBias && rows(gateBias),
    upBias: upBias && rows(upBias),
    downBias: downBias && rows(downBias),
  };
}

/** The sum of a token's experts, by their weights. */
export function mixtureOfExperts(w: AnyWeights, model: Model, options: ExpertOptions): Part {
  const { names, sizes: { hidden }, config, format } = model;
  const experts = config.experts!;
  const { count, used, intermediate: inner } = experts;
  const router = w.linear(names.router, count, hidden, { bias: "optional" });
  const weights = format.experts!(w, names.experts, { count, inner, hidden });
  /** The sums of tokens that take copies of their experts. */
  const ofChosen = (x: State, { ids, weights: factors }: Chosen): Floats => {
    const tokens = x.shape[0], all = tokens * used;
    const states = x.expandDims(1).broadcastTo([tokens, used, hidden]).reshape([all, 1, hidden]);
    const chosen = taken(weights(), ids.reshape([all]));
    const each = resultsOf(states, chosen, options.combine).mul(factors.reshape([all, 1, 1]));
    return each.reshape([tokens, used, hidden]).sum(1);
  };
  /** The sums of tokens that compute all experts. */
  const ofAll = (x: State, { ids, weights: factors }: Chosen): Floats => {
    // [M, used, count]: where an expert is one of a token.
    const isOne = ids.expandDims(-1).equal(arange(count, { dtype: "int32", device: ids.device }));
    const each = factors.expandDims(-1).mul(isOne.astype("float32")).sum(1);
    const results = resultsOf(x.expandDims(0), weights(), options.combine);
    return results.mul(each.T.expandDims(-1)).sum(0);
  };
  const atOnce = Math.max(1, Math.floor(count / used));
  return (x, { pace }, add) => {
    const chosen = options.choose(router(x), experts);
    const tokens = x.shape[0];
    let sum: Floats;
    if (pace === "prompt") sum = ofAll(x, chosen);
    else {
      const parts: Floats[] = [];
      for (let at = 0; at < tokens; at += atOnce) {
        const rows = `${at}:${at + atOnce}`;
        const part = { ids: chosen.ids.slice(rows), weights: chosen.weights.slice(rows) };
        parts.push(ofChosen(x.slice(rows) as State, part));
      }
      sum = parts.length === 1 ? parts[0]! : concat(parts, 0);
    }
    const made = sum.asShape([tokens, hidden]);
    return add === undefined ? made : add.add(made);
  };
}
