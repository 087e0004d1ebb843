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
if (isMain === true) {
  const args = process.argv.slice(2);
  process.stdout.on("error", (error: { readonly code?: string }) => {
    if (error.code !== "EPIPE") throw error;
    // Nobody reads the rest, as of `rowmajor embed ... | head`. A server goes on without its log.
    if (args[0] !== "serve") process.exit(0);
  });
  process.exitCode = await main(args);
}
