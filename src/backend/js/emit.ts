/**
 * Writes the JavaScript of one element: load, cast, the op's expression, cast, store.
 *
 * Values are numbers, or pairs of 32-bit words for the 64-bit integers, since BigInts are slow. Knows
 * nothing of loops.
 *
 * No name in generated code can equal another, whatever expressions contain: names of the environment
 * begin with `$`, parameters of ops with `v_` or `v` and a number, as {@link parameterName} makes them,
 * temporaries with `t`, a number and `_`; loops have names of their own, which begin like none of these. An
 * expression has operands and parameters only, which are replaced by values.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { type Expr, parseExpr, printExpr, someExpr, type Spelling } from "../../table/expr.ts";

/** A value in generated code: a number's text, or the texts of the two words of a 64-bit integer. */
export type Value =
  | { readonly kind: "number"; readonly text: string }
  | {
    readonly kind: "pair";
    readonly low: string;
    readonly high: string;
    readonly signed: boolean;
  };

/** Makes the {@link Value} of a number. */
export function number(text: string): Value {
  return { kind: "number", text };
}

/** The name of an op's parameter; in a chain, of the op of a step. */
export function parameterName(name: string, step: number | "" = ""): string {
  return `v${step}_${name}`;
}

/** The name of what {@link environment} calls `name`. */
export function environmentName(name: string): string {
  return `$${name}`;
}

/** The function of `parameters` and the statements `source`, which use names of `env`. */
export function functionOf(
  name: string,
  parameters: readonly string[],
  source: string,
  env: Readonly<Record<string, unknown>>,
): unknown {
  // Most functions use a few of the hundred names, and parsing them all takes longer than the rest.
  const fields: string[] = [];
  for (const name of new Set(source.match(/\$\w+/g))) {
    const key = name.slice(1);
    if (Object.hasOwn(env, key)) fields.push(`${key}: ${environmentName(key)}`);
  }
  const text = `"use strict"; const { ${fields.join(", ")} } = env;\n` +
    `return function ${name}(${parameters.join(", ")}) {\n${source}\n};`;
  return new Function("env", text)(env);
}

/** Primitives with a faster form for floats of at most 32 bits. */
const SHORT: Readonly<Record<string, string>> = { ffloordiv: "shortFloordiv", fmod: "shortMod" };

/**
 * Primitives with a faster form that returns the stored bits, by the dtype of operands and result.
 */
const STORING: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  float16: { ffloordiv: "floordivToHalf" },
};

/** The name of the number of bits of an integer, in calls of primitives. */
const BITS = "bits";

/** Prints arguments of calls. */
const PLAIN: Spelling = {
  num: (text) => text,
  call: (name, args) => `${environmentName(name)}(${args.join(", ")})`,
};

const MAX_SAFE = 9007199254740991;

/** Collects the statements of one element. */
export class Emitter {
  /** The statements so far. */
  lines: string[] = [];
  #temporaries = 0;

  /** Adds a statement. */
  add(line: string): void {
    this.lines.push(line);
  }

  /** A name that no other value has, nor one that this name begins. */
  #fresh(): string {
    return `t${this.#temporaries++}_`;
  }

  /** Names the value of `text`. */
  hold(text: string): string {
    const name = this.#fresh();
    this.lines.push(`const ${name} = ${text};`);
    return name;
  }

  /** Returns the collected statements and clears them. */
  take(): string {
    const text = this.lines.join(" ");
    this.lines = [];
    return text;
  }

  /** Reads element `index` of `array` in its own dtype. Wide dtypes are read as words. */
  load(dtype: DType, array: string, index: string): Value {
    const { wide, kind } = DTYPE[dtype];
    if (wide) {
      const at = this.hold(`2 * (${index})`);
      return {
        kind: "pair",
        low: this.hold(`${array}[${at}]`),
        high: this.hold(`${array}[${at} + 1]`),
        signed: kind === "i",
      };
    }
    if (dtype === "float16") return number(this.hold(`$half[${array}[${index}]]`));
    if (dtype === "bfloat16") return number(this.hold(`$bf16[${array}[${index}]]`));
    return number(this.hold(`${array}[${index}]`));
  }

  /**
   * Writes `value`, already of `dtype`, to element `index` of `array`. The `result` of one operation
   * on 16-bit floats is rounded faster than any other number.
   */
  store(dtype: DType, array: string, index: string, value: Value, result = false): void {
    if (value.kind === "pair") {
      const at = this.hold(`2 * (${index})`);
      this.add(`${array}[${at}] = ${value.low}; ${array}[${at} + 1] = ${value.high};`);
    } else if (dtype === "float16") {
      this.add(`${array}[${index}] = ${result ? "$resultToHalf" : "$toF16"}(${value.text});`);
    } else if (dtype === "bfloat16") {
      this.add(`${array}[${index}] = ${result ? "$resultToBf16" : "$toBf16"}(${value.text});`);
    } else this.add(`${array}[${index}] = ${value.text};`);
  }

  /**
   * Computes and stores in one step, if `text` calls a primitive with such a form for `dtype`; else
   * does nothing and returns false.
   */
  storeCall(
    dtype: DType,
    array: string,
    index: string,
    text: string,
    names: Readonly<Record<string, Value>>,
  ): boolean {
    const expr = parseExpr(text);
    const name = expr.kind === "call" ? STORING[dtype]?.[expr.name] : undefined;
    if (name === undefined) return false;
    const args = (substitute(expr, names) as Expr & { kind: "call" }).args;
    const printed = args.map((arg) => printExpr(arg, PLAIN));
    this.add(`${array}[${index}] = ${environmentName(name)}(${printed.join(", ")});`);
    return true;
  }

  /** Casts as `astype` does; the store wraps integers of up to 32 bits. */
  cast(value: Value, from: DType, to: DType): Value {
    if (from === to) return value;
    const [source, target] = [DTYPE[from], DTYPE[to]];
    if (target.kind === "b") {
      const text = value.kind === "pair" ? `(${value.low} | ${value.high})` : value.text;
      return source.kind === "b" ? value : number(`(${text} != 0 ? 1 : 0)`);
    }
    if (target.wide) return this.#toPair(value, from, to);
    if (target.kind === "f") {
      if (to === "float64") return number(this.#toNumber(value));
      if (value.kind === "pair") {
        return number(
          this.#round(`$${value.signed ? "i" : "u"}64ToF32(${value.low}, ${value.high})`, to),
        );
      }
      // float16 and bfloat16 to float32 is exact, and so is any small integer.
      const exact = source.kind === "f"
        ? to === "float32" && source.bytes === 2
        : source.kind === "b";
      return exact ? value : number(this.#round(value.text, to));
    }
    if (value.kind === "pair") return number(value.low);
    if (source.kind !== "f") return number(this.#wrap(value.text, to));
    const x = this.hold(value.text);
    return number(
      this.hold(
        `${x} > ${target.min} ? (${x} < ${target.max} ? $trunc(${x}) : ${target.max}) : ` +
          `${x} <= ${target.min} ? ${target.min} : 0`,
      ),
    );
  }

  #wrap(text: string, to: DType): string {
    const { kind, bytes } = DTYPE[to];
    if (kind === "u") {
      return bytes === 4 ? `(${text} >>> 0)` : `(${text} & ${2 ** (8 * bytes) - 1})`;
    }
    return bytes === 4 ? `(${text} | 0)` : `(${text} << ${32 - 8 * bytes} >> ${32 - 8 * bytes})`;
  }

  #round(text: string, to: DType): string {
    if (to === "float32") return this.hold(`$fround(${text})`);
    return this.hold(to === "float16" ? `$roundHalf(${text})` : `$roundBf16(${text})`);
  }

  #toNumber(value: Value): string {
    if (value.kind === "number") return value.text;
    const high = value.signed ? value.high : `(${value.high} >>> 0)`;
    return this.hold(`${high} * 4294967296 + (${value.low} >>> 0)`);
  }

  #toPair(value: Value, from: DType, to: DType): Value {
    const signed = DTYPE[to].kind === "i";
    if (value.kind === "pair") return { ...value, signed };
    if (DTYPE[from].kind === "f") {
      const x = this.hold(value.text);
      const [low, high] = [`${x}l`, `${x}h`];
      const within = signed ? `${x} > -2147483649` : `${x} > -1`;
      this.add(
        `let ${low} = ${x} | 0, ${high} = ${low} >> 31; ` +
          `if (!(${within} && ${x} < 2147483648)) { ` +
          `const ${x}s = $saturate${signed ? "I" : "U"}64(${x}); ` +
          `${low} = $lowWord(${x}s); ${high} = $highWord(${x}s); }`,
      );
      return { kind: "pair", low, high, signed };
    }
    const x = this.hold(value.text);
    return {
      kind: "pair",
      low: this.hold(`${x} | 0`),
      high: this.hold(`${x} < 0 ? -1 : 0`),
      signed,
    };
  }

  /** Rounds a float result to its dtype before a further cast. */
  settle(value: Value, dtype: DType): Value {
    if (value.kind === "pair" || dtype === "float64") return value;
    if (DTYPE[dtype].kind === "f") return number(this.#round(value.text, dtype));
    return DTYPE[dtype].kind === "b" ? value : number(this.#wrap(value.text, dtype));
  }

  /**
   * Computes `text` on the values of `names`, in the arithmetic of `dtype`. The result is a pair if
   * a pair enters arithmetic, else a number. With `branchless`, computes both sides of a choice:
   * faster if the condition depends on data, slower in a reduction, where one side nearly always
   * wins.
   */
  compute(
    text: string,
    names: Readonly<Record<string, Value>>,
    dtype: DType,
    branchless = false,
  ): Value {
    const expr = parseExpr(text);
    const pairs = someExpr(
      expr,
      (part) => part.kind === "name" && names[part.name]?.kind === "pair",
    );
    if (pairs) return new PairPrinter(this, names).value(expr);
    const { kind, bytes } = DTYPE[dtype];
    const printed = printExpr(substitute(expr, names), {
      num: (n) => n,
      call: (name, args) => {
        if (name === "nextafter") return `$nextafter_${dtype}(${args.join(", ")})`;
        if (dtype !== "float64") name = SHORT[name] ?? name;
        return `${environmentName(name)}(${
          args.map((arg) => arg === BITS ? String(bytes * 8) : arg).join(", ")
        })`;
      },
      select: (test, then, otherwise) =>
        branchless ? `$pick(${test}, ${then}, ${otherwise})` : undefined,
      binary: (op, l, r) => op === "*" && kind !== "f" ? `$imul(${l}, ${r})` : undefined,
    });
    return number(this.hold(printed));
  }

  /**
   * Computes an expression that calls primitives on 64-bit integers: in numbers while every value
   * is a safe integer, else by `slow`, a function of the BigInt values.
   */
  computeWide(
    text: string,
    names: Readonly<Record<string, Value>>,
    slow: string,
    signed: boolean,
  ): Value {
    const safe: string[] = [];
    const short: string[] = [];
    const slowArgs: string[] = [];
    const numbers: Record<string, Value> = {};
    const words: Record<string, Value> = {};
    const wide: string[] = [];
    const r = this.#fresh();
    const [rl, rh] = [`${r}l`, `${r}h`];
    // In the order of the slow function's parameters, whichever was loaded first.
    for (const name of ["x", "y", "z"]) {
      const value = names[name];
      if (value === undefined) continue;
      if (value.kind === "number") {
        numbers[name] = words[name] = value;
        continue;
      }
      const high = signed ? value.high : `(${value.high} >>> 0)`;
      const whole = r + name;
      wide.push(`const ${whole} = ${high} * 4294967296 + (${value.low} >>> 0);`);
      numbers[name] = number(whole);
      words[name] = number(signed ? value.low : `(${value.low} >>> 0)`);
      safe.push(`${whole} >= -${MAX_SAFE} && ${whole} <= ${MAX_SAFE}`);
      short.push(signed ? `${value.high} === ${value.low} >> 31` : `${value.high} === 0`);
      slowArgs.push(value.low, value.high);
    }
    const printed = (values: Record<string, Value>): string =>
      printExpr(substitute(parseExpr(text), values), {
        num: (n) => n,
        call: (name, args) =>
          `${environmentName(`${name}Wide`)}(${args.map((a) => a === BITS ? "64" : a).join(", ")})`,
      });
    // Most values fit 32 bits, and most others 53.
    this.add(
      `let ${r} = NaN, ${rl} = 0, ${rh} = 0; if (${short.join(" && ")}) ${r} = ${
        printed(words)
      }; ` +
        `else { ${wide.join(" ")} if (${safe.join(" && ")}) ${r} = ${printed(numbers)}; }`,
    );
    this.add(
      `if (${r} >= -4294967296 && ${r} < 4294967296) { ${rl} = ${r} | 0; ${rh} = ${r} < 0 ? -1 : 0; } ` +
        `else if (${r} >= -${MAX_SAFE} && ${r} <= ${MAX_SAFE}) { ` +
        `${rl} = $lowWord(${r}); ${rh} = $highWord(${r}); } ` +
        `else { ${environmentName(slow)}(${slowArgs.join(", ")}); ` +
        `${rl} = $words[0]; ${rh} = $words[1]; }`,
    );
    return { kind: "pair", low: rl, high: rh, signed };
  }
}

function substitute(expr: Expr, names: Readonly<Record<string, Value>>): Expr {
  switch (expr.kind) {
    case "name": {
      const value = names[expr.name];
      if (value?.kind === "number") return { kind: "name", name: value.text };
      if (expr.name === BITS) return expr;
      throw new Error(`Internal error: an expression without a value of ${expr.name}`);
    }
    case "call":
      return { ...expr, args: expr.args.map((arg) => substitute(arg, names)) };
    case "unary":
      return { ...expr, arg: substitute(expr.arg, names) };
    case "binary":
      return { ...expr, left: substitute(expr.left, names), right: substitute(expr.right, names) };
    case "if":
      return {
        ...expr,
        test: substitute(expr.test, names),
        then: substitute(expr.then, names),
        otherwise: substitute(expr.otherwise, names),
      };
    default:
      return expr;
  }
}

interface Pair {
  readonly low: string;
  readonly high: string;
}

/** Prints expressions over 64-bit integers as statements on pairs of words. */
class PairPrinter {
  #signed = true;

  constructor(readonly emitter: Emitter, readonly names: Readonly<Record<string, Value>>) {
    for (const value of Object.values(names)) {
      if (value.kind === "pair") this.#signed = value.signed;
    }
  }

  value(expr: Expr): Value {
    if (isCondition(expr)) return number(this.emitter.hold(`Number(${this.condition(expr)})`));
    if (expr.kind === "if" && expr.then.kind === "num" && expr.otherwise.kind === "num") {
      return number(
        this.emitter.hold(
          `${this.condition(expr.test)} ? ${expr.then.text} : ${expr.otherwise.text}`,
        ),
      );
    }
    return { kind: "pair", ...this.pair(expr), signed: this.#signed };
  }

  condition(expr: Expr): string {
    if (expr.kind === "unary" && expr.op === "!") return `!${this.condition(expr.arg)}`;
    if (expr.kind === "binary") {
      const { op } = expr;
      if (op === "&&" || op === "||") {
        return `(${this.condition(expr.left)} ${op} ${this.condition(expr.right)})`;
      }
      if (isCondition(expr.left)) {
        return `(${this.condition(expr.left)} ${op} ${this.condition(expr.right)})`;
      }
      const [l, r] = [this.pair(expr.left), this.pair(expr.right)];
      if (op === "==") return `(${l.low} === ${r.low} && ${l.high} === ${r.high})`;
      if (op === "!=") return `(${l.low} !== ${r.low} || ${l.high} !== ${r.high})`;
      const sign = this.#signed ? "" : " >>> 0";
      const strict = op[0]!;
      return `((${l.high}${sign}) ${strict} (${r.high}${sign}) || ` +
        `(${l.high} === ${r.high} && (${l.low} >>> 0) ${op} (${r.low} >>> 0)))`;
    }
    throw new SyntaxError(`Not a condition: ${JSON.stringify(expr)}`);
  }

  pair(expr: Expr): Pair {
    const { emitter } = this;
    switch (expr.kind) {
      case "num":
        return { low: expr.text, high: "0" };
      case "name": {
        const value = this.names[expr.name]!;
        if (value.kind === "pair") return value;
        return {
          low: emitter.hold(`${value.text} | 0`),
          high: emitter.hold(`${value.text} < 0 ? -1 : 0`),
        };
      }
      case "unary": {
        const x = this.pair(expr.arg);
        if (expr.op === "~") return { low: `~${x.low}`, high: `~${x.high}` };
        const low = emitter.hold(`-${x.low} | 0`);
        return { low, high: emitter.hold(`${low} === 0 ? -${x.high} | 0 : ~${x.high}`) };
      }
      case "if": {
        // All ones if the test holds: a choice by bits needs no branch.
        const mask = emitter.hold(`-Number(${this.condition(expr.test)})`);
        const [l, r] = [this.pair(expr.then), this.pair(expr.otherwise)];
        return {
          low: emitter.hold(`(${l.low} & ${mask}) | (${r.low} & ~${mask})`),
          high: emitter.hold(`(${l.high} & ${mask}) | (${r.high} & ~${mask})`),
        };
      }
      case "binary": {
        const [l, r] = [this.pair(expr.left), this.pair(expr.right)];
        switch (expr.op) {
          case "+": {
            const low = emitter.hold(`${l.low} + ${r.low} | 0`);
            const carry = `Number((${low} >>> 0) < (${l.low} >>> 0))`;
            return { low, high: emitter.hold(`${l.high} + ${r.high} + ${carry} | 0`) };
          }
          case "-": {
            const borrow = `Number((${l.low} >>> 0) < (${r.low} >>> 0))`;
            return {
              low: emitter.hold(`${l.low} - ${r.low} | 0`),
              high: emitter.hold(`${l.high} - ${r.high} - ${borrow} | 0`),
            };
          }
          case "*":
            return {
              low: emitter.hold(`$imul(${l.low}, ${r.low})`),
              high: emitter.hold(
                `$mulHigh(${l.low}, ${r.low}) + $imul(${l.high}, ${r.low}) + $imul(${l.low}, ${r.high}) | 0`,
              ),
            };
          case "&":
          case "|":
          case "^":
            return {
              low: `(${l.low} ${expr.op} ${r.low})`,
              high: `(${l.high} ${expr.op} ${r.high})`,
            };
        }
      }
    }
    throw new SyntaxError(`No 64-bit form: ${JSON.stringify(expr)}`);
  }
}

const CONDITIONS = ["==", "!=", "<", "<=", ">", ">=", "&&", "||"];

function isCondition(expr: Expr): boolean {
  return (expr.kind === "binary" && CONDITIONS.includes(expr.op)) ||
    (expr.kind === "unary" && expr.op === "!");
}

/** True if `text` calls a primitive: then pairs cannot compute it. */
export function hasCall(text: string): boolean {
  return someExpr(parseExpr(text), (part) => part.kind === "call");
}
