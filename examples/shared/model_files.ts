/**
 * The files of a model that the examples share: text files in a folder, and the progress of loading.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";

/**
 * The text of a file in a folder, if there is one. In an executable, its name ends in `.data`: there
 * the runtimes take other endings for modules.
 */
export function readText(name: string, folder: URL): string | undefined {
  for (const own of [name, `${name}.data`]) {
    try {
      return readFileSync(new URL(own, folder), "utf8");
    } catch (error) {
      if ((error as { code?: string }).code !== "ENOENT") throw error;
    }
  }
  return undefined;
}

/** A function that prints the progress of loading to a terminal, if it takes more than half a second. */
export function printProgress(): (progress: { loaded: number; total: number }) => void {
  const begin = performance.now();
  return ({ loaded, total }) => {
    if (process.stderr.isTTY && performance.now() - begin > 500) {
      const percent = Math.round(100 * loaded / total);
      process.stderr.write(`\rloading ${percent}%${loaded === total ? "\n" : ""}`);
    }
  };
}
