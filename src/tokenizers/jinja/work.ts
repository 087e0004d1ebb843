/**
 * How much work a template has left. Rendering is synchronous, so that there is one count, which
 * everything that makes or reads a text or a list takes its part of.
 *
 * @module
 */
import { FormatError } from "../../base/errors.ts";

/** Where errors of templates are. */
export const TEMPLATE = "<chat template>";

/** Throws the error of a template that cannot be rendered. */
export function fail(message: string): never {
  throw new FormatError(message, TEMPLATE, 0);
}

/** The work that any template may take, in characters: about half a second. */
const MOST = 2 ** 25;
/** How much more there is for each character of the variables, and for each value. */
const OF_CHARACTER = 64, OF_VALUE = 4096;
/** The work of a step, and of an item of a list. */
export const STEP = 32, ITEM = 8;
/** The longest text that an operation makes. */
const LONGEST = 2 ** 25;

let left = 0;

/** Begins to count for a template whose variables have so many characters and values. */
export function beginWork(characters: number, values: number): void {
  left = MOST + OF_CHARACTER * characters + OF_VALUE * values;
}

/** Takes work, about as much as it is to read as many characters; throws if there is not so much. */
export function spend(work: number): void {
  left -= work;
  if (!(left >= 0)) fail("the template takes too much work");
}

/** Takes the work of making a text of `length`, before it is made. */
export function spendText(length: number): void {
  if (length > LONGEST) fail(`a text of ${length} characters, above ${LONGEST}`);
  spend(length);
}

/** Takes the work of looking for a text in a longer one, which may compare it at each place. */
export function spendSearch(length: number, wanted: number): void {
  spend(length * (1 + Math.floor(wanted / STEP)));
}
