/**
 * Beginnings of prompts that a model has computed, whole pages each, for prompts that begin alike.
 *
 * @module
 */
import { PAGE } from "./pages.ts";
import type { Sequence, SequenceMemory, SharedPart } from "./sequence.ts";

/** A page of a beginning, after the pages of its parents. */
interface Node {
  readonly key: string;
  readonly parent: Node | undefined;
  readonly part: SharedPart;
  readonly next: Map<string, Node>;
  /** When it was used last. */
  used: number;
}

/** The tokens of a page as a key. */
function keyOf(ids: readonly number[], index: number): string {
  return ids.slice(PAGE * index, PAGE * (index + 1)).join();
}

/** The beginnings that a memory keeps until it needs their pages. */
export class Beginnings {
  readonly #memory: SequenceMemory;
  readonly #first = new Map<string, Node>();
  #clock = 0;
  #count = 0;

  constructor(memory: SequenceMemory) {
    this.#memory = memory;
    memory.reclaim = () => this.#reclaim();
  }

  /** The pages that it keeps. */
  get pages(): number {
    return this.#count;
  }

  /** Gives an empty text the longest known beginning of `ids`, but not their last token. */
  begin(sequence: Sequence, ids: readonly number[]): number {
    const parts: SharedPart[] = [];
    let level = this.#first;
    for (let index = 0; PAGE * (index + 1) < ids.length; index++) {
      const node = level.get(keyOf(ids, index));
      if (node === undefined) break;
      node.used = ++this.#clock;
      parts.push(node.part);
      level = node.next;
    }
    this.#memory.begin(sequence, ids, parts);
    return PAGE * parts.length;
  }

  /** Keeps the whole pages of a text that has tokens of a prompt only, from `first` on. */
  keep(sequence: Sequence, first: number): void {
    const { tokens } = sequence;
    let level = this.#first, parent: Node | undefined;
    for (let index = 0; index < Math.floor(tokens.length / PAGE); index++) {
      const key = keyOf(tokens, index);
      let node = level.get(key);
      if (node === undefined) {
        // The pages before were needed meanwhile.
        if (index < first) return;
        const part = this.#memory.share(sequence, index);
        node = { key, parent, part, next: new Map(), used: 0 };
        level.set(key, node);
        this.#count++;
      }
      node.used = ++this.#clock;
      parent = node;
      level = node.next;
    }
  }

  #remove(node: Node): void {
    (node.parent?.next ?? this.#first).delete(node.key);
    this.#memory.release(node.part);
    this.#count--;
  }

  /** Removes the end that was not used for longest; false if there is none. */
  #reclaim(): boolean {
    let oldest: Node | undefined;
    for (const levels = [this.#first]; levels.length > 0;) {
      for (const node of levels.pop()!.values()) {
        if (node.next.size > 0) levels.push(node.next);
        else if (oldest === undefined || node.used < oldest.used) oldest = node;
      }
    }
    if (oldest === undefined) return false;
    this.#remove(oldest);
    return true;
  }

  /** Removes all. */
  clear(): void {
    while (this.#reclaim());
  }
}
