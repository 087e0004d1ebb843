/**
 * The unmodified package `@langchain/openai` against a server. It has 75 MB with what it needs, so it is
 * no dependency: this test installs it in a folder of its own, if npm can.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { findTool, root } from "../../scripts/tools.ts";
import { OWN_RUNTIME, startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const PACKAGES = ["@langchain/openai@1.6.0", "@langchain/core@1.4.0"];
const folder = mkdtempSync(join(tmpdir(), "rowmajor-langchain-"));
after(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
const { status, stderr, error } = spawnSync(
  "npm",
  ["install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", ...PACKAGES],
  { cwd: folder, encoding: "utf8", timeout: 120_000 },
);
const WITH_PACKAGE = {
  skip: status !== 0 && `npm cannot install ${PACKAGES.join(" ")}: ${error ?? stderr}`,
  timeout: 120_000,
};

test(
  "langchain: chats, streams, functions, schemas, embeddings and errors",
  WITH_PACKAGE,
  async () => {
    const server = await startServer({ ...writeModels(), context: 512, slots: 4 });
    try {
      const program = "clients_langchain.mjs";
      copyFileSync(join(root, "tests", "serve", program), join(folder, program));
      const flags = OWN_RUNTIME === "deno" ? ["run", "-A", "--no-check"] : [];
      const args = [...flags, program, "@langchain/openai", `${server.url}/v1`];
      const child = spawn(findTool(OWN_RUNTIME), args, {
        ...{ cwd: folder, stdio: ["ignore", "pipe", "inherit"] },
      });
      let text = "";
      child.stdout!.setEncoding("utf8").on("data", (part: string) => text += part);
      assertEquals(await new Promise((resolve) => child.on("close", resolve)), 0);
      const seen = JSON.parse(text);
      assertEquals(seen.text, seen.whole);
      assert(seen.wholeUsage.input_tokens > 5 && seen.wholeUsage.output_tokens <= 12);
      assertEquals(seen.usage.total_tokens, seen.wholeUsage.total_tokens);
      assertEquals(Object.keys(seen.object), ["city"]);
      assertEquals(seen.calls.length, 1);
      assertEquals([seen.calls[0].name, Object.keys(seen.calls[0].args)], ["weather", ["city"]]);
      assertEquals(seen.vectors.length, 2);
      assertEquals(seen.query.length, seen.vectors[0].length);
      seen.query.forEach((value: number, i: number) =>
        assert(Math.abs(value - seen.vectors[0][i]) < 1e-6)
      );
      assertEquals(seen.status, 404);
    } finally {
      await server.end();
    }
  },
);
