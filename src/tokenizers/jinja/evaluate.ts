/**
 * Renders the tree of a template as Python's Jinja does in transformers, or throws: it never renders
 * another text. Steps and characters are counted, so that no template runs without end.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import type { Call, Identifier, Node, Parameter, TupleLiteral } from "./ast.ts";
import { checked, filterOf, itemOf, memberOf, testOf } from "./filters.ts";
import { dateText, formatText } from "./format.ts";
import { bind, sliceOf } from "./methods.ts";
import {
  type Arguments,
  Callable,
  charge,
  compare,
  contains,
  type Dict,
  equals,
  Fixed,
  Float,
  integerOf,
  isList,
  iterate,
  type Key,
  Namespace,
  numberOf,
  orUndefined,
  Safe,
  sequenceOf,
  str,
  textOf,
  truth,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from "./values.ts";
import { beginWork, fail, ITEM, spend, spendText, STEP } from "./work.ts";

/** The most items of a range, and macros inside each other. */
const MOST_RANGE = 100_000, MOST_CALLS = 200;
/** The steps that a turn of a loop counts for, and a call of a macro. */
const TURN = 3, MACRO = 6;

/** Names that are no variables. */
const CONSTANTS: Readonly<Record<string, Value>> = {
  ...{ true: true, True: true, false: false, False: false, none: null, None: null },
};
/** Filters that treat a safe text as any other. */
const OF_SAFE: ReadonlySet<string> = new Set([
  "default",
  "d",
  "length",
  "string",
  "tojson",
  "replace",
]);
/** Words of the language. */
const WORDS: ReadonlySet<string> = new Set(["not", "in", "is", "and", "or", "if", "else"]);
/** Names that Jinja has and this does not. */
const OTHER_NAMES: ReadonlySet<string> = new Set(["self", "super", "cycler", "joiner", "lipsum"]);
const COMPARISONS: ReadonlySet<string> = new Set([
  ...["==", "!=", "<", "<=", ">", ">=", "in", "not in"],
]);

/** A parsed template. */
export interface Tree {
  readonly body: readonly Node[];
  /** Whether + and ~ are beside each other somewhere, without parentheses: Jinja joins texts first. */
  readonly isMixed: boolean;
}

/** Variables, and those around them. */
class Scope {
  readonly #values = new Map<string, Value>();
  readonly #outer: Scope | undefined;

  constructor(outer: Scope | undefined) {
    this.#outer = outer;
  }

  get(name: string): Value | undefined {
    let value = this.#values.get(name);
    for (
      let outer = this.#outer;
      value === undefined && outer !== undefined;
      outer = outer.#outer
    ) {
      spend(ITEM);
      value = outer.#values.get(name);
    }
    return value;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

/** What ends a block before its end. */
type Ending = "break" | "continue" | undefined;

function rangeOf({ list, named }: Arguments): Value {
  if (named.size > 0 || list.length < 1 || list.length > 3) fail("the arguments of range()");
  const numbers = list.map((one) => integerOf(one, "an argument of range()"));
  const [start, stop, step = 1] = numbers.length === 1 ? [0, ...numbers] : numbers;
  if (step === 0) fail("the step of range() is 0");
  const count = Math.max(0, Math.ceil((stop! - start!) / step));
  if (count > MOST_RANGE) fail(`a range of ${count} numbers, above ${MOST_RANGE}`);
  const print = `range(${start}, ${stop}${step === 1 ? "" : `, ${step}`})`;
  spend(ITEM * count);
  return new View(Array.from({ length: count }, (_, i) => start! + i * step), print, true);
}

/** The dict that arguments make: of a dict, of pairs, and of names. */
function dictOf({ list, named }: Arguments): Dict {
  if (list.length > 1) fail("more than one argument of dict()");
  const dict: Dict = new Map();
  const [given] = list;
  const pairs = given instanceof Map ? [...given].map((item) => new Tuple(item)) : given;
  for (const pair of pairs === undefined ? [] : iterate(pairs)) {
    const items = iterate(pair);
    const [key, value] = items;
    if (items.length !== 2) fail("dict() of what are no pairs");
    dict.set(newKey(key!), value!);
  }
  for (const [key, value] of named) dict.set(key, value);
  return dict;
}

/** A key that a dict gets. */
function newKey(value: Value): Key {
  if (typeof value === "string" || typeof value === "number") return value;
  return fail(`a dict with a key that is a ${typeName(value)}`);
}

/** The values of names. */
function namesOf(dict: Dict): Map<string, Value> {
  return new Map([...dict].map(([key, value]) => [textOf(key, "a name"), value]));
}

/** Whether a name is in a part of the tree. */
function hasName(part: unknown, name: string): boolean {
  if (typeof part !== "object" || part === null) return false;
  if (part instanceof Map) return hasName([...part.keys(), ...part.values()], name);
  const { type, value } = part as { readonly type?: unknown; readonly value?: unknown };
  if (type === "Identifier") return value === name;
  return Object.values(part).some((one) => hasName(one, name));
}

/** A text in HTML, as Python's markupsafe writes it. */
function escapeHtml(text: string): string {
  const escapes: Readonly<Record<string, string>> = {
    ...{ "&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;" },
  };
  return text.replace(/[&<>'"]/g, (char) => escapes[char]!);
}

/** An attribute of the variable `loop` in a turn. */
function turnOf(
  name: string,
  items: readonly Value[],
  i: number,
  isChanged: (args: Arguments) => Value,
): Value | undefined {
  const { length } = items;
  switch (name) {
    case "index":
      return i + 1;
    case "index0":
      return i;
    case "revindex":
      return length - i;
    case "revindex0":
      return length - i - 1;
    case "first":
      return i === 0;
    case "last":
      return i === length - 1;
    case "length":
      return length;
    case "previtem":
      return orUndefined(items[i - 1], "the previous item");
    case "nextitem":
      return orUndefined(items[i + 1], "the next item");
    case "cycle":
      return new Callable(({ list }) =>
        list.length === 0 ? fail("cycle() without values") : list[i % list.length]!
      );
    case "changed":
      return new Callable(isChanged);
    default:
      return undefined;
  }
}

/** Renders a template once. */
class Renderer {
  readonly #now: Date;
  readonly #isMixed: boolean;
  /** Which of the special names the bodies of macros have. */
  readonly #special = new Map<readonly Node[], readonly boolean[]>();
  #calls = 0;

  constructor(now: Date, isMixed: boolean) {
    this.#now = now;
    this.#isMixed = isMixed;
  }

  /** The text of a template. */
  render(body: readonly Node[], variables: ReadonlyMap<string, Value>): string {
    const globals = new Scope(undefined);
    const define = (name: string, call: (args: Arguments) => Value): void =>
      globals.set(name, new Callable(call));
    define("range", rangeOf);
    define("dict", dictOf);
    define("namespace", (args) => new Namespace(namesOf(dictOf(args))));
    define("raise_exception", (args) => {
      const [message] = bind("raise_exception", args, ["message"], 1);
      throw new ArgumentError(`The chat template refuses the chat: ${str(message!).slice(0, 400)}`);
    });
    define("strftime_now", (args) => {
      const [pattern] = bind("strftime_now", args, ["format"], 1);
      return dateText(this.#now, str(pattern!));
    });
    const scope = new Scope(globals);
    for (const [name, value] of variables) scope.set(name, value);
    return this.#text(body, scope);
  }

  /** The text of statements. */
  #text(body: readonly Node[], scope: Scope): string {
    const parts: string[] = [];
    const ending = this.#run(body, scope, parts);
    if (ending !== undefined) fail(`${ending} outside of a loop`);
    return parts.join("");
  }

  /** Runs statements, whose text is appended. */
  #run(body: readonly Node[], scope: Scope, out: string[]): Ending {
    for (const node of body) {
      spend(STEP);
      switch (node.type) {
        case "Comment":
          break;
        case "Break":
          return "break";
        case "Continue":
          return "continue";
        case "If": {
          const branch = truth(this.#value(node.test, scope)) ? node.body : node.alternate;
          const ending = this.#run(branch, scope, out);
          if (ending !== undefined) return ending;
          break;
        }
        case "For":
          this.#loop(node, scope, out);
          break;
        case "Set":
          this.#set(node, scope);
          break;
        case "Macro":
          scope.set(node.name.value, this.#macro(node.args, node.body, scope));
          break;
        case "CallStatement": {
          const caller = this.#macro(node.callerArgs ?? [], node.body, scope);
          const callee = this.#value(node.call.callee, scope);
          const { list, named } = this.#arguments(node.call.args, scope);
          out.push(str(this.#call(callee, { list, named: new Map(named).set("caller", caller) })));
          break;
        }
        case "FilterStatement": {
          const text = this.#text(node.body, new Scope(scope));
          out.push(str(this.#filter(text, node.filter, scope)));
          break;
        }
        default: {
          const text = str(this.#value(node, scope));
          spendText(text.length);
          out.push(text);
        }
      }
    }
    return undefined;
  }

  #loop(node: Node & { readonly type: "For" }, scope: Scope, out: string[]): void {
    const { loopvar, iterable, body, defaultBlock } = node;
    const isFiltered = iterable.type === "SelectExpression";
    let items = iterate(this.#value(isFiltered ? iterable.lhs : iterable, scope));
    if (isFiltered) {
      items = items.filter((item) => {
        const inner = new Scope(scope);
        this.#assign(loopvar, item, inner);
        return truth(this.#value(iterable.test, inner));
      });
    }
    const { length } = items;
    // In Jinja, a turn that `break` or `continue` ends does not count.
    let isDone = false;
    let before: Value | undefined;
    for (let i = 0; i < length; i++) {
      spend(TURN * STEP);
      const inner = new Scope(scope);
      this.#assign(loopvar, items[i]!, inner);
      const isChanged = ({ list }: Arguments): Value => {
        const now = new Tuple(list);
        const isNew = before === undefined || !equals(before, now);
        before = now;
        return isNew;
      };
      inner.set("loop", new Fixed((name) => turnOf(name, items, i, isChanged)));
      const ending = this.#run(body, inner, out);
      if (ending === "break") break;
      isDone ||= ending === undefined;
    }
    if (isDone) return;
    const ending = this.#run(defaultBlock, new Scope(scope), out);
    if (ending !== undefined) fail(`${ending} outside of a loop`);
  }

  #assign(target: Node, value: Value, scope: Scope): void {
    if (target.type === "Identifier") {
      const name = target.value;
      if (Object.hasOwn(CONSTANTS, name) || WORDS.has(name)) fail(`an assignment to ${name}`);
      return scope.set(name, value);
    }
    if (target.type === "TupleLiteral") {
      const items = iterate(value);
      if (items.length !== target.value.length) {
        fail(`${items.length} values for ${target.value.length} variables`);
      }
      target.value.forEach((one, i) => this.#assign(one, items[i]!, scope));
      return;
    }
    if (target.type === "MemberExpression" && !target.computed) {
      const space = this.#value(target.object, scope);
      if (!(space instanceof Namespace)) fail("an assignment to an attribute of no namespace");
      if (target.property.type === "Identifier") {
        space.values.set(target.property.value, value);
        return;
      }
    }
    return fail("an assignment to what is no variable");
  }

  #set(node: Node & { readonly type: "Set" }, scope: Scope): void {
    if (node.value !== null) {
      return this.#assign(node.assignee, this.#value(node.value, scope), scope);
    }
    const text = this.#text(node.body, new Scope(scope));
    const filters: (Identifier | Call)[] = [];
    let target = node.assignee;
    while (target.type === "FilterExpression") {
      filters.unshift(target.filter);
      target = target.operand;
    }
    const made = filters.reduce<Value>((value, filter) => this.#filter(value, filter, scope), text);
    this.#assign(target, made, scope);
  }

  /** A macro, or the block of a call. */
  #macro(parameters: readonly Parameter[], body: readonly Node[], outer: Scope): Callable {
    let special = this.#special.get(body);
    if (special === undefined) {
      special = ["caller", "kwargs", "varargs"].map((name) => hasName(body, name));
      this.#special.set(body, special);
    }
    const [hasCaller, hasNamed, hasRest] = special;
    return new Callable(({ list, named }) => {
      spend(MACRO * STEP);
      if (++this.#calls > MOST_CALLS) fail(`more than ${MOST_CALLS} macros inside each other`);
      const scope = new Scope(outer);
      const rest = new Map(named);
      const nameOf = (one: Parameter): string =>
        one.type === "Identifier" ? one.value : one.key.value;
      const late: (Parameter & { readonly type: "KeywordArgumentExpression" })[] = [];
      parameters.forEach((parameter, i) => {
        const name = nameOf(parameter);
        const given = list[i] === undefined ? rest.get(name) : list[i];
        if (list[i] !== undefined && rest.has(name)) fail(`the argument ${name} twice`);
        rest.delete(name);
        if (given === undefined && parameter.type === "KeywordArgumentExpression") {
          late.push(parameter);
        }
        scope.set(name, orUndefined(given, name));
      });
      for (const { key, value } of late) scope.set(key.value, this.#value(value, scope));
      if (hasCaller) {
        scope.set("caller", orUndefined(rest.get("caller"), "caller"));
        rest.delete("caller");
      }
      if (hasNamed) scope.set("kwargs", new Map<Key, Value>(rest));
      else if (rest.size > 0) fail(`a macro does not take ${[...rest.keys()][0]}`);
      if (hasRest) scope.set("varargs", new Tuple(list.slice(parameters.length)));
      else if (list.length > parameters.length) fail("a macro has too many arguments");
      const text = this.#text(body, scope);
      this.#calls--;
      return text;
    });
  }

  #arguments(nodes: readonly Node[], scope: Scope): Arguments {
    const list: Value[] = [];
    const named = new Map<string, Value>();
    for (const node of nodes) {
      if (node.type === "SpreadExpression") {
        for (const one of iterate(this.#value(node.argument, scope))) list.push(one);
      } else if (node.type === "KeywordSpreadExpression") {
        const dict = this.#value(node.argument, scope);
        if (!(dict instanceof Map)) fail("** of what is no dict");
        for (const [key, value] of namesOf(dict)) named.set(key, value);
      } else if (node.type === "KeywordArgumentExpression") {
        named.set(node.key.value, this.#value(node.value, scope));
      } else list.push(this.#value(node, scope));
    }
    return { list, named };
  }

  #call(callee: Value, args: Arguments): Value {
    if (callee instanceof Undefined) callee.fail();
    if (!(callee instanceof Callable)) fail(`a ${typeName(callee)} is no function`);
    return charge(callee.call(args));
  }

  #filter(value: Value, filter: Identifier | Call, scope: Scope): Value {
    charge(value);
    const none: Arguments = { list: [], named: new Map() };
    const name = filter.type === "Identifier" ? filter : filter.callee;
    if (name.type !== "Identifier") return fail("a filter without a name");
    const args = filter.type === "Identifier" ? none : this.#arguments(filter.args, scope);
    if (name.value === "safe") {
      return value instanceof Safe ? value : new Safe(str(value));
    }
    if (value instanceof Safe && !OF_SAFE.has(name.value)) {
      fail(`the filter ${name.value} of a safe text`);
    }
    return charge(filterOf(name.value)(value, args));
  }

  /** The value of an expression. */
  #value(node: Node, scope: Scope): Value {
    spend(STEP);
    switch (node.type) {
      case "StringLiteral":
        return node.value;
      case "IntegerLiteral":
        return checked(node.value);
      case "FloatLiteral":
        return new Float(node.value);
      case "ArrayLiteral":
        return node.value.map((one) => this.#value(one, scope));
      case "TupleLiteral":
        return this.#tuple(node, scope);
      case "ObjectLiteral": {
        const dict: Dict = new Map();
        for (const [key, value] of node.value) {
          dict.set(newKey(this.#value(key, scope)), this.#value(value, scope));
        }
        return dict;
      }
      case "Identifier": {
        const name = node.value;
        if (Object.hasOwn(CONSTANTS, name)) return CONSTANTS[name]!;
        if (WORDS.has(name)) fail(`${name} in place of a value`);
        const value = scope.get(name);
        if (value === undefined && OTHER_NAMES.has(name)) fail(`the name ${name} is not known`);
        return orUndefined(value, name);
      }
      case "MemberExpression":
        return this.#member(node, scope);
      case "CallExpression": {
        const callee = this.#value(node.callee, scope);
        return this.#call(callee, this.#arguments(node.args, scope));
      }
      case "FilterExpression":
        return this.#filter(this.#value(node.operand, scope), node.filter, scope);
      case "TestExpression": {
        const is = testOf(node.test.value, [])(this.#value(node.operand, scope));
        return is !== node.negate;
      }
      case "UnaryExpression":
        return this.#unary(node.operator.value, this.#value(node.argument, scope));
      case "BinaryExpression":
        return this.#binary(node, scope);
      case "Ternary": {
        const isTrue = truth(this.#value(node.condition, scope));
        return this.#value(isTrue ? node.trueExpr : node.falseExpr, scope);
      }
      case "SelectExpression":
        if (truth(this.#value(node.test, scope))) return this.#value(node.lhs, scope);
        return new Undefined("the value of an `if` without `else`");
      default:
        return fail(`a ${node.type} in place of a value`);
    }
  }

  #tuple(node: TupleLiteral, scope: Scope): Value {
    return new Tuple(node.value.map((one) => this.#value(one, scope)));
  }

  #member(node: Node & { readonly type: "MemberExpression" }, scope: Scope): Value {
    const value = this.#value(node.object, scope);
    const { property, computed } = node;
    if (!computed) {
      return property.type === "Identifier"
        ? memberOf(value, property.value)
        : itemOf(value, this.#value(property, scope));
    }
    if (property.type !== "SliceExpression") return itemOf(value, this.#value(property, scope));
    if (value instanceof Undefined) value.fail();
    const bound = (part: Node | undefined): number | undefined => {
      const own = part === undefined ? null : this.#value(part, scope);
      return own === null ? undefined : integerOf(own, "the bound of a slice");
    };
    const [start, stop, step = 1] = [
      bound(property.start),
      bound(property.stop),
      bound(property.step),
    ];
    charge(value);
    return sliceOf(value, start, stop, step);
  }

  #unary(operator: string, value: Value): Value {
    if (operator === "not") return !truth(value);
    if (value instanceof Undefined) value.fail();
    const number = numberOf(value) ?? fail(`${operator} of a ${typeName(value)}`);
    const own = operator === "-" ? -number : number;
    return value instanceof Float ? new Float(own) : checked(own);
  }

  #binary(node: Node & { readonly type: "BinaryExpression" }, scope: Scope): Value {
    const { operator: { value: operator }, left, right } = node;
    const a = this.#value(left, scope);
    if (operator === "and") return truth(a) ? this.#value(right, scope) : a;
    if (operator === "or") return truth(a) ? a : this.#value(right, scope);
    if (COMPARISONS.has(operator)) {
      const b = this.#value(right, scope);
      switch (operator) {
        case "==":
          return equals(a, b);
        case "!=":
          return !equals(a, b);
        case "in":
          return contains(charge(b), a);
        case "not in":
          return !contains(charge(b), a);
        case "<":
          return compare(a, b) < 0;
        case "<=":
          return compare(a, b) <= 0;
        case ">":
          return compare(a, b) > 0;
        default:
          return compare(a, b) >= 0;
      }
    }
    const b = this.#value(right, scope);
    // Jinja drops the parentheses of (-3) ** 2.
    const isSigned = left.type === "UnaryExpression" || left.type.endsWith("Literal");
    if (operator === "**" && isSigned && (numberOf(a) ?? 0) < 0) {
      fail("a power of a negative number");
    }
    if (operator !== "~") return this.#compute(operator, a, b);
    const isSum = left.type === "BinaryExpression" && left.operator.value === "+";
    if (isSum && this.#isMixed && typeof a !== "string") {
      fail("~ of a sum, in a template with + and ~ without parentheses");
    }
    return this.#concat(str(a), str(b));
  }

  /** Joins two texts, which takes no copy of the longer one. */
  #concat(a: string, b: string): string {
    const least = Math.min(a.length, b.length);
    spendText(a.length + b.length);
    // The longer one is not copied.
    spend(least - a.length - b.length);
    return a + b;
  }

  #compute(operator: string, a: Value, b: Value): Value {
    if (a instanceof Undefined) a.fail();
    if (operator === "%" && typeof a === "string") {
      return formatText(a, b);
    }
    if (b instanceof Undefined) b.fail();
    if (operator === "+") {
      if (typeof a === "string" && typeof b === "string") return this.#concat(a, b);
      if (a instanceof Safe && (b instanceof Safe || typeof b === "string")) {
        return new Safe(this.#concat(a.text, b instanceof Safe ? b.text : escapeHtml(b)));
      }
      if (typeof a === "string" && b instanceof Safe) {
        return new Safe(this.#concat(escapeHtml(a), b.text));
      }
      if (isList(a) && isList(b)) {
        spend(ITEM * (a.length + b.length));
        return [...a, ...b];
      }
      if (a instanceof Tuple && b instanceof Tuple) {
        spend(ITEM * (a.items.length + b.items.length));
        return new Tuple([...a.items, ...b.items]);
      }
    }
    if (operator === "*") {
      const [many, count] = typeof a === "number" ? [b, a] : [a, b];
      if (typeof count === "number" && (typeof many === "string" || isList(many))) {
        const times = Math.max(0, count);
        if (typeof many === "string") {
          spendText(many.length * times);
          return many.repeat(times);
        }
        if (many.length === 0) return [];
        spend(ITEM * many.length * times);
        return Array.from({ length: many.length * times }, (_, i) => many[i % many.length]!);
      }
    }
    const [x, y] = [numberOf(a), numberOf(b)];
    if (x === undefined || y === undefined) {
      return fail(`${operator} of a ${typeName(a)} and a ${typeName(b)}`);
    }
    const isFloat = a instanceof Float || b instanceof Float;
    const made = (value: number): Value => isFloat ? new Float(value) : checked(value);
    switch (operator) {
      case "+":
        return made(x + y);
      case "-":
        return made(x - y);
      case "*":
        return made(x * y);
      case "/":
        if (y === 0) fail("a division by 0");
        return new Float(x / y);
      case "//":
        if (y === 0) fail("a division by 0");
        // Infinities give NaN, as in Python.
        return made(Number.isFinite(x) ? Math.floor(x / y) : NaN);
      case "%":
        if (y === 0) fail("a division by 0");
        return made(x - y * Math.floor(x / y));
      case "**":
        if (isFloat || y < 0) {
          const power = x ** y;
          return Number.isFinite(power) ? new Float(power) : fail("a power that is no number");
        }
        return checked(x ** y);
      default:
        return fail(`the operator ${operator}`);
    }
  }
}

/** The characters and the values of values. */
function sizeOf(values: readonly Value[]): [characters: number, values: number] {
  let characters = 0, count = values.length;
  for (const value of values) {
    if (typeof value === "string") characters += value.length;
    const inner = value instanceof Map ? [...value.values()] : sequenceOf(value);
    if (inner === undefined) continue;
    const [more, others] = sizeOf(inner);
    characters += more;
    count += others;
  }
  return [characters, count];
}

/**
 * The text of a template.
 *
 * @throws {ArgumentError} If the template refuses the variables, by `raise_exception`.
 * @throws {FormatError} If the template is wrong, takes too long, or does what this cannot do.
 */
export function renderTree(
  { body, isMixed }: Tree,
  variables: ReadonlyMap<string, Value>,
  now: Date,
): string {
  beginWork(...sizeOf([...variables.values()]));
  try {
    return new Renderer(now, isMixed).render(body, variables);
  } catch (error) {
    if (error instanceof RangeError && !(error instanceof ArgumentError)) {
      fail("the template needs too deep a stack");
    }
    throw error;
  }
}
