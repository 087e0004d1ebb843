/**
 * Finds a Python that imports the peers of a benchmark: that of `ROWMAJOR_PYTHON`, of `.venv`, or the
 * `python3` on the path. `deno task bench --install` installs the pinned versions in `.venv`.
 *
 * Knows nothing of rows.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { readText, root } from "../../scripts/tools.ts";
import type { PythonPeer } from "./suite.ts";

/** The modules that each peer imports. */
export const MODULES: Readonly<Record<PythonPeer, readonly string[]>> = {
  "NumPy": ["numpy"],
  "PyTorch": ["numpy", "torch"],
  "torch.compile": ["numpy", "torch"],
  "ONNX Runtime": ["numpy", "onnx", "onnxruntime"],
};

/** The result of a search. */
export interface Python {
  /** The Python to use, if any. */
  readonly path?: string;
  /** The modules that it does not import, and why. */
  readonly missing: ReadonlyMap<string, string>;
}

const windows = process.platform === "win32";
/** The environment of this checkout, which may not exist yet. */
export const venv: string = join(root, ".venv");
const own = windows ? join(venv, "Scripts", "python.exe") : join(venv, "bin", "python");
const system: readonly string[] = windows ? ["python", "python3"] : ["python3", "python"];

function succeeds(path: string, args: string[], quiet = true): boolean {
  return spawnSync(path, args, { stdio: quiet ? "ignore" : "inherit" }).status === 0;
}

/** The pinned version of a package, such as `numpy==2.4.6`. */
export function pinned(name: string): string {
  const line = readText("bench/requirements.txt").split("\n")
    .find((line) => line.startsWith(`${name}==`));
  if (line === undefined) throw new Error(`bench/requirements.txt has no ${name}`);
  return line;
}

/** Makes `.venv` unless it exists; returns why it cannot. */
function makeVenv(): string | undefined {
  if (existsSync(own)) return undefined;
  const base = system.find((path) => succeeds(path, ["--version"]));
  if (base === undefined) return "there is no python3";
  return succeeds(base, ["-m", "venv", venv], false)
    ? undefined
    : `${base} -m venv .venv failed (on Debian: apt install python3-venv)`;
}

/** Installs a wheel, such as `numpy==2.4.6`, in `.venv`; returns why it cannot. */
export function installWheel(wheel: string): string | undefined {
  const failed = makeVenv();
  if (failed !== undefined) return failed;
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
  if (wheel.startsWith("torch==") && process.platform === "linux") {
    // Some indexes have a build without CUDA, at a twentieth of the size.
    if (succeeds(own, [...pip, `${wheel}+cpu`])) return undefined;
    console.error("PyTorch for Linux comes with CUDA: 3 GB to fetch, 6 GB of disk");
  }
  console.error(`Installing ${wheel} in .venv (once) ...`);
  return succeeds(own, [...pip, wheel], false) ? undefined : `pip install ${wheel} failed`;
}

/** Installs the modules of peers, and `more`, that are missing; reports failures. */
export function installPeers(peers: readonly PythonPeer[], more: readonly string[] = []): void {
  for (const name of new Set([...peers.flatMap((peer) => MODULES[peer]), ...more])) {
    if (existsSync(own) && succeeds(own, ["-c", `import ${name}`])) continue;
    const failed = installWheel(pinned(name));
    if (failed !== undefined) console.error(failed);
  }
}

/** The modules that a Python imports; undefined if there is no such Python. */
function importsOf(path: string, modules: readonly string[]): string[] | undefined {
  const code = `
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name)
    except Exception:
        pass`;
  const { status, stdout } = spawnSync(path, ["-c", code, ...modules], { encoding: "utf8" });
  return status === 0 ? stdout.trim().split(/\s+/) : undefined;
}

const found = new Map<string, Python>();

/** The Python that imports the most modules of the peers. */
export function findPython(peers: readonly PythonPeer[], more: readonly string[] = []): Python {
  const modules = [...new Set([...peers.flatMap((peer) => MODULES[peer]), ...more])];
  const known = found.get(modules.join());
  if (known !== undefined) return known;
  const given = process.env.ROWMAJOR_PYTHON;
  let best: { path: string; has: readonly string[] } | undefined;
  for (const path of modules.length === 0 ? [] : given ? [given] : [own, ...system]) {
    const has = importsOf(path, modules);
    if (has !== undefined && has.length > (best?.has.length ?? -1)) best = { path, has };
    if (has?.length === modules.length) break;
  }
  const missing = new Map(
    modules.filter((name) => !best?.has.includes(name)).map((name) => [
      name,
      `${best?.path ?? given ?? "no python3"} does not import ${name} (--install installs it)`,
    ]),
  );
  const python = { ...(best === undefined ? {} : { path: best.path }), missing };
  found.set(modules.join(), python);
  return python;
}
