/**
 * The library with the sanitizers of addresses and of undefined behavior (`zig build sanitized`): the
 * driver calls every kernel of it, and tests in JavaScript the entry points that the driver does not
 * reach. The programs of driver_test.ts also run with the thread sanitizer.
 *
 * docs/adr/0030-one-sanitized-library.md says what each finds.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findTool, root, runZig } from "../../scripts/tools.ts";
import { LIBRARY_FILE } from "../../src/backend/ffi/load.ts";
import {
  addressSanitizer,
  buildOnLibrary,
  buildPart,
  onX64,
  PARTS,
  run,
  withAddressSanitizer,
} from "./driver.ts";
import { when } from "./support.ts";

const sanitized = join(root, "zig-out", "sanitized", LIBRARY_FILE);

test(...when(withAddressSanitizer, "the driver passes on the sanitized library", (folder) => {
  runZig(["build", "sanitized"]);
  const flags = ["-fsanitize=address", "-fno-sanitize=undefined", addressSanitizer!];
  const output = run(buildOnLibrary(folder, sanitized, flags), ["0"]);
  assertStringIncludes(output, "1 levels, ");
}));

/** The tests of what only TypeScript calls: chains, programs, and plans that leave a storage. */
const FILES = [
  "tests/ops/chain_native_test.ts",
  "tests/program/program_test.ts",
  "tests/native/fuzz_test.ts",
];

test(...when(withAddressSanitizer, "chains, programs and random plans pass on it, too", () => {
  runZig(["build", "sanitized"]);
  for (const file of FILES) {
    const output = run(findTool("deno"), ["test", "-A", "--no-check", file], {
      NO_COLOR: "1",
      ROWMAJOR_LIB: sanitized,
      // The amounts of npm test.
      ROWMAJOR_TEST_ALL: "",
      LD_PRELOAD: addressSanitizer!,
      // The runtime's own memory is not all freed, and its handler of signals is the better one.
      ASAN_OPTIONS: [
        "detect_leaks=0",
        "handle_segv=0",
        "allow_user_segv_handler=1",
        "allocator_may_return_null=1",
      ].join(":"),
    });
    const passed = /ok \| (\d+) passed/.exec(output)?.[1];
    assertEquals(Number(passed) > 5, true, output);
  }
}));

/**
 * Whether programs with the thread sanitizer run here: it needs addresses that some kernels use
 * otherwise, and not all containers permit the workaround.
 */
function sanitizesThreads(): boolean {
  if (Object.values(onX64).includes(false)) return false;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
  try {
    const [source, program] = [join(folder, "empty.c"), join(folder, "empty")];
    writeFileSync(source, "int main(void) { return 0; }\n");
    runZig(["cc", "-fsanitize=thread", source, "-o", program]);
    const { status, stderr } = spawnSync(program, [], { encoding: "utf8" });
    if (stderr.includes("unexpected memory mapping")) return false;
    assertEquals(status, 0, stderr);
    return true;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const withThreadSanitizer = { ...onX64, "room for the thread sanitizer": sanitizesThreads() };

for (const part of [PARTS.pool, PARTS.loops, PARTS.buffers, PARTS.files, PARTS.queue]) {
  test(...when(withThreadSanitizer, `${part.what}, with the thread sanitizer`, (folder) => {
    const program = buildPart(folder, part, ["-fsanitize=thread"]);
    const env = { ...process.env, TSAN_OPTIONS: "allocator_may_return_null=1" };
    assertStringIncludes(run(program, [], env as Record<string, string>), part.prints);
  }));
}
