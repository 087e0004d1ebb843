/**
 * Files that the shim maps into memory.
 *
 * The memory is unmapped once the garbage collector has found all ArrayBuffers on it unreachable.
 * Writes to them stay in this process. Knows nothing of formats.
 *
 * @module
 */
import { OutOfMemoryError } from "../../base/errors.ts";
import { typeError } from "../../base/stack.ts";
import { FILES, type Shim, STATUS, type Unavailable } from "./abi.ts";
import { inWords } from "./cache.ts";
import type { View } from "./host.ts";
import { findShim, shimPath } from "./load.ts";
import { host } from "./runtime.ts";
import { lastError } from "./text.ts";

interface Mapper {
  readonly shim: Shim;
  readonly view: View;
}

let found: Mapper | Unavailable | undefined;

/** Opens what maps files, once. Never prompts. */
function findMapper(): Mapper | Unavailable {
  if (found !== undefined) return found;
  const shim = findShim();
  if ("reason" in shim) return found = shim;
  try {
    const view = host.views(shim, shimPath(shim)!);
    return found = "reason" in view ? view : { shim, view };
  } catch (error) {
    return found = { reason: inWords(error) };
  }
}

/** Why no file can be mapped; null if files can. Never prompts. */
export function whyNotMapped(): string | null {
  const mapper = findMapper();
  return "reason" in mapper ? mapper.reason : null;
}

/** `path` as the shim takes it, terminated by 0. */
function textOf(path: string): Uint8Array | Uint16Array {
  const text = `${path}\0`;
  if (host.platform !== "win32") return new TextEncoder().encode(text);
  return Uint16Array.from(text, (_, i) => text.charCodeAt(i));
}

/** A mapped file; stays mapped as long as this object or a view is reachable. */
export class MappedFile {
  /** The size of the file when it was mapped. */
  readonly bytes: number;
  readonly #mapper: Mapper;
  readonly #mapping: number;
  readonly #address: number;
  /** Holds a reference to the mapping. */
  readonly #first: ArrayBuffer;

  /** `first` is a view. */
  constructor(mapper: Mapper, first: ArrayBuffer, numbers: Float64Array) {
    this.#mapping = numbers[0]!;
    this.#address = numbers[1]!;
    this.bytes = numbers[2]!;
    this.#mapper = mapper;
    this.#first = first;
  }

  /** The size of the file now: bytes beyond it must not be touched. */
  get bytesNow(): number {
    const numbers = Float64Array.of(this.#mapping);
    this.#mapper.shim.rm_files(FILES.size, null, numbers);
    return this.#kept(numbers[0]!);
  }

  /** The bytes from `begin` to `end`, at least one. An OutOfMemoryError if there are too many. */
  view(begin: number, end: number): ArrayBuffer {
    const made = this.#mapper.view(this.#mapping, this.#address + begin, end - begin);
    if (this.#kept(made) === undefined) throw new OutOfMemoryError(end - begin, "cpu");
    return made!;
  }

  /** `value`; until here, engines cannot find the first view unreachable. */
  #kept<T>(value: T): T {
    if (this.#first.byteLength !== 1) throw typeError("the mapping was given away");
    return value;
  }
}

/**
 * Maps a file that this program may read, or tells why it cannot. Never prompts. A path of Windows
 * that is longer than 260 characters begins with `\\?\`.
 */
export function mapFile(path: string): MappedFile | Unavailable {
  const mapper = findMapper();
  if ("reason" in mapper) return mapper;
  const { shim, view } = mapper;
  const numbers = new Float64Array(3);
  if (shim.rm_files(FILES.map, textOf(path), numbers) !== STATUS.ok) {
    return { reason: lastError(shim) };
  }
  const first = view(numbers[0]!, numbers[1]!, 1);
  shim.rm_files(FILES.release, null, numbers);
  if (first === undefined) return { reason: "the runtime makes no buffer on it" };
  return new MappedFile(mapper, first, numbers);
}
