/**
 * Names of classes that do not depend on bundlers, which shorten and number them.
 *
 * @module
 */

/** Names a class as its source does. */
export function nameClass(type: abstract new (...args: never[]) => object, name: string): void {
  Object.defineProperty(type, "name", { value: name, configurable: true });
}
