/**
 * The constants of src/backend/cuda/constants.ts: the headers of the kernels use every one, say which
 * is missing, and define none of their own name.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { readText } from "../../scripts/tools.ts";
import { findCuda } from "../../src/backend/cuda.ts";
import { CONSTANTS, constantsOf, type Header } from "../../src/backend/cuda/constants.ts";
import { CudaDevice } from "../../src/backend/cuda/device.ts";
import { check } from "./support/cuda.ts";

const headers = Object.keys(CONSTANTS) as Header[];

for (const header of headers) {
  test(`${header} uses its constants, and needs them`, () => {
    const text = readText(`shim/cuda/kernels/${header}`);
    const guard = /#if (!defined[^#]*)\n#error "([^"]*)"/.exec(text);
    for (const name of Object.keys(CONSTANTS[header])) {
      assert(guard !== null && guard[1]!.includes(`defined(RM_${name})`), `RM_${name}`);
      assert(text.replace(guard[0], "").includes(`RM_${name}`), `RM_${name} is used`);
      assert(!new RegExp(`#define RM_${name}\\b|^ *RM_${name} =`, "m").test(text), name);
      assert(constantsOf(header).includes(`#define RM_${name} `), name);
    }
    assertEquals(guard?.[2] ?? header, Object.keys(CONSTANTS[header]).length === 0 ? header : guard?.[2]);
  });
}

check("a source without the constants is told so", () => {
  const found = findCuda();
  assert(!("reason" in found));
  const device = new CudaDevice(found.shim, 0);
  assertThrows(
    () => device.load('#include "map.h"\n', ["none"]),
    Error,
    "needs the constants of src/backend/cuda/constants.ts",
  );
});
