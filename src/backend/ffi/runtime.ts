/**
 * The current runtime: finds, keeps and opens the shim.
 *
 * Importing this module loads nothing: Deno takes milliseconds for its first module of Node. Knows
 * nothing of the files or their purpose.
 *
 * @module
 */
import { nodeHost } from "./bun.ts";
import { denoHost } from "./deno.ts";
import type { Host } from "./host.ts";

/** The current runtime. */
export const host: Host = denoHost ?? nodeHost;
