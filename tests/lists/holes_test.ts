/**
 * Every method and function with random arguments: arrays with holes give what the same arrays with
 * `undefined` give.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { generator } from "../ops/table/operands.ts";
import { amount } from "../support/amount.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
const lib: Any = rm;

/** What an argument is made of: built twice, with holes and with undefined. */
type Plan =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "hole" }
  | { readonly kind: "tensor"; readonly place: number }
  | { readonly kind: "array"; readonly of: readonly Plan[] }
  | { readonly kind: "options"; readonly of: readonly (readonly [string, Plan])[] };

const random = generator(12345);
const below = (n: number): number => Math.floor(random() * n);

function leaf(): Plan {
  const value = (value: unknown): Plan => ({ kind: "value", value });
  const draw = below(9);
  if (draw < 4) return value(below(4) - 1);
  if (draw < 6) return value(draw === 4);
  if (draw === 6) return { kind: "tensor", place: below(TENSORS.length) };
  if (draw === 7) return { kind: "hole" };
  return value(below(3) === 0 ? "1:" : null);
}

function array(depth = 0): Plan {
  const element = (): Plan => {
    if (depth < 1 && below(4) === 0) return array(depth + 1);
    return below(3) === 0 ? { kind: "hole" } : leaf();
  };
  return { kind: "array", of: Array.from({ length: below(4) }, element) };
}

function argument(): Plan {
  if (below(3) > 0) return array();
  if (below(5) > 0) return leaf();
  const dtype: Plan = { kind: "value", value: "float32" };
  return { kind: "options", of: [["axis", array()], ["shape", array()], ["dtype", dtype]] };
}

function build(plan: Plan, holes: boolean, tensors: readonly Any[]): unknown {
  switch (plan.kind) {
    case "hole":
      return undefined;
    case "value":
      return plan.value;
    case "tensor":
      return tensors[plan.place];
    case "options":
      return Object.fromEntries(plan.of.map(([key, one]) => [key, build(one, holes, tensors)]));
    case "array": {
      const made: unknown[] = new Array(plan.of.length);
      plan.of.forEach((one, i) => {
        if (!holes || one.kind !== "hole") made[i] = build(one, holes, tensors);
      });
      return made;
    }
  }
}

const TENSORS: readonly (() => Any)[] = [
  () => lib.arange(5),
  () => lib.arange(6).reshape([2, 3]),
  () => lib.zeros([2, 3, 2]),
  () => lib.arange(4, { dtype: "int32" }),
  () => lib.tensor([true, false, true]),
];

/** What a call gave, as text. */
function show(made: Any, depth = 0): string {
  if (made?.layout !== undefined) {
    if (made.isDisposed) return "disposed";
    return `${made.dtype}${made.toArray === undefined ? "" : JSON.stringify(made)}[${made.shape}]`;
  }
  if (Array.isArray(made) && depth < 3) {
    return `[${Array.from(made, (one) => show(one, depth + 1)).join()}]`;
  }
  if (typeof made === "object" && made !== null && depth < 2) {
    return `{${Object.entries(made).map(([key, one]) => key + show(one, depth + 1)).join()}}`;
  }
  return String(made);
}

/** What changes more than its arguments, needs more than values, or shows where it is called. */
const LEFT_OUT = new Set([
  ...["constructor", "dispose", "read", "withPointer", "cuda", "to", "iterate", "intoTypedArray"],
  ...[
    "image",
    "capture",
    "profile",
    "offload",
    "setBackend",
    "setThreads",
    "scope",
    "attempt",
    "defineOp",
    "memory",
    "allowTF32",
  ],
]);

type Call = (tensors: readonly Any[], args: readonly unknown[]) => unknown;

/** Every method and function, by name. */
function calls(): [name: string, call: Call][] {
  const found: [string, Call][] = [];
  const { prototype } = rm.Tensor;
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const { value } = Object.getOwnPropertyDescriptor(prototype, name)!;
    if (typeof value !== "function" || LEFT_OUT.has(name)) continue;
    found.push([name, ([x], args) => x[name](...args)]);
  }
  for (const [name, value] of Object.entries(rm) as [string, Any][]) {
    if (typeof value !== "function" || LEFT_OUT.has(name) || /^[A-Z]/.test(name)) continue;
    found.push([`rm.${name}`, (_, args) => value(...args)]);
  }
  for (const [name, value] of Object.entries(rm.random) as [string, Any][]) {
    found.push([`random.${name}`, (_, args) => value(rm.random.key(1), ...args)]);
  }
  return found;
}

/** The result of a call, or its error, and the tensors afterwards. */
function outcome(call: Call, plans: readonly Plan[], first: number, holes: boolean): string {
  // What an element that is not written shows.
  for (const n of [1, 2, 3, 4, 5, 6, 12]) lib.full([n], holes ? 7 : 8).dispose();
  const tensors = TENSORS.map((make) => make());
  const args = plans.map((plan) => build(plan, holes, tensors));
  try {
    const text = rm.scope(() => show(call([tensors[first], ...tensors], args)));
    return `${text} | ${tensors.map((x) => show(x)).join("; ")}`;
  } catch (error) {
    return String(error);
  } finally {
    for (const x of tensors) if (!x.isDisposed) x.dispose();
  }
}

test("every method and function reads holes of arrays as undefined", () => {
  const all = calls();
  assert(all.length > 200, `${all.length} methods and functions`);
  const count = amount(2500, 45_000);
  let refused = 0;
  for (let i = 0; i < count; i++) {
    const [name, call] = all[i % all.length]!;
    const plans = Array.from({ length: 1 + below(3) }, argument);
    const first = below(TENSORS.length);
    const [holes, undefineds] = [true, false].map((one) => outcome(call, plans, first, one));
    assertEquals(holes, undefineds, `call ${i}, ${name}(${JSON.stringify(plans)})`);
    if (/^\w*Error: /.test(holes!)) refused++;
  }
  assert(refused < 0.95 * count, `${refused} of ${count} calls are refused`);
});
