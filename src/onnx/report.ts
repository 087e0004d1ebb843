/**
 * What a model's runs consist of, as text and as data.
 *
 * @module
 */
import type { ProgramReport } from "../compile/mod.ts";
import type { PartReport } from "./runner.ts";

/** Consecutive nodes of a model. */
export interface ModelPart {
  /** The first and the last node. */
  readonly nodes: readonly [first: string, last: string];
  /** The number of nodes. */
  readonly count: number;
  /** Why they run by themselves; undefined for nodes that are programs. */
  readonly why: string | undefined;
  /** The programs of the nodes, the one that was used last first. */
  readonly programs: readonly ProgramReport[];
  /** The inputs whose elements are part of the kind of a program. */
  readonly static: readonly string[];
}

/** Describes the programs of a model. It prints as text. */
export class ModelReport {
  /** The parts in the order in which they run. */
  readonly parts: readonly ModelPart[];
  readonly #title: string;

  /** @ignore */
  constructor(model: object, parts: readonly PartReport[]) {
    this.#title = String(model);
    this.parts = parts;
  }

  /** The text. */
  toString(): string {
    const lines = [this.#title, ""];
    for (const { nodes: [first, last], count, why, programs, static: names } of this.parts) {
      const what = count === 1 ? first : `${count} nodes, ${first} to ${last}`;
      if (why !== undefined) {
        lines.push(`${what}: runs by itself (${why})`);
        continue;
      }
      const fixed = names.length === 0 ? "" : `; by the values of ${names.join(", ")}`;
      lines.push(`${what}: ${programs.length} programs${fixed}`);
      for (const one of programs) lines.push(String(one).replace(/^/gm, "  "));
    }
    return lines.join("\n");
  }

  /** {@link toString}, for the console of Deno. */
  [Symbol.for("Deno.customInspect")](): string {
    return this.toString();
  }

  /** {@link toString}, for the console of Bun and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}
