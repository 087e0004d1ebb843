/**
 * Improves graphs: which passes there are, and their order.
 *
 * @module
 */
import { kernelSource } from "../backend/cpu.ts";
import { joinAttention } from "./attend.ts";
import { keepChannelsLast } from "./channels_last.ts";
import type { Graph } from "./graph.ts";
import { fuseElementwise } from "./fuse.ts";
import { type Joined, placePieces } from "./joins.ts";
import { findTiles } from "./tiles.ts";
import { placeWrites, renameWrites } from "./writes.ts";
import { releaseEarly } from "./schedule.ts";
import { joinEpilogues, packWeights } from "./products.ts";
import {
  dropBarriers,
  dropDeadCode,
  type Fold,
  foldConstants,
  type Folded,
  maskPooled,
  shareSubexpressions,
} from "./passes.ts";

/** The improvements of a program, each of which can be turned off. */
export interface Passes {
  /** Drop ops without use: dead code elimination. */
  readonly deadCode: boolean;
  /** Compute equal ops of equal operands once: common subexpression elimination. */
  readonly subexpressions: boolean;
  /** Compute ops of constants when the program is made: constant folding. */
  readonly constants: boolean;
  /** Pack constant weights once, for products with few rows. Needs `constants`. */
  readonly pack: boolean;
  /** Compute bias, activation and residual with the product before them: epilogue fusion. */
  readonly epilogues: boolean;
  /** Keep images as [N, H, W, C] between depthwise convolutions and those of one element. Needs `constants`. */
  readonly channelsLast: boolean;
  /** Run attention as one op. */
  readonly attention: boolean;
  /** Run chains of elementwise ops in one pass over memory. */
  readonly fuse: boolean;
  /** Write the pieces of `concat` and `stack` where these would copy them. */
  readonly joins: boolean;
  /** Run ops along rows on a few rows at a time, in native programs: loop tiling. */
  readonly tiles: boolean;
}

/** All improvements. */
export const ALL_PASSES: Passes = {
  deadCode: true,
  subexpressions: true,
  constants: true,
  pack: true,
  epilogues: true,
  channelsLast: true,
  attention: true,
  fuse: true,
  joins: true,
  tiles: true,
};

/** The improved graph, whose constants `compute` computes, and what they depend on. */
export function optimize(graph: Graph, passes: Passes, compute: Fold): Folded {
  let improved = passes.fuse ? renameWrites(graph) : graph;
  if (passes.subexpressions) improved = shareSubexpressions(improved);
  improved = dropBarriers(improved);
  let versions: Folded["versions"] = new Map();
  const fold = (given: Graph): Graph => {
    const folded = foldConstants(given, compute);
    versions = new Map([...versions, ...folded.versions]);
    return folded.graph;
  };
  // Packing is worth its time only if it happens once.
  if (passes.pack && passes.constants) improved = packWeights(improved);
  if (passes.constants) improved = fold(improved);
  if (passes.fuse) improved = maskPooled(improved);
  if (passes.deadCode) improved = dropDeadCode(improved);
  if (passes.attention) improved = joinAttention(improved);
  if (passes.epilogues) improved = joinEpilogues(improved);
  // Other backends compute these convolutions by those with channels first.
  if (passes.channelsLast && passes.constants && kernelSource() !== null) {
    improved = fold(keepChannelsLast(improved));
  }
  if (passes.fuse) improved = releaseEarly(placeWrites(fuseElementwise(improved)));
  return { graph: improved, versions };
}

/** The improved graph as it runs. */
export function joinPieces(improved: Graph, passes: Passes): Joined {
  if (passes.joins) return placePieces(improved, passes.tiles ? findTiles(improved) : []);
  return { graph: improved, sources: improved.nodes.map((_, i) => i) };
}
