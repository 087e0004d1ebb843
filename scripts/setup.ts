/**
 * Prepares native speed on this machine: builds the shim, and finds OpenBLAS or prints how to
 * install it. With `--install` it runs the system's package manager, if that needs no password.
 *
 * Without OpenBLAS, matrix products run on the shim's own kernels, so its absence is no failure. It
 * must not know how the library finds either.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import process from "node:process";
import { ensureInstalled, findTool, start } from "./tools.ts";

/** Package managers, by the command that detects them, and their install commands. */
const MANAGERS: readonly { readonly tool: string; readonly install: readonly string[] }[] = [
  { tool: "apt-get", install: ["apt-get", "install", "-y", "libopenblas0-pthread"] },
  { tool: "dnf", install: ["dnf", "install", "-y", "openblas-threads"] },
  { tool: "pacman", install: ["pacman", "-S", "--noconfirm", "openblas"] },
  { tool: "apk", install: ["apk", "add", "openblas"] },
  { tool: "zypper", install: ["zypper", "install", "-y", "libopenblas_pthreads0"] },
  { tool: "brew", install: ["brew", "install", "openblas"] },
];

function runs(command: string, args: readonly string[] = ["--version"]): boolean {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

/** The output of `info()` in a new process, as the library is opened once per process. */
function openblas(): string {
  const code = `import { info } from "./mod.ts"; console.log(info().backends.openblas)`;
  const { stdout } = spawnSync(findTool("deno"), ["eval", code], { encoding: "utf8" });
  return stdout.trim();
}

/** True if the text names a library, not a reason. */
function isFound(text: string): boolean {
  return / at \S+$/.test(text) || text.startsWith("Accelerate");
}

async function main(): Promise<number> {
  await ensureInstalled();
  const built = await start(findTool("zig"), ["build"]);
  if (built !== 0) return built;
  let found = openblas();
  if (isFound(found)) {
    console.log(`native library: built\nOpenBLAS: ${found}`);
    return 0;
  }
  const manager = MANAGERS.find(({ tool }) => runs(tool));
  const command = manager?.install ?? [];
  const brew = command[0] === "brew";
  const root = process.getuid?.() === 0;
  if (manager !== undefined && process.argv.includes("--install") && (root || brew)) {
    if (await start(command[0]!, command.slice(1)) !== 0) return 1;
    found = openblas();
  }
  console.log(`native library: built\nOpenBLAS: ${found}`);
  if (isFound(found)) return 0;
  console.log(
    "Without it products of matrices run on the library's own kernels, somewhat slower.\n" +
      (manager === undefined
        ? "Install OpenBLAS, or take the one in `pip install scipy-openblas32`, and name its file in " +
          "ROWMAJOR_OPENBLAS."
        : `To install it: ${brew ? "" : "sudo "}${command.join(" ")}`),
  );
  return 0;
}

process.exit(await main());
