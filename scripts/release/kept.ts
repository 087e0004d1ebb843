/**
 * What slow steps of the packages made, kept in zig-out by hashes of what it is made of.
 *
 * @module
 */

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import { placeFolder, root } from "../tools.ts";

/** The results of each step that stay, those used last. */
const MOST = 12;

const folderOf = (step: string): string => join(root, "zig-out", "kept", step);

/** The folder of a result that is kept. */
export function findKept(step: string, hash: string): string | undefined {
  const path = join(folderOf(step), hash);
  if (!existsSync(path)) return undefined;
  utimesSync(path, new Date(), new Date());
  return path;
}

/** Keeps the files that `fill` writes into a folder, and returns the folder. */
export function keep(step: string, hash: string, fill: (folder: string) => void): string {
  const parent = folderOf(step);
  mkdirSync(parent, { recursive: true });
  const fresh = mkdtempSync(join(parent, "new-"));
  try {
    fill(fresh);
    placeFolder(fresh, join(parent, hash));
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  const used = (name: string): number => {
    // Another process may have removed it.
    return statSync(join(parent, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  };
  const names = readdirSync(parent).map((name) => ({ name, at: used(name) }));
  for (const { name } of names.sort((a, b) => b.at - a.at).slice(MOST)) {
    rmSync(join(parent, name), { recursive: true, force: true });
  }
  return join(parent, hash);
}
