/**
 * Names of tensors: patterns, the name that was perhaps meant, and lists for messages.
 *
 * Knows nothing of files or tensors.
 *
 * @module
 */

/** Lists in messages are cut to this many lines. */
const SHOWN = 8;
/** A name is suggested if at most this part of the letters has to change. */
const LARGEST_CHANGE = 0.4;
/** The most comparisons of letters for all suggestions of a message. */
const MOST_COMPARISONS = 50_000_000;

/**
 * Whether a name fits a pattern, in which * stands for any characters.
 *
 * Each part between stars is found once, from left to right: a regular expression would try all ways
 * to divide a name among the stars.
 */
export function matcher(pattern: string): (name: string) => boolean {
  const [first = "", ...others] = pattern.split(/\*+/);
  const last = others.pop();
  if (last === undefined) return (name) => name === first;
  return (name) => {
    if (!name.startsWith(first)) return false;
    let at = first.length;
    for (const part of others) {
      const found = name.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return name.length - last.length >= at && name.endsWith(last);
  };
}

/** How many letters have to be inserted, dropped or changed, if that is at most `most`. */
function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return Infinity;
  let row = Uint16Array.from({ length: b.length + 1 }, (_, j) => j);
  let next = new Uint16Array(row.length);
  for (let i = 0; i < a.length; i++) {
    next[0] = i + 1;
    let least = i + 1;
    const letter = a.charCodeAt(i);
    for (let j = 0; j < b.length; j++) {
      const changed = row[j]! + (letter === b.charCodeAt(j) ? 0 : 1);
      const cost = Math.min(changed, row[j + 1]! + 1, next[j]! + 1);
      next[j + 1] = cost;
      if (cost < least) least = cost;
    }
    if (least > most) return Infinity;
    [row, next] = [next, row];
  }
  return row[b.length]! <= most ? row[b.length]! : Infinity;
}

/** A function that finds the one of `names` that was perhaps meant by another name. */
export function suggester(names: readonly string[]): (name: string) => string | undefined {
  let left = MOST_COMPARISONS;
  return (name) => {
    let best: string | undefined;
    let most = Math.floor(name.length * LARGEST_CHANGE);
    for (const one of names) {
      if (left <= 0) break;
      left -= Math.abs(one.length - name.length) > most ? 1 : one.length * name.length;
      const changes = distance(name, one, most);
      if (changes > most) continue;
      best = one;
      most = changes - 1;
      if (most < 0) break;
    }
    return best;
  };
}

/** The first lines of a list, each below `title`, and how many more there are. */
export function linesOf<T>(title: string, list: readonly T[], write: (one: T) => string): string[] {
  const lines = list.slice(0, SHOWN).map((one) => `  ${title.padEnd(12)} ${write(one)}`);
  if (list.length > SHOWN) lines.push(`  ${title.padEnd(12)} … ${list.length - SHOWN} more`);
  return lines;
}
