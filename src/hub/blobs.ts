/**
 * Files in the cache of models, which several programs may fill at once, and be killed meanwhile.
 *
 * Each writer has a file of its own, `blobs/<checksum>.<id>.incomplete`. Only a file that has its
 * checksum on disk gets the name `blobs/<checksum>`. A writer begins with a copy of the longest part
 * that others have left, and removes all parts of a file that is complete: a writer whose part is
 * gone finds the file. Knows nothing of the hub.
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { FormatError } from "../base/errors.ts";
import { replace } from "../io/file.ts";

/** A file to have. */
export interface Wanted {
  readonly path: string;
  readonly size: number;
  /** Of SHA-256, or of git, which is SHA-1 of a header and the bytes. */
  readonly checksum: string;
}

const HOUR = 3_600_000;
/** Milliseconds after which what is not written any more has no writer. */
const ABANDONED = HOUR;
/** Milliseconds after which parts of files that are not asked for are removed. */
const FORGOTTEN = 7 * 24 * HOUR;
/** The most times that a writer begins again because its part was removed. */
const MOST_LOST = 8;
/** The bytes that are hashed at once. */
const STEP = 1 << 20;

const INCOMPLETE = ".incomplete";
const LINK = ".link";

/** A name that no other writer has. */
function ownName(blob: string, suffix: string): string {
  return `${blob}.${crypto.randomUUID().slice(0, 8)}${suffix}`;
}

/** What `work` gives; undefined if there is no such file. */
async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Whether `blob` has the file, by its size. */
async function isThere({ size }: Wanted, blob: string): Promise<boolean> {
  const { stat } = await import("node:fs/promises");
  return (await unlessMissing(stat(blob)))?.size === size;
}

/** The files of a folder with their sizes and the times of their last changes. */
async function filesIn(
  folder: string,
): Promise<{ name: string; path: string; size: number; age: number }[]> {
  const { readdir, lstat } = await import("node:fs/promises");
  const { join } = await import("node:path");
  const now = Date.now();
  const all = (await readdir(folder)).map(async (name) => {
    const path = join(folder, name);
    const entry = await unlessMissing(lstat(path));
    return entry && { name, path, size: entry.size, age: now - entry.mtimeMs };
  });
  return (await Promise.all(all)).filter((file) => file !== undefined);
}

/** Removes a file that another program may use, or have removed. */
async function discard(path: string): Promise<void> {
  const { rm } = await import("node:fs/promises");
  await rm(path, { force: true }).catch(() => {});
}

/** Copies the longest part of a file to `own`, and returns its path; undefined if there is none. */
async function copyPart(
  { size, checksum }: Wanted,
  blob: string,
  own: string,
): Promise<string | undefined> {
  const { copyFile } = await import("node:fs/promises");
  const { dirname } = await import("node:path");
  const parts = (await filesIn(dirname(blob)))
    .filter((file) => file.name.startsWith(`${checksum}.`) && file.name.endsWith(INCOMPLETE))
    .filter((file) => file.size > 0 && file.size <= size)
    .sort((a, b) => b.size - a.size);
  for (const [i, { path }] of parts.entries()) {
    // Its writer may live, so that it is not taken over.
    if (await unlessMissing(copyFile(path, own).then(() => true)) === undefined) continue;
    for (const { path, age } of parts.slice(i)) if (age > ABANDONED) await discard(path);
    return path;
  }
  return undefined;
}

/** Whether the bytes on disk have the checksum. */
async function isWhole({ checksum, size }: Wanted, handle: FileHandle): Promise<boolean> {
  const { createHash } = await import("node:crypto");
  const git = checksum.length === 40;
  const hash = createHash(git ? "sha1" : "sha256");
  if (git) hash.update(`blob ${size}\0`);
  const bytes = new Uint8Array(Math.min(STEP, size));
  let at = 0;
  while (at < size) {
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, at);
    if (bytesRead === 0) break;
    hash.update(bytes.subarray(0, bytesRead));
    at += bytesRead;
  }
  return at === size && (await handle.stat()).size === size && hash.digest("hex") === checksum;
}

/** Gives a whole file its name, unless another program has removed it. */
async function place(wanted: Wanted, own: string, blob: string): Promise<void> {
  const { link } = await import("node:fs/promises");
  try {
    // Unlike a new name, a link does not replace the same file, which others may read by its name.
    await link(own, blob);
  } catch {
    if (await isThere(wanted, blob)) return;
    // Some file systems have no links, and a file of another size is replaced.
    await unlessMissing(replace(own, blob));
  }
}

/** Writes the bytes of a file from `here` on; false if only the whole file can be had. */
export type Fill = (handle: FileHandle, here: number) => Promise<boolean>;

/**
 * Makes `blob`, unless it is there. Throws a FormatError, and makes nothing, if the bytes do not have
 * their checksum. If `fill` throws, what it has written is kept for the next call.
 */
export async function makeBlob(wanted: Wanted, blob: string, fill: Fill): Promise<void> {
  for (let n = 0; !await isThere(wanted, blob); n++) {
    if (n === MOST_LOST) {
      throw new FormatError("other programs remove the file while it is written", wanted.path, 0);
    }
    const own = ownName(blob, INCOMPLETE);
    try {
      await writePart(wanted, blob, own, fill);
      await place(wanted, own, blob);
    } catch (error) {
      await keepPart(own, `${blob}${INCOMPLETE}`);
      throw error;
    }
    await discard(own);
  }
}

/** Writes a whole file, whose bytes on disk have their checksum, to `own`. */
async function writePart(wanted: Wanted, blob: string, own: string, fill: Fill): Promise<void> {
  const { open } = await import("node:fs/promises");
  const part = await copyPart(wanted, blob, own);
  const handle = await open(own, part === undefined ? "wx+" : "r+");
  const makeWhole = async (here: number): Promise<boolean> => {
    if (!await fill(handle, here)) return false;
    await handle.sync();
    return await isWhole(wanted, handle);
  };
  try {
    const here = (await handle.stat()).size;
    let whole = await makeWhole(here);
    if (!whole && part !== undefined) {
      // What continues a damaged part cannot be right.
      await handle.truncate(0);
      await discard(part);
      whole = await makeWhole(0);
    }
    if (whole) return;
    await handle.truncate(0);
    throw new FormatError(
      `the downloaded file does not have the checksum ${wanted.checksum} that the hub gives for it`,
      wanted.path,
      0,
    );
  } finally {
    await handle.close();
  }
}

/** Keeps a part that has no writer any more, if it is longer than the one that is kept. */
async function keepPart(own: string, kept: string): Promise<void> {
  const { stat } = await import("node:fs/promises");
  const sizeOf = (path: string): Promise<number> => stat(path).then((entry) => entry.size, () => 0);
  if (await sizeOf(own) > await sizeOf(kept)) await replace(own, kept).catch(() => {});
  await discard(own);
}

/** Gives `blob` the name `path` too; there is a whole file of that name at any time. */
export async function linkBlob(wanted: Wanted, blob: string, path: string): Promise<void> {
  const fs = await import("node:fs/promises");
  const { dirname, relative } = await import("node:path");
  const isThere = async (): Promise<boolean> => {
    const there = await unlessMissing(fs.stat(path));
    if (there === undefined || there.size !== wanted.size) return false;
    const { ino, dev } = await fs.stat(blob);
    return there.ino === ino && there.dev === dev || !(await fs.lstat(path)).isSymbolicLink();
  };
  if (await isThere()) return;
  await fs.mkdir(dirname(path), { recursive: true });
  const own = ownName(blob, LINK);
  try {
    try {
      await fs.symlink(relative(dirname(path), blob), own);
    } catch {
      // Windows and Deno permit symbolic links to few programs.
      await fs.link(blob, own).catch(() => fs.copyFile(blob, own));
    }
    await replace(own, path);
  } catch (error) {
    // Windows does not replace a file that is mapped.
    if (!await isThere()) throw error;
  } finally {
    // Links to the same file stay both.
    await discard(own);
  }
}

/** Removes what programs have left that were killed, as far as nothing can use it. */
export async function cleanBlobs(folder: string): Promise<void> {
  const files = await filesIn(folder);
  const names = new Set(files.map(({ name }) => name));
  for (const { name, path, age } of files) {
    const checksum = name.slice(0, name.indexOf("."));
    const isPart = name.endsWith(INCOMPLETE) && (names.has(checksum) || age > FORGOTTEN);
    if (isPart || name.endsWith(LINK) && age > ABANDONED) await discard(path);
  }
}
