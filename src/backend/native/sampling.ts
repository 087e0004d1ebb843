/**
 * The kernel that chooses tokens by rows of logits.
 *
 * @module
 */
import type { Operand } from "../../memory/operand.ts";
import { checkRun } from "../ffi/checks.ts";
import { type Kernel, own, setAttributes } from "./kernel.ts";

/** The kernel of `sampleRows`. */
export const sampleRows: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0,
  prepare(call) {
    const [out, inputs] = [call.outputs[0]!, call.inputs as Operand[]];
    const name = "sampleRows";
    checkRun(name, 0, 0, out.layout.size, out.storage);
    inputs.forEach(({ storage, layout: { offset, size } }, k) =>
      checkRun(name, k + 1, offset, size, storage)
    );
    const [logits, numbers, ids, changes, mask] = inputs;
    const offsets = inputs.map(({ layout }) => layout.offset);
    setAttributes(own, ...logits!.layout.shape, ids!.layout.shape[1]!, ...offsets);
    const more = [changes!.storage, ...mask === undefined ? [] : [mask.storage]];
    const [a, b, c] = [logits!.storage, numbers!.storage, ids!.storage];
    return { numbers: own, out: out.storage, a, b, c, more };
  },
};
