/**
 * The command `rowmajor`, which runs if this module is the main one: it serves models over HTTP, talks
 * with them, turns texts into vectors, and tells what a model is and what computes it.
 *
 * ```sh
 * deno run -A jsr:@rowmajor/tensor/command serve SmolLM2-135M-Instruct.Q4_1.gguf
 * ```
 *
 * @module
 */
import process from "node:process";
import { main } from "./command.ts";

export { main };

// Not import.meta.main itself: Bun's bundler writes something else for it, which is true in all modules
// of Deno.
const { main: isMain } = import.meta as { readonly main?: boolean };
if (isMain === true) process.exitCode = await main(process.argv.slice(2));
