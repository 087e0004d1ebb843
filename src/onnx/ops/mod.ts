/**
 * The ops by their names: `"Conv"`, `"com.microsoft.BiasGelu"`.
 *
 * @module
 */
import type { Implementation } from "../graph/call.ts";
import { ATTENTION } from "./attention.ts";
import { CONTROL } from "./control.ts";
import { CONVOLUTIONS } from "./convolutions.ts";
import { ELEMENTWISE } from "./elementwise.ts";
import { IMAGES } from "./images.ts";
import { LOSSES } from "./losses.ts";
import { PRODUCTS } from "./products.ts";
import { QUANTIZATION } from "./quantization.ts";
import { RANDOM } from "./random.ts";
import { RECURRENT } from "./recurrent.ts";
import { REDUCTIONS } from "./reductions.ts";
import { SHAPES } from "./shapes.ts";
import { SIGNAL } from "./signal.ts";
import { STATES } from "./states.ts";
import { TEXTS } from "./texts.ts";

/** What computes each op. */
export const OPS: ReadonlyMap<string, Implementation> = new Map(
  [
    ELEMENTWISE,
    SHAPES,
    REDUCTIONS,
    PRODUCTS,
    CONVOLUTIONS,
    ATTENTION,
    QUANTIZATION,
    LOSSES,
    SIGNAL,
    RANDOM,
    RECURRENT,
    STATES,
    IMAGES,
    CONTROL,
    TEXTS,
  ].flatMap((family) => Object.entries(family)),
);
