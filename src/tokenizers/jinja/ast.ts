/**
 * The tree of a template, as the package `@huggingface/jinja` parses it.
 *
 * @module
 */

/** A name. */
export interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

/** A call of a function, of a filter with arguments, or of a macro. */
export interface Call {
  readonly type: "CallExpression";
  readonly callee: Node;
  readonly args: readonly Node[];
}

/** Several values in parentheses, or without. */
export interface TupleLiteral {
  readonly type: "TupleLiteral";
  readonly value: readonly Node[];
}

/** `key = value` among arguments or parameters. */
export interface KeywordArgument {
  readonly type: "KeywordArgumentExpression";
  readonly key: Identifier;
  readonly value: Node;
}

/** The bounds between brackets. */
export interface Slice {
  readonly type: "SliceExpression";
  readonly start: Node | undefined;
  readonly stop: Node | undefined;
  readonly step: Node | undefined;
}

/** A parameter of a macro. */
export type Parameter = Identifier | KeywordArgument;

/** A node of the tree. */
export type Node =
  | Identifier
  | Call
  | TupleLiteral
  | KeywordArgument
  | Slice
  | { readonly type: "Comment" | "Break" | "Continue" }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "ArrayLiteral"; readonly value: readonly Node[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Node, Node> }
  | {
    readonly type: "If";
    readonly test: Node;
    readonly body: readonly Node[];
    readonly alternate: readonly Node[];
  }
  | {
    readonly type: "For";
    readonly loopvar: Node;
    readonly iterable: Node;
    readonly body: readonly Node[];
    readonly defaultBlock: readonly Node[];
  }
  | {
    readonly type: "Set";
    readonly assignee: Node;
    readonly value: Node | null;
    readonly body: readonly Node[];
  }
  | {
    readonly type: "Macro";
    readonly name: Identifier;
    readonly args: readonly Parameter[];
    readonly body: readonly Node[];
  }
  | {
    readonly type: "CallStatement";
    readonly call: Call;
    readonly callerArgs: readonly Parameter[] | null;
    readonly body: readonly Node[];
  }
  | {
    readonly type: "FilterStatement";
    readonly filter: Identifier | Call;
    readonly body: readonly Node[];
  }
  | {
    readonly type: "MemberExpression";
    readonly object: Node;
    readonly property: Node;
    readonly computed: boolean;
  }
  | {
    readonly type: "BinaryExpression";
    readonly operator: { readonly value: string };
    readonly left: Node;
    readonly right: Node;
  }
  | {
    readonly type: "FilterExpression";
    readonly operand: Node;
    readonly filter: Identifier | Call;
  }
  | { readonly type: "SelectExpression"; readonly lhs: Node; readonly test: Node }
  | {
    readonly type: "TestExpression";
    readonly operand: Node;
    readonly negate: boolean;
    readonly test: Identifier;
  }
  | {
    readonly type: "UnaryExpression";
    readonly operator: { readonly value: string };
    readonly argument: Node;
  }
  | {
    readonly type: "SpreadExpression" | "KeywordSpreadExpression";
    readonly argument: Node;
  }
  | {
    readonly type: "Ternary";
    readonly condition: Node;
    readonly trueExpr: Node;
    readonly falseExpr: Node;
  };
