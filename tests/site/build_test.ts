/**
 * The build of the site by `deno task site`, which checks links, searches and what pages load.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findTool, readText, root } from "../../scripts/tools.ts";

const installed = existsSync(join(root, "site", "node_modules"));
const withPackages = {
  skip: !installed && process.env.CI === undefined &&
    "site/node_modules is not installed: deno task site",
};

test(
  "the site builds without a dead link, and its links have its base",
  withPackages,
  () => {
    const { stdout, stderr, status } = spawnSync(
      findTool("deno"),
      ["run", "-A", "--no-check", join(root, "scripts", "site.ts")],
      {
        encoding: "utf8",
        cwd: root,
        env: { ...process.env, SITE_BASE: "/name/" },
      },
    );
    assertEquals(status, 0, stdout + stderr);
    assertMatch(stdout, /\d+ pages, no dead link/);
    const landing = readText("zig-out/site/index.html");
    assert(
      landing.includes('href="/name/docs/tour.html"'),
      "links have the base of the site",
    );
  },
);
