/**
 * The runtime, as far as finding, keeping and opening the shim goes.
 *
 * Importing this loads nothing: Deno takes milliseconds for its first module of Node's. Knows
 * nothing of which files there are, nor what for.
 *
 * @module
 */
import { nodeHost } from "./bun.ts";
import { denoHost } from "./deno.ts";
import type { Host } from "./host.ts";

/** The runtime that runs this. */
export const host: Host = denoHost ?? nodeHost;
