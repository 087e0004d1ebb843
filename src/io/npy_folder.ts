/**
 * Folders of .npy files, one for each tensor, whose name is that of the file.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { checkBools } from "./bytes.ts";
import { type Path, readStart } from "./file.ts";
import { tryToMapNpy } from "./mapped.ts";
import { decodeNpy, NPY_START, npyInfo } from "./npy.ts";
import {
  type Identity,
  mappedEntry,
  readInto,
  type SourceOptions,
  type TensorEntry,
  type TensorSource,
} from "./source.ts";

/** The array of a file: on its memory if it can be mapped and is as in memory, else read. */
async function npyEntry(path: Path, { mmap = true }: SourceOptions): Promise<TensorEntry> {
  const { stat } = await import("node:fs/promises");
  const file = String(path);
  const identity: Identity = await stat(path);
  const { start, size } = await readStart(path, NPY_START);
  const info = npyInfo(start, size, { file });
  const { dtype, shape, begin, plain } = info;
  const entry = { dtype, type: dtype, shape };
  // Bools are checked, and must not change with the file.
  if (plain && dtype !== "bool") {
    const mapped = await tryToMapNpy(path, mmap, info);
    if (!("reason" in mapped)) return mappedEntry(entry, path, identity, () => mapped.storage);
  }
  const fill = (into: Uint8Array): void => {
    if (!plain) {
      const bytes = new Uint8Array(size);
      readInto(path, identity, 0, bytes);
      into.set(decodeNpy(bytes, { file }).data);
      return;
    }
    readInto(path, identity, begin, into);
    if (dtype === "bool") checkBools(into, file, begin);
  };
  return { ...entry, fill };
}

/** The arrays of the files `names` of a folder. One that is not read is an entry without a dtype. */
export async function npyFolder(
  folder: string,
  names: readonly string[],
  options: SourceOptions,
): Promise<TensorSource> {
  const { join } = await import("node:path");
  const entries = new Map<string, TensorEntry>();
  for (const name of names) {
    const key = name.replace(/\.npy$/i, "");
    try {
      entries.set(key, await npyEntry(join(folder, name), options));
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      const fill = (): never => {
        throw error;
      };
      entries.set(key, { dtype: undefined, type: error.message, shape: [], fill });
    }
  }
  return { file: folder, entries };
}
