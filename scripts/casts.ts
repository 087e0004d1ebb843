/**
 * Counts the unchecked casts of src/ by form and folder, and lists those without a reason:
 * `deno task casts`; `--list` prints each one.
 *
 * An unchecked cast is a place where the compiler takes the author's word:
 *
 * - `never`: an assertion to `never`, or to a type that contains it (`x as never[]`).
 * - `double`: an assertion of an assertion (`x as unknown as T`); a chain counts once.
 * - `any`: the type `any` wherever it stands, and each use of an alias of it.
 * - `helper`: a call of a function that hides a cast: it returns one of its parameters as another
 *   type, its result is of a type parameter that none of its parameters has, or its predicate holds
 *   without a test.
 * - `signature`: overloads of which one returns `never`, or whose implementation returns `unknown`,
 *   `object` or nothing that it declares, or takes a rest of `never`: the compiler relates these to
 *   any signature.
 * - `directive`: `@ts-ignore`, `@ts-expect-error` and `@ts-nocheck`.
 *
 * Every cast has its reason in a `//` comment: on one of its lines, or directly above its line or
 * above the statement or the member that contains it. Statements and members with casts that follow
 * each other without a blank line share the reason of the first one. Documentation comments and
 * comments of tools give no reason.
 *
 * tests/project/casts_test.ts keeps the count from growing. Commit bdf90c6e had 387.
 *
 * @module
 */
import process from "node:process";
import ts from "typescript";
import { readFolder } from "./shim_source.ts";

export type Form = "never" | "double" | "any" | "helper" | "signature" | "directive";

/** An unchecked cast. */
export interface Cast {
  readonly path: string;
  readonly line: number;
  readonly form: Form;
  readonly hasReason: boolean;
}

/** A source and what is needed of its lines. */
interface Source {
  readonly path: string;
  readonly file: ts.SourceFile;
  readonly lines: readonly string[];
}

type Assertion = ts.AsExpression | ts.TypeAssertion;

function isAssertion(node: ts.Node): node is Assertion {
  return (ts.isAsExpression(node) || ts.isTypeAssertionExpression(node)) &&
    node.type.getText() !== "const";
}

/** An expression without its parentheses, `!` and `satisfies`. */
function bare(node: ts.Expression): ts.Expression {
  while (
    ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node) ||
    ts.isSatisfiesExpression(node)
  ) node = node.expression;
  return node;
}

/** True if the type is `never` or contains it, apart from types of functions. */
function containsNever(node: ts.Node, aliases: ReadonlySet<string>): boolean {
  if (node.kind === ts.SyntaxKind.NeverKeyword) return true;
  if (ts.isTypeReferenceNode(node) && aliases.has(node.typeName.getText())) return true;
  if (ts.isFunctionLike(node)) return false;
  return ts.forEachChild(node, (child) => containsNever(child, aliases) || undefined) ?? false;
}

// ---- names that mean a cast in other places ----------------------------------------------------

/** The names of aliases of `any` and of `never`, and of helpers, that a file can use. */
interface Names {
  readonly any: Set<string>;
  readonly never: Set<string>;
  readonly helpers: Set<string>;
}

/** The declarations of all functions of a file: name → signatures and implementation. */
function functionsOf(file: ts.SourceFile): Map<string, ts.SignatureDeclaration[]> {
  const found = new Map<string, ts.SignatureDeclaration[]>();
  const visit = (node: ts.Node): void => {
    if (
      (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) && node.name !== undefined
    ) {
      const name = node.name.getText();
      found.set(name, [...found.get(name) ?? [], node]);
    } else if (
      (ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) &&
      node.initializer !== undefined &&
      (ts.isArrowFunction(node.initializer) || ts.isFunctionExpression(node.initializer))
    ) {
      found.set(node.name.getText(), [node.initializer]);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** What a function returns if it consists of that only; undefined for other functions. */
function onlyResult(node: ts.SignatureDeclaration): ts.Expression | "nothing" | undefined {
  const body = "body" in node ? node.body as ts.Node | undefined : undefined;
  if (body === undefined) return undefined;
  if (!ts.isBlock(body)) return body as ts.Expression;
  if (body.statements.length === 0) return "nothing";
  const [only] = body.statements;
  if (body.statements.length > 1 || !ts.isReturnStatement(only!)) return undefined;
  return only.expression;
}

/** True if a function returns what its caller asks for, whatever it takes. */
function returnsAnyType({ typeParameters, parameters, type }: ts.SignatureDeclaration): boolean {
  if (type === undefined || !ts.isTypeReferenceNode(type)) return false;
  const result = type.typeName.getText();
  const isOwn = typeParameters?.some(({ name }) => name.text === result) ?? false;
  const mentions = (node: ts.Node): boolean =>
    ts.isIdentifier(node) && node.text === result ||
    (ts.forEachChild(node, (child) => mentions(child) || undefined) ?? false);
  return isOwn && !parameters.some(({ type }) => type !== undefined && mentions(type));
}

/** True if the signatures of one function only give a value another type. */
function hidesCast(signatures: readonly ts.SignatureDeclaration[]): boolean {
  if (signatures.some(returnsAnyType)) return true;
  const implementation = signatures.find((one) => onlyResult(one) !== undefined);
  if (implementation === undefined) return false;
  let result = onlyResult(implementation)!;
  if (signatures.some(({ type }) => type !== undefined && ts.isTypePredicateNode(type))) {
    return result === "nothing" || result.kind === ts.SyntaxKind.TrueKeyword;
  }
  if (result === "nothing") return false;
  let asserted: string | undefined;
  for (result = bare(result); isAssertion(result); result = bare(result.expression)) {
    asserted ??= result.type.getText();
  }
  const name = result.getText();
  const place = implementation.parameters.findIndex((one) => one.name.getText() === name);
  if (place < 0) return false;
  return signatures.some(({ parameters, type }) => {
    const from = parameters[place]?.type?.getText();
    const to = type?.getText() ?? asserted;
    return to !== undefined && from !== to;
  });
}

/** The names that each file declares or imports, by path. */
function namesOf(sources: readonly Source[]): Map<string, Names> {
  const own = new Map<string, Names>();
  for (const { path, file } of sources) {
    const names: Names = { any: new Set(), never: new Set(), helpers: new Set() };
    for (const statement of file.statements) {
      if (!ts.isTypeAliasDeclaration(statement)) continue;
      if (statement.type.kind === ts.SyntaxKind.AnyKeyword) names.any.add(statement.name.text);
      if (statement.type.kind === ts.SyntaxKind.NeverKeyword) names.never.add(statement.name.text);
    }
    for (const [name, signatures] of functionsOf(file)) {
      if (hidesCast(signatures)) names.helpers.add(name);
    }
    own.set(path, names);
  }
  // What others export, under the names that the importer gives; aliases of aliases as well.
  for (let changed = true; changed;) {
    changed = false;
    for (const { path, file } of sources) {
      const names = own.get(path)!;
      const take = (from: Names | undefined, theirs: string, mine: string): void => {
        for (const kind of ["any", "never", "helpers"] as const) {
          if (!from?.[kind].has(theirs) || names[kind].has(mine)) continue;
          names[kind].add(mine);
          changed = true;
        }
      };
      for (const statement of file.statements) {
        if (ts.isTypeAliasDeclaration(statement) && ts.isTypeReferenceNode(statement.type)) {
          take(names, statement.type.typeName.getText(), statement.name.text);
        }
        const clause = ts.isImportDeclaration(statement)
          ? statement.importClause?.namedBindings
          : ts.isExportDeclaration(statement)
          ? statement.exportClause
          : undefined;
        if (clause === undefined || !("elements" in clause)) continue;
        const { moduleSpecifier } = statement as ts.ImportDeclaration | ts.ExportDeclaration;
        if (moduleSpecifier === undefined || !ts.isStringLiteral(moduleSpecifier)) continue;
        const target = new URL(moduleSpecifier.text, `file:///${path}`).pathname.slice(1);
        for (const element of clause.elements) {
          const theirs = (element.propertyName ?? element.name).text;
          take(own.get(target), theirs, element.name.text);
        }
      }
    }
  }
  return own;
}

// ---- reasons -----------------------------------------------------------------------------------

const TOOLS = /^(deno-|mutate:|@ts-|eslint|biome|c8 |v8 |#region|#endregion)/;

/** True if a comment has words, and is none of a tool. */
function isReason(comment: string): boolean {
  const text = comment.replace(/^\/\/+\s*/, "");
  return !TOOLS.test(text) && (text.match(/\p{L}{2,}/gu) ?? []).length >= 3;
}

/** The statement or member that contains a node. */
function unitOf(node: ts.Node): ts.Node {
  while (
    !ts.isSourceFile(node.parent) && !ts.isBlock(node.parent) && !ts.isClassLike(node.parent) &&
    !ts.isInterfaceDeclaration(node.parent) && !ts.isTypeLiteralNode(node.parent) &&
    !ts.isModuleBlock(node.parent) && !ts.isCaseOrDefaultClause(node.parent)
  ) node = node.parent;
  return node;
}

/** The units beside a unit, in order. */
function siblingsOf(unit: ts.Node): readonly ts.Node[] {
  const { parent } = unit;
  if ("statements" in parent) return parent.statements as ts.NodeArray<ts.Node>;
  return "members" in parent ? parent.members as ts.NodeArray<ts.Node> : [];
}

/** Finds reasons in one file. */
class Reasons {
  /** Lines with a comment that can be a reason → whether nothing else is in the line. */
  readonly #comments = new Map<number, boolean>();
  readonly #source: Source;

  constructor(source: Source) {
    this.#source = source;
    const { file, lines } = source;
    const seen = new Set<number>();
    const note = (start: number, end: number, kind: ts.SyntaxKind): void => {
      if (seen.has(start) || kind !== ts.SyntaxKind.SingleLineCommentTrivia) return;
      seen.add(start);
      const line = this.lineAt(start);
      const alone = lines[line]!.trimStart().startsWith("//");
      if (isReason(file.text.slice(start, end))) this.#comments.set(line, alone);
    };
    const visit = (node: ts.Node): void => {
      ts.forEachLeadingCommentRange(file.text, node.getFullStart(), note);
      ts.forEachTrailingCommentRange(file.text, node.getEnd(), note);
      node.getChildren(file).forEach(visit);
    };
    visit(file);
  }

  lineAt(place: number): number {
    return this.#source.file.getLineAndCharacterOfPosition(place).line;
  }

  /** True if a comment with a reason is directly above a line, or above other comments there. */
  #above(line: number): boolean {
    for (let at = line - 1; at >= 0; at--) {
      const text = this.#source.lines[at]!.trimStart();
      if (!/^(\/\/|\/\*\*|\*)/.test(text)) return false;
      if (this.#comments.get(at) === true) return true;
    }
    return false;
  }

  #within(first: number, last: number): boolean {
    for (let line = first; line <= last; line++) if (this.#comments.has(line)) return true;
    return false;
  }

  has(node: ts.Node, hasCasts: (unit: ts.Node) => boolean): boolean {
    const [first, last] = [this.lineAt(node.getStart()), this.lineAt(node.getEnd())];
    if (this.#within(first, last) || this.#above(first) || this.#above(last)) return true;
    return this.#unitHas(unitOf(node), hasCasts);
  }

  #unitHas(unit: ts.Node, hasCasts: (unit: ts.Node) => boolean): boolean {
    const first = this.lineAt(unit.getStart());
    if (this.#above(first)) return true;
    const siblings = siblingsOf(unit);
    const before = siblings[siblings.indexOf(unit) - 1];
    if (before === undefined || !hasCasts(before)) return false;
    const last = this.lineAt(before.getEnd());
    if (this.#source.lines.slice(last, first).some((text) => text.trim() === "")) return false;
    return this.#within(last, last) || this.#unitHas(before, hasCasts);
  }
}

// ---- the casts of one file ---------------------------------------------------------------------

const DIRECTIVE = /^\/[/*]+\s*@ts-(ignore|expect-error|nocheck)/;

/** True for an implementation that the compiler relates to any overload, or for one of `never`. */
function isLooseSignature(node: ts.Node): boolean {
  if (!(ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node))) return false;
  if (node.body === undefined || node.name === undefined) return false;
  const name = node.name.getText();
  const overloads = siblingsOf(node).filter((other) =>
    other !== node && (ts.isFunctionDeclaration(other) || ts.isMethodDeclaration(other)) &&
    other.name?.getText() === name && other.body === undefined
  ) as ts.SignatureDeclaration[];
  if (overloads.length === 0) return false;
  if (overloads.some(({ type }) => type?.kind === ts.SyntaxKind.NeverKeyword)) return true;
  const rest = node.parameters.at(-1);
  if (rest?.dotDotDotToken !== undefined && rest.type?.getText() === "never[]") return true;
  return node.type === undefined || [
    ts.SyntaxKind.UnknownKeyword,
    ts.SyntaxKind.ObjectKeyword,
    ts.SyntaxKind.NeverKeyword,
  ].includes(node.type.kind);
}

function castsOf(source: Source, names: Names): Cast[] {
  const { path, file } = source;
  const found: { node: ts.Node; form: Form }[] = [];
  const visit = (node: ts.Node): void => {
    if (isAssertion(node)) {
      const inner = bare(node.expression);
      const outer = ts.findAncestor(node.parent, (one) => bare(one as ts.Expression) === one)!;
      const isInner = isAssertion(outer) && bare(outer.expression) === node;
      if (containsNever(node.type, names.never)) found.push({ node, form: "never" });
      else if (isAssertion(inner) && !isInner) found.push({ node, form: "double" });
    } else if (node.kind === ts.SyntaxKind.AnyKeyword) {
      found.push({ node, form: "any" });
    } else if (ts.isTypeReferenceNode(node) && names.any.has(node.typeName.getText())) {
      found.push({ node, form: "any" });
    } else if (ts.isCallExpression(node)) {
      const callee = ts.isPropertyAccessExpression(node.expression)
        ? node.expression.name
        : node.expression;
      if (names.helpers.has(callee.getText())) found.push({ node, form: "helper" });
    } else if (isLooseSignature(node)) {
      found.push({ node: (node as ts.FunctionDeclaration).name!, form: "signature" });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  const units = new Set(found.map(({ node }) => unitOf(node)));
  // Finding comments takes longer than finding casts, of which few files have any.
  const reasons = found.length === 0 ? undefined : new Reasons(source);
  const casts = found.map(({ node, form }): Cast => ({
    path,
    line: reasons!.lineAt(node.getStart()) + 1,
    form,
    hasReason: reasons!.has(node, (unit) => units.has(unit)),
  }));
  source.lines.forEach((text, i) => {
    if (!DIRECTIVE.test(text.trimStart())) return;
    const hasReason = /@ts-[a-z-]+\W+(\p{L}+\W+){2,}\p{L}+/u.test(text);
    casts.push({ path, line: i + 1, form: "directive", hasReason });
  });
  return casts.sort((a, b) => a.line - b.line);
}

/** The casts of files, given as path → text. */
export function findCasts(files: ReadonlyMap<string, string>): Cast[] {
  const code = [...files].filter(([path]) => path.endsWith(".ts"));
  const sources = code.map(([path, text]): Source => ({
    path,
    file: ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true),
    lines: text.split("\n"),
  }));
  const names = namesOf(sources);
  return sources.flatMap((source) => castsOf(source, names.get(source.path)!));
}

/** A table of counts: folders of src, and forms. */
export function table(casts: readonly Cast[]): string {
  const forms: Form[] = ["never", "double", "any", "helper", "signature", "directive"];
  const folderOf = ({ path }: Cast): string => path.split("/").slice(0, -1).slice(0, 2).join("/");
  const row = (name: string, of: readonly Cast[]): string =>
    [
      name.padEnd(20),
      ...forms.map((form) => String(of.filter((cast) => cast.form === form).length)),
      String(of.length),
    ].map((cell, i) => i === 0 ? cell : cell.padStart(10)).join("");
  const folders = [...new Set(casts.map(folderOf))].sort();
  return [
    ["".padEnd(20), ...[...forms, "all"].map((form) => form.padStart(10))].join(""),
    ...folders.map((folder) => row(folder, casts.filter((cast) => folderOf(cast) === folder))),
    row("all", casts),
  ].join("\n");
}

if (import.meta.main) {
  const casts = findCasts(readFolder("src"));
  console.log(table(casts));
  for (const { path, line, form, hasReason } of casts) {
    if (!hasReason) console.log(`${path}:${line}: a cast (${form}) without a reason`);
    else if (process.argv.includes("--list")) console.log(`${path}:${line}: ${form}`);
  }
  if (casts.some(({ hasReason }) => !hasReason)) process.exitCode = 1;
}
