/**
 * Finds a Python that has NumPy, or makes one in `.venv`.
 *
 * Run it alone to make the environment and see what was found; `ROWMAJOR_PYTHON` names another
 * Python. Without one the benchmark prints its own figures only. Knows nothing of the work list.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "../scripts/tools.ts";

/** The version that the committed figures were measured with. */
const NUMPY = "2.4.6";

/** A Python with NumPy, or why there is none. */
export type Python = { readonly path: string } | { readonly reason: string };

const windows = process.platform === "win32";
const venv = join(root, ".venv");
const own = windows ? join(venv, "Scripts", "python.exe") : join(venv, "bin", "python");

function succeeds(path: string, args: string[], quiet = true): boolean {
  return spawnSync(path, args, { stdio: quiet ? "ignore" : "inherit" }).status === 0;
}

/** A Python that imports NumPy; makes one in `.venv` when there is none and `install` is true. */
export function findPython(install: boolean): Python {
  const given = process.env.ROWMAJOR_PYTHON;
  const system = windows ? ["python", "python3"] : ["python3", "python"];
  for (const path of given ? [given] : [own, ...system]) {
    if (path === own && !existsSync(own)) continue;
    if (succeeds(path, ["-c", "import numpy"])) return { path };
  }
  if (given) return { reason: `ROWMAJOR_PYTHON (${given}) does not import NumPy` };
  if (!install) return { reason: "no python3 imports NumPy" };
  if (!existsSync(own)) {
    const base = system.find((path) => succeeds(path, ["--version"]));
    if (base === undefined) return { reason: "there is no python3" };
    console.error(`Making .venv with NumPy ${NUMPY} (once) ...`);
    if (!succeeds(base, ["-m", "venv", venv])) {
      return { reason: `${base} -m venv .venv failed (on Debian: apt install python3-venv)` };
    }
  }
  if (!succeeds(own, ["-m", "pip", "install", "--quiet", `numpy==${NUMPY}`], false)) {
    return { reason: `pip install numpy==${NUMPY} failed in .venv` };
  }
  return { path: own };
}

if (import.meta.main) {
  const found = findPython(true);
  console.log("path" in found ? found.path : `No NumPy: ${found.reason}`);
  process.exitCode = "path" in found ? 0 : 1;
}
