/**
 * The benchmark of starts, which makes packages and imports them in both runtimes as projects do.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import process from "node:process";
import { findTool, root } from "../../scripts/tools.ts";
import { check, run } from "./support.ts";

check("the benchmark of starts times checkouts and packages", async () => {
  const args = ["run", "-A", "--no-check", join(root, "bench", "main.ts"), "start", "--rounds=1"];
  const env = process.env as Record<string, string>;
  const { code, stdout, stderr } = await run(findTool("deno"), args, { cwd: root, env });
  assertEquals([code, stderr], [0, ""]);
  const times = [...stdout.matchAll(/^ {2}(import|first product) +([\d.]+ m?s) +([\d.]+ m?s)$/gm)];
  assertEquals(times.map(([, name]) => name), Array(3).fill(["import", "first product"]).flat());
  const titles = [...stdout.matchAll(/^(.*), 1 thread$/gm)].map(([, title]) => title);
  assertEquals(titles, ["checkout", "JSR package", "npm package"]);
});
