/**
 * The peers in Node: packages that `npm install` puts in bench/peers, at pinned versions.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/tools.ts";
import { mayHold, wants } from "../harness/served.ts";
import type { RunOptions } from "../harness/suite.ts";

/** The folder in which Node runs. */
export const PEERS_FOLDER: string = join(root, "bench", "peers");

/** The version of a package; reports why it cannot be used. One without native code has any level. */
export function versionOf(
  options: RunOptions,
  peer: string,
  name: string,
  anyLevel = false,
): string | undefined {
  if (!wants(options, peer) || !(anyLevel || mayHold(options, peer))) return undefined;
  const manifest = join(PEERS_FOLDER, "node_modules", name, "package.json");
  if (!existsSync(manifest)) {
    options.without(peer, "npm install in bench/peers installs it");
    return undefined;
  }
  return JSON.parse(readFileSync(manifest, "utf8")).version as string;
}
