/**
 * Values of the caller as text for error messages, whose length is bounded whatever the caller
 * passes.
 *
 * Knows nothing of tensors, shapes or dtypes.
 *
 * @module
 */

/** Strings are cut to this many characters. */
const MAX_CHARACTERS = 40;
const MAX_PATH = 400;
/** Lists of more elements than this, the most axes of a tensor, are cut to a few. */
const MAX_ELEMENTS = 64;
const SHOWN_ELEMENTS = 8;
/** Longer numbers say nothing, and writing their digits takes quadratic time. */
const MAX_BIGINT = 10n ** 40n;

/** The method of values that must not appear in messages: it throws instead. */
export const UNDESCRIBED: unique symbol = Symbol("undescribed");

/** `text`, cut to `most` characters. */
export function shorten(text: string, most: number = MAX_CHARACTERS): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** A path as text for error messages. Of a long one the end, which names the file, is left. */
export function describePath(path: string): string {
  return JSON.stringify(path.length > MAX_PATH ? `…${path.slice(-MAX_PATH)}` : path);
}

/** A value of the caller, as text for error messages: all messages use this function. */
export function describe(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "bigint") {
    if (value <= MAX_BIGINT && value >= -MAX_BIGINT) return `${value}n`;
    return `a bigint of ${4 * value.toString(16).length} bits`;
  }
  if (typeof value === "string") return JSON.stringify(shorten(value));
  if (typeof value === "function") return "a function";
  // Not String(object): it may throw.
  if (typeof value === "object") {
    (value as { [UNDESCRIBED]?(): never })[UNDESCRIBED]?.();
    return Array.isArray(value) ? "an array" : "an object";
  }
  return shorten(String(value));
}

/** The first elements of a list, as text, by `write`; says how many are left out. */
export function describeAll<T>(list: readonly T[], write: (one: T) => string): string[] {
  const { length } = list;
  const shown = length > MAX_ELEMENTS ? SHOWN_ELEMENTS : length;
  // Not the list's own iterator, which may never end.
  const texts = Array.from({ length: shown }, (_, i) => write(list[i]!));
  if (shown < length) texts.push(`… ${length - shown} more`);
  return texts;
}
