/**
 * The CUDA device of tests: the emulator's, or a real one if `ROWMAJOR_TEST_CUDA` is `device`.
 *
 * @module
 */
import process from "node:process";
import { registerDevices } from "../../../src/core/dispatch.ts";
import { deviceFor, findCuda } from "../../../src/backend/cuda.ts";
import { CudaDevice } from "../../../src/backend/cuda/device.ts";
import type { Family } from "../../../src/backend/cuda/source/mod.ts";
import { usualFamilies } from "../../../src/backend/cuda/families.ts";
import type { Shim } from "../../../src/backend/ffi/abi.ts";
import { TABLE } from "../../../src/table/table.ts";
import { openShim } from "../../../src/backend/ffi/load.ts";
import { emulatorFolder, whyNoEmulator } from "../../emulator/build.ts";
import { controlEmulator, type Emulator } from "../../emulator/control.ts";
import { isSampled } from "../../support/amount.ts";

/** Whether tests use a real device. */
export const onHardware: boolean = process.env.ROWMAJOR_TEST_CUDA === "device";

/** Why there is no CUDA device to test; undefined if there is one. */
export function whyNoCuda(): string | undefined {
  const shim = openShim();
  if ("reason" in shim) return shim.reason;
  return onHardware ? undefined : whyNoEmulator();
}

/**
 * Prepares the emulator in `folder` for tests. The threads of each kernel run in one of six orders,
 * drawn at random, differently in each runtime; that costs nothing, and a whole file covers all
 * orders. `ROWMAJOR_EMULATOR_ORDER` selects one. The shim caches no compiled kernels.
 *
 * With `apart`, each block of memory is an allocation of its own, which ends at a protected page: a
 * kernel that leaves its memory by one element fails.
 */
export function prepareEmulator(folder: string, apart: boolean): Emulator {
  const emulator = controlEmulator(folder);
  if (apart) {
    emulator.setVariable("ROWMAJOR_CUDA_BLOCKS", "1");
    emulator.set("exact", 1);
  }
  emulator.set("order", Number(process.env.ROWMAJOR_EMULATOR_ORDER || 6));
  emulator.set("seed", "Deno" in globalThis ? 1 : 2);
  // The emulator has its own cache of compiled kernels.
  if (process.env.ROWMAJOR_CACHE !== "/dev/null") {
    emulator.setVariable("ROWMAJOR_CACHE", "/dev/null");
    process.env.ROWMAJOR_CACHE = "/dev/null";
  }
  return emulator;
}

/**
 * How many families the emulator compiles at once: it takes most of the time for their headers. With
 * a planted fault all are compiled anew, so that small sources are faster; a real device's compiler
 * takes its time for kernels.
 */
const TOGETHER = onHardware || process.env.ROWMAJOR_EMULATOR_PLANT ? 1 : 8;

const KINDS = new Map<string, string>(TABLE.map(({ name, kind }) => [name, kind]));

/**
 * Whether `npm test` takes a row of the op table on CUDA: a quarter of the elementwise ops, whose
 * kernels differ in their expressions only, and a third of the others.
 */
export function isInSample(row: string): boolean {
  return isSampled(`${row}: cuda`, KINDS.get(row) === "map" ? 4 : 3);
}

/**
 * Joins families that have no kernel in common. Those with functions of vecmath.h come first, as
 * map.h defines more if it follows that header.
 */
function join(families: readonly Family[], together: number): Family[] {
  const joined: { sources: string[]; names: Set<string> }[] = [];
  const hasMath = ({ source }: Family): boolean => source.includes("vecmath.h");
  const sorted = families.toSorted((a, b) => Number(hasMath(b)) - Number(hasMath(a)));
  for (const { source, names } of sorted) {
    const last = joined.at(-1);
    const room = last !== undefined && last.sources.length < together;
    if (room && !names.some((name) => last.names.has(name))) {
      last.sources.push(source);
      for (const name of names) last.names.add(name);
    } else joined.push({ sources: [source], names: new Set(names) });
  }
  return joined.map(({ sources, names }) => ({ source: sources.join(""), names: [...names] }));
}

/**
 * Joins families. Few tests need those of rows outside the sample, which stay alone. The kernels of a
 * row have names that begin with its name.
 */
function joinSampled(families: readonly Family[], together: number): Family[] {
  const rowOf = ({ names }: Family): string => names[0]!.split("_")[0]!;
  const isRare = (family: Family): boolean => {
    const row = rowOf(family);
    // Casts need all copies.
    return KINDS.has(row) && row !== "copy" && !isInSample(row);
  };
  return [
    ...families.filter(isRare),
    ...join(families.filter((family) => !isRare(family)), together),
  ];
}

/**
 * A device that compiles the kernels of `families` several families at a time, which makes tests
 * several times faster; with `only`, no others are available.
 */
export class FamilyDevice extends CudaDevice {
  /** By the names of their kernels. */
  readonly #families: ReadonlyMap<string, Family>;

  constructor(
    shim: Shim,
    index: number,
    families: readonly Family[],
    readonly only = false,
    together = TOGETHER,
  ) {
    super(shim, index);
    this.#families = new Map(
      joinSampled(families, together).flatMap((family) =>
        family.names.map((name) => [name, family])
      ),
    );
  }

  override load(source: string, names: readonly string[]): void {
    const family = names.length === 1 ? this.#families.get(names[0]!) : undefined;
    if (family !== undefined) super.load(family.source, family.names);
    else if (!this.only) super.load(source, names);
  }
}

/**
 * Makes `"cuda"` the tested device, a {@link FamilyDevice}. Must be called before the first use of
 * the device; `together` is how many families are compiled at once. `apart` is for
 * {@link prepareEmulator}.
 */
export function openCudaForTests(
  { families = usualFamilies(), only = false, together = TOGETHER, apart = false }: {
    families?: readonly Family[];
    only?: boolean;
    together?: number;
    apart?: boolean;
  } = {},
): void {
  const shim = openShim();
  if ("reason" in shim) throw new Error(shim.reason);
  if (!onHardware) {
    const folder = new TextEncoder().encode(`${emulatorFolder()}\0`);
    const status = shim.rm_cuda_open(folder, new Float64Array(3));
    if (status !== 0) throw new Error(`the emulator cannot be opened: status ${status}`);
    prepareEmulator(emulatorFolder(), apart);
  }
  registerDevices("cuda", (index) => {
    const found = findCuda();
    if ("reason" in found) return found.reason;
    if (index >= found.count) return `there are ${found.count} CUDA devices`;
    return deviceFor(new FamilyDevice(found.shim, index, families, only, together));
  });
}
