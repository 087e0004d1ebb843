/**
 * Finds tokens that are in a text as they are, such as `<|im_start|>`.
 *
 * @module
 */

/** A node of the tree of all tokens, by their characters. */
interface Node {
  readonly next: Map<string, Node>;
  id: number | undefined;
}

/** The escape of a code unit in a class of a pattern. */
function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** The characters that are compared between two pauses. */
const STEP = 20_000;

/** Finds tokens in texts, the longest one at each place. */
export class Finder {
  readonly #root: Node = { next: new Map(), id: undefined };
  #first: RegExp | undefined;

  /** Adds a token, unless its text is empty or there. */
  add(text: string, id: number): void {
    if (text === "") return;
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      let child = node.next.get(text[i]!);
      if (child === undefined) node.next.set(text[i]!, child = { next: new Map(), id: undefined });
      node = child;
    }
    node.id ??= id;
    this.#first = undefined;
  }

  /** The parts of a text: ids of such tokens, and the texts between them; undefined is a pause. */
  *split(text: string): Generator<string | number | undefined, void, void> {
    const { next } = this.#root;
    if (next.size === 0) {
      if (text !== "") yield text;
      return;
    }
    const first = this.#first ??= new RegExp(`[${[...next.keys()].map(escapeUnit).join("")}]`, "g");
    let from = 0, compared = 0;
    for (let at = 0; at < text.length;) {
      if (compared > STEP) {
        compared = 0;
        yield undefined;
      }
      first.lastIndex = at;
      const found = first.exec(text);
      if (found === null) break;
      at = found.index;
      let node: Node | undefined = this.#root;
      let id: number | undefined, end = at;
      for (let i = at; i < text.length; i++) {
        compared++;
        node = node.next.get(text[i]!);
        if (node === undefined) break;
        if (node.id !== undefined) [id, end] = [node.id, i + 1];
      }
      if (id === undefined) at++;
      else {
        if (at > from) yield text.slice(from, at);
        yield id;
        from = at = end;
      }
    }
    if (from < text.length) yield text.slice(from);
  }
}
