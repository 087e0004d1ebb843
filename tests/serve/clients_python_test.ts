/**
 * The unmodified package `openai` of PyPI against a server, in a virtual environment of its own, if
 * Python can make one and pip can install the package.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const PACKAGE = "openai==3.57.0";
const folder = mkdtempSync(join(tmpdir(), "rowmajor-python-"));
after(() => rmSync(folder, { recursive: true }));
const scripts = join(folder, process.platform === "win32" ? "Scripts" : "bin");
const python = join(scripts, "python");

/** Why there is no environment with the package. */
function whyNot(): string | false {
  for (
    const [command, ...args] of [
      [process.env.ROWMAJOR_PYTHON || "python3", "-m", "venv", folder],
      [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE],
    ]
  ) {
    const { status, stderr, error } = spawnSync(command!, args, {
      ...{ encoding: "utf8", timeout: 240_000 },
    });
    if (status !== 0) return `${command} ${args.join(" ")} failed: ${error ?? stderr}`;
  }
  return false;
}

const WITH_PACKAGE = { skip: whyNot(), timeout: 120_000 };

test(
  "openai of PyPI: chats, streams, functions, schemas, vectors, errors",
  WITH_PACKAGE,
  async () => {
    const server = await startServer({ ...writeModels(), context: 4200, slots: 4 });
    try {
      const program = join(root, "tests", "serve", "clients_python.py");
      const child = spawn(python, [program, `${server.url}/v1`], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (part: string) => text += part);
      assertEquals(await new Promise((resolve) => child.on("close", resolve)), 0);
      const seen = JSON.parse(text);
      assertEquals(seen.models, ["chat", "embeddings", "rerank"]);
      assertEquals([seen.text, seen.usage], [seen.whole, seen.wholeUsage]);
      assertEquals([seen.call[0], Object.keys(seen.call[1])], ["weather", ["city"]]);
      assertEquals(Object.keys(seen.object), ["city"]);
      assert(typeof seen.completion === "string");
      assertEquals(seen.vectors.length, 2);
      assert(Math.abs(Math.hypot(...seen.vectors[0]) - 1) < 1e-4);
      assertEquals(seen.errors, [
        ["NotFoundError", 404],
        ["BadRequestError", 400],
        ["BadRequestError", 400],
      ]);
      const { active, cancelled, inFlight } = await server.stats();
      assertEquals([active, cancelled, inFlight], [0, 1, 0]);
    } finally {
      await server.end();
    }
  },
);
