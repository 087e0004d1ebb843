/**
 * Faults of arrays that programs pass: entries 1 and 34.
 *
 * @module
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import * as rm from "../../../mod.ts";
import { loose } from "../../support.ts";
import { fault } from "../support.ts";

const { arange, full, zeros } = rm;
// deno-lint-ignore no-explicit-any
type Any = any;
const x = (): Any => loose(arange(6)).reshape([2, 3]);
const line = (): Any => loose(arange(5));
const lib: Any = rm;

/** Calls with arrays; `hole` makes an array whose elements that are undefined are holes, or not. */
const CALLS: Record<string, (hole: (given: unknown[]) => Any) => unknown> = {
  "slice by booleans": (h) => line().slice(h([false, , , , false])),
  "slice by integers": (h) => line().slice(h([1, , 2])),
  "slice by nothing": (h) => line().slice(h(new Array(2))),
  "slice by arguments": (h) => x().slice(...h([, 1])),
  "set by booleans": (h) => line().set([h([true, , , , false])], 9),
  "set by integers": (h) => line().set([h([1, , 2])], 9),
  "set by arguments": (h) => x().set(h([, 1]), 9),
  "set by arguments and arrays": (h) => x().set(h([[1, 1], ,]), 9),
  split: (h) => line().split(h([1, , 0])),
  "roll along axes": (h) => x().roll([1, 2], h([0, ,])),
  "roll along the first": (h) => x().roll(0, h([, 1])),
  "roll by shifts": (h) => x().roll(h([1, ,]), [0, 1]),
  pad: (h) => x().pad(h([[1, 1], ,])),
  "pad by pairs": (h) => x().pad([h([1, ,]), [0, 0]]),
  tile: (h) => x().tile(h([2, ,])),
  repeat: (h) => line().repeat(h([1, , 2, 1, 1])),
  permute: (h) => x().permute(...h([1, ,])),
  reshape: (h) => x().reshape(h([2, ,])),
  broadcastTo: (h) => x().broadcastTo(h([, 2, 3])),
  expandDims: (h) => x().expandDims(h([0, ,])),
  squeeze: (h) => x().squeeze(h([0, ,])),
  flip: (h) => x().flip(h([0, ,])),
  moveAxis: (h) => x().moveAxis(h([0, ,]), h([1, ,])),
  sum: (h) => x().sum(h([0, ,])),
  norm: (h) => x().norm({ axis: h([0, ,]) }),
  take: (h) => line().take(h([1, , 2])),
  takeAlongAxis: (h) => line().takeAlongAxis(h([1, , 2]), 0),
  get: (h) => x().get(...h([, 1])),
  asShape: (h) => x().asShape(h([2, ,])),
  zeros: (h) => lib.zeros(h([2, ,])),
  full: (h) => lib.full(h([, 2]), 1),
  tensor: (h) => lib.tensor(h([1, , 2])),
  "tensor of arrays": (h) => lib.tensor([h([1, ,]), [1, 2]]),
  fromBuffer: (h) => lib.fromBuffer(new Float32Array(4), { shape: h([2, ,]) }),
  "fromBuffer with strides": (h) =>
    lib.fromBuffer(new Float32Array(4), { shape: [2, 2], strides: h([2, ,]) }),
  concat: (h) => lib.concat(h([line(), , line()])),
  stack: (h) => lib.stack(h([line(), , line()])),
  meshgrid: (h) => lib.meshgrid(...h([line(), ,])),
  broadcastTensors: (h) => lib.broadcastTensors(...h([line(), ,])),
  "random.uniform": (h) => lib.random.uniform(lib.random.key(1), h([2, ,])),
  warmUp: (h) => lib.warmUp("cpu", h(["add", ,]), ["float32"]),
  "warmUp of dtypes": (h) => lib.warmUp("cpu", ["add"], h(["float32", ,])),
};

/** What a call gives, or its error, as text. */
function outcome(call: () => unknown): string {
  try {
    const made = call();
    const parts = Array.isArray(made) ? made : [made];
    return JSON.stringify(parts.map((one) => (one as Any)?.toArray?.() ?? String(one)));
  } catch (error) {
    return String(error);
  }
}

fault({
  entry: 1,
  kind: "methods of arrays skip holes, so that their elements are not checked, nor written",
  others: ["slice and set by booleans", "split", "roll", "pad", "arguments of set", "warmUp"],
}, () => {
  // What recycled memory would show.
  for (const n of [5, 2]) full([n], true).dispose();
  for (const [name, call] of Object.entries(CALLS)) {
    const holes = outcome(() => call((given) => given.slice()));
    const undefineds = outcome(() => call((given) => Array.from(given)));
    assertEquals(holes, undefineds, name);
    assertEquals(/^(TypeError|RangeError)/.test(holes), false, `${name}: ${holes}`);
  }
});

fault({
  entry: 34,
  kind: "tensors of thousands of axes overflow the stack, and shapes of 1e9 take seconds",
  others: [
    "zeros",
    "reshape",
    "expandDims",
    "slice with null",
    "picks by tensors",
    "oneHot",
    "stack",
  ],
}, () => {
  const long = loose(new Array(1e9));
  const sixtyFour = loose(new Array(64).fill(1));
  const pair = loose(zeros([1, 1], { dtype: "int32" }));
  const many = loose(new Array(5000).fill(1));
  const calls: Record<string, () => unknown> = {
    zeros: () => zeros(long),
    full: () => full(many, 1),
    reshape: () => loose(arange(1)).reshape(many),
    broadcastTo: () => loose(arange(1)).broadcastTo(many),
    slice: () => loose(arange(1)).slice(...new Array(64).fill(null)),
    take: () => loose(zeros(sixtyFour)).take(pair),
    "slice by a tensor": () => loose(zeros(sixtyFour)).slice(pair),
    "slice by a tensor and null": () => loose(zeros(sixtyFour)).slice(null, pair),
    stack: () => rm.stack([zeros(sixtyFour), zeros(sixtyFour)]),
    oneHot: () => loose(zeros(sixtyFour, { dtype: "int32" })).oneHot(2),
    expandDims: () => {
      let made: Any = arange(1);
      for (let i = 0; i < 70; i++) made = made.expandDims(0);
    },
  };
  for (const [name, call] of Object.entries(calls)) {
    const error = assertThrows(call, rm.ShapeError, "but a tensor has at most 64", name);
    // The words of the message are those of the name.
    const said = error.message.replaceAll(" ", "").toLowerCase();
    assertStringIncludes(said, `cannot${name.split(" ")[0]!.toLowerCase()}:`);
  }
  assertEquals(loose(zeros(sixtyFour)).sum().item(), 0);
});
