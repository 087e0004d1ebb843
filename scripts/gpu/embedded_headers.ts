/**
 * The headers that the library embeds for CUDA kernels, as `shim/cuda/modules/embed.zig` lists them.
 *
 * @module
 */
import { readText } from "../tools.ts";

/** A header that kernels may include by its base name. */
export interface EmbeddedHeader {
  readonly name: string;
  /** Its text as the library has it: a space and the line ends of each comment. */
  readonly text: string;
}

/** All of them, in the order of the library. */
export function embeddedHeaders(): EmbeddedHeader[] {
  const list = /headers = [^{]*\{([^}]*)\}/.exec(readText("shim/cuda/modules/embed.zig"))![1]!;
  return list.match(/[\w/]+\.h/g)!.map((path) => ({
    name: path.split("/").at(-1)!,
    text: readText(`shim/${path}`).replace(
      /\/\*[^]*?\*\//g,
      (comment) => " " + comment.replace(/[^\n]/g, ""),
    ),
  }));
}
