/**
 * The files of a model that the examples share: text files in a folder, and how far a load is.
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

/** A function that writes how far a load is to a terminal, if it takes more than half a second. */
export function progressPrinter(): (part: number) => void {
  const begin = performance.now();
  return (part) => {
    if (process.stderr.isTTY && performance.now() - begin > 500) {
      process.stderr.write(`\rloading ${Math.round(100 * part)}%${part === 1 ? "\n" : ""}`);
    }
  };
}
