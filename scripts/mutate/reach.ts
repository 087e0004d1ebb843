/**
 * Finds what code a test reaches: notes in a source where control flow parts, and what they tell.
 *
 * V8's coverage, as Deno reports it, knows lines only; here a line may hold two branches. So each
 * branch, function body and statement after a branch notes once, in a file, that it was reached:
 * also in workers and in other processes, which may end at any time. Knows nothing of mutants.
 *
 * @module
 */

import ts from "typescript";

/** A part of a source that is reached as a whole: `from` and `to` are positions. */
export interface Part {
  readonly from: number;
  readonly to: number;
}

/** True for what control flow leaves at its end, if it throws nothing. */
function isPlain(node: ts.Node): boolean {
  return ts.isExpressionStatement(node) || ts.isVariableStatement(node) ||
    ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node);
}

const LOGICAL = new Set(["&&", "||", "??", "&&=", "||=", "??="]);

/** What is evaluated or not, of the parts of `node`. */
function branchesOf(node: ts.Node): (ts.Expression | undefined)[] {
  if (ts.isConditionalExpression(node)) return [node.whenTrue, node.whenFalse];
  if (ts.isBinaryExpression(node)) {
    return LOGICAL.has(node.operatorToken.getText()) ? [node.right] : [];
  }
  if (ts.isArrowFunction(node)) return ts.isBlock(node.body) ? [] : [node.body];
  const hasDefault = ts.isParameter(node) || ts.isBindingElement(node) ||
    ts.isPropertyDeclaration(node);
  return hasDefault ? [node.initializer] : [];
}

/** The statements that are executed or not, of the parts of `node`. */
function statementsOf(node: ts.Node): (ts.Statement | undefined)[] {
  if (ts.isIfStatement(node)) return [node.thenStatement, node.elseStatement];
  return ts.isIterationStatement(node, false) ? [node.statement] : [];
}

/** The parts of `source`, and its text with a note in each: numbers from `first` on. */
export function withNotes(source: ts.SourceFile, first: number): { parts: Part[]; text: string } {
  const parts: Part[] = [];
  const before = new Map<number, string>();
  const after = new Map<number, string>();
  /** A part from one node to another, with a note between two texts before it, and one after it. */
  const add = (from: ts.Node, to: ts.Node, open: string, close: string, end = ""): void => {
    const note = first + parts.length;
    const part = { from: from.getStart(source), to: to.getEnd() };
    parts.push(part);
    const text = `${open}__reached[${note}]||__reach(${note})${close}`;
    before.set(part.from, (before.get(part.from) ?? "") + text);
    after.set(part.to, end + (after.get(part.to) ?? ""));
  };
  const addList = (statements: readonly ts.Statement[]): void => {
    const last = statements.at(-1)!;
    statements.forEach((statement, i) => {
      if (i === 0 || !isPlain(statements[i - 1]!)) add(statement, last, "", ";");
    });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isBlock(node) || ts.isCaseOrDefaultClause(node)) addList(node.statements);
    for (const branch of branchesOf(node)) {
      if (branch !== undefined) add(branch, branch, "(", ",", ")");
    }
    for (const statement of statementsOf(node)) {
      if (statement !== undefined && !ts.isBlock(statement)) {
        add(statement, statement, "{", ";", "}");
      }
    }
    ts.forEachChild(node, visit);
  };
  addList(source.statements.filter((node) => !ts.isImportDeclaration(node)));
  ts.forEachChild(source, visit);

  let text = "";
  let at = 0;
  for (const position of [...new Set([...before.keys(), ...after.keys()])].sort((a, b) => a - b)) {
    text += source.text.slice(at, position);
    text += (after.get(position) ?? "") + (before.get(position) ?? "");
    at = position;
  }
  return { parts, text: text + source.text.slice(at) };
}

/** The number among `parts` of the smallest that holds `position`; -1 where none does. */
export function partAt(parts: readonly Part[], position: number): number {
  let found = -1;
  parts.forEach(({ from, to }, i) => {
    if (from > position || to <= position) return;
    const best = parts[found];
    if (best === undefined || to - from <= best.to - best.from) found = i;
  });
  return found;
}

/** A module that notes in the file at `path` which of `count` parts are reached. */
export function notesModule(path: string, count: number): string {
  return `// @ts-nocheck
    export const __reached = new Uint8Array(${count});
    export const __reach = (note) => {
      __reached[note] = 1;
      try {
        Deno.writeTextFileSync(${JSON.stringify(path)}, note + "\\n", { append: true });
      } catch {
        // Programs that may not write are seen by other tests.
      }
    };`;
}
