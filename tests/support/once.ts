/**
 * References that several backends compare with: they take longer than what they check.
 *
 * @module
 */

/** A function that makes the value of a key when it is asked for the first time. */
export function once<T>(): (key: string, make: () => T) => T {
  const known = new Map<string, T>();
  return (key, make) => {
    if (!known.has(key)) known.set(key, make());
    return known.get(key)!;
  };
}
