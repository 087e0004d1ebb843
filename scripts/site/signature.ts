/**
 * Signatures for readers: what a caller passes and gets, without the type functions that check
 * shapes (`t.Guard<t.Binary<"add", X, U>, U>` is a `TensorOrScalar`).
 *
 * Reads types as `deno doc --json` describes them. Knows nothing of pages.
 *
 * @module
 */
import { TABLE } from "../../src/table/table.ts";

/** A type in the output of `deno doc --json`. */
export interface DocType {
  readonly kind: string;
  readonly repr?: string;
  // Its form depends on the kind.
  // deno-lint-ignore no-explicit-any
  readonly value?: any;
}

/** A parameter of a function. */
export interface DocParam {
  readonly kind: string;
  readonly name?: string;
  readonly optional?: boolean;
  readonly tsType?: DocType;
  /** The parameter before a default value. */
  readonly left?: DocParam;
  /** The parameter after `...`. */
  readonly arg?: DocParam;
}

/** A type parameter. */
export interface DocTypeParam {
  readonly name: string;
  readonly constraint?: DocType;
}

/** A function or method. */
export interface DocFunction {
  readonly params: readonly DocParam[];
  readonly returnType?: DocType;
  readonly typeParams?: readonly DocTypeParam[];
}

/** The texts that type parameters in scope stand for. */
type Scope = ReadonlyMap<string, string>;

/** The columns of a code block that fit beside the sidebars. */
export const WIDTH = 70;

/** Types by what they are for a reader, whatever their type arguments. */
const PLAIN: Readonly<Record<string, string>> = {
  BinaryDType: "DType",
  BinaryShape: "Shape",
  Gradients: "Tensor | Tensor[]",
  OneAxis: "FftOptions",
  QuantilesOf: "Tensor",
  Scanned: "Tensor",
  SecondOperand: "TensorOrScalar",
  Ternary: "Tensor",
  BigItem: "number | bigint | boolean",
  DataArg: "TensorData",
  IndexShape: "Shape",
  Item: "number | boolean",
  LikeOptions: "CreateOptions",
  KernelFunction: "KernelFunction",
  MatrixTransposeOf: "Tensor",
  OnDevice: "Device",
  OperandDType: "DType",
  ResultDType: "DType",
  RowOf: "Tensor",
  ShapeOf: "Shape",
  ToArray: "Nested",
  TransposeOf: "Tensor",
  Typed: "AnyTensor",
  OfShape: "Tensor[]",
  TypedArrayOf: "TypedArray",
  View: "Tensor",
};

/** Types of the language, whose arguments matter. */
const STANDARD =
  /^(Attempt|Promise|Record|Readonly|Iterable\w*|Array|Generator|Uint8Array|Exclude|Set|Map)$/;

/** The parameters of the class Tensor. */
const OF_TENSOR: Scope = new Map([["D", "DType"], ["S", "Shape"], ["V", "Device"], [
  "A",
  "Access",
]]);

function scopeOf(params: readonly DocTypeParam[] = [], outer: Scope): Scope {
  const scope = new Map(outer);
  for (const { name, constraint } of params) {
    scope.set(name, constraint === undefined ? name : renderType(constraint, scope));
  }
  return scope;
}

/** The result of an elementwise op: of bool where the op table says so whatever the operands are. */
function renderElementwise({ value }: DocType): string {
  const op = TABLE.find(({ name }) => name === value.string);
  return op?.result === "bool" ? 'Tensor<"bool">' : "Tensor";
}

/** The dtype and the shape of a tensor as far as they are the same in all calls. */
function renderTensor(args: readonly DocType[], scope: Scope): string {
  const fixed = (type: DocType | undefined): string | undefined => {
    if (type === undefined) return undefined;
    if (type.kind !== "literal" && type.kind !== "tuple") return undefined;
    return renderType(type, scope);
  };
  const [dtype, shape] = [fixed(args[0]), fixed(args[1])];
  if (shape !== undefined) return `Tensor<${dtype ?? "DType"}, ${shape}>`;
  return dtype === undefined ? "Tensor" : `Tensor<${dtype}>`;
}

function renderRef(name: string, args: readonly DocType[], scope: Scope): string {
  // Names of modules inside the library.
  const own = name.replace(/^\w+\./, "");
  const bound = scope.get(own);
  if (bound !== undefined) return bound;
  if (own === "Tensor") return renderTensor(args, scope);
  if (own === "Elementwise") return renderElementwise(args[0]!);
  if (own === "Reduced") return renderTensor(args.slice(4), scope);
  // What a type function checks is its last argument.
  if (/^(Guard|GuardRest|Writable|NoInfer|OperandOf|OperandInPlace)$/.test(own)) {
    return renderType(args.at(-1)!, scope);
  }
  if (own in PLAIN) return PLAIN[own]!;
  // Lists of tensors whose number only the compiler uses.
  if (/^(TupleOf|Parts)$/.test(own)) return `${renderType(args.at(-1)!, scope)}[]`;
  if (args.length === 0 || !STANDARD.test(own)) return own;
  return `${own}<${args.map((arg) => renderType(arg, scope)).join(", ")}>`;
}

function renderIndexed(object: DocType, index: DocType, scope: Scope): string {
  const key = index.kind === "literal" ? index.value.string : undefined;
  const known: Readonly<Record<string, string>> = {
    dtype: "DType",
    shape: "Shape",
    device: "Device",
    access: "Access",
    length: "number",
  };
  return (key === undefined ? undefined : known[key]) ?? renderType(object, scope);
}

/** One line without repeated members. */
function union(parts: readonly string[]): string {
  return [...new Set(parts.flatMap((part) => /[({<[]/.test(part) ? [part] : part.split(" | ")))]
    .join(" | ");
}

/** The text of a type for a reader. */
export function renderType(type: DocType, scope: Scope = OF_TENSOR): string {
  const render = (inner: DocType): string => renderType(inner, scope);
  const { kind, value } = type;
  switch (kind) {
    case "keyword":
      // Only the compiler knows what functions return whose type is asserted.
      return value === "never" ? "Tensor" : value;
    case "literal":
      return value.kind === "string" ? JSON.stringify(value.string) : type.repr!;
    case "this":
      return "this";
    case "typeRef":
      return renderRef(value.typeName, value.typeParams ?? [], scope);
    case "union":
      return union(value.map(render));
    case "intersection":
      // A type parameter says nothing next to what limits it.
      return value.map(render).filter((text: string) => scope.get(text) !== text).join(" & ");
    case "array": {
      const inner = render(value);
      return / (\||&|=>) /.test(inner.replace(/<.*>|\{.*\}/g, "")) ? `(${inner})[]` : `${inner}[]`;
    }
    case "tuple":
      return `[${value.map(render).join(", ")}]`;
    case "rest":
      return `...${render(value)}`;
    case "parenthesized":
      return `(${render(value)})`;
    case "typeOperator":
      return value.operator === "keyof" ? "string" : render(value.tsType);
    case "indexedAccess":
      return renderIndexed(value.objType, value.indexType, scope);
    case "conditional":
      return render(value.falseType);
    case "fnOrConstructor":
      return `(${renderParams(value.params, scope)}) => ${render(value.tsType)}`;
    case "typeLiteral":
      return renderLiteral(value, scope);
    default:
      throw new Error(`No text for the type ${type.repr ?? kind}`);
  }
}

// deno-lint-ignore no-explicit-any
function renderLiteral({ properties = [], methods = [], indexSignatures = [] }: any, scope: Scope) {
  const members = [
    // deno-lint-ignore no-explicit-any
    ...properties.map(({ name, optional, tsType }: any) =>
      `${/^\w+$/.test(name) ? name : JSON.stringify(name)}${optional ? "?" : ""}: ` +
      renderType(tsType, scope)
    ),
    // deno-lint-ignore no-explicit-any
    ...methods.map((method: any) => renderSignature(method.name, method, scope)),
    // deno-lint-ignore no-explicit-any
    ...indexSignatures.map(({ params, tsType }: any) =>
      `[${renderParams(params, scope)}]: ${renderType(tsType, scope)}`
    ),
  ];
  return `{ ${members.join("; ")} }`;
}

function renderParam(param: DocParam, scope: Scope): string {
  if (param.kind === "assign") return renderParam({ ...param.left!, optional: true }, scope);
  if (param.kind === "rest") {
    const type = param.tsType ?? param.arg!.tsType!;
    return `...${param.arg!.name}: ${renderType(type, scope)}`;
  }
  // Parameters that are taken apart are options.
  const name = param.name ?? "options";
  if (param.tsType === undefined) return name;
  const type = renderType(param.tsType, scope);
  return param.optional ? `${name}?: ${type.replace(/ \| undefined$/, "")}` : `${name}: ${type}`;
}

function renderParams(params: readonly DocParam[], scope: Scope): string {
  return params.filter(({ name }) => name !== "this").map((param) => renderParam(param, scope))
    .join(", ");
}

/** `name(param: type, …): type`, on several lines if one is too short. */
export function renderSignature(name: string, def: DocFunction, outer: Scope = OF_TENSOR): string {
  const scope = new Map(scopeOf(def.typeParams, outer));
  const self = def.params.find((param) => param.name === "this")?.tsType;
  const returned = def.returnType;
  // A method that returns the tensor it is called on.
  const chained = self !== undefined && returned?.kind === "typeRef" &&
    returned.value.typeName === "X";
  const result = returned === undefined
    ? ""
    : `: ${chained ? "this" : renderType(returned, scope)}`;
  const params = def.params.filter((param) => param.name !== "this")
    .map((param) => renderParam(param, scope));
  const free = (def.typeParams ?? []).map((param) => param.name)
    .filter((one) => [...params, result].some((text) => new RegExp(`\\b${one}\\b`).test(text)));
  const head = free.length > 0 ? `${name}<${free.join(", ")}>` : name;
  const line = `${head}(${params.join(", ")})${result}`;
  if (line.length <= WIDTH) return line;
  return `${head}(\n${params.map((param) => `  ${param},\n`).join("")})${result}`;
}

/** The fields of an interface or class as text: `name?: type`. */
export function renderField(
  name: string,
  type: DocType | undefined,
  optional: boolean,
  typeParams: readonly DocTypeParam[] = [],
): string {
  const scope = scopeOf(typeParams, OF_TENSOR);
  return `${name}${optional ? "?" : ""}${type ? `: ${renderType(type, scope)}` : ""}`;
}
