/**
 * Runs after `npm ci`, under Node: makes `deno task` work beside the npm package of deno.
 *
 * That package's own install script links node_modules/.bin/deno to its native binary, but
 * `deno task` runs what is linked there as JavaScript, so that no task could call `deno`. The
 * package's launcher, to which npm had linked, serves both. Windows keeps npm's shims.
 *
 * @module
 */

import { existsSync, lstatSync, rmSync, symlinkSync } from "node:fs";

const link = new URL("../node_modules/.bin/deno", import.meta.url);
const launcher = "../deno/bin.cjs";

if (
  lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() &&
  existsSync(new URL(launcher, link))
) {
  rmSync(link);
  symlinkSync(launcher, link);
}
