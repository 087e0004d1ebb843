/**
 * Which backends there are. Only dispatch.ts imports this: a backend is entered from nowhere else.
 *
 * @module
 */
import { describe } from "../base/dtype.ts";
import { DeviceError } from "../base/errors.ts";
import type { DeviceMemory, Storage } from "../memory/storage.ts";
import type { Backend, Device, OpenDevice } from "./backend.ts";

let definition: Backend;
let makeCpu: () => Backend;
let cpu: Backend | undefined;
const families = new Map<string, OpenDevice>();
const devices = new Map<string, Device>();

/** Registers the backend that defines every op: it runs what the CPU's backend has no kernel for. */
export function registerDefinition(backend: Backend): void {
  definition = backend;
}

/** The backend that defines every op. */
export function definitionBackend(): Backend {
  return definition;
}

/** Makes the backend that `make` gives serve the CPU; the first op calls it. */
export function registerCpu(make: () => Backend): void {
  makeCpu = make;
  cpu = undefined;
}

/** The backend that serves the CPU. */
export function cpuBackend(): Backend {
  return cpu ??= makeCpu();
}

/** The backend of the device that `storage` is on. */
export function backendFor({ device }: Storage): Backend {
  return device === "cpu" ? cpuBackend() : devices.get(device)!.backend;
}

/**
 * Makes `open` serve the devices `family`, which is the first one, `family:1`, `family:2`, …; it is
 * called when a device is first asked for, and again only where it gave a reason.
 */
export function registerDevices(family: string, open: OpenDevice): void {
  families.set(family, open);
}

/** The name that storages have of a device that may be written in several ways: `"cuda:0"` is `"cuda"`. */
export function deviceName(device: string): string {
  // Callers that no compiler checks may pass anything.
  return String(device).replace(/:0$/, "");
}

/**
 * The device of that name; null for the CPU. `what` is what is being done, as "zeros on", for the
 * error.
 *
 * Throws a DeviceError that says why when there is none.
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

/** The memory of a device, null for the CPU, which is also meant where none is named. */
export function memoryOf(device: string | undefined, what: string): DeviceMemory | null {
  return device === undefined ? null : deviceOf(device, what)?.memory ?? null;
}

/** The devices other than the CPU that have been opened, by name. */
export function openDevices(): ReadonlyMap<string, Device> {
  return devices;
}
