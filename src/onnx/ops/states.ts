/**
 * Recurrences of recent transformers: convolutions that carry a state, and linear attention.
 *
 * @module
 */
import { concat, stack } from "../../api/functions/tensors.ts";
import { formatShape } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import * as nn from "../../nn/mod.ts";
import { zeros } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";

/** A convolution of each channel of [B, C, L] with the elements before, of which the state has k − 1. */
function causalConv(call: Call): readonly Value[] {
  const x = call.tensor(0), weight = call.tensor(1), bias = call.optional(2);
  if (x.rank !== 3 || weight.rank !== 3) {
    call.failShape(`inputs of shapes ${formatShape(x.shape)} and ${formatShape(weight.shape)}`);
  }
  const [batches, channels] = [x.shape[0]!, x.shape[1]!];
  const width = weight.shape[2]! - 1;
  const past = call.optional(3) ?? zeros([batches, channels, width], { dtype: x.dtype }) as T;
  const whole = width === 0 ? x : concat([past, x], 2) as T;
  const made = nn.conv1d(whole, weight, bias, { groups: channels }) as T;
  const activation = call.node.string("activation", "none");
  if (!["none", "silu", "swish"].includes(activation)) {
    call.fail(`activation ${activation} is not none, silu or swish`);
  }
  const size = whole.shape[2]!;
  return [
    activation === "none" ? made : made.silu(),
    whole.sliceAxis(2, new Slice(size - width, size)),
  ];
}

/** [B, T, H·D] as [B, H, T, D] in float32. */
function heads(call: Call, x: T, count: number): T {
  if (x.rank !== 3 || x.shape[2]! % count !== 0) {
    call.failShape(`an input of shape ${formatShape(x.shape)} does not have ${count} heads`);
  }
  const split: T = x.reshape([x.shape[0]!, x.shape[1]!, count, x.shape[2]! / count]);
  return split.permute(0, 2, 1, 3).astype("float32");
}

/** Attention with a state of [B, H, Dk, Dv] that each position decays, corrects and reads. */
function linearAttention(call: Call): readonly Value[] {
  const { node } = call;
  const [query, value] = [call.tensor(0), call.tensor(2)];
  const [queries, keys] = [node.int("q_num_heads"), node.int("kv_num_heads")];
  if (!(keys > 0 && queries > 0 && queries % keys === 0)) {
    call.fail(`${queries} heads of queries are no multiple of ${keys} heads of keys`);
  }
  const rule = node.string("update_rule", "gated_delta");
  if (!["linear", "gated", "delta", "gated_delta"].includes(rule)) {
    call.fail(`update_rule ${rule} is not linear, gated, delta or gated_delta`);
  }
  const [decays, corrects] = [rule.startsWith("gated"), rule.endsWith("delta")];
  if (decays !== call.has(4) || corrects !== call.has(5)) {
    call.fail(`update_rule ${rule} does not fit its inputs decay and beta`);
  }
  const [q, k, v] = [
    heads(call, query, queries),
    heads(call, call.tensor(1), keys),
    heads(call, value, keys),
  ];
  const [batches, length] = [query.shape[0]!, query.shape[1]!];
  const [wide, out] = [k.shape[3]!, v.shape[3]!];
  const decay = decays ? heads(call, call.tensor(4), keys).exp() : undefined;
  const beta = corrects
    ? heads(call, call.tensor(5), call.tensor(5).shape[2] === 1 ? 1 : keys)
    : undefined;
  const past = call.optional(3);
  let state: T = past?.astype("float32") ??
    zeros([batches, keys, wide, out], { dtype: "float32" }) as T;
  const scale = node.float("scale", 0) || 1 / Math.sqrt(wide);
  const read: T[] = [];
  for (let t = 0; t < length; t++) {
    const at = (x: T): T => x.sliceAxis(2, t);
    const key: T = at(k).unsqueeze(-1);
    let added = at(v);
    if (decay !== undefined) state = state.mul(at(decay).unsqueeze(-1));
    if (beta !== undefined) added = at(beta).mul(added.sub(state.mul(key).sum(2) as T));
    state = state.add(key.mul(added.unsqueeze(-2)));
    // The heads of queries in groups, one for each head of keys.
    const group: T = at(q).reshape([batches, keys, queries / keys, wide]);
    read.push(group.matmul(state).reshape([batches, queries * out]));
  }
  const all: T = length === 0
    ? zeros([batches, 0, queries * out], { dtype: "float32" }) as T
    : stack(read, 1) as T;
  return [all.mul(scale).astype(query.dtype), state.astype(past?.dtype ?? query.dtype)];
}

/** The ops. */
export const STATES: Readonly<Record<string, Implementation>> = {
  CausalConvWithState: causalConv,
  LinearAttention: linearAttention,
};
