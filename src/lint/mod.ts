/**
 * A plugin for `deno lint`: the rule `rowmajor/condition` reports tensors in conditions, which are
 * always true, as every object is.
 *
 * The rule goes by the names of methods, as lint rules know no types. Add the plugin in deno.json:
 * `"lint": { "plugins": ["jsr:@rowmajor/tensor/lint"] }`.
 *
 * @module
 */

/** The parts of a syntax node that the rule reads. */
export interface Node {
  /** The kind of node. */
  readonly type: string;
  /** What a statement or a conditional expression tests. */
  readonly test?: Node | null;
  /** The operand of a unary operator. */
  readonly argument?: Node;
  /** The left operand. */
  readonly left?: Node;
  /** The operator. */
  readonly operator?: string;
  /** The function that a call calls. */
  readonly callee?: Node;
  /** The member of an object. */
  readonly property?: Node;
  /** The name of an identifier. */
  readonly name?: string;
}

/** What `deno lint` passes to a rule. */
export interface Context {
  /** Reports a mistake. */
  report(about: { node: Node; message: string; hint: string }): void;
}

/** A rule of `deno lint`. */
export interface Rule {
  /** The functions to call for nodes, by their kinds. */
  create(context: Context): Record<string, (node: Node) => void>;
}

/** Methods whose result is a tensor of bools. */
const BOOLS = new Set([
  ..."equal notEqual less lessEqual greater greaterEqual".split(" "),
  ..."logicalAnd logicalOr logicalXor logicalNot isclose isnan isinf isfinite signbit".split(" "),
  ..."any all".split(" "),
]);

/** The method that `node` calls, if its result is a tensor of bools. */
function boolMethod(node: Node | null | undefined): string | undefined {
  const { callee } = node ?? {};
  if (node?.type !== "CallExpression" || callee?.type !== "MemberExpression") return undefined;
  const name = callee.property?.name;
  return name !== undefined && BOOLS.has(name) ? name : undefined;
}

/** The plugin. */
const plugin: { readonly name: string; readonly rules: Readonly<Record<string, Rule>> } = {
  name: "rowmajor",
  rules: {
    condition: {
      create(context) {
        const check = (node: Node | null | undefined): void => {
          const name = boolMethod(node);
          if (name === undefined) return;
          const scalar = name === "any" || name === "all";
          context.report({
            node: node!,
            message: `${name}() gives a tensor, which is always true in a condition`,
            hint: scalar ? "Add .item()" : "Add .any().item() or .all().item()",
          });
        };
        const test = (node: Node): void => check(node.test);
        return {
          IfStatement: test,
          WhileStatement: test,
          DoWhileStatement: test,
          ForStatement: test,
          ConditionalExpression: test,
          LogicalExpression: (node) => {
            if (node.operator !== "??") check(node.left);
          },
          UnaryExpression: (node) => {
            if (node.operator === "!") check(node.argument);
          },
        };
      },
    },
  },
};

export default plugin;
