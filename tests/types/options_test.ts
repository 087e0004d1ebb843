/**
 * Options after arguments that are omitted: `out` is written whatever comes before it. The compiler
 * finds the functions and methods.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";
import * as rm from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { root } from "../../scripts/tools.ts";
import { type Any, loose } from "../support.ts";

/** A function, or a method of `Tensor`, with options that contain `out` after optional parameters. */
interface Signature {
  readonly name: string;
  /** The parameters before the options. */
  readonly parameters: readonly { readonly name: string; readonly optional: boolean }[];
}

function signatures(): Signature[] {
  const files = [join(root, "mod.ts"), join(root, "src", "nn", "mod.ts")];
  const program = ts.createProgram(files, {
    allowImportingTsExtensions: true,
    noEmit: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    strict: true,
    types: [],
  });
  const checker = program.getTypeChecker();
  const hasOut = (type: ts.Type): boolean =>
    type.isUnion() ? type.types.some(hasOut) : type.getProperty("out") !== undefined;
  const found: Signature[] = [];
  const look = (name: string, type: ts.Type): void => {
    for (const { parameters } of type.getCallSignatures()) {
      const own = parameters.filter((one) => one.name !== "this");
      const at = own.findIndex((one, k) => k > 0 && hasOut(checker.getTypeOfSymbol(one)));
      if (at === -1) continue;
      const before = own.slice(0, at).map((one) => {
        const { questionToken, initializer } = one.valueDeclaration as ts.ParameterDeclaration;
        return { name: one.name, optional: (questionToken ?? initializer) !== undefined };
      });
      if (before.some(({ optional }) => optional)) found.push({ name, parameters: before });
    }
  };
  const own = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const exportsOf = (module: ts.Symbol, prefix: string): void => {
    for (const given of checker.getExportsOfModule(module)) {
      const symbol = own(given);
      if (symbol.flags & ts.SymbolFlags.ValueModule) exportsOf(symbol, `${given.name}.`);
      else look(prefix + given.name, checker.getTypeOfSymbol(symbol));
      if (given.name !== "Tensor") continue;
      for (const method of checker.getDeclaredTypeOfSymbol(symbol).getProperties()) {
        look(`tensor.${method.name}`, checker.getTypeOfSymbol(method));
      }
    }
  };
  for (const [k, file] of files.entries()) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file)!)!;
    exportsOf(module, k === 0 ? "" : "nn.");
  }
  return found;
}

/** Tensors that arguments are, in turn, until a function takes them. */
const OPERANDS = [rm.tensor([1.5, -2.25, 3]), rm.eye(3), rm.tensor([1.5, -2, 3, 0.5])];

/** A required argument by its name. */
function argument(name: string, x: rm.AnyTensor): unknown {
  if (name === "q") return 0.5;
  return name === "tensors" ? [x, x] : name === "weight" ? rm.eye(x.shape[0]!) : x;
}

/** The function of a signature for an operand, given the options. */
function callOf({ name, parameters }: Signature, x: rm.AnyTensor): (options?: object) => Any {
  const [space, method] = name.includes(".") ? name.split(".") as [string, string] : ["", name];
  const from: Any = space === "tensor"
    ? x
    : space === "nn"
    ? nn
    : space === ""
    ? rm
    : loose(rm)[space];
  const before = parameters.map((one) => one.optional ? undefined : argument(one.name, x));
  return (options) => from[method](...before, options);
}

test("out after omitted arguments is written", { timeout: 120_000 }, () => {
  const all = signatures();
  assert(all.length > 40 && all.some(({ name }) => name === "tensor.round"), `${all.length}`);
  for (const signature of all) {
    const call = OPERANDS.map((x) => callOf(signature, x)).find((one) => {
      try {
        return one() !== undefined;
      } catch {
        return false;
      }
    });
    assert(call !== undefined, `no operand is one of ${signature.name}`);
    const wanted = call();
    const out = loose(rm.full)(wanted.shape, wanted.dtype === "bool" ? true : 77, {
      dtype: wanted.dtype,
    });
    assert(call({ out }) === out, `${signature.name} does not return out`);
    assertEquals(out.toArray(), wanted.toArray(), signature.name);
  }
});

test("round_ takes decimals, as round does", () => {
  const x = rm.tensor([1.26, -2.55, 3.449]);
  const wanted = x.round(1).toArray();
  assert(x.round_(1) === x);
  assertEquals(x.toArray(), wanted);
  assertEquals(x.round_().toArray(), [1, -3, 3]);
  const y = rm.tensor([[1234, 5678], [1259, 15]], { dtype: "int32" });
  y.T.slice(0).round_(-1);
  assertEquals(y.toArray(), [[1230, 5678], [1260, 15]]);
  assertEquals(rm.tensor([0.5, 1.26]).round(undefined).toArray(), [0, 1]);
});
