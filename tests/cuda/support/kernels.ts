/**
 * The kernels that tests launch, and a check that all of them are in the list that is compiled for
 * every architecture.
 *
 * @module
 */
import { assert } from "@std/assert";
import { CudaDevice } from "../../../src/backend/cuda/device.ts";
import { allFamilies } from "../../../src/backend/cuda/families.ts";

/** Notes the names of all kernels requested from now on. */
export function recordKernels(): Set<string> {
  const names = new Set<string>();
  const { find } = CudaDevice.prototype;
  CudaDevice.prototype.find = function (name, ...rest) {
    names.add(name);
    return find.call(this, name, ...rest);
  };
  return names;
}

/** Fails unless at least `least` kernels were requested, all of which are in the list. */
export function assertListed(names: ReadonlySet<string>, least: number): void {
  assert(names.size >= least, `${names.size} kernels were launched, ${least} or more are expected`);
  const listed = new Set(allFamilies().flatMap((family) => family.names));
  const others = [...names].filter((name) => !listed.has(name));
  assert(others.length === 0, `not in src/backend/cuda/families.ts: ${others.join(", ")}`);
}
