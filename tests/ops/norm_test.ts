/**
 * Layer norm, RMS norm and softmax on every backend and instruction set; see device/norms.ts.
 *
 * @module
 */
import { test } from "node:test";
import { type Everywhere, NORM_TESTS } from "../device/norms.ts";
import { BACKENDS, using } from "./table/backends.ts";

/** A test of all backends. */
function onAll(run: (everywhere: Everywhere) => void): () => void {
  return () =>
    run((check) => {
      for (const { name, on } of BACKENDS) using(on, () => check(name));
    });
}

test(
  "Layer norm and RMS norm: rows of any length, dense and in views, are those of the formula",
  onAll(NORM_TESTS.rows),
);
test(
  "Layer norm and RMS norm: over any axes, with weights that are strided, broadcast or of other dtypes",
  onAll(NORM_TESTS.axes),
);
test(
  "Layer norm and RMS norm: a large mean costs the variance no digits",
  onAll(NORM_TESTS.largeMean),
);
test(
  "Layer norm and RMS norm: rows of one value have no variance, whatever the value",
  onAll(NORM_TESTS.oneValue),
);
test(
  "Softmax and its logarithm: along any axis, empty ones too, of views, into outputs and in place",
  onAll(NORM_TESTS.softmax),
);
test(
  "Layer norm and RMS norm: NaN and infinities spoil their row, and no other",
  onAll(NORM_TESTS.specials),
);
test(
  "Layer norm and RMS norm: an output may be the input, overlap it or a weight, or be a view of any dtype",
  onAll(NORM_TESTS.outputs),
);
test(
  "Layer norm and RMS norm: integers give float32, bool and what does not fit is refused",
  onAll(NORM_TESTS.dtypes),
);
