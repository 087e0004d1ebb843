/**
 * Runs the tests of the native library on Linux for x86-64 with Bun for another system: `windows`
 * with Wine (8 or newer), `arm64` with qemu-aarch64 and arm64's C library (Debian: wine64,
 * qemu-user, libc6-arm64-cross, libstdc++6-arm64-cross). Further arguments select test files by
 * parts of their names.
 *
 * Builds the library, and downloads the pinned Bun for that system into `zig-out/elsewhere`. Runs
 * only tests that start no programs, which would be programs of this machine. The last line is the
 * total.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { TARGETS } from "./release/package.ts";
import {
  ensureInstalled,
  findTool,
  placeFolder,
  readText,
  root,
  runZig,
  start,
  testFiles,
} from "./tools.ts";

interface System {
  /** The target of the build. */
  readonly target: string;
  /** Bun's package, and its executable there. */
  readonly bun: string;
  readonly program: string;
  /** The emulator, and its environment. */
  readonly runner: readonly string[];
  readonly env: Record<string, string>;
  /** Converts a path to the other system. */
  readonly path: (path: string) => string;
  /** A test file that cannot run there. */
  readonly without?: string;
}

const folder = join(root, "zig-out", "elsewhere");

const SYSTEMS: Record<string, System> = {
  windows: {
    target: "win32-x64",
    bun: "bun-windows-x64",
    program: "bun.exe",
    runner: ["wine"],
    env: { WINEPREFIX: join(folder, "wine"), WINEDEBUG: "-all", DISPLAY: "" },
    path: (path) => `Z:${path.replaceAll("/", "\\")}`,
  },
  arm64: {
    target: "linux-arm64",
    bun: "bun-linux-aarch64",
    program: "bun",
    runner: ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    env: {},
    path: (path) => path,
    // It makes a growable SharedArrayBuffer, for which QEMU 7 denies Bun an mprotect.
    without: "tests/api/bad_arguments_test.ts",
  },
};

/** A library of Windows with one function that Bun needs and Wine 8 lacks. */
const RANDOM = `
#include <stddef.h>
__declspec(dllimport) unsigned char SystemFunction036(void *to, unsigned long n);
__declspec(dllexport) int ProcessPrng(unsigned char *to, size_t n) {
  for (size_t i = 0; i < n; i += 65536) SystemFunction036(to + i, n - i < 65536 ? n - i : 65536);
  return 1;
}`;

/** The folder of the program in a package of Bun. */
const WITHIN = join("package", "bin");

/** Bun for `system`, downloaded if it is missing. */
async function fetchBun({ bun, program }: System): Promise<string> {
  const manifest = join(root, "node_modules", "bun", "package.json");
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  const place = join(folder, `${bun}-${version}`);
  if (existsSync(place)) return join(place, WITHIN, program);
  mkdirSync(folder, { recursive: true });
  const fresh = mkdtempSync(`${place}-new-`);
  try {
    await fetchInto(fresh, program, `@oven/${bun}@${version}`);
    placeFolder(fresh, place);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return join(place, WITHIN, program);
}

/** Downloads a package of Bun into an empty folder. */
async function fetchInto(fresh: string, program: string, name: string): Promise<void> {
  const args = ["pack", "--json", name];
  const { status, stdout, stderr, error } = spawnSync("npm", args, { cwd: fresh });
  if (status !== 0) throw new Error(`Cannot fetch Bun: ${error?.message ?? stderr}`);
  const [{ filename }] = JSON.parse(String(stdout));
  const code = await start("tar", ["-xzf", filename], { cwd: fresh });
  if (code !== 0) throw new Error(`tar exited with ${code}`);
  if (program.endsWith(".exe")) {
    const library = join(fresh, WITHIN, "bcryptprimitives.dll");
    const target = ["-target", "x86_64-windows-gnu"];
    runZig(["cc", ...target, "-shared", "-o", library, "-xc", "-", "-ladvapi32"], RANDOM);
  }
}

/** In files with some tests that start programs, the tests that do not. */
const SOME: Record<string, string> = {
  "tests/native/matmul_test.ts": "agree with js",
  "tests/native/threads_test.ts": "show in (maps|reductions|softmax|sorts|random|gathers)",
};

/**
 * The tests of the library that start no programs and remove no folder, which Wine refuses.
 * Excludes tests of JavaScript's own functions, which are as exact as the system's: Wine's expm1 is
 * off by 2 ulp.
 */
function chooseFiles(parts: readonly string[], without?: string): string[] {
  const others =
    /^examples\/|^tests\/(cuda|docs|emulator|gpu|lint|package|project|server|site)\/|\/(add_an_op|primitives)_/;
  const programs = /\b(runApart|spawnSync|spawn|rmSync|startServer|runZig|new Worker)\(/;
  return testFiles().filter((path) =>
    path !== without && !others.test(path) &&
    (parts.length === 0 || parts.some((part) => path.includes(part))) &&
    (path in SOME || !programs.test(readText(path)))
  );
}

async function main([name = "", ...parts]: string[]): Promise<number> {
  const system = SYSTEMS[name];
  if (system === undefined) {
    console.error(
      `usage: cross_run.ts ${Object.keys(SYSTEMS).join("|")} [part of a file name ...]`,
    );
    return 2;
  }
  await ensureInstalled();
  const bun = await fetchBun(system);
  if (await start(findTool("zig"), ["build", system.target]) !== 0) return 1;
  const library = join(root, "zig-out", "lib", system.target, TARGETS[system.target]!);
  const env = {
    ...process.env,
    ...system.env,
    ROWMAJOR_LIB: system.path(library),
    ROWMAJOR_OPENBLAS: "none",
  };
  const run = (args: string[], lines: string[]): Promise<number> =>
    start(system.runner[0]!, [...system.runner.slice(1), bun, ...args], {
      env,
      onLine: (line) => lines.push(line),
      limit: { seconds: 3600, onReached: () => lines.push("not ended after an hour") },
    });
  const said: string[] = [];
  const question = `import { info } from "./mod.ts"; console.log(info().backends.native)`;
  if (await run(["-e", question], said) !== 0 || !said.includes("in use")) {
    throw new Error(`The library does not serve there:\n${said.join("\n")}`);
  }
  const total = { pass: 0, skip: 0, fail: 0 };
  for (const file of chooseFiles(parts, system.without)) {
    const pattern = SOME[file] === undefined ? [] : ["--test-name-pattern", SOME[file]];
    const lines: string[] = [];
    const begin = performance.now();
    const code = await run(
      ["test", "--timeout=3600000", ...pattern, `./${file}`],
      lines,
    );
    const counts = { pass: 0, skip: 0, fail: 0 };
    for (const line of lines) {
      const found = /^ *(\d+) (pass|skip|fail)$/.exec(line);
      if (found) counts[found[2] as keyof typeof counts] += Number(found[1]);
    }
    if (code !== 0 && counts.fail === 0) counts.fail++;
    for (const key of ["pass", "skip", "fail"] as const) total[key] += counts[key];
    const { pass, fail, skip } = counts;
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    console.log(
      `${name} ${file}: ${pass} passed, ${fail} failed, ${skip} skipped (${seconds} s)`,
    );
    if (fail > 0) console.log(lines.filter((l) => !l.startsWith("(pass)")).join("\n"));
  }
  console.log(`${total.pass} passed, ${total.fail} failed, ${total.skip} skipped`);
  return total.fail > 0 || total.pass === 0 ? 1 : 0;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
