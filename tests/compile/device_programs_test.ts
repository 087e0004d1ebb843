/**
 * The programs of devices, compiled: with the native library, without it, and on a device in
 * JavaScript.
 *
 * @module
 */
import { test } from "node:test";
import { setBackend } from "../../mod.ts";
import { checkCompiled, COMPILED } from "../device/compiled.ts";
import { MIRROR } from "../device/mirror.ts";

for (const [name, program] of COMPILED) {
  test(`compiled, ${name}`, () => {
    checkCompiled(program, "cpu");
    checkCompiled(program, MIRROR);
    setBackend("js");
    try {
      checkCompiled(program, "cpu");
    } finally {
      setBackend("native");
    }
  });
}
