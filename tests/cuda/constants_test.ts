/**
 * The constants of src/backend/cuda/source/constants.ts: the headers of the kernels use every one, report
 * a missing one, and define none themselves.
 *
 * @module
 */
import { assert, assertThrows } from "@std/assert";
import { test } from "node:test";
import { readText } from "../../scripts/tools.ts";
import { findCuda } from "../../src/backend/cuda.ts";
import { CONSTANTS, constantsOf, type Header } from "../../src/backend/cuda/source/constants.ts";
import { CudaDevice } from "../../src/backend/cuda/device.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const headers = Object.keys(CONSTANTS) as Header[];

for (const header of headers) {
  test(`${header} uses its constants, and needs them`, () => {
    const text = readText(`shim/cuda/kernels/${header}`);
    // All others include device.h.
    const uses = header === "device.h"
      ? headers.map((name) => readText(`shim/cuda/kernels/${name}`)).join("")
      : header === "complex.h"
      ? text + readText("shim/math/complex/complex_ops.h")
      : text;
    const guard = /#if (!defined[^#]*)\n#error "([^"]*)"/.exec(text);
    const names = Object.keys(CONSTANTS[header]);
    // The ops on complex numbers are a list: the first stands for all, the last is the default.
    const isList = header === "complex.h";
    for (const name of isList ? names.slice(0, -1) : names) {
      const named = `defined(RM_${isList ? names[0] : name})`;
      assert(guard !== null && guard[1]!.includes(named), `RM_${name}`);
      assert(uses.replace(guard[0], "").includes(`RM_${name}`), `RM_${name} is used`);
      assert(!new RegExp(`#define RM_${name}\\b|^ *RM_${name} =`, "m").test(text), name);
      assert(constantsOf(header).includes(`#define RM_${name} `), name);
    }
  });
}

const reason = whyNoCuda();
if (reason !== undefined) test(`a missing constant (${reason})`, { skip: true }, () => {});
else {
  test("a source without the constants says which it needs", () => {
    openCudaForTests();
    const found = findCuda();
    assert(!("reason" in found));
    const device = new CudaDevice(found.shim, 0);
    for (const header of headers) {
      assertThrows(
        () => device.load(`#include "${header}"\n`, ["none"]),
        Error,
        "needs the constants of src/backend/cuda/source/constants.ts",
      );
    }
  });
}
