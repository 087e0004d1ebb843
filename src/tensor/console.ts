/**
 * Tells a console that formats a tensor from an operator on it.
 *
 * @module
 */

/** A method of Bun's console. */
const CONSOLE =
  /^ +at (?:log|debug|info|warn|error|trace|assert|group\w*) \((?:unknown|native)[^/]*\)$/;
/** The formatter of node:util, in Bun, Deno or Node, which calls Number. */
const UTIL = /^ +at \w+ \((?:node:|ext:deno_node\/)?internal[:/]util/;

/**
 * Whether a console converts a tensor to a number, for `%d`: an error would end a program that only
 * wants to print. Bun calls `Math.log` and `console.log` alike, so that both get NaN.
 */
export function isFormatting(): boolean {
  const trace = { stack: "" };
  Error.captureStackTrace(trace);
  const lines = trace.stack.split("\n");
  const at = lines.findIndex((line) => line.includes("[Symbol.toPrimitive]"));
  return at >= 0 && (CONSOLE.test(lines[at + 1] ?? "") || UTIL.test(lines[at + 2] ?? ""));
}
