/**
 * Folders of .npy files, one for each tensor, whose name is that of the file.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { quote } from "./bytes.ts";
import { type Path, readStart } from "./file.ts";
import { bytesIn } from "./mapped.ts";
import { decodeNpy, NPY_START, npyInfo } from "./npy.ts";
import {
  entryOf,
  type FileBytes,
  openBytes,
  readerOf,
  type SourceOptions,
  type TensorEntry,
  type TensorSource,
} from "./source.ts";

/** The first bytes of a file and its size: those of its memory, if it is mapped. */
async function startOf({ path, mapped }: FileBytes): Promise<{ start: Uint8Array; size: number }> {
  if ("reason" in mapped) return await readStart(path, NPY_START);
  const size = mapped.bytes;
  return { start: bytesIn(mapped, 0, Math.min(NPY_START, size), String(path)), size };
}

/** The array of a file: on its memory if it can be mapped and is as in memory, else read. */
async function npyEntry(path: Path, options: SourceOptions): Promise<TensorEntry> {
  const file = String(path);
  const bytes = await openBytes(path, options);
  const { start, size } = await startOf(bytes);
  const { dtype, shape, begin, bigEndian, fortran } = npyInfo(start, size, { file });
  const read = readerOf(bytes);
  const entry = { dtype, type: dtype, shape };
  if (!bigEndian && !fortran) return entryOf({ ...entry, begin, end: size }, file, read, bytes);
  const fill = (into: Uint8Array): void => {
    const whole = new Uint8Array(size);
    read(0, whole);
    into.set(decodeNpy(whole, { file }).data);
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
    if (entries.has(key)) {
      throw new FormatError(`two tensors get the name ${quote(key)}`, folder, 0);
    }
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
