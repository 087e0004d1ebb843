/**
 * The registered backends. Only dispatch.ts imports this, so that no other file calls a backend.
 *
 * @module
 */
import { describe } from "../base/text.ts";
import { DeviceError } from "../base/errors.ts";
import type { DeviceMemory, Storage } from "../memory/storage.ts";
import type { Backend, Device, OpenDevice } from "./backend.ts";

let definition: Backend;
let makeCpu: () => Backend;
let cpu: Backend | undefined;
const families = new Map<string, OpenDevice>();
const devices = new Map<string, Device>();

/**
 * Registers the backend that defines every op: it runs calls without a kernel in the CPU's backend.
 */
export function registerDefinition(backend: Backend): void {
  definition = backend;
}

/** The backend that defines every op. */
export function definitionBackend(): Backend {
  return definition;
}

/** Registers `make`, which returns the backend of the CPU; the first op calls it. */
export function registerCpu(make: () => Backend): void {
  makeCpu = make;
  cpu = undefined;
}

/** The backend of the CPU. */
export function cpuBackend(): Backend {
  return cpu ??= makeCpu();
}

/** The backend of the device that `storage` is on. */
export function backendFor({ device }: Storage): Backend {
  return device === "cpu" ? cpuBackend() : devices.get(device)!.backend;
}

/**
 * Registers `open` for the devices `family`, the first one, `family:1`, `family:2`, …. The first
 * use of a device calls it, and later uses only if it returned a reason.
 */
export function registerDevices(family: string, open: OpenDevice): void {
  families.set(family, open);
}

/** The canonical name of a device that has several spellings: `"cuda:0"` is `"cuda"`. */
export function deviceName(device: string): string {
  // Untyped callers may pass any value.
  return String(device).replace(/:0$/, "");
}

/**
 * The device of that name; null for the CPU. `what` is the operation, such as "zeros on", for the
 * error.
 *
 * Throws a DeviceError with the reason if there is none.
 */
export function deviceOf(device: string, what: string): Device | null {
  const name = device === "cpu" ? device : deviceName(device);
  if (name === "cpu") return null;
  const known = devices.get(name);
  if (known !== undefined) return known;
  const [, family = "", index = "0"] = /^(\w+)(?::([1-9]\d{0,3}))?$/.exec(name) ?? [];
  const open = families.get(family);
  if (open === undefined) {
    throw new DeviceError(`Cannot ${what} ${describe(device)}: no backend serves it`);
  }
  const opened = open(Number(index));
  if (typeof opened === "string") throw new DeviceError(`Cannot ${what} ${name}: ${opened}`);
  devices.set(name, opened);
  return opened;
}

/** The memory of a device; null for the CPU, which is also the default. */
export function memoryOf(device: string | undefined, what: string): DeviceMemory | null {
  return device === undefined ? null : deviceOf(device, what)?.memory ?? null;
}

/** Runs `body` while `device` has the name `name`. */
export function withDevice<R>(name: string, device: Device, body: () => R): R {
  devices.set(name, device);
  try {
    return body();
  } finally {
    devices.delete(name);
  }
}

/** The open devices other than the CPU, by name. */
export function openDevices(): ReadonlyMap<string, Device> {
  return devices;
}
