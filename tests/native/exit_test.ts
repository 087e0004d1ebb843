/**
 * The end of a process while a worker is inside OpenBLAS.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { info } from "../../mod.ts";
import { amount } from "../support/amount.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-exit-"));
after(() => rmSync(folder, { recursive: true }));

/** Main thread: waits for the first product of the worker, then ends by `how`. */
const program = `
  import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
  import process from "node:process";
  import { ones } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
  if (isMainThread) {
    const [how, size] = process.argv.slice(2);
    const worker = new Worker(new URL(import.meta.url), { workerData: Number(size) });
    worker.once("message", () => setTimeout(() => {
      if (how === "throw") throw new Error("expected");
      process.exit(7);
    }, 50));
  } else {
    const [x, out] = [ones([workerData, workerData]), ones([workerData, workerData])];
    ones([600, 600]).matmul(ones([600, 600]));
    parentPort.postMessage("begins");
    for (;;) x.matmul(x, { out });
  }`;

/** The exit code of the program; null if it still runs after 30 s. */
async function exitCode(how: string, size: number): Promise<number | null> {
  const script = join(folder, "exit.mjs");
  writeFileSync(script, program);
  const args = [
    ...("Deno" in globalThis ? ["run", "-A", "--no-check"] : []),
    script,
    how,
    `${size}`,
  ];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
  const code = await new Promise<number | null>((resolve) => child.once("exit", resolve));
  clearTimeout(timer);
  return code;
}

const withOpenBlas = {
  skip: info().backends.openblas.startsWith("OpenBLAS") ? false : "needs OpenBLAS",
};

test(
  "a process ends while a worker is inside OpenBLAS, by exit and by an error",
  withOpenBlas,
  async () => {
    for (let i = 0; i < amount(2, 10); i++) {
      for (const size of [600, 1500]) {
        assertEquals(await exitCode("exit", size), 7);
        assertEquals(await exitCode("throw", size), 1);
      }
    }
    // One product takes longer than the time until the exit.
    for (let i = 0; i < amount(1, 20); i++) assertEquals(await exitCode("exit", 4000), 7);
  },
);
