/**
 * Makes mutants from syntax trees: each operator looks at one node and gives small faults for it.
 *
 * Expressions and statements are mutated everywhere but in src/types, where types are. Left alone
 * are imports, other types, strings, and what only makes an error: `throw` arguments,
 * `new ShapeError(...)`, `fail(...)`, `describe(...)`. A comment line `// mutate: skip, REASON` before a node
 * leaves that node alone; before an `if` or a loop, only its head. Knows nothing of tests.
 *
 * @module
 */

import { createHash } from "node:crypto";
import ts from "typescript";

/** One fault. */
export interface Mutant {
  /** The file's path from the root. */
  readonly file: string;
  /** The function, or the variable at the top level: `Layout.constructor`. */
  readonly place: string;
  /** Names it without line numbers, once in its file: `sizeOf arithmetic: size *= n → size /= n`. */
  readonly key: string;
  /** The line that it is in, from 1 on. */
  readonly line: number;
  /** What is replaced, as positions in the file. */
  readonly from: number;
  readonly to: number;
  /** What takes its place. */
  readonly by: string;
  /** What decides which tests judge it: only the type checker sees `"type"`; `"op"` is of the op table. */
  readonly kind: "code" | "type" | "op";
}

/** A node that a comment leaves out. */
export interface LeftOut {
  readonly file: string;
  readonly place: string;
  readonly line: number;
  readonly text: string;
  readonly reason: string;
}

/** What an operator makes of a node: the text in its place, and how the key says it. */
interface Change {
  readonly by: string;
  readonly text: string;
}

type Operator = (node: ts.Node, checker: ts.TypeChecker) => Change[];

/** A text on one line; the middle of a long one is left out. */
function short(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= 70 ? line : `${line.slice(0, 40)} … ${line.slice(-25)}`;
}

/** `node`, replaced by `by`. */
function change(node: ts.Node, by: string): Change {
  return { by, text: `${short(node.getText())} → ${short(by)}` };
}

const FLIPPED: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "==": "!=",
  "!=": "==",
};

/** How a bound moves to the side to which {@link FLIPPED} does not move it. */
const MOVED: Readonly<Record<string, string>> = { "<": "-", "<=": "+", ">": "+", ">=": "-" };

const ARITHMETIC: Readonly<Record<string, string>> = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "**": "*",
  "<<": ">>",
  ">>": "<<",
  ">>>": "<<",
  "&": "|",
  "|": "&",
  "^": "&",
};

/** Operators whose operands are swapped too. */
const ORDERED = new Set(["-", "/", "%", "**", "<<", ">>", ">>>"]);

/** True for what is a number, or a bigint, for sure. */
function isNumeric(node: ts.Node, checker: ts.TypeChecker, orBigint = false): boolean {
  const type = checker.getTypeAtLocation(node);
  if ((type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Never)) !== 0) return false;
  return checker.isTypeAssignableTo(type, checker.getNumberType()) ||
    (orBigint && checker.isTypeAssignableTo(type, checker.getBigIntType()));
}

const comparison: Operator = (node, checker) => {
  if (!ts.isBinaryExpression(node)) return [];
  const [left, op, right] = [node.left, node.operatorToken, node.right].map((n) => n.getText());
  const flipped = FLIPPED[op!];
  if (flipped === undefined) return [];
  const changes = [change(node, `${left} ${flipped} ${right}`)];
  const sign = MOVED[op!];
  if (sign !== undefined && isNumeric(node.right, checker)) {
    changes.push(change(node, `${left} ${op} (${right}) ${sign} 1`));
  }
  return changes;
};

const arithmetic: Operator = (node, checker) => {
  if (!ts.isBinaryExpression(node) || !isNumeric(node, checker, true)) return [];
  const [left, op, right] = [node.left, node.operatorToken, node.right].map((n) => n.getText());
  const other = ARITHMETIC[op!.replace(/=$/, "")];
  if (other === undefined) return [];
  // A loop that counts the wrong way would only take time.
  const counts = ts.isForStatement(node.parent) && node.parent.incrementor === node;
  if (op!.endsWith("=")) return counts ? [] : [change(node, `${left} ${other}= ${right}`)];
  const changes = [change(node, `(${left} ${other} ${right})`)];
  if (ORDERED.has(op!) && left !== right) {
    changes.push(change(node, `((${right}) ${op} (${left}))`));
  }
  return changes;
};

const sign: Operator = (node) => {
  if (!ts.isPrefixUnaryExpression(node) || ts.isLiteralExpression(node.operand)) return [];
  const { MinusToken, TildeToken } = ts.SyntaxKind;
  if (node.operator !== MinusToken && node.operator !== TildeToken) return [];
  return [change(node, `(${node.operand.getText()})`)];
};

const logic: Operator = (node) => {
  if (!ts.isBinaryExpression(node)) return [];
  const [left, op, right] = [node.left, node.operatorToken, node.right].map((n) => n.getText());
  if (op === "??") return [change(node, `(${left})`), change(node, `(${right})`)];
  if (op !== "&&" && op !== "||") return [];
  const other = op === "&&" ? "||" : "&&";
  return [`(${left} ${other} ${right})`, `(${left})`, `(${right})`].map((by) => change(node, by));
};

/** True for a statement that is all that an `if` without `else`, or a loop, does. */
function isSole(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isBlock(parent)) return parent.statements.length === 1 && isSole(parent);
  return ts.isIfStatement(parent)
    ? parent.elseStatement === undefined
    : ts.isIterationStatement(parent, false);
}

const condition: Operator = (node) => {
  if (ts.isIfStatement(node)) {
    const test = short(node.expression.getText());
    const from = node.expression.getStart() - node.getStart();
    const text = node.getText();
    return ["true", "false"].map((by) => ({
      by: text.slice(0, from) + by + text.slice(from + node.expression.getText().length),
      text: `if (${test}) → ${by}`,
    }));
  }
  if (ts.isConditionalExpression(node)) {
    return [node.whenTrue, node.whenFalse].map((part) => change(node, `(${part.getText()})`));
  }
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) {
    return [change(node, `(${node.operand.getText()})`)];
  }
  // What a loop goes on for; `while (true)` ends elsewhere.
  const { parent } = node;
  const isTest = (ts.isForStatement(parent) && parent.condition === node) ||
    (ts.isWhileStatement(parent) && parent.expression === node);
  if (!isTest || node.kind === ts.SyntaxKind.TrueKeyword) return [];
  return [{ by: "false", text: `loop (${short(node.getText())}) → false` }];
};

const literal: Operator = (node) => {
  const { parent } = node;
  if (node.kind === ts.SyntaxKind.TrueKeyword || node.kind === ts.SyntaxKind.FalseKeyword) {
    const isEndless = ts.isWhileStatement(parent) && parent.expression === node;
    return isEndless ? [] : [change(node, String(node.kind === ts.SyntaxKind.FalseKeyword))];
  }
  if (!ts.isNumericLiteral(node) && !ts.isBigIntLiteral(node)) return [];
  if (ts.isPropertyAssignment(parent) && parent.name === node) return [];
  // Of a bound, `comparison` has made this.
  const isBound = ts.isBinaryExpression(parent) && parent.right === node &&
    MOVED[parent.operatorToken.getText()] !== undefined;
  if (isBound || (ts.isNumericLiteral(node) && Number(node.text) + 1 === Number(node.text))) {
    return [];
  }
  const text = node.getText();
  const one = ts.isBigIntLiteral(node) ? "1n" : "1";
  // A loop that begins one step too early mostly has nothing to do in it.
  const isStart = ts.isVariableDeclaration(parent) && ts.isForStatement(parent.parent.parent) &&
    Number(node.text) === 0;
  return (isStart ? ["+"] : ["+", "-"]).map((op) => {
    const { by, text: said } = change(node, `(${text} ${op} ${one})`);
    return { by, text: `${said} in ${short(parent.getText())}` };
  });
};

/** True for a statement after which its function does nothing more. */
function isLast(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isFunctionLike(parent)) return true;
  if (ts.isBlock(parent)) return parent.statements.at(-1) === node && isLast(parent);
  return (ts.isIfStatement(parent) || ts.isTryStatement(parent) || ts.isCatchClause(parent)) &&
    isLast(parent);
}

const drop: Operator = (node) => {
  const { parent } = node;
  const isEarly = ts.isReturnStatement(node) &&
    !(ts.isBlock(parent) && ts.isFunctionLike(parent.parent) &&
      parent.statements.at(-1) === node) &&
    !(isLast(node) && [undefined, "undefined"].includes(node.expression?.getText()));
  const isDropped = isEarly || ts.isThrowStatement(node) || ts.isBreakOrContinueStatement(node) ||
    (ts.isExpressionStatement(node) && !ts.isStringLiteral(node.expression) &&
      !/^super\(/.test(node.getText()));
  // Without its only statement an `if` is as one that never holds.
  if (!isDropped || (isSole(node) && isBelowIf(node))) return [];
  return [{ by: ";", text: short(node.getText()) }];
};

function isBelowIf({ parent }: ts.Node): boolean {
  return ts.isIfStatement(ts.isBlock(parent) ? parent.parent : parent);
}

const swap: Operator = (node, checker) => {
  if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return [];
  // What gives the same either way.
  if (/^(Math\.(min|max|hypot|imul)|sameShape|(x\.)?swapAxes)$/.test(node.expression.getText())) {
    return [];
  }
  const args = node.arguments ?? [];
  const types = args.map((arg) => {
    const type = checker.getTypeAtLocation(arg);
    return checker.getBaseTypeOfLiteralType(type);
  });
  const begin = node.getStart();
  const whole = node.getText();
  return args.slice(1).flatMap((second, i) => {
    const first = args[i]!;
    const [a, b] = [first.getText(), second.getText()];
    if (a === b || ts.isSpreadElement(first) || ts.isSpreadElement(second)) return [];
    const [s, t] = [types[i]!, types[i + 1]!];
    if (((s.flags | t.flags) & (ts.TypeFlags.Any | ts.TypeFlags.Never)) !== 0) return [];
    if (!checker.isTypeAssignableTo(s, t) || !checker.isTypeAssignableTo(t, s)) return [];
    const by = whole.slice(0, first.getStart() - begin) + b +
      whole.slice(first.getEnd() - begin, second.getStart() - begin) + a +
      whole.slice(second.getEnd() - begin);
    const callee = short(node.expression.getText());
    return [{ by, text: `${callee}(${short(a)}, ${short(b)})` }];
  });
};

const branch: Operator = (node) => {
  if (!ts.isConditionalTypeNode(node)) return [];
  // A branch that uses what `infer` found means nothing without the condition.
  const infers = /\binfer\b/.test(node.extendsType.getText());
  const parts = infers ? [node.falseType] : [node.trueType, node.falseType];
  const test = short(`${node.checkType.getText()} extends ${node.extendsType.getText()}`);
  return parts.map((part) => ({
    by: `(${part.getText()})`,
    text: `${test} → ${short(part.getText())}`,
  }));
};

const tuple: Operator = (node) => {
  if (!ts.isTupleTypeNode(node) || node.elements.length === 0) return [];
  const texts = node.elements.map((element) => element.getText());
  const without = texts.map((_, i) => texts.filter((_, j) => j !== i));
  const swapped = texts.slice(1).map((text, i) => [
    ...texts.slice(0, i),
    text,
    texts[i]!,
    ...texts.slice(i + 2),
  ]);
  return [...without, ...swapped].map((list) => change(node, `[${list.join(", ")}]`));
};

const typeLiteral: Operator = (node) => {
  if (!ts.isLiteralTypeNode(node)) return [];
  const { literal } = node;
  if (literal.kind === ts.SyntaxKind.TrueKeyword || literal.kind === ts.SyntaxKind.FalseKeyword) {
    return [change(node, String(literal.kind === ts.SyntaxKind.FalseKeyword))];
  }
  return ts.isNumericLiteral(literal) ? [change(node, String(Number(literal.text) + 1))] : [];
};

/** The operators of what runs, by their names. */
const OPERATORS: Readonly<Record<string, Operator>> = {
  comparison,
  arithmetic,
  sign,
  logic,
  condition,
  literal,
  drop,
  swap,
};

/** The operators of types. */
const TYPE_OPERATORS: Readonly<Record<string, Operator>> = { branch, tuple, literal: typeLiteral };

/** What is not mutated, with all that is in it. */
function isLeftAlone(node: ts.Node): boolean {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return true;
  if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return true;
  if (ts.isTypeNode(node)) return true;
  if (ts.isNewExpression(node)) return /Error$/.test(node.expression.getText());
  if (ts.isTemplateExpression(node)) return /\bfail\(/.test(node.parent.getText().slice(0, 20));
  return ts.isCallExpression(node) && node.expression.getText() === "describe";
}

/** What `node` adds to the path of its function: a name, or nothing. */
function nameOf(node: ts.Node, isTop: boolean): string | undefined {
  if (ts.isConstructorDeclaration(node)) return "constructor";
  if (ts.isClassStaticBlockDeclaration(node)) return "static";
  if (ts.isGetAccessor(node)) return `get ${node.name.getText()}`;
  if (ts.isSetAccessor(node)) return `set ${node.name.getText()}`;
  if (
    ts.isFunctionDeclaration(node) || ts.isClassLike(node) || ts.isMethodDeclaration(node) ||
    ts.isTypeAliasDeclaration(node)
  ) return node.name?.getText();
  if (ts.isPropertyDeclaration(node)) return node.name.getText();
  if (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) {
    const { initializer } = node;
    const isFunction = initializer !== undefined && ts.isFunctionLike(initializer);
    if (isFunction || (isTop && ts.isVariableDeclaration(node))) return node.name.getText();
  }
}

const MARK = /\n[ \t]*\/\/ mutate: skip\b,?[ \t]*(.*)/;

/** The parts of an `if` or a loop that a comment before it does not leave out. */
function bodiesOf(node: ts.Node): (ts.Node | undefined)[] {
  if (ts.isIfStatement(node)) return [node.thenStatement, node.elseStatement];
  return ts.isIterationStatement(node, false) ? [node.statement] : [];
}

/** The mutants of one file, and what its comments leave out. */
export function mutantsOf(
  program: ts.Program,
  path: string,
  file: string,
): { mutants: Mutant[]; leftOut: LeftOut[] } {
  const source = program.getSourceFile(path);
  if (source === undefined) throw new Error(`${path} is not part of the program`);
  const checker = program.getTypeChecker();
  const isType = file.startsWith("src/types/");
  const mutants: Mutant[] = [];
  const leftOut: LeftOut[] = [];
  const seen = new Map<string, number>();
  const lineOf = (node: ts.Node): number =>
    source.getLineAndCharacterOfPosition(node.getStart()).line + 1;

  const visit = (node: ts.Node, outer: string): void => {
    const name = nameOf(node, outer === "");
    const path = name === undefined ? outer : outer === "" ? name : `${outer}.${name}`;
    const place = path || "module";
    const mark = MARK.exec(source.text.slice(node.getFullStart(), node.getStart()));
    if (mark !== null) {
      const [line, reason] = [lineOf(node), mark[1]!];
      if (reason === "") throw new Error(`${file}:${line}: "mutate: skip" needs a reason`);
      leftOut.push({ file, place, line, text: short(node.getText()), reason });
      for (const body of bodiesOf(node)) if (body !== undefined) visit(body, path);
      return;
    }
    if (!isType && isLeftAlone(node)) return;
    for (const [operator, make] of Object.entries(isType ? TYPE_OPERATORS : OPERATORS)) {
      for (const { by, text } of make(node, checker)) {
        // Two equal parts may be swapped.
        if (by === node.getText()) continue;
        const plain = `${place} ${operator}: ${text}`;
        const count = (seen.get(plain) ?? 0) + 1;
        seen.set(plain, count);
        const key = count === 1 ? plain : `${plain} #${count}`;
        const [from, to] = [node.getStart(), node.getEnd()];
        const kind = isType ? "type" : "code";
        mutants.push({ file, place, key, line: lineOf(node), from, to, by, kind });
      }
    }
    if (!ts.isThrowStatement(node)) ts.forEachChild(node, (child) => visit(child, path));
  };
  ts.forEachChild(source, (node) => visit(node, ""));
  const marks = source.text.match(/\/\/ mutate: /g)?.length ?? 0;
  if (marks !== leftOut.length) {
    throw new Error(
      `${file}: ${marks} comments "mutate: skip", ${leftOut.length} stand before code`,
    );
  }
  return { mutants, leftOut };
}

/** Where a mutant comes in the order of a sample: the same whatever else changes. */
function rankOf({ file, key }: Mutant): string {
  return createHash("sha256").update(`${file} ${key}`).digest("hex");
}

/**
 * Up to `most` mutants of each function, drawn by their names alone. The first ones of all functions
 * come first, then the second ones, and so on.
 */
export function sample(mutants: readonly Mutant[], most: number): Mutant[] {
  const places = new Map<string, [rank: string, mutant: Mutant][]>();
  for (const mutant of mutants) {
    const name = `${mutant.file} ${mutant.place}`;
    const list = places.get(name) ?? [];
    places.set(name, list);
    list.push([rankOf(mutant), mutant]);
  }
  const lists = [...places.values()].map((list) => list.sort(([a], [b]) => a < b ? -1 : 1));
  const rounds = Math.max(0, ...lists.map((list) => Math.min(list.length, most)));
  return Array.from(
    { length: rounds },
    (_, i) => lists.flatMap((list) => list.slice(i, i + 1)).sort(([a], [b]) => a < b ? -1 : 1),
  ).flat().map(([, mutant]) => mutant);
}

/** `count` mutants, or all if there are fewer, drawn by their names alone. */
export function draw(mutants: readonly Mutant[], count: number): Mutant[] {
  return mutants.map((mutant) => [rankOf(mutant), mutant] as const)
    .sort(([a], [b]) => a < b ? -1 : 1)
    .slice(0, count)
    .map(([, mutant]) => mutant);
}
