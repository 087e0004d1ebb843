/**
 * The device of an example: `--device cuda` among its arguments, or the CPU.
 *
 * @module
 */
import type { types } from "../../mod.ts";

/** The device in the arguments of the program. */
export function deviceIn(args: readonly string[]): types.Device {
  const at = args.findIndex((arg) => arg === "--device" || arg.startsWith("--device="));
  if (at < 0) return "cpu";
  return (args[at]!.split("=")[1] ?? args[at + 1] ?? "") as types.Device;
}
