/**
 * Files inside the program: their bytes as base64, in text modules next to them.
 *
 * Both runtimes put imported modules into the executables that they make, but files only if an
 * option names them.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { rename, rm, writeFile } from "node:fs/promises";

/** The bytes of a text module. */
export function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}

/** Replaces a file: a program that reads it meets the old one or the new one, whole. */
async function replaceFile(path: URL, content: Uint8Array | string): Promise<void> {
  const own = new URL(`${path}.${crypto.randomUUID().slice(0, 8)}.new`);
  try {
    await writeFile(own, content);
    await rename(own, path);
  } catch (error) {
    await rm(own, { force: true });
    throw error;
  }
}

/** Writes a file, and the text module next to it. */
export async function writeEmbedded(path: URL, bytes: Uint8Array): Promise<void> {
  await replaceFile(path, bytes);
  await replaceFile(
    new URL(`${path}.base64`),
    Buffer.from(bytes).toString("base64") + "\n",
  );
}
