/**
 * The programs of devices, compiled: with the native library, without it, and on a device in
 * JavaScript.
 *
 * @module
 */
import { test } from "node:test";
import { checkCompiled, COMPILED } from "../device/compiled.ts";
import { MIRROR } from "../device/mirror.ts";
import { onBackends } from "./support.ts";

for (const [name, program] of COMPILED) {
  test(`compiled, ${name}`, () => {
    onBackends(() => checkCompiled(program, "cpu"));
    checkCompiled(program, MIRROR);
  });
}
