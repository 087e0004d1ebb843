/**
 * Files inside the program: their bytes as base64, in text modules next to them.
 *
 * Both runtimes put imported modules into the executables that they make, but files only if an
 * option names them.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { writeFile } from "node:fs/promises";

/** The bytes of a text module. */
export function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}

/** Writes a file, and the text module next to it. */
export async function writeEmbedded(path: URL, bytes: Uint8Array): Promise<void> {
  await writeFile(path, bytes);
  await writeFile(new URL(`${path}.base64`), Buffer.from(bytes).toString("base64") + "\n");
}
