/**
 * Rules: how derivatives go back through ops.
 *
 * @module
 */
import type { Layout } from "../../base/layout.ts";
import { applyView } from "../../core/apply.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { fullOperand } from "../../ops/create/full.ts";
import type { Call, Input, OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";

/** A value that the way back needs: the tensor, while the way back runs. */
export type Kept<X extends Input = Input> = () => X;

/** A call that has run, for a rule. */
export interface Performed {
  readonly call: Call;
  readonly inputs: readonly Input[];
  /** The results; for ops that write an input, what that input holds now. */
  readonly outputs: readonly Operand[];
  /** Whether a derivative by input `k` is asked for. */
  wants(k: number): boolean;
  /** Keeps a value until the way back has used it. */
  keep<X extends Input>(x: X): Kept<X>;
}

/**
 * The derivative by a value of `shape` which is 0 but for a part: where the elements of `of` are, if the
 * value is in row-major order.
 */
export class Part {
  constructor(
    readonly of: Operand,
    readonly layout: Layout,
    readonly shape: readonly number[],
  ) {}
}

/** A derivative, or undefined for none. */
export type Gradient = Operand | undefined;

/**
 * The derivatives by the inputs, given those by the outputs, of which at least one is there. Results may
 * be given tensors themselves.
 */
export type Backward = (gradients: readonly Gradient[]) => readonly (Gradient | Part)[];

/** How derivatives go back through an op. */
export type Rule = (performed: Performed) => Backward;

/** A rule that is for some calls of an op only; others are decomposed. */
export interface PartialRule {
  readonly rule: Rule;
  applies(call: Call): boolean;
  /** What the others are composed of, in the place of what `decompose` of the op does. */
  compose?(call: Call): Operand;
}

/** The rules of ops by their names; ops without one are decomposed. */
export const RULES: Map<string, PartialRule> = new Map();

/** Adds rules. */
export function addRules(rules: Readonly<Record<string, Rule | PartialRule>>): void {
  for (const [name, rule] of Object.entries(rules)) {
    RULES.set(name, typeof rule === "function" ? { rule, applies: () => true } : rule);
  }
}

/** Ops whose float results do not depend on the elements of their inputs, and why that is right. */
export const WITHOUT: ReadonlyMap<string, string> = new Map([
  ["random", "random numbers"],
  ["distinctPlaces", "random numbers"],
]);

/** The rule of elementwise ops, by their expressions. */
let mapRule: Rule | undefined;

/** Sets the rule of elementwise ops. */
export function setMapRule(rule: Rule): void {
  mapRule = rule;
}

/** The rule of ops that programs define with a derivative. */
const defined: Rule = ({ call: { op, name, attributes }, inputs, outputs, keep }) => {
  const given = inputs.map((x) => keep(x)), made = outputs.map((x) => keep(x));
  const specOf = ({ layout: { shape }, storage: { info } }: Operand): OutputSpec => ({
    shape,
    dtype: info,
  });
  const specs = inputs.map((x) => isOperand(x) ? specOf(x) : undefined);
  const { device } = outputs[0]!.storage;
  const results = outputs.map(specOf);
  // The program may dispose of what it gets.
  const view = (x: Operand): Operand => applyView(VIEWS.view, x, "view");
  const zeros = ({ shape, dtype }: OutputSpec): Operand => {
    const isFloat = dtype.kind === "f" || dtype.kind === "c";
    return fullOperand("zeros", shape, 0, isFloat ? dtype.name : "float32", device);
  };
  return (gradients) =>
    op.backward!({
      name,
      attributes,
      specs,
      inputs: () =>
        given.map((x) => {
          const one = x();
          return isOperand(one) ? view(one) : one;
        }),
      outputs: () => made.map((x) => view(x())),
      gradients: results.map((spec, k) => {
        const own = gradients[k];
        return own === undefined ? zeros(spec) : view(own);
      }),
    });
};

/** The rule of a call; undefined if it is decomposed. */
export function ruleOf(call: Call): Rule | undefined {
  const { op } = call;
  if (op.backward !== undefined) return defined;
  const own = RULES.get(op.name);
  if (own !== undefined) return own.applies(call) ? own.rule : undefined;
  return op.kind === "map" ? mapRule : undefined;
}
