/**
 * Starting other programs: tasks, killing those that run too long, and zig's turns.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { spawn } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { placeFolder, root, runZig, start, TURN, writeWhole } from "../../scripts/tools.ts";
import { findZig } from "../native/support.ts";

const onLinux = { skip: process.platform !== "linux" && "needs /proc" };

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("npm runs every task of Deno, by its name", () => {
  const read = (name: string) => JSON.parse(readFileSync(join(root, name), "utf8"));
  const { postinstall: _, ...scripts } = read("package.json").scripts;
  const names = Object.keys(read("deno.json").tasks);
  assertEquals(scripts, Object.fromEntries(names.map((name) => [name, `deno task ${name}`])));
  // Bun warns of a name that is there twice, which JSON.parse takes.
  const text = readFileSync(join(root, "package.json"), "utf8");
  for (const name of names) assertEquals(text.split(`"${name}": "deno task`).length, 2, name);
});

test("files and folders of scripts get their names when they are whole", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-tools-"));
  try {
    const file = join(folder, "file");
    for (const text of ["a", "b"]) {
      writeWhole(file, text);
      assertEquals(readFileSync(file, "utf8"), text);
    }
    // What cannot take the place leaves nothing.
    mkdirSync(join(folder, "taken", "inner"), { recursive: true });
    assertThrows(() => writeWhole(join(folder, "taken"), "c"));
    assertEquals(readdirSync(folder).sort(), ["file", "taken"]);

    for (const name of ["one", "two"]) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "from"), name);
      placeFolder(join(folder, name), join(folder, "place"));
    }
    assertEquals(readFileSync(join(folder, "place", "from"), "utf8"), "one");
    assertThrows(() => placeFolder(join(folder, "none"), join(folder, "other")));
    assertEquals(readdirSync(folder).sort(), ["file", "place", "taken"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a program that takes too long is ended, with those that it started", onLinux, async () => {
  const lines: string[] = [];
  let processes: string[] = [];
  const code = await start("sh", ["-c", "echo begun; printf last; sleep 600 & sleep 601"], {
    onLine: (line) => lines.push(line),
    limit: { seconds: 0.5, onReached: (list) => processes = list },
  });
  assert(code !== 0);
  assertEquals(lines, ["begun", "last"]);
  assertEquals(processes.length, 3);
  assertMatch(processes[0]!, /^\d+ \S*sh -c .*\[sh S \w+\]$/);
  assertMatch(processes[1]! + processes[2]!, /^ +\d+ sleep 60\d .*\[sleep S \w+\]/);
  for (let waits = 0; waits < 100; waits++) {
    if (!processes.some((line) => lives(parseInt(line)))) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error(`still there: ${processes.join("\n")}`);
});

test("a program may end while another holds its output", onLinux, async () => {
  const begin = performance.now();
  const pids: number[] = [];
  const code = await start("sh", ["-c", "sleep 600 & echo $!"], {
    onLine: (line) => pids.push(Number(line)),
    limit: { seconds: 0.5, onReached: () => {} },
  });
  process.kill(pids[0]!, "SIGKILL");
  assert(code !== 0);
  assert(performance.now() - begin < 60_000);
});

const withZig = { skip: findZig() === undefined && "needs zig" };

/** Gives the turn to `pid` when it is free. */
async function leaveTurnTo(pid: number): Promise<void> {
  for (;;) {
    try {
      return writeFileSync(TURN, String(pid), { flag: "wx" });
    } catch {
      await new Promise((done) => setTimeout(done, 20));
    }
  }
}

test("zig runs when no other process runs it, and reports errors", withZig, async () => {
  // If a process ended without releasing its turn.
  const other = spawn(process.execPath, ["--version"], { stdio: "ignore" });
  await new Promise((done) => other.on("exit", done));
  await leaveTurnTo(other.pid!);
  assertMatch(runZig(["version"]), /^\d+\.\d+\.\d+\n$/);
  // And if another process has reused its id.
  await leaveTurnTo(process.pid);
  const before = Date.now() / 1000 - 3600;
  utimesSync(TURN, before, before);
  assertMatch(runZig(["version"]), /^\d+/);
  assertThrows(() => runZig(["cc", "missing.c"]), Error, "zig cc missing.c");
  assertEquals(runZig(["cc", "-E", "-P", "-x", "c", "-"], "#define A 7\nA").trim(), "7");
});
