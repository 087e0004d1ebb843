/**
 * Finds and opens the shim when someone asks for it, and says why when it cannot.
 *
 * Importing this opens nothing. A missing library, a refused permission or a library of another
 * version are no errors: the reason comes back and the backend that was there goes on serving.
 * Knows nothing of ops.
 *
 * @module
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { type Shim, tableHash, type Unavailable, VERSION } from "./abi.ts";
import { bunVariable, isBun, openInBun } from "./bun.ts";
import { deno, denoVariable, mayOpen, openInDeno } from "./deno.ts";

export type { Unavailable } from "./abi.ts";

const FILES: Record<string, string> = {
  win32: "rowmajor.dll",
  darwin: "librowmajor.dylib",
};

/** What the library's file is called on this system. */
export const LIBRARY_FILE: string = FILES[process.platform] ?? "librowmajor.so";

/** An error's message in one line. */
function inWords(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s+/g, " ").trim();
}

/** Where the library should be: what `ROWMAJOR_LIB` says, else the folder that zig builds into. */
function findLibrary(): string | Unavailable {
  const named = deno !== undefined ? denoVariable("ROWMAJOR_LIB") : bunVariable("ROWMAJOR_LIB");
  if (named !== undefined && named !== "") return named;
  const url = new URL(
    `../../../zig-out/lib/${LIBRARY_FILE}`,
    import.meta.url,
  );
  if (url.protocol !== "file:") {
    return { reason: "no native library comes with a remote module: set ROWMAJOR_LIB" };
  }
  return fileURLToPath(url);
}

let shared: Shim | Unavailable | undefined;

/** The shim where it is usually found, opened once for all backends, or why there is none. */
export function findShim(): Shim | Unavailable {
  return shared ??= openShim();
}

/**
 * Opens the shim at `path`, or where it is usually found, and checks that it speaks this version.
 * Never throws and never prompts.
 */
export function openShim(path?: string): Shim | Unavailable {
  try {
    const found = path ?? findLibrary();
    if (typeof found !== "string") return found;
    let shim: Shim;
    if (deno !== undefined) {
      if (!mayOpen(found)) return { reason: `not allowed to open ${found}: use --allow-ffi` };
      shim = openInDeno(found);
    } else if (isBun) shim = openInBun(found);
    else return { reason: "only Deno and Bun can open native libraries" };
    if (shim.rm_version() !== VERSION) {
      return {
        reason: `${found} has version ${shim.rm_version()}, not ${VERSION}: build it again`,
      };
    }
    if (shim.rm_table_hash() !== tableHash()) {
      return { reason: `${found} was built from another op table: build it again` };
    }
    return shim;
  } catch (error) {
    return { reason: inWords(error) };
  }
}
