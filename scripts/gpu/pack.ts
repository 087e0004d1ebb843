/**
 * Makes .gpu, the folder that scripts/gpu/verify.sh needs on a machine without a network: the shim
 * for Linux, the kernels for machines without NVRTC, one runtime, compressed, and the packages that
 * tests import.
 *
 *     scripts/gpu/pack.ts [deno|bun]
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { findTool, root } from "../tools.ts";

/** Packages that tests import. */
const PACKAGES = ["deno-std", "fast-check", "pure-rand"];
/** The size limit of the folder. */
const LIMIT_BYTES = 64 * 2 ** 20;

function run(command: string, args: string[], env: Record<string, string> = {}): void {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? `exit ${status}`}`);
}

/** Compresses a program with xz at its best level. */
function compress(path: string, to: string): void {
  const program = `import lzma, os, shutil
filters = [{"id": lzma.FILTER_X86}, {
    "id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27}]
with open(os.environ["PACK_FROM"], "rb") as a:
    with lzma.open(os.environ["PACK_TO"], "wb", filters=filters) as b:
        shutil.copyfileobj(a, b)`;
  // Not as arguments: Deno mistakes its own path among them for a call of Node, and adds "run -A".
  run("python3", ["-c", program], { PACK_FROM: path, PACK_TO: to });
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

const runtime = process.argv[2] ?? "deno";
if (runtime !== "deno" && runtime !== "bun") {
  console.error("usage: scripts/gpu/pack.ts [deno|bun]");
  process.exit(2);
}
const folder = join(root, ".gpu");
rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, "node_modules"), { recursive: true });
run(findTool("zig"), ["build", "linux-x64", "ptx"]);
for (const file of ["linux-x64/librowmajor.so", "rowmajor-ptx.bin"]) {
  cpSync(join(root, "zig-out", "lib", file), join(folder, basename(file)));
}
for (const name of PACKAGES) {
  const from = join(root, "node_modules", name);
  if (!existsSync(from)) throw new Error(`Cannot find ${from}: run npm ci first`);
  cpSync(from, join(folder, "node_modules", name), { recursive: true, dereference: true });
}
compress(findTool(runtime), join(folder, `${runtime}.xz`));
const bytes = sizeOf(folder);
console.log(`${folder}: ${(bytes / 2 ** 20).toFixed(1)} MiB with ${runtime}`);
if (bytes > LIMIT_BYTES) {
  console.error(`That is more than the ${LIMIT_BYTES / 2 ** 20} MiB that can be brought`);
  process.exit(1);
}
