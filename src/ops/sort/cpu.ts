/**
 * Ops without a kernel on other devices: they run on the CPU.
 *
 * @module
 */
import { toDevice } from "../../core/copy.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";

/** The results of a call of one input, computed on the CPU, on the device of the input. */
export function throughCpu(call: Call): Operand[] {
  const x = call.operand(0);
  const results = dispatchAll(call.op, [toDevice(x, "cpu")], call.attributes, call.name);
  return results.map((y) => toDevice(y, x.storage.device));
}
