/**
 * The stacks of errors of this library.
 *
 * @module
 */

const bun = (globalThis as { Bun?: { fileURLToPath(url: string): string } }).Bun;

/** The folder of this library's modules, as stacks write it, if it is known; a bundle has none. */
function ownFolder(): string | undefined {
  const folder = /^(.*\/)(?:base\/stack\.ts|core\.js)$/.exec(import.meta.url ?? "")?.[1];
  if (folder?.startsWith("file:") && bun !== undefined) return bun.fileURLToPath(folder);
  // Node writes paths for modules with source maps.
  return folder?.replace(/^file:\/\//, "");
}

const own = ownFolder();

/** What the names of the sources begin with in source maps of packages. */
export const SOURCES = "rowmajor:";

/** The frames that are captured: enough to reach the program from the depth of any op. */
const FRAMES = 50;

/** A frame of Bun that has only a place. */
const BARE_FRAME = /^( +at (?:async )?)((?:file:|[a-z]:|[\\/]).*:\d+)$/i;

/** A frame of a package with source maps: of a function with or without a name. */
const OF_SOURCES = new RegExp(`[ (]${SOURCES}`);

/** A frame in a file; those of built-in functions have none. */
const isInFile = (frame: string): boolean =>
  /:\d+:\d+\)?$/.test(frame) && !/(?:\(| )(?:node|ext|bun|native):/.test(frame);

const isOfLibrary = (frame: string, folder: string): boolean =>
  frame.includes(folder) || OF_SOURCES.test(frame);

/**
 * The program's frames, and of each run of the library's the outermost one, with the function that
 * the program called.
 */
function collapse(frames: readonly string[], folder: string): string[] {
  const shown: string[] = [];
  let inLibrary = false;
  for (let i = frames.length - 1; i >= 0; i--) {
    const frame = frames[i]!;
    const isOwn = isOfLibrary(frame, folder);
    // What the library calls of built-in functions is its own.
    if (!inLibrary || !isOwn && isInFile(frame)) shown.push(frame);
    if (isOwn || isInFile(frame)) inLibrary = isOwn;
  }
  return shown.reverse();
}

/** The frames to show of a captured stack: all of them without a limit. */
function framesOf(captured: { stack?: string }, folder: string, limit: number): string[] {
  let frames = captured.stack!.split("\n").filter((line) => /^ +at /.test(line));
  const isProgram = (frame: string): boolean => isInFile(frame) && !isOfLibrary(frame, folder);
  if (limit < Infinity) frames = collapse(frames, folder).slice(0, limit + 1);
  if (bun === undefined) return frames;
  const first = frames.findIndex(isProgram);
  // Bun prints the source at the first frame, and has no frame for a method that ends in a call.
  if (limit < Infinity) frames = frames.slice(first);
  // Bun finds no place in a frame without a name, as those at the top level of a module are.
  frames = frames.map((frame) => frame.replace(BARE_FRAME, "$1module code ($2)"));
  // Nor has it one for a module that awaits the call. Bun prints no source for these names.
  return first < 0 ? frames.map((frame) => frame.replace(folder, SOURCES)) : frames;
}

/**
 * Makes the stack of an error of this library, in which the library is one line; `made` is the
 * function that makes the error. All frames stay if `Error.stackTraceLimit` is above
 * {@link FRAMES}.
 */
export function locate(
  error: Error,
  made: Error["constructor"] = error.constructor,
): void {
  const { stackTraceLimit } = Error;
  // Some programs freeze Error.
  if (!Reflect.set(Error, "stackTraceLimit", Math.max(FRAMES, stackTraceLimit))) return;
  // Deno prints the frames of the error's own capture, whatever its stack is.
  const captured: { stack?: string } = own === undefined ? error : {};
  Error.captureStackTrace(captured, made);
  Error.stackTraceLimit = stackTraceLimit;
  if (own === undefined) return;
  const limit = stackTraceLimit > FRAMES ? Infinity : stackTraceLimit;
  const define = (value: unknown): void => {
    Object.defineProperty(error, "stack", { value, writable: true, configurable: true });
  };
  const head = `${error.name}: ${error.message}`;
  const write = (): string => {
    const text = [head, ...framesOf(captured, own, limit)].join("\n");
    define(text);
    return text;
  };
  // Writing takes V8 longer than an op, and programs may catch the error. Bun calls no getter.
  if (bun !== undefined) write();
  else Object.defineProperty(error, "stack", { get: write, set: define, configurable: true });
}

/** An error of the system, with the stack of an error of this library. */
export function systemError(error: unknown): unknown {
  if (error instanceof Error) locate(error, systemError);
  return error;
}

/** A TypeError, for arguments and options of another kind, with the stack of an error of this library. */
export function typeError(message: string): TypeError {
  const error = new TypeError(message);
  locate(error, typeError);
  return error;
}
