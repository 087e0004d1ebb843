/**
 * Finds every parameter of the public interface that takes a list, by the type checker: arrays,
 * tuples and nested ones, alone, in unions or in options.
 *
 * Knows nothing of what is called.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { root } from "../../scripts/tools.ts";

/** How deep options may contain lists. */
const DEPTH = 2;

/** All entry points that deno.json exports. */
function entryPoints(): string[] {
  const { exports } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
  return Object.values<string>(exports).map((path) => join(root, path));
}

/** A parameter that takes a list. */
export interface ListParameter {
  /** `function`, `namespace.function` or `Class.method`. */
  readonly owner: string;
  /** Its parameters, as far as a call needs them. */
  readonly parameters: readonly string[];
  /** The place of the parameter, and whether it takes all further arguments. */
  readonly at: number;
  readonly rest: boolean;
  /** The option that is the list, as a path; empty if the parameter is. */
  readonly option: readonly string[];
}

/** The name of a parameter in tables: `owner parameter.option`. */
export function keyOf({ owner, parameters, at, option }: ListParameter): string {
  return `${owner} ${[parameters[at]!, ...option].join(".")}`;
}

class Finder {
  readonly found = new Map<string, ListParameter>();
  readonly #checker: ts.TypeChecker;
  readonly #visited = new Set<ts.Symbol>();

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker;
  }

  /** Visits what a module or a namespace exports. */
  visitExports(module: ts.Symbol, prefix: string): void {
    for (const symbol of this.#checker.getExportsOfModule(module)) {
      this.#visit(symbol, prefix + symbol.name);
    }
  }

  #visit(given: ts.Symbol, name: string): void {
    const checker = this.#checker;
    const symbol = given.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(given) : given;
    if (this.#visited.has(symbol)) return;
    this.#visited.add(symbol);
    if (symbol.flags & ts.SymbolFlags.Module) return this.visitExports(symbol, `${name}.`);
    const declaration = symbol.valueDeclaration ?? symbol.declarations?.[0];
    if (declaration === undefined) return;
    if (symbol.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) {
      this.#visitMembers(checker.getDeclaredTypeOfSymbol(symbol), name);
    }
    if (symbol.flags & ts.SymbolFlags.Value) {
      this.#visitSignatures(checker.getTypeOfSymbolAtLocation(symbol, declaration), name);
    }
  }

  /** Methods of a class or an interface; those of options are what the caller passes. */
  #visitMembers(type: ts.Type, name: string): void {
    for (const member of type.getProperties()) {
      const declaration = member.valueDeclaration;
      if (declaration === undefined || !declaration.getSourceFile().fileName.startsWith(root)) {
        continue;
      }
      if (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private) continue;
      if (member.name.startsWith("#")) continue;
      if (ts.getJSDocTags(member.valueDeclaration!).some((t) => t.tagName.text === "internal")) {
        continue;
      }
      this.#visitSignatures(
        this.#checker.getTypeOfSymbolAtLocation(member, declaration),
        `${name}.${member.name}`,
      );
    }
  }

  #visitSignatures(type: ts.Type, name: string): void {
    for (const signature of [...type.getCallSignatures(), ...type.getConstructSignatures()]) {
      const all = signature.getParameters();
      const isOptional = ({ valueDeclaration: d }: ts.Symbol): boolean =>
        d !== undefined && ts.isParameter(d) &&
        (d.questionToken !== undefined || d.initializer !== undefined);
      const needed = all.filter((one) => !isOptional(one)).length;
      for (const [at, parameter] of all.entries()) {
        const declaration = parameter.valueDeclaration;
        if (declaration === undefined) continue;
        const own = this.#checker.getTypeOfSymbolAtLocation(parameter, declaration);
        const rest = ts.isParameter(declaration) && declaration.dotDotDotToken !== undefined;
        const parameters = all.slice(0, Math.max(needed, at + 1)).map((one) => one.name);
        const base = { owner: name, parameters, at, rest };
        this.#visitType(rest ? this.#elementOf(own) : own, base, []);
      }
    }
  }

  #elementOf(list: ts.Type): ts.Type {
    const constraint = this.#checker.getBaseConstraintOfType(list) ?? list;
    return this.#checker.getIndexTypeOfType(constraint, ts.IndexKind.Number) ?? constraint;
  }

  #visitType(given: ts.Type, base: Omit<ListParameter, "option">, option: string[]): void {
    const checker = this.#checker;
    const type = checker.getBaseConstraintOfType(given) ?? given;
    if (type.flags & ts.TypeFlags.Any) return;
    if (type.isUnionOrIntersection()) {
      for (const one of type.types) this.#visitType(one, base, option);
      return;
    }
    if (checker.isArrayLikeType(type) || checker.isTupleType(type)) {
      const one = { ...base, option };
      if (!this.found.has(keyOf(one))) this.found.set(keyOf(one), one);
      return;
    }
    if (!(type.flags & ts.TypeFlags.Object) || option.length >= DEPTH) return;
    if (type.getCallSignatures().length > 0 || type.isClass()) return;
    for (const member of type.getProperties()) {
      const declaration = member.valueDeclaration;
      if (declaration === undefined || !declaration.getSourceFile().fileName.startsWith(root)) {
        return;
      }
      if (!ts.isPropertySignature(declaration)) continue;
      const own = checker.getTypeOfSymbolAtLocation(member, declaration);
      this.#visitType(own, base, [...option, member.name]);
    }
  }
}

/** All of them, by name. */
export function findListParameters(): ReadonlyMap<string, ListParameter> {
  const files = entryPoints();
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    allowImportingTsExtensions: true,
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    types: ["node"],
    lib: ["lib.esnext.d.ts"],
  });
  const checker = program.getTypeChecker();
  const finder = new Finder(checker);
  for (const file of files) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file)!);
    finder.visitExports(module!, "");
  }
  return finder.found;
}
