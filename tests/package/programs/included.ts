/**
 * A program that reads a file next to it, for executables that include one.
 *
 * @module
 */
import { io } from "../../../mod.ts";

await using file = await io.openSafetensors(new URL("weights/model.safetensors", import.meta.url));
const bias = (await file.get("bias1")).mul(1);
console.log(`bias1 ${bias.dtype} [${bias.shape}]`);
