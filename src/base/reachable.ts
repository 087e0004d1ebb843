/**
 * Finds the tensors in what a function returns.
 *
 * @module
 */

/** The most objects to look into. */
const MOST_OBJECTS = 100_000;

const mapSize = Object.getOwnPropertyDescriptor(Map.prototype, "size")!.get!;
const setSize = Object.getOwnPropertyDescriptor(Set.prototype, "size")!.get!;

/** Whether `one` is an object of the realm's class, or of another realm's, which has its slots. */
function hasSlots(one: object, ours: boolean, size: () => unknown): boolean {
  if (ours) return true;
  const prototype = Object.getPrototypeOf(one);
  // Most objects: they need no try, which is slow.
  if (prototype === null || prototype === Object.prototype || Array.isArray(one)) return false;
  try {
    size.call(one);
    return true;
  } catch {
    return false;
  }
}

function isMap(one: object): one is Map<unknown, unknown> {
  return hasSlots(one, one instanceof Map, mapSize);
}

function isSet(one: object): one is Set<unknown> {
  return hasSlots(one, one instanceof Set, setSize);
}

/**
 * The objects in `root` for which `isWanted` is true: in arrays, maps, sets, and own properties of
 * objects, at any depth. Calls no getters, and does not look into typed arrays and functions.
 *
 * Throws a RangeError if there are more than 100,000 objects.
 */
export function reachable(root: unknown, isWanted: (one: object) => boolean): Set<unknown> {
  const found = new Set<unknown>();
  const seen = new Set<object>();
  const waiting: object[] = [];
  const add = (one: unknown): void => {
    if (typeof one !== "object" || one === null) return;
    if (isWanted(one)) {
      found.add(one);
      return;
    }
    if (seen.has(one) || ArrayBuffer.isView(one)) return;
    if (seen.size >= MOST_OBJECTS) {
      throw new RangeError(
        `Cannot scope: the result has more than ${MOST_OBJECTS} objects; return the tensors alone`,
      );
    }
    seen.add(one);
    waiting.push(one);
  };
  add(root);
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    if (isMap(one)) {
      Map.prototype.forEach.call(one, (value, key) => {
        add(key);
        add(value);
      });
    } else if (isSet(one)) Set.prototype.forEach.call(one, add);
    for (const key of Reflect.ownKeys(one)) {
      const property = Reflect.getOwnPropertyDescriptor(one, key);
      if (property !== undefined) add(property.value);
    }
  }
  return found;
}
