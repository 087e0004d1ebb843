/**
 * The scalar expressions of the op table: the common subset of C and JavaScript, parsed once.
 *
 * `x > 0 ? x : 0`, `a + x`, `exp(x - y)`: names, numbers, calls of named primitives and the usual
 * operators. Backends print the tree in their own language. Knows nothing of dtypes or tensors.
 *
 * @module
 */

/** A parsed expression. */
export type Expr =
  | { readonly kind: "num"; readonly text: string }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Expr[] }
  | { readonly kind: "unary"; readonly op: string; readonly arg: Expr }
  | { readonly kind: "binary"; readonly op: string; readonly left: Expr; readonly right: Expr }
  | { readonly kind: "if"; readonly test: Expr; readonly then: Expr; readonly otherwise: Expr };

const TOKEN = /\s*(\d+\.?\d*(?:e[-+]?\d+)?|\w+|\|\||&&|[<>=!]=|[-+*/<>!~&|^?:(),])/y;

/** Binary operators by rising precedence, as in C and JavaScript. */
const LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], [
  "+",
  "-",
], ["*", "/"]];

const parsed = new Map<string, Expr>();

/** Parses `text`; the same text gives the same tree. Throws a SyntaxError for anything else. */
export function parseExpr(text: string): Expr {
  let tree = parsed.get(text);
  if (tree === undefined) parsed.set(text, tree = parse(text));
  return tree;
}

function parse(text: string): Expr {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (match === null) throw new SyntaxError(`Bad expression at ${at}: ${text}`);
    tokens.push(match[1]!);
  }
  let next = 0;
  const take = (token: string): boolean => tokens[next] === token && ++next > 0;
  const expect = (token: string): void => {
    if (!take(token)) throw new SyntaxError(`Expected ${token} before "${tokens[next]}": ${text}`);
  };
  const conditional = (): Expr => {
    const test = binary(0);
    if (!take("?")) return test;
    const then = conditional();
    expect(":");
    return { kind: "if", test, then, otherwise: conditional() };
  };
  const binary = (level: number): Expr => {
    if (level === LEVELS.length) return unary();
    let left = binary(level + 1);
    while (LEVELS[level]!.includes(tokens[next]!)) {
      left = { kind: "binary", op: tokens[next++]!, left, right: binary(level + 1) };
    }
    return left;
  };
  const unary = (): Expr => {
    const token = tokens[next++];
    if (token === "-" || token === "!" || token === "~") {
      return { kind: "unary", op: token, arg: unary() };
    }
    if (token === "(") {
      const inner = conditional();
      expect(")");
      return inner;
    }
    if (token === undefined) throw new SyntaxError(`Unexpected end: ${text}`);
    if (/^\d/.test(token)) return { kind: "num", text: token };
    if (!/^\w/.test(token)) throw new SyntaxError(`Unexpected "${token}": ${text}`);
    if (!take("(")) return { kind: "name", name: token };
    const args = [conditional()];
    while (take(",")) args.push(conditional());
    expect(")");
    return { kind: "call", name: token, args };
  };
  const tree = conditional();
  if (next < tokens.length) throw new SyntaxError(`Unexpected "${tokens[next]}": ${text}`);
  return tree;
}

/** True if some part of `expr` satisfies `test`. */
export function someExpr(expr: Expr, test: (part: Expr) => boolean): boolean {
  if (test(expr)) return true;
  switch (expr.kind) {
    case "call":
      return expr.args.some((arg) => someExpr(arg, test));
    case "unary":
      return someExpr(expr.arg, test);
    case "binary":
      return someExpr(expr.left, test) || someExpr(expr.right, test);
    case "if":
      return someExpr(expr.test, test) || someExpr(expr.then, test) ||
        someExpr(expr.otherwise, test);
    default:
      return false;
  }
}

/** The syntax of one language where C and JavaScript differ. */
export interface Spelling {
  /** A number. */
  num(text: string): string;
  /** A name; absent where names are printed as they are. */
  name?(text: string): string;
  /** A call with printed arguments. */
  call(name: string, args: string[]): string;
  /** A conditional with printed parts; undefined for the plain form. */
  select?(test: string, then: string, otherwise: string): string | undefined;
  /** A binary operator with printed operands; undefined for the plain infix form. */
  binary?(op: string, left: string, right: string): string | undefined;
  /** A prefix operator with its printed operand; undefined for the plain form. */
  unary?(op: string, arg: string): string | undefined;
}

/** Prints `expr`, fully parenthesized, in the given syntax. */
export function printExpr(expr: Expr, spell: Spelling): string {
  const go = (part: Expr): string => {
    switch (part.kind) {
      case "num":
        return spell.num(part.text);
      case "name":
        return spell.name?.(part.name) ?? part.name;
      case "call":
        return spell.call(part.name, part.args.map(go));
      case "unary": {
        const arg = go(part.arg);
        return spell.unary?.(part.op, arg) ?? `(${part.op}${arg})`;
      }
      case "binary": {
        const [left, right] = [go(part.left), go(part.right)];
        return spell.binary?.(part.op, left, right) ?? `(${left} ${part.op} ${right})`;
      }
      case "if": {
        const [test, then, otherwise] = [go(part.test), go(part.then), go(part.otherwise)];
        return spell.select?.(test, then, otherwise) ?? `(${test} ? ${then} : ${otherwise})`;
      }
    }
  };
  return go(expr);
}
