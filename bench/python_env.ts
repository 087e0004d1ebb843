/**
 * Finds a Python with NumPy and PyTorch, or makes one in `.venv`.
 *
 * Run it alone to make the environment and print the result; `ROWMAJOR_PYTHON` names another
 * Python. Unavailable libraries are omitted from the benchmark. Knows nothing of the work list.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "../scripts/tools.ts";

/** The versions that the committed figures were measured with. */
const VERSIONS = {
  numpy: "2.4.6",
  torch: "2.15.0",
  onnx: "1.23.2",
  onnxruntime: "1.32.0",
} as const;

/** A Python package that the benchmark compares with. */
export type Package = keyof typeof VERSIONS;

/** The result of the search. */
export interface Python {
  /** The Python to use, if any. */
  readonly path?: string;
  /** The missing packages, and why. */
  readonly missing: ReadonlyMap<Package, string>;
}

const windows = process.platform === "win32";
/** The environment of this checkout, which may not exist yet. */
export const venv: string = join(root, ".venv");
const own = windows ? join(venv, "Scripts", "python.exe") : join(venv, "bin", "python");

function succeeds(path: string, args: string[], quiet = true): boolean {
  return spawnSync(path, args, { stdio: quiet ? "ignore" : "inherit" }).status === 0;
}

function imports(path: string, name: Package): boolean {
  return succeeds(path, ["-c", `import ${name}`]);
}

const system: readonly string[] = windows ? ["python", "python3"] : ["python3", "python"];

/** Makes `.venv` unless it exists; returns why it cannot. */
function makeVenv(): string | undefined {
  if (existsSync(own)) return undefined;
  const base = system.find((path) => succeeds(path, ["--version"]));
  if (base === undefined) return "there is no python3";
  return succeeds(base, ["-m", "venv", venv], false)
    ? undefined
    : `${base} -m venv .venv failed (on Debian: apt install python3-venv)`;
}

const PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"] as const;

/** Installs a wheel without importing it into `.venv`; returns why it cannot. */
export function installWheel(name: string, version: string): string | undefined {
  const failed = makeVenv();
  if (failed !== undefined) return failed;
  const pinned = `${name}==${version}`;
  console.error(`Installing ${pinned} in .venv (once) ...`);
  return succeeds(own, [...PIP, pinned], false)
    ? undefined
    : `pip install ${pinned} failed in .venv`;
}

/** Installs a package into `.venv`; true if it can be imported afterwards. */
function install(name: Package): boolean {
  const pinned = `${name}==${VERSIONS[name]}`;
  if (name === "torch" && process.platform === "linux") {
    // Some indexes have a build without CUDA, at a twentieth of the size.
    if (succeeds(own, [...PIP, `${pinned}+cpu`]) && imports(own, name)) return true;
    console.error(
      "PyTorch for Linux comes with CUDA: 3 GB to fetch, 6 GB of disk, 1 to 10 minutes",
    );
  }
  console.error(`Installing ${pinned} in .venv (once) ...`);
  return succeeds(own, [...PIP, pinned], false) && imports(own, name);
}

/** A Python that imports as many of `wanted` as possible; installs missing ones if permitted. */
export function findPython(wanted: readonly Package[], mayInstall: readonly Package[]): Python {
  const missing = new Map<Package, string>();
  if (wanted.length === 0) return { missing };
  const given = process.env.ROWMAJOR_PYTHON;
  let best: { path: string; has: readonly Package[] } | undefined;
  for (const path of given ? [given] : [own, ...system]) {
    if (path === own && !existsSync(own)) continue;
    const has = wanted.filter((name) => imports(path, name));
    if (has.length > (best?.has.length ?? 0)) best = { path, has };
    if (has.length === wanted.length) return { path, missing };
  }
  const lacking = wanted.filter((name) => !best?.has.includes(name));
  if (!given && lacking.some((name) => mayInstall.includes(name))) {
    const failed = makeVenv();
    const ready = failed === undefined;
    const has = wanted.filter((name) => {
      if (ready && (imports(own, name) || (mayInstall.includes(name) && install(name)))) {
        return true;
      }
      if (!mayInstall.includes(name)) return false;
      missing.set(name, ready ? `pip install ${name}==${VERSIONS[name]} failed in .venv` : failed!);
      return false;
    });
    if (has.length >= (best?.has.length ?? 0) && has.length > 0) return { path: own, missing };
  }
  for (const name of wanted) {
    if (best?.has.includes(name)) missing.delete(name);
    else if (!missing.has(name)) {
      missing.set(name, given ? `${given} does not import it` : "no python3 imports it");
    }
  }
  return { path: best?.path, missing };
}

if (import.meta.main) {
  const { path, missing } = findPython(["numpy", "torch"], ["numpy", "torch"]);
  console.log(path ?? "no Python");
  for (const [name, reason] of missing) console.log(`without ${name}: ${reason}`);
  process.exitCode = missing.size === 0 ? 0 : 1;
}
