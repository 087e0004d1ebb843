/**
 * Arguments of the command, and texts that it prints.
 *
 * @module
 */
import process from "node:process";
import { parseArgs, type ParseArgsConfig } from "node:util";

/** Arguments that the command does not take: exit code 2. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** Prints a line to the standard error, which console.error of Bun colors red. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

type Options = NonNullable<ParseArgsConfig["options"]>;
type Config<O extends Options> = { args: string[]; allowPositionals: true; options: O };

/** Options and other arguments; a UsageError for unknown options. */
export function parse<O extends Options>(
  args: readonly string[],
  options: O,
): ReturnType<typeof parseArgs<Config<O>>> {
  try {
    return parseArgs<Config<O>>({ args: [...args], allowPositionals: true, options });
  } catch (error) {
    // "Unknown option '--x'. To specify a positional argument …": the first sentence says it.
    throw new UsageError((error as Error).message.split(/\.? To specify |\n/)[0]!);
  }
}

/** The integer of an option; undefined if the option was not given. */
export function integer(
  name: string,
  text: string | undefined,
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text.trim() || NaN);
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER
    ? `of at least ${least}`
    : `from ${least} to ${most}`;
  throw new UsageError(`--${name} ${text}: expected an integer ${range}`);
}

/** The number of an option, which has to be more than `above`, if that is given. */
export function number(
  name: string,
  text: string,
  { least = 0, above, most = Infinity }: {
    readonly least?: number;
    readonly above?: number;
    readonly most?: number;
  } = {},
): number {
  const value = Number(text.trim() || NaN);
  const isLarge = above === undefined ? value >= least : value > above;
  if (Number.isFinite(value) && isLarge && value <= most) return value;
  const from = above === undefined ? `of at least ${least}` : `greater than ${above}`;
  const to = most === Infinity ? "" : `, and at most ${most}`;
  throw new UsageError(`--${name} ${text}: expected a number ${from}${to}`);
}

/** One of a few words. */
export function word<const W extends string>(
  name: string,
  text: string,
  words: readonly W[],
): W {
  const found = words.find((one) => one === text);
  if (found !== undefined) return found;
  throw new UsageError(`--${name} ${text}: expected ${words.join(", ")}`);
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** A number of bytes, with three digits. */
export function bytesText(bytes: number): string {
  let unit = 0, value = bytes;
  for (; value >= 999.5 && unit < UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : digits(value)} ${UNITS[unit]}`;
}

/** A positive number with about three digits. */
export function digits(value: number): string {
  return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

/** A number of parts, as models are named after it: `135 M`. */
export function countText(count: number): string {
  for (const [size, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]] as const) {
    if (count >= size) return `${digits(count / size)} ${unit}`;
  }
  return String(count);
}
