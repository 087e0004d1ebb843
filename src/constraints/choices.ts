/**
 * Texts that are one of some.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import type { Constraint, ConstraintContext, ConstraintState } from "../llm/batch/generation.ts";
import { Pauses, type Steps } from "../tokenizers/steps.ts";
import { setAllowed, type TokenBytes, type Vocabulary, vocabularyOf } from "./vocabulary.ts";

/** The most bytes of all texts, and the nodes and tokens between two pauses. */
const MOST_BYTES = 1_000_000, STEP = 1000;

/** The beginning of some of the texts. */
interface Node {
  /** The beginnings with one byte more. */
  readonly children: Map<number, Node>;
  /** Where each token leads that may come next. */
  readonly steps: Map<number, Node>;
  /** Whether it is one of the texts. */
  isText: boolean;
}

function newNode(): Node {
  return { children: new Map(), steps: new Map(), isText: false };
}

/** A tree of bytes: the nodes with their parents before them. */
function treeOf(texts: readonly Uint8Array[]): Node[] {
  const root = newNode();
  const nodes = [root];
  for (const bytes of texts) {
    let node = root;
    for (const byte of bytes) {
      let next = node.children.get(byte);
      if (next === undefined) {
        node.children.set(byte, next = newNode());
        nodes.push(next);
      }
      node = next;
    }
    node.isText = true;
  }
  return nodes;
}

/** The tokens by their bytes, one character each, and the most bytes of one. */
interface Index {
  readonly ids: ReadonlyMap<string, readonly number[]>;
  readonly longest: number;
}

/** The tokens that the texts may have, which begin with one of their bytes. */
function* indexOf(vocabulary: Vocabulary, texts: readonly Uint8Array[]): Steps<Index> {
  const used = new Uint8Array(256);
  for (const bytes of texts) for (const byte of bytes) used[byte] = 1;
  const ids = new Map<string, number[]>();
  let longest = 0;
  for (const [id, bytes] of vocabulary.entries()) {
    if (id % STEP === 0) yield;
    if (bytes === undefined || !bytes.every((byte) => used[byte] === 1)) continue;
    const key = String.fromCharCode(...bytes);
    const same = ids.get(key);
    if (same === undefined) ids.set(key, [id]);
    else same.push(id);
    if (bytes.length > longest) longest = bytes.length;
  }
  return { ids, longest };
}

/** Adds the tokens after each node; no token leads to where no text can be completed. */
function* addSteps(nodes: readonly Node[], { ids, longest }: Index): Steps<void> {
  let done = 0;
  for (const node of [...nodes].reverse()) {
    const open: [Node, string][] = [[node, ""]];
    while (open.length > 0) {
      if (++done % STEP === 0) yield;
      const [at, key] = open.pop()!;
      if (key !== "" && (at.isText || at.steps.size > 0)) {
        for (const id of ids.get(key) ?? []) node.steps.set(id, at);
      }
      if (key.length === longest) continue;
      for (const [byte, child] of at.children) open.push([child, key + String.fromCharCode(byte)]);
    }
  }
}

class ChoicesState implements ConstraintState {
  readonly #context: ConstraintContext;
  #node: Node;

  constructor(root: Node, context: ConstraintContext) {
    this.#node = root;
    this.#context = context;
  }

  mask(): Int32Array {
    const { vocabulary, stopTokens } = this.#context;
    const mask = new Int32Array(Math.ceil(vocabulary / 32));
    for (const id of this.#node.steps.keys()) if (id < vocabulary) setAllowed(mask, id, true);
    for (const id of stopTokens) setAllowed(mask, id, this.#node.isText);
    return mask;
  }

  accept(id: number): void {
    const next = this.#node.steps.get(id);
    if (next === undefined) {
      throw new ArgumentError(`Cannot accept token ${describe(id)}: no choice goes on with it`);
    }
    this.#node = next;
  }

  get done(): boolean {
    return this.#node.isText && this.#node.steps.size === 0;
  }
}

/**
 * Makes a constraint by which a text is exactly one of some texts, in any tokens. Needs no package.
 *
 * @param texts The texts, of 1,000,000 bytes in all at most. One may begin with another.
 * @param tokenizer The tokenizer of the model.
 * @returns A constraint for any number of texts, also at the same time.
 * @throws {ArgumentError} Without texts, and for a text that the tokens cannot make.
 * @throws {FormatError} For a tokenizer whose tokens have no bytes, such as that of BERT.
 *
 * @example
 * ```ts
 * const words = ["r", "re", "d", "blue"];
 * const bytes = words.map((word) => new TextEncoder().encode(word));
 * const constraint = await choices(["red", "blue"], {
 *   size: words.length,
 *   tokenBytes: (id: number) => bytes[id],
 * });
 * const state = await constraint.start({ vocabulary: 5, stopTokens: [4] });
 * state.mask(); // => Int32Array [10]
 * state.accept(3);
 * state.mask(); // => Int32Array [16]
 * state.done; // => true
 * ```
 */
export async function choices(
  texts: readonly string[],
  tokenizer: TokenBytes,
): Promise<Constraint> {
  const wrong = (why: string): ArgumentError => new ArgumentError(`Cannot make choices: ${why}`);
  const encoder = new TextEncoder();
  const all = listIn(texts, (text) => {
    if (typeof text !== "string") throw wrong(`a choice is a text, got ${describe(text)}`);
    if (!text.isWellFormed()) throw wrong(`${describe(text)} has half of a character`);
    return encoder.encode(text);
  });
  if (all === undefined || all.length === 0) {
    throw wrong(`they are an array of at least one text, got ${describe(texts)}`);
  }
  const size = all.reduce((sum, { length }) => sum + length, 0);
  if (size > MOST_BYTES) throw wrong(`they have ${size} bytes, above ${MOST_BYTES}`);
  const vocabulary = await vocabularyOf("make choices", tokenizer);
  const nodes = treeOf(all);
  const pauses = new Pauses(undefined);
  await pauses.finish(addSteps(nodes, await pauses.finish(indexOf(vocabulary, all))));
  const reached = new Set<Node>([nodes[0]!]);
  // Parents are before their children.
  for (const node of nodes) if (reached.has(node)) node.steps.forEach((next) => reached.add(next));
  all.forEach((bytes, i) => {
    let node = nodes[0]!;
    for (const byte of bytes) node = node.children.get(byte)!;
    if (!reached.has(node)) throw wrong(`no tokens make ${describe(texts[i])}`);
  });
  return { start: (context) => new ChoicesState(nodes[0]!, context) };
}
