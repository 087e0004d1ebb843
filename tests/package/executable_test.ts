/**
 * Executables of the digits demo, with the library and the model inside: built by Bun, and by Deno
 * if possible, and run elsewhere, leaving nothing behind except the cache.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { builtLibraries, HOST } from "../../scripts/release/package.ts";
import { root } from "../../scripts/tools.ts";
import { check, inDeno, makeExecutable, run, temporary } from "./support.ts";

/**
 * The arguments of `deno task executable` in docs/install.md, except for the name of the
 * executable.
 */
const documented = /^deno task executable (.*) --out=digits$/m.exec(
  readFileSync(join(root, "docs", "install.md"), "utf8"),
)![1]!.split(" ");

/** Builds a program with this runtime, and runs it twice without the repository. */
async function makeAndRun(
  flags: readonly string[],
  program: readonly string[] = documented,
  expected = "accuracy: 97.8%",
): Promise<void> {
  using folder = temporary();
  const [elsewhere, temp, cache] = ["elsewhere", "temporary", "cache"].map((name) =>
    join(folder.path, name)
  );
  for (const path of [elsewhere!, temp!]) mkdirSync(path);
  const out = join(elsewhere!, process.platform === "win32" ? "digits.exe" : "digits");
  await makeExecutable(out, [...program, ...flags]);
  const library = builtLibraries(HOST)[HOST]![0]!;
  chmodSync(elsewhere!, 0o555);
  using _ = { [Symbol.dispose]: () => chmodSync(elsewhere!, 0o755) };
  const env = { TMPDIR: temp!, TEMP: temp!, TMP: temp!, HOME: elsewhere!, ROWMAJOR_CACHE: cache! };
  const seen: unknown[] = [];
  for (let n = 0; n < 2; n++) {
    const { code, stdout, stderr } = await run(out, [], { cwd: elsewhere!, env });
    assertEquals([code, stderr], [0, ""]);
    assertStringIncludes(stdout, expected);
    seen.push([
      [elsewhere!, temp!, cache!].map((path) => readdirSync(path, { recursive: true }).sort()),
      statSync(join(cache!, library.sha256, library.name)).ino,
    ]);
  }
  console.log(`executable: ${statSync(out).size} bytes, the library is kept, nothing is left`);
  assertEquals(seen[1], seen[0]);
  assertEquals(readdirSync(temp!), []);
}

/** A program that uses optional packages, and what it prints. */
const PICTURES = "tests/package/programs/pictures.ts";
const SEEN = "[8,8,1] 2016 [8,8,3]";

if (inDeno) {
  // Deno embeds a program in its smaller runtime, denort, which it downloads unless a file is
  // named.
  const named = process.env.DENORT_BIN !== undefined;
  if (!named) console.log("deno compile is not tested: DENORT_BIN does not name a denort");
  (named ? check : test.skip)(
    "deno compile makes the demo (needs DENORT_BIN)",
    () => makeAndRun([]),
  );
  (named ? check : test.skip)(
    "deno compile includes the packages for pictures (needs DENORT_BIN)",
    () => makeAndRun([], [PICTURES], SEEN),
  );
} else {
  for (const flags of [[], ["--minify"]]) {
    check(`bun build --compile ${flags} makes the demo`, () => makeAndRun(flags));
  }
  check(
    "bun build --compile includes the packages for pictures",
    () => makeAndRun([], [PICTURES], SEEN),
  );
  check("an executable has the files that options name", () => {
    const main = "tests/package/programs/included.ts";
    const include = "--include=examples/digits/model.safetensors=weights/model.safetensors";
    return makeAndRun([], [main, include], "bias1 float32 [128]");
  });
}
