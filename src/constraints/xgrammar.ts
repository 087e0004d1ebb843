/**
 * The package `@mlc-ai/web-xgrammar`, which makes masks of tokens by grammars in WebAssembly.
 *
 * Each error in it ends its WebAssembly code without giving back the code's stack, so that a few tens
 * of wrong grammars would use it up for good. {@link load} gives the module an export of its stack
 * pointer, which {@link Xgrammar.call} resets after an error.
 *
 * @module
 */
import { type Engine, engine, type WasmGlobal } from "../backend/wasm/engine.ts";
import { ArgumentError, PackageError } from "../base/errors.ts";

const PACKAGE = "@mlc-ai/web-xgrammar";

/** An object of the package, in the memory of its module. */
export interface Held {
  dispose(): void;
}

/** What masks the tokens of one text. */
export interface Matcher extends Held {
  getNextTokenBitmask(): Promise<Int32Array>;
  acceptToken(id: number): boolean;
}

/** Compiles grammars for the tokens of one vocabulary. */
export interface Compiler extends Held {
  compileGrammar(ebnf: string, root: string): Promise<Held>;
}

/** The part of the package in use. */
interface Library {
  readonly TokenizerInfo: {
    createTokenizerInfo(
      tokens: readonly (Uint8Array | string)[],
      kind: "raw",
      prependsSpace: boolean,
      size: number,
      stopTokens: readonly number[],
    ): Promise<Held>;
  };
  readonly GrammarCompiler: {
    createGrammarCompiler(tokens: Held, isCached: boolean): Promise<Compiler>;
  };
  readonly GrammarMatcher: { createGrammarMatcher(compiled: Held): Promise<Matcher> };
  readonly Grammar: { builtinJSONGrammar(): Promise<Held> };
}

function isLibrary(value: unknown): value is Library {
  return typeof value === "object" && value !== null && "TokenizerInfo" in value &&
    "GrammarCompiler" in value && "GrammarMatcher" in value && "Grammar" in value;
}

/** The package, ready for calls. */
export interface Xgrammar {
  readonly library: Library;
  /**
   * Calls the package, one call at a time.
   *
   * @throws {ArgumentError} With the package's reason, if it fails or warns that it ignores something.
   */
  call<T extends Held>(op: string, run: (library: Library) => Promise<T>): Promise<T>;
  /** Makes an error of what the package has thrown; later calls work. */
  failed(op: string, cause: unknown): ArgumentError;
}

/** A number of WebAssembly in as many bytes as it needs. */
function numberAt(bytes: Uint8Array, at: number): [value: number, end: number] {
  let value = 0;
  for (let shift = 0;; shift += 7) {
    const byte = bytes[at++] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

function bytesOfNumber(value: number): number[] {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...bytesOfNumber(value >>> 7)];
}

/** The name of the new export. */
const STACK = "stack";
/** The section of exports, and the kind of an export of a global. */
const EXPORTS = 7, GLOBAL = 3;

/** A module of WebAssembly with its first global as an export: the stack pointer of C code. */
function withStack(module: Uint8Array): Uint8Array {
  for (let at = 8; at < module.length;) {
    const [size, start] = numberAt(module, at + 1);
    const end = start + size;
    if (module[at] === EXPORTS) {
      const [count, first] = numberAt(module, start);
      const added = [STACK.length, ...new TextEncoder().encode(STACK), GLOBAL, 0];
      const head = bytesOfNumber(count + 1);
      const length = bytesOfNumber(head.length + end - first + added.length);
      const parts = [
        module.subarray(0, at),
        Uint8Array.of(EXPORTS, ...length, ...head),
        module.subarray(first, end),
        Uint8Array.from(added),
        module.subarray(end),
      ];
      const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
      let to = 0;
      for (const part of parts) {
        all.set(part, to);
        to += part.length;
      }
      return all;
    }
    at = end;
  }
  return module;
}

/** Imports the package, and makes its module. */
async function importLibrary(
  op: string,
  onLine: (line: string) => void,
): Promise<{ readonly library: Library; readonly stack: WasmGlobal }> {
  if (engine === undefined) {
    throw new PackageError(op, PACKAGE, { cause: new Error("this runtime has no WebAssembly") });
  }
  const { instantiate, Global } = engine;
  let stack: WasmGlobal | undefined;
  const { console } = globalThis;
  const { error, log } = console;
  let isLoading = true;
  // Its messages are the only reason that it gives. It keeps the functions that it finds.
  const catching = (report: (...args: unknown[]) => void) => (...args: unknown[]): void => {
    if (isLoading) report.apply(console, args);
    else onLine(args.join(" "));
  };
  Object.assign(console, { error: catching(error), log: catching(log) });
  const patched: Engine["instantiate"] = async (module, imports) => {
    const bytes = module instanceof Uint8Array ? withStack(module).slice() : module;
    const made = await instantiate(bytes, imports);
    const found = made.instance.exports[STACK];
    if (found instanceof Global) stack = found;
    return made;
  };
  Object.assign(engine, { instantiate: patched });
  // As a module of Node and Deno it has no `require`, and looks for its place in a page.
  const isPage = "document" in globalThis;
  if (!isPage) {
    const document = { currentScript: null, baseURI: "file:///C:/" };
    Object.defineProperty(globalThis, "document", { value: document, configurable: true });
  }
  try {
    const module: { readonly default?: unknown } = await import("@mlc-ai/web-xgrammar");
    // Without `exports` it puts itself among the global names.
    const all = [module, module.default, Reflect.get(globalThis, "xgrammar")];
    const library = all.find(isLibrary);
    if (library === undefined) throw new Error(`${PACKAGE} has other exports`);
    (await library.Grammar.builtinJSONGrammar()).dispose();
    if (stack === undefined) throw new Error(`${PACKAGE} has another module`);
    return { library, stack };
  } catch (cause) {
    throw new PackageError(op, PACKAGE, { cause });
  } finally {
    isLoading = false;
    Object.assign(console, { error, log });
    Object.assign(engine, { instantiate });
    if (!isPage) Reflect.deleteProperty(globalThis, "document");
    Reflect.deleteProperty(globalThis, "xgrammar");
  }
}

/** The reason in a message such as `[FATAL] /path/file.cc:12: Check failed: (x) is false: why`. */
function reasonIn(lines: readonly string[]): string | undefined {
  const start = /^\[(?:FATAL|WARNING)\] \S+?:\d+: (?:Check failed: .*? is false: )?/;
  return lines.find((line) => start.test(line))?.replace(start, "").slice(0, 300).trim();
}

async function open(op: string): Promise<Xgrammar> {
  let lines: string[] = [];
  const { library, stack } = await importLibrary(op, (line) => {
    if (lines.length < 10) lines.push(line);
  });
  const start = stack.value;
  const failed = (op: string, cause: unknown): ArgumentError => {
    stack.value = start;
    const reason = reasonIn(lines) ?? (cause instanceof Error ? cause.message : String(cause));
    lines = [];
    return new ArgumentError(`Cannot ${op}: ${reason}`, { cause });
  };
  let last: Promise<unknown> = Promise.resolve();
  return {
    library,
    failed,
    call(op, run) {
      const made = last.then(async () => {
        lines = [];
        try {
          const made = await run(library);
          const reason = reasonIn(lines);
          if (reason === undefined) return made;
          // It warns of what it ignores.
          made.dispose();
          throw new Error(reason);
        } catch (cause) {
          throw failed(op, cause);
        }
      });
      last = made.catch(() => undefined);
      return made;
    },
  };
}

let opened: Promise<Xgrammar> | undefined;

/**
 * Loads the package, once.
 *
 * @throws {PackageError} If it is not installed, or of a version with another module.
 */
export function load(op: string): Promise<Xgrammar> {
  opened ??= open(op).catch((error) => {
    opened = undefined;
    throw error;
  });
  return opened;
}
