/**
 * The C code on arm64: the driver and the shim as one program, which an emulator of that processor
 * runs.
 *
 * @module
 */
import { assertStringIncludes } from "@std/assert";
import { test } from "node:test";
import { buildWhole, run, withZig } from "./driver.ts";
import { installed, when } from "./support.ts";

test(...when(
  { ...withZig, "qemu-aarch64": installed("qemu-aarch64") },
  "the driver passes on arm64",
  (folder) => {
    const program = buildWhole(folder, ["-O2", "-DRM_ISA=base"], [
      "-OReleaseFast",
      "-fno-sanitize-c",
      "-target",
      "aarch64-linux-musl",
      "-static",
    ]);
    assertStringIncludes(run("qemu-aarch64", [program, "1", "short"]), "1 levels, ");
  },
));
